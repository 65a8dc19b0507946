"""RaftCore: pysyncobj's SyncObj as the algorithm, with typed names for its state and its own machinery removed.

Unchanged from pysyncobj: the roles and the election (`_onTick`: deadline, term, votes; the vote messages), becoming
leader with a no-op entry, the commit rule (majority, own term only), stepping down without a majority's responses.
Replaced, each through the hook named: sending entries (`send_appends`), applying (`apply_committed`), the command
queue (`drain_appends`), dumps (`compact`), the gate before an election (`may_stand`), and the handling of Append and
its response, which QuorumNode does itself (why: docs/decisions/0005).

One rule is added below the commit rule: a leader counts only entries that are durable in its own journal, so even with
one voter nothing is committed before its fdatasync.
"""

from collections.abc import Iterable
from random import Random
from typing import Any, Final, Protocol

from pysyncobj.config import SyncObjConf
from pysyncobj.node import Node
from pysyncobj.syncobj import SyncObj
from pysyncobj.transport import Transport

from kvorum.quorum.raft.journal import DurableJournal, Entry
from kvorum.quorum.raft.patches import loop_time
from kvorum.quorum.raft.settings import RaftSettings

FOLLOWER: Final = 0
CANDIDATE: Final = 1
LEADER: Final = 2
NO_OP_COMMAND: Final = b"\x01"
"""pysyncobj's own: the first entry of a log, and the first of a leader's term."""
NOBODY: Final = -1
"""No node has this id."""
REGULAR: Final = 0
"""First byte of every command of ours, as pysyncobj marks them."""


class CoreHooks(Protocol):
    """Hooks with which QuorumNode replaces parts of pysyncobj. Called inside `tick` and `receive_*`."""

    def may_stand(self) -> bool:
        """Return whether to start an election at the election deadline. (False: called again at the next deadline.)"""
        ...

    def send_appends(self) -> None:
        """Leader: send each peer its missing entries, or a heartbeat."""
        ...

    def apply_committed(self) -> None:
        """Apply committed and durable entries."""
        ...

    def drain_appends(self) -> None:
        """Leader: put waiting commands into the journal. Others: refuse them."""
        ...

    def compact(self) -> None:
        """Check whether a snapshot is due."""
        ...

    def state_changed(self, old: int, new: int) -> None:
        """The role changed. On becoming leader this comes before the no-op entry is added."""
        ...

    def send_message(self, node_id: int, message: dict[str, Any]) -> None:
        """Send one of pysyncobj's own messages: request_vote, response_vote, timeout_now."""
        ...


class _CoreTransport(Transport):  # type: ignore[misc]  # pysyncobj is untyped
    """Hands pysyncobj's messages to the hooks."""

    def __init__(self, hooks: CoreHooks) -> None:
        super().__init__(None, None, [])
        self._hooks = hooks

    def send(self, node: Node, message: dict[str, Any]) -> bool:
        self._hooks.send_message(node.id, message)
        return True

    def destroy(self) -> None:
        pass


