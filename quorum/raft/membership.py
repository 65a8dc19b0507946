"""The leader's changes of a dynamic quorum's voters: one added, one removed, one's endpoints updated (KIP-853).

It also makes a static quorum a dynamic one: the same voters, with endpoints (kraft.version 1, KIP-853; Kafka's
LeaderState.maybeAppendUpgradedKRaftVersion).

    idle -- checks passed: the new set is in the log, and in force --> open -- committed --> idle
                                                                     open -- leadership lost, or too late --> idle

Rejections, in this order, equal those of Kafka's AddVoterHandler, RemoveVoterHandler and UpdateVoterHandler, with their
messages: not the leader, a change in progress, nothing committed in this term yet, a static quorum, an uncommitted set,
then errors of the voter itself. The reasons: voters.py and docs/decisions/0023. A change that timed out may still be
committed: only the next set in the log shows it.
"""

import asyncio
from dataclasses import dataclass
from typing import Final

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.raft.leader import Leader
from kvorum.quorum.raft.replica import Replica
from kvorum.quorum.raft.voters import UNKNOWN_PEER, Endpoint, Endpoints, Voters, VoterSet

LAG_ENTRIES_MAX: Final = 1000
"""An observer that lacks more than this is lagging: added now, it could hold up commits for long."""
CAUGHT_UP_MS: Final = 3_600_000
"""And it must have had the complete log once within this time (Kafka's LeaderState.isReplicaCaughtUp)."""
VOTERS_MAX: Final = 9
"""Each commit waits for a majority: more voters are slower and hardly safer. Kafka has no limit."""
NOT_SUPPORTED: Final = "Invalid upgrade of kraft.version to KRAFT_VERSION_1 because not all of the voters support it"


def replica_key(node_id: int, directory_id: bytes) -> str:
    """Return a voter as Kafka's ReplicaKey writes itself."""
    return f"ReplicaKey(id={node_id}, directoryId={Uuid(directory_id)})"


def replica_keys(voters: VoterSet) -> str:
    """Return a set of them, as Java writes one."""
    return f"[{', '.join(replica_key(node_id, voters[node_id]) for node_id in sorted(voters))}]"


@dataclass(slots=True)
class OpenChange:
    """A voter set that this leader appended and that is not committed yet."""

    index: int
    future: asyncio.Future[None]


