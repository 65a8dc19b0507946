"""The quorum with pysyncobj's own replication restored: it shows the errors that the guard prevents.

Sending entries, handling Append and counting responses are stock 0.3.17; journal, transport, elections and applying are
Kvorum's. Only the simulation uses this, with the seeds that the guarded quorum passes: it must find the known safety
bugs (an Append that matches truncates everything after it; a response of an earlier term counts). Snapshots are off,
because pysyncobj's own do not exist.
"""

import asyncio
from typing import Any

from pysyncobj.syncobj import SyncObj

from kvorum.quorum.raft.core import RaftCore
from kvorum.quorum.raft.journal import Entry
from kvorum.quorum.raft.log import NotController
from kvorum.quorum.raft.messages import Ack, Append, Message, SnapshotAck
from kvorum.quorum.raft.node import QuorumNode
from kvorum.quorum.raft.replicated import RaftMetadataLog


class UnguardedCore(RaftCore):
    """RaftCore with the stock sender and the stock look into the log."""

    def _SyncObj__sendAppendEntries(self) -> None:
        SyncObj._SyncObj__sendAppendEntries(self)

    def _SyncObj__getEntries(
        self, fromIDx: int, count: int | None = None, maxSizeBytes: int | None = None
    ) -> list[Entry]:
        entries: list[Entry] = SyncObj._SyncObj__getEntries(self, fromIDx, count, maxSizeBytes)
        return entries

    def set_connected(self, peer: int, connected: bool) -> None:
        """Report a connection to pysyncobj."""
        nodes = self._SyncObj__connectedNodes
        (nodes.add if connected else nodes.discard)(self.nodes[peer])


class UnguardedNode(QuorumNode):
    """QuorumNode that hands Appends and answers to pysyncobj as they come."""

    core_class = UnguardedCore

    def _core(self) -> UnguardedCore:
        core = self.replica.core
        assert isinstance(core, UnguardedCore)
        return core

    def connected(self, peer: int) -> None:
        """See QuorumNode."""
        super().connected(peer)
        self._core().set_connected(peer, True)

    def disconnected(self, peer: int) -> None:
        """See QuorumNode."""
        super().disconnected(peer)
        self._core().set_connected(peer, False)

    def send_message(self, node_id: int, message: dict[str, Any]) -> None:
        """See CoreHooks: pysyncobj sends its own Appends and their responses."""
        replica = self.replica
        if message["type"] == "append_entries":
            if "entries" in message:
                entries = [(term, command) for command, _, term in message["entries"]]
                places = (message["prevLogIdx"], message["prevLogTerm"])
                replica.outbox.send(node_id, Append(message["term"], 0, message["commit_index"], *places, entries))
        elif message["type"] == "next_node_idx":
            matched, following = message["success"], message["next_node_idx"]
            answer = Ack(replica.core.term(), 0, matched, following - 1 if matched else following)
            replica.outbox.send_durable(node_id, answer)
        else:
            super().send_message(node_id, message)

    def _dispatch(self, peer: int, message: Message) -> None:
        if peer in self.replica.voters.present:
            match message:
                case Append():
                    self._stock_append(peer, message)
                    return
                case Ack():
                    self._stock_answer(peer, message)
                    return
                case SnapshotAck():
                    return
        super()._dispatch(peer, message)

    def _stock_append(self, peer: int, message: Append) -> None:
        if message.term >= self.replica.core.term():
            self.replica.prevotes.heard_leader(self.replica.now())
        first = message.previous_index + 1
        self.replica.core.receive(
            peer,
            {
                "type": "append_entries",
                "term": message.term,
                "commit_index": message.commit_index,
                "prevLogIdx": message.previous_index,
                "prevLogTerm": message.previous_term,
                "entries": [(command, first + place, term) for place, (term, command) in enumerate(message.entries)],
            },
        )

    def _stock_answer(self, peer: int, message: Ack) -> None:
        following = message.index + 1 if message.matched else message.index
        answer = {"next_node_idx": following, "reset": not message.matched, "success": message.matched}
        self.replica.core.receive(peer, {"type": "next_node_idx", **answer})

    def send_appends(self) -> None:
        """See CoreHooks: not called, the stock sender is at work."""
        raise AssertionError("the stock sender sends")

    def drain_appends(self) -> None:
        """See CoreHooks."""
        self.leader.push = self._core()._SyncObj__sendAppendEntries  # type: ignore[method-assign]  # the stock sender
        self.leader.notify_commit = self.leader.push  # type: ignore[method-assign]  # the same
        super().drain_appends()


class UnguardedLog(RaftMetadataLog):
    """RaftMetadataLog over it. Read indexes need answers that name their request; there are none."""

    node_class = UnguardedNode

    def read_index(self) -> asyncio.Future[int]:
        """Refuse."""
        future: asyncio.Future[int] = self._loop.create_future()
        future.set_exception(NotController("not without the guard"))
        return future
