"""Shared state of the parts of one QuorumNode, and the outbox: frames are sent only when their content is durable."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from kvorum.quorum.raft.core import RaftCore
from kvorum.quorum.raft.journal import DurableJournal
from kvorum.quorum.raft.log import SnapshotId
from kvorum.quorum.raft.messages import Message, encode
from kvorum.quorum.raft.patches import loop_time
from kvorum.quorum.raft.prevote import PreVotes
from kvorum.quorum.raft.settings import RaftSettings
from kvorum.quorum.raft.snapshot import Snapshot, SnapshotStore
from kvorum.quorum.raft.voters import Endpoints, Voters, encode_state
from kvorum.quorum.steps import Steps
from kvorum.runtime.clock import Clock


class RaftLink(Protocol):
    """Carries frames to the other voters, over one permanent connection for each direction.

    The owner of the link calls the node's `connected`, `disconnected`, `refused` and `receive`. Frames of a connection
    arrive in order or not at all; none of an older connection from the same peer arrives after one of a newer.
    """

    def send(self, peer: int, frame: bytes) -> None:
        """Send a frame if the peer is connected; drop it otherwise. Never blocks; the link bounds its buffer."""
        ...

    def reach(self, peers: Sequence[int], endpoints: Endpoints) -> None:
        """Keep a connection to each of these, the other voters of a dynamic quorum, at their endpoints."""
        ...

    def reset(self, peer: int) -> None:
        """Replace the connection to a peer: frames in flight on the old one are lost."""
        ...


class StateMachine(Protocol):
    """Consumer of the log: in index order, on the loop, one item at a time. An exception ends the process.

    While a piece is being applied the other methods may be called; they use the state before it.
    """

    def apply(self, index: int, term: int, command: bytes) -> Steps[None]:
        """Apply one committed command, also a no-op."""
        ...

    def load(self, snapshot: Snapshot) -> Steps[None]:
        """Replace the state by a snapshot's."""
        ...

    def snapshot_id(self) -> SnapshotId:
        """Name the present state."""
        ...

    def lost_leadership(self) -> None:
        """Fail what waits."""
        ...


class Outbox:
    """Frames to peers, in order for each; one that promises something waits for the journal."""

    __slots__ = ("_held", "_journal", "_link", "_unanswered")

    def __init__(self, link: RaftLink, journal: DurableJournal) -> None:
        """Send through `link`."""
        self._link = link
        self._journal = journal
        self._held: deque[tuple[int, int, bytes]] = deque()
        self._unanswered: dict[int, float] = {}

    def ask(self, peer: int, message: Message) -> None:
        """Send at once a frame that the peer is to answer."""
        self._unanswered.setdefault(peer, loop_time())
        self._link.send(peer, encode(message))

    def heard(self, peer: int) -> None:
        """The peer answered: the way there and back is open."""
        self._unanswered.pop(peer, None)

    def reset_silent(self, silence_s: float) -> None:
        """Close connections without an answer for this time: the network may have recovered without them."""
        since = loop_time() - silence_s
        for peer in [peer for peer, sent in self._unanswered.items() if sent < since]:
            del self._unanswered[peer]
            self._link.reset(peer)

    def send(self, peer: int, message: Message) -> None:
        """Send at once: a frame that promises nothing."""
        self._link.send(peer, encode(message))

    def send_durable(self, peer: int, message: Message) -> None:
        """Send once everything that is in the journal now is durable."""
        if self._journal.is_clean:
            self._link.send(peer, encode(message))
        else:
            self._held.append((self._journal.position, peer, encode(message)))

    def reach(self, peers: Sequence[int], endpoints: Endpoints) -> None:
        """See RaftLink."""
        self._link.reach(peers, endpoints)

    def release(self) -> None:
        """Send messages whose conditions are met."""
        held, durable = self._held, self._journal.durable_position
        while held and held[0][0] <= durable:
            _, peer, frame = held.popleft()
            self._link.send(peer, frame)


@dataclass(slots=True, kw_only=True)
class Replica:
    """One node's parts. `wake` requests a tick soon; `fail` ends the node."""

    core: RaftCore
    journal: DurableJournal
    snapshots: SnapshotStore
    voters: Voters
    prevotes: PreVotes
    outbox: Outbox
    settings: RaftSettings
    clock: Clock
    machine: StateMachine
    wake: Callable[[], None]
    fail: Callable[[BaseException], None]

    def now(self) -> float:
        """Return the loop's time."""
        return loop_time()

    def keep_voters(self) -> None:
        """Store the voters' state in the journal; it is durable with the next group commit."""
        self.journal.set_state(encode_state(self.voters.state))

    def last_log(self) -> tuple[int, int]:
        """Return (term, index) of the last entry, as logs are compared."""
        last = self.journal.last_index
        return self.journal.term_at(last) or 0, last
