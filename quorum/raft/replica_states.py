"""State of each replica of the metadata log in the leader's view, for DescribeQuorum."""

from collections.abc import Mapping

from kvorum.protocol.batch_header import parse_header
from kvorum.protocol.uuids import ZERO_UUID, Uuid
from kvorum.quorum.raft.commands import BATCH_PREFIX, PREFIX_SIZE
from kvorum.quorum.raft.log import ReplicaState
from kvorum.quorum.raft.peers import Peer
from kvorum.quorum.raft.replica import Replica

Peers = Mapping[int, Peer]


def replica_states(replica: Replica, peers: Peers, log_end_offset: int) -> tuple[ReplicaState, ...]:
    """Return the leader's own state with that end, and that of each peer; empty on a node that does not lead.

    In a dynamic quorum the result includes voters that never connected, and observing controllers.
    """
    if not replica.core.is_leader():
        return ()
    if replica.voters.dynamic:
        return _members(replica, peers, log_end_offset)
    voters = replica.voters
    states = [_of_itself(replica, log_end_offset, is_voter=True)]
    for node_id, peer in peers.items():
        directory_id = voters.present.get(node_id, ZERO_UUID)
        is_voter = voters.counts(node_id) or node_id not in voters.present
        states.append(_of_peer(replica, node_id, directory_id, peer, is_voter=is_voter))
    return tuple(states)


def _members(replica: Replica, peers: Peers, log_end_offset: int) -> tuple[ReplicaState, ...]:
    """Return the present voters of the set in force, and the controllers that only follow."""
    voters = replica.voters
    own = (voters.node_id, voters.state.directory_id)
    followers = sorted((node_id, found) for node_id, found in voters.present.items() if node_id in peers)
    states = []
    for node_id, directory_id in dict.fromkeys([own, *sorted(voters.in_force.items()), *followers]):
        is_voter = voters.in_force.get(node_id) == directory_id
        if (node_id, directory_id) == own:
            states.append(_of_itself(replica, log_end_offset, is_voter=is_voter))
        else:
            peer = peers.get(node_id) if voters.present.get(node_id) == directory_id else None
            states.append(_of_peer(replica, node_id, directory_id, peer, is_voter=is_voter))
    return tuple(states)


def _of_itself(replica: Replica, log_end_offset: int, *, is_voter: bool) -> ReplicaState:
    wall_ms = replica.clock.wall_ms()
    return ReplicaState(
        node_id=replica.voters.node_id,
        directory_id=Uuid(replica.voters.state.directory_id),
        is_voter=is_voter,
        log_end_offset=log_end_offset,
        last_fetch_timestamp_ms=wall_ms,
        last_caught_up_timestamp_ms=wall_ms,
    )


def _of_peer(replica: Replica, node_id: int, directory_id: bytes, peer: Peer | None, *, is_voter: bool) -> ReplicaState:
    return ReplicaState(
        node_id=node_id,
        directory_id=Uuid(directory_id),
        is_voter=is_voter,
        log_end_offset=-1 if peer is None else offset_behind(replica, peer.match_index),
        last_fetch_timestamp_ms=-1 if peer is None else peer.answered_wall_ms,
        last_caught_up_timestamp_ms=-1 if peer is None else peer.caught_up_wall_ms,
    )


def offset_behind(replica: Replica, index: int) -> int:
    """Return the offset one past the last record at or before a Raft index; -1 if the log no longer has it.

    Inspects at most as many entries as are retained after a snapshot.
    """
    journal = replica.journal
    for at in range(index, max(journal.first_index, index - replica.settings.retained_entries), -1):
        entry = journal[at - journal.first_index]
        assert isinstance(entry, tuple)
        if entry[0].startswith(BATCH_PREFIX):
            return parse_header(entry[0], PREFIX_SIZE).next_offset
    return 0 if index > 0 and journal.first_index <= 1 else -1