class RaftCore(SyncObj):  # type: ignore[misc]  # pysyncobj is untyped
    """See the module. Lives in a running event loop. Node ids are ints: sets of them have one order in every run."""

    def __init__(
        self,
        *,
        node_id: int,
        voter_ids: tuple[int, ...],
        journal: DurableJournal,
        hooks: CoreHooks,
        settings: RaftSettings,
        rng: Random,
    ) -> None:
        """Start as a follower with the journal's term, vote and log."""
        self._hooks = hooks
        self._rng = rng
        self._settings = settings
        self.journal = journal
        self.nodes = {peer: Node(peer) for peer in voter_ids if peer != node_id}
        """All nodes that this node communicates with; those that count are in pysyncobj's own set."""
        conf = SyncObjConf(
            autoTick=False,
            journalFile=journal,
            appendEntriesUseBatch=True,
            raftMinTimeout=settings.election_timeout_min_s,
            raftMaxTimeout=settings.election_timeout_max_s,
            appendEntriesPeriod=settings.heartbeat_s,
            leaderFallbackTimeout=settings.check_quorum_timeout_s,
            connectionTimeout=settings.election_timeout_max_s,
            useFork=False,
            onStateChanged=hooks.state_changed,
        )
        super().__init__(
            Node(node_id), list(self.nodes.values()), conf=conf, nodeClass=Node, transport=_CoreTransport(hooks)
        )
        for node in self.nodes.values():
            self._SyncObj__raftMatchIndex[node] = 0

    def node(self, peer: int) -> Node:
        """Return pysyncobj's name for a peer, a voter or not."""
        found = self.nodes.get(peer)
        if found is None:
            found = self.nodes[peer] = Node(peer)
        return found

    def set_voters(self, others: Iterable[int], *, with_itself: bool) -> None:
        """Set the nodes, including this one, whose majority elects and commits.

        pysyncobj counts the node it runs in. A leader that is not `with_itself` among the voters, since it is being
        removed, gets an additional node that never answers: 1 + n of (voters + 2) is a majority exactly if n of the
        voters is.
        """
        wanted = {self.node(peer) for peer in others}
        if not with_itself:
            wanted.add(self.node(NOBODY))
        for node in wanted - self._SyncObj__otherNodes:
            self._SyncObj__raftMatchIndex.setdefault(node, 0)
            self._SyncObj__lastResponseTime.setdefault(node, float("-inf"))
        self._SyncObj__otherNodes.clear()
        self._SyncObj__otherNodes.update(wanted)
        if not with_itself:
            self._SyncObj__raftMatchIndex[self.node(NOBODY)] = 0
            self._SyncObj__lastResponseTime[self.node(NOBODY)] = float("-inf")

    # State, by its proper names.

    def role(self) -> int:
        """FOLLOWER, CANDIDATE or LEADER."""
        return int(self._SyncObj__raftState)

    def is_leader(self) -> bool:
        """Whether this node believes that it leads; not a proof (see is_active and read_index)."""
        return bool(self._SyncObj__raftState == LEADER)

    def term(self) -> int:
        """The current term."""
        return int(self._SyncObj__raftCurrentTerm)

    def voted_for(self) -> int | None:
        """The node that received this node's vote in the current term."""
        vote: int | None = self._SyncObj__votedForNodeId
        return vote

    def leader_id(self) -> int | None:
        """The known leader of the current term."""
        leader = self._SyncObj__raftLeader
        return None if leader is None else int(leader.id)

    def commit_index(self) -> int:
        """The last index known to be committed."""
        return int(self._SyncObj__raftCommitIndex)

    def last_applied(self) -> int:
        """The last index applied."""
        return int(self._SyncObj__raftLastApplied)

    def set_applied(self, index: int) -> None:
        """Record that everything up to `index` is applied."""
        self._SyncObj__raftLastApplied = index

    def set_committed(self, index: int) -> None:
        """Raise the commit index; it never goes back."""
        if index > self.commit_index():
            self._SyncObj__raftCommitIndex = index

    def election_deadline(self) -> float:
        """When an election is due without a heartbeat of a leader, in loop time."""
        return float(self._SyncObj__raftElectionDeadline)

    def set_election_deadline(self, when: float) -> None:
        """Move the election deadline."""
        self._SyncObj__raftElectionDeadline = when

    def random_timeout(self) -> float:
        """Return a new random election timeout."""
        low, high = self._settings.election_timeout_min_s, self._settings.election_timeout_max_s
        return low + (high - low) * self._rng.random()

    def heartbeat_due(self) -> float:
        """When the next heartbeat is due, in loop time."""
        return float(self._SyncObj__newAppendEntriesTime)

    def set_heartbeat_due(self, when: float) -> None:
        """Move the next heartbeat."""
        self._SyncObj__newAppendEntriesTime = when

    def transfer_pending(self) -> bool:
        """Whether the leader requested that this node starts an election at once."""
        return bool(self._SyncObj__transferInProgress)

    def last_response(self, peer: int) -> float:
        """When a peer was last proven to follow this leader, in loop time."""
        return float(self._SyncObj__lastResponseTime.get(self.node(peer), float("-inf")))

    def set_last_response(self, peer: int, when: float) -> None:
        """Record that a voter followed this leader at `when` at the earliest."""
        node = self.node(peer)
        if when > self._SyncObj__lastResponseTime.get(node, float("-inf")):
            self._SyncObj__lastResponseTime[node] = when

    def forget_response(self, peer: int) -> None:
        """Ignore a peer's response in the leader check, because it does not count as a voter."""
        self._SyncObj__lastResponseTime[self.node(peer)] = float("-inf")

    def set_match(self, peer: int, index: int) -> None:
        """Set up to where a peer counts for the commit rule; 0 if it does not count as a voter."""
        self._SyncObj__raftMatchIndex[self.node(peer)] = index

    # Transitions that QuorumNode decides on.

    def adopt_term(self, term: int) -> None:
        """Follow into a later term, leader not yet known."""
        assert term > self.term()
        self._SyncObj__setCurrentTerm(term, None)
        self._SyncObj__raftLeader = None
        self._SyncObj__setState(FOLLOWER)

    def step_down(self) -> None:
        """Stop leading in the current term: this node was removed from the voters."""
        self._SyncObj__setState(FOLLOWER)
        self._SyncObj__raftLeader = None

    def forget_leader(self) -> None:
        """Clear the known leader; the next Append sets it."""
        self._SyncObj__raftLeader = None

    def follow(self, leader: int, term: int) -> None:
        """Follow this leader of a term that is at least the current one.

        The vote of the term goes to it: a voter that was wiped and re-admitted in this term must not vote in it again.
        """
        assert term >= self.term() and not (term == self.term() and self.is_leader()), "two leaders in one term"
        if term > self.term():
            self._SyncObj__transferInProgress = False
        if term > self.term() or self.voted_for() is None:
            self._SyncObj__setCurrentTerm(term, leader)
        if not self.transfer_pending():
            self.set_election_deadline(loop_time() + self.random_timeout())
        self._SyncObj__raftLeader = self.node(leader)
        self._SyncObj__setState(FOLLOWER)

    def receive(self, peer: int, message: dict[str, Any]) -> None:
        """Pass one of its own messages to pysyncobj: request_vote, response_vote, timeout_now."""
        self._SyncObj__onMessageReceived(self.node(peer), message)

    def tick(self) -> None:
        """Run pysyncobj's tick: elections, the commit rule, check-quorum, and the hooks."""
        self._onTick(0.0)

    # pysyncobj's machinery, replaced.

    def _SyncObj__sendAppendEntries(self) -> None:
        self._hooks.send_appends()

    def _SyncObj__applyLogEntries(self) -> bool:
        self._hooks.apply_committed()
        return False

    def _checkCommandsToApply(self) -> None:
        self._hooks.drain_appends()

    def _SyncObj__tryLogCompaction(self) -> None:
        self._hooks.compact()

    def _SyncObj__connectedToAnyone(self) -> bool:
        return self._hooks.may_stand()

    def _SyncObj__generateRaftTimeout(self) -> float:
        return self.random_timeout()

    def _SyncObj__getEntries(
        self, fromIDx: int, count: int | None = None, maxSizeBytes: int | None = None
    ) -> list[Entry]:
        """Serve the remaining caller, the commit rule, which reads one entry: only durable ones count."""
        assert count == 1 and maxSizeBytes is None
        if fromIDx > self.journal.durable_index:
            return []
        place = fromIDx - self.journal.first_index
        entry = self.journal[place]
        assert isinstance(entry, tuple)
        return [entry]