class Membership:
    """See the module."""

    __slots__ = ("_leader", "_open", "_replica")

    def __init__(self, replica: Replica, leader: Leader) -> None:
        """Serve one replica."""
        self._replica = replica
        self._leader = leader
        self._open: OpenChange | None = None
        leader.on_voters_committed = self._committed

    def add(self, node_id: int, directory_id: bytes, endpoints: list[Endpoint]) -> asyncio.Future[None]:
        """Make an observer that has caught up a voter; the future ends when that is committed.

        Raises KafkaError: what `check_add` raises; REQUEST_TIMED_OUT where the observer lags; INVALID_REQUEST where
        there are VOTERS_MAX already.
        """
        voters = self._replica.voters
        self.check_add(node_id, directory_id)
        if not self._has_caught_up(node_id, directory_id):
            key = replica_key(node_id, directory_id)
            raise _late(f"Aborted add voter operation for {key} since it is lagging behind")
        return self._append({**voters.in_force, node_id: directory_id}, {**voters.endpoints, node_id: list(endpoints)})

    def check_add(self, node_id: int, directory_id: bytes) -> None:
        """Raise KafkaError unless a voter of this key could be added now, as far as known without a request to it.

        NOT_LEADER_OR_FOLLOWER; REQUEST_TIMED_OUT: another change is in progress; UNSUPPORTED_VERSION: a static quorum;
        DUPLICATE_VOTER: the id is a voter, with any directory.
        """
        voters = self._replica.voters
        self._check_ready("adding")
        if node_id in voters.in_force:
            key, known = replica_key(node_id, directory_id), replica_keys(voters.in_force)
            message = f"The voter id for {key} is already part of the set of voters {known}."
            raise KafkaError(ErrorCode.DUPLICATE_VOTER, message)
        if len(voters.in_force) >= VOTERS_MAX:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"The limit of {VOTERS_MAX} voters is reached.")

    def remove(self, node_id: int, directory_id: bytes) -> asyncio.Future[None]:
        """Make a voter an observer; a leader that removes itself hands over when that is committed.

        Raises KafkaError as `check_add`; VOTER_NOT_FOUND: no voter of this id and directory, or it is the last one.
        """
        voters = self._replica.voters
        self._check_ready("removing")
        if voters.in_force.get(node_id) != directory_id or len(voters.in_force) == 1:
            key, known = replica_key(node_id, directory_id), replica_keys(voters.in_force)
            raise KafkaError(ErrorCode.VOTER_NOT_FOUND, f"Cannot remove voter {key} from the set of voters {known}")
        rest = {each: found for each, found in voters.in_force.items() if each != node_id}
        return self._append(rest, {each: voters.endpoints.get(each, []) for each in rest})

    def update(self, node_id: int, directory_id: bytes, endpoints: list[Endpoint]) -> asyncio.Future[None] | None:
        """Note where a voter listens now; None where that is known. Raises KafkaError as `remove`."""
        voters = self._replica.voters
        self.check_update()
        if voters.in_force.get(node_id) != directory_id:
            raise KafkaError(ErrorCode.VOTER_NOT_FOUND)
        if voters.endpoints.get(node_id) == endpoints:
            return None
        return self._append(dict(voters.in_force), {**voters.endpoints, node_id: list(endpoints)})

    def check_update(self) -> None:
        """Raise KafkaError if no voter's endpoints could be updated now: as `check_add`, without its own checks."""
        self._check_ready("updating")

    def upgrade(self) -> asyncio.Future[None] | None:
        """Make a static quorum a dynamic one; None where it is. Raises KafkaError as `check_upgrade`."""
        if self._replica.voters.dynamic:
            return None if self._open is None else self._open.future
        return self._append(*self.check_upgrade())

    def check_upgrade(self) -> tuple[VoterSet, Endpoints]:
        """Return the first set of a dynamic quorum: the committed one, with the endpoints that each voter reported.

        Raises KafkaError NOT_LEADER_OR_FOLLOWER; REQUEST_TIMED_OUT: a change is in progress; INVALID_UPDATE_VERSION: a
        voter is not connected under its agreed directory, or its software does not support it.
        """
        self._check_leading()
        voters, connected = self._replica.voters, self._leader.peers
        self._check_committed(voters)
        if voters.state.forced:
            raise _late("Request timed out waiting for voters to commit a directory that an operator readmitted")
        members, endpoints = dict(voters.committed or {}), Endpoints()
        for node_id, directory_id in members.items():
            if node_id == voters.node_id:
                known = directory_id == voters.state.directory_id
                endpoints[node_id] = list(voters.listens_at)
            else:
                info = voters.peer_infos.get(node_id, UNKNOWN_PEER)
                known = connected[node_id].connected and voters.counts(node_id) and info.kraft_version_max >= 1
                endpoints[node_id] = list(info.endpoints)
            if not known or not endpoints[node_id]:
                message = f"{NOT_SUPPORTED}: {replica_key(node_id, directory_id)} is not connected, or too old"
                raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, message)
        return members, endpoints

    def lost_leadership(self) -> None:
        """Fail the change in progress: the next leader's log decides its outcome."""
        change, self._open = self._open, None
        if change is not None and not change.future.done():
            message = "leadership was lost before the change of voters was committed"
            change.future.set_exception(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, message))

    def _check_ready(self, verb: str) -> None:
        self._check_leading()
        voters = self._replica.voters
        if not voters.dynamic:
            message = f"Cluster doesn't support {verb} voter because the kraft.version feature is 0"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, message)
        self._check_committed(voters)

    def _check_leading(self) -> None:
        replica = self._replica
        if not replica.core.is_leader():
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self._open is not None:
            raise _late("Request timed out waiting for leader to handle previous voter change request")
        if replica.core.last_applied() < self._leader.first_index:
            raise _late("Request timed out waiting for leader to establish HWM and fence previous voter changes")

    def _check_committed(self, voters: Voters) -> None:
        """Raise unless the newest set is committed: two sets that differ by two voters may have separate majorities."""
        if voters.pending or voters.committed is None:
            at = f"Optional[{voters.pending[-1].index}]" if voters.pending else "Optional.empty"
            committed = self._replica.core.commit_index()
            message = "Request timed out waiting for voters to commit the latest voter change at"
            raise _late(f"{message} {at} with HWM {committed}")

    def _has_caught_up(self, node_id: int, directory_id: bytes) -> bool:
        replica, peer = self._replica, self._leader.peers.get(node_id)
        if peer is None or not peer.connected or replica.voters.present.get(node_id) != directory_id:
            return False
        near = replica.journal.last_index - peer.match_index <= LAG_ENTRIES_MAX
        recently = replica.clock.wall_ms() - CAUGHT_UP_MS < peer.caught_up_wall_ms
        return near and peer.match_index > 0 and recently

    def _append(self, voters: VoterSet, endpoints: Endpoints) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        future.add_done_callback(_seen)
        self._open = OpenChange(self._leader.append_voters(voters, endpoints), future)
        self._replica.wake()
        return future

    def _committed(self, index: int) -> None:
        change = self._open
        if change is not None and index >= change.index:
            self._open = None
            if not change.future.done():
                change.future.set_result(None)


def _late(message: str) -> KafkaError:
    return KafkaError(ErrorCode.REQUEST_TIMED_OUT, message)


def _seen(future: asyncio.Future[None]) -> None:
    """Retrieve a failure whose waiter may have given up."""
    if not future.cancelled():
        future.exception()
