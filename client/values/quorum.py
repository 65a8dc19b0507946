"""The metadata quorum (DescribeQuorum)."""

from dataclasses import dataclass

from kvorum.protocol.messages.describe_quorum import DescribeQuorumResponse, ReplicaState
from kvorum.protocol.uuids import Uuid


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """A listener of a controller."""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumReplica:
    """A voter or observer of the metadata log. Times are None if the leader does not know them."""

    node_id: int
    directory_id: Uuid
    log_end_offset: int
    lag: int
    last_fetch_ms: int | None
    last_caught_up_ms: int | None
    listeners: tuple[Listener, ...] = ()
    """Of voters, if the cluster returns them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorum:
    """The metadata quorum, as its leader sees it."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]


def quorum_value(answer: DescribeQuorumResponse) -> Quorum:
    """Return the quorum of a DescribeQuorum response."""
    partition = answer.topics[0].partitions[0]
    end = max((state.log_end_offset for state in partition.current_voters), default=0)
    listeners = {
        node.node_id: tuple(Listener(name=each.name, host=each.host, port=each.port) for each in node.listeners)
        for node in answer.nodes
    }

    def replica(state: ReplicaState, known: tuple[Listener, ...] = ()) -> QuorumReplica:
        return QuorumReplica(
            node_id=state.replica_id,
            directory_id=state.replica_directory_id,
            log_end_offset=state.log_end_offset,
            lag=max(0, end - state.log_end_offset),
            last_fetch_ms=state.last_fetch_timestamp if state.last_fetch_timestamp >= 0 else None,
            last_caught_up_ms=state.last_caught_up_timestamp if state.last_caught_up_timestamp >= 0 else None,
            listeners=known,
        )

    return Quorum(
        leader_id=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        high_watermark=partition.high_watermark,
        voters=tuple(replica(state, listeners.get(state.replica_id, ())) for state in partition.current_voters),
        observers=tuple(replica(state) for state in partition.observers),
    )
