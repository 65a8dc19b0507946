"""Hello: the first message of each connection, with the sender's directory, incarnation and pins (voters.py).

It is sent again when its content is new for the peer, and requested if nothing else arrives.
"""

import msgspec

from kvorum.quorum.raft.elections import Elections
from kvorum.quorum.raft.leader import NO_INDEX, Leader
from kvorum.quorum.raft.messages import Hello
from kvorum.quorum.raft.replica import Replica
from kvorum.quorum.raft.voters import KRAFT_VERSION_MAX, PeerInfo


class Greetings:
    """See the module."""

    __slots__ = ("_elections", "_incarnation", "_leader", "_replica", "_sent", "_sent_version")

    def __init__(self, replica: Replica, leader: Leader, elections: Elections, incarnation: int) -> None:
        """Send Hellos of a node; `incarnation` is a number that differs for each of its starts."""
        self._replica = replica
        self._leader = leader
        self._elections = elections
        self._incarnation = incarnation
        self._sent: dict[int, Hello] = {}
        self._sent_version = -1

    def connected(self, peer: int) -> None:
        """Start a connection."""
        self._sent.pop(peer, None)
        self._tell(peer)

    def tell_news(self) -> None:
        """Send changes of the voters' view to all peers, and request theirs after an election without responses."""
        elections, version = self._elections, self._replica.voters.version
        if not elections.silent and self._sent_version == version:
            return
        again, elections.silent = elections.silent, False
        self._sent_version = version
        for peer in sorted(elections.connected):
            self._tell(peer, again=again)

    def on_hello(self, peer: int, message: Hello) -> None:
        """Process a peer's."""
        voters = self._replica.voters
        if message.cluster_id != voters.state.cluster_id or message.node_id != peer:
            voters.gone(peer)
            return
        if message.answer and peer in self._elections.connected:
            self._tell(peer, answer=True)
        voters.peer_infos[peer] = PeerInfo(message.kraft_version_max, tuple(message.endpoints), message.dynamic)
        if voters.hello(peer, message.directory_id, message.pins, message.forced):
            self._replica.keep_voters()
        progress = self._leader.peer(peer)
        if progress.incarnation != message.incarnation:
            progress.incarnation = message.incarnation
            if self._leader.first_index != NO_INDEX:
                self._leader.new_session(peer)
        elif self._leader.first_index != NO_INDEX:
            self._leader.recount()

    def _tell(self, peer: int, *, again: bool = False, answer: bool = False) -> None:
        """Send Hello if its content is new for the peer; `again` requests one, `answer` answers one."""
        voters = self._replica.voters
        state, pins = voters.state, voters.pins()
        hello = Hello(
            state.cluster_id,
            state.node_id,
            state.directory_id,
            self._incarnation,
            pins,
            list(state.forced),
            kraft_version_max=KRAFT_VERSION_MAX,
            endpoints=list(voters.listens_at),
            dynamic=voters.dynamic,
        )
        if again or answer or self._sent.get(peer) != hello:
            self._sent[peer] = hello
            if again:
                hello = msgspec.structs.replace(hello, answer=True)
            self._replica.outbox.send_durable(peer, hello)
