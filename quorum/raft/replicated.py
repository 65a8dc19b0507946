"""RaftMetadataLog: the MetadataLog of a voter, over QuorumNode; offsets and futures here, indexes there.

An append is *placed* when the node's tick puts it into the journal: base offset and leader epoch go into the batch
then, so every node applies the replicated bytes unchanged. It applies if its base offset is the high watermark and its
epoch the term of its entry. Since a leader accepts appends only when its term's first entry is applied, only an
internal error or a deposed leader can make this fail, and it fails in the same way everywhere.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from typing_extensions import Buffer

from kvorum.protocol.batch_header import BatchHeader, parse_header
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.raft.batches import placed
from kvorum.quorum.raft.commands import BATCH_PREFIX, NO_OP, PREFIX_SIZE, SET_PREFIXES, batch_command
from kvorum.quorum.raft.log import (
    APPENDS_IN_FLIGHT_BYTES_MAX,
    Dropped,
    MetadataLogListener,
    NotController,
    NothingToSnapshot,
    ReadmissionRefused,
    ReplicaState,
    SnapshotBusy,
    SnapshotId,
    SnapshotSource,
    SnapshotTaken,
    SnapshotView,
    UnknownOutcome,
    Voter,
)
from kvorum.quorum.raft.membership import Membership
from kvorum.quorum.raft.node import QuorumNode
from kvorum.quorum.raft.opening import Opened
from kvorum.quorum.raft.replica import RaftLink
from kvorum.quorum.raft.replica_states import replica_states
from kvorum.quorum.raft.settings import RaftSettings
from kvorum.quorum.raft.snapshot import Snapshot
from kvorum.quorum.raft.voters import Endpoints
from kvorum.quorum.steps import Steps
from kvorum.runtime.clock import Clock


class UnknownCommand(Exception):
    """A command of a kind this version does not know: a newer Kvorum wrote it. The node must stop."""


@dataclass(slots=True)
class Open:
    """An append that is in the journal and not applied yet."""

    index: int
    size: int
    future: asyncio.Future[int]
    made_at: float
    """Loop time."""


class RaftMetadataLog:
    """See the module; methods: MetadataLog. Construct inside the running loop, add listeners, then `start`."""

    node_class: type[QuorumNode] = QuorumNode

    def __init__(
        self,
        opened: Opened,
        *,
        link: RaftLink,
        settings: RaftSettings,
        clock: Clock,
        rng: Random,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        """Take over what `open_raft` opened. `on_fatal` is to end the process."""
        self._loop = asyncio.get_running_loop()
        self._settings = settings
        self._listeners: list[MetadataLogListener] = []
        self._open: deque[Open] = deque()
        self._in_flight_bytes = 0
        self._log_end_offset = 0
        self._active_epoch: int | None = None
        self._leader: tuple[int | None, int] = (None, -1)
        self._resigning: asyncio.Future[int | None] | None = None
        self._resign_timer: asyncio.TimerHandle | None = None
        self._last_epoch = 0
        self.high_watermark = 0
        self.node = self.node_class(
            opened, link=link, machine=self, settings=settings, clock=clock, rng=rng, on_fatal=on_fatal
        )
        self.node.replica.core.addOnTickCallback(self._after_tick)
        self.node_id = self.node.node_id

    def start(self) -> None:
        """Start to load the snapshot (on_snapshot_loaded), and to participate."""
        self.node.start()

    def stop(self) -> None:
        """Stop participating; open appends and reads fail."""
        self.node.stop()

    # MetadataLog.

    @property
    def leader_id(self) -> int | None:
        """See MetadataLog."""
        return self.node.replica.core.leader_id()

    @property
    def epoch(self) -> int:
        """See MetadataLog."""
        return self.node.replica.core.term()

    @property
    def log_end_offset(self) -> int:
        """See MetadataLog."""
        return self._log_end_offset if self._active_epoch is not None else self.high_watermark

    @property
    def log_start_offset(self) -> int:
        """See MetadataLog."""
        latest = self.node.replica.snapshots.latest
        return latest.snapshot_id.end_offset if latest else 0

    def is_active(self) -> bool:
        """See MetadataLog."""
        return (
            self._active_epoch is not None
            and not self.node.halted
            and self._active_epoch == self.epoch
            and self.node.replica.core.is_leader()
            and self.node.leader.answered_majority(self._loop.time())
        )

    def append(self, batch: Buffer, expected_offset: int, controller_epoch: int) -> asyncio.Future[int]:
        """See MetadataLog."""
        future: asyncio.Future[int] = self._loop.create_future()
        size = memoryview(batch).nbytes
        try:
            self._check_leading(controller_epoch)
            if expected_offset != self._log_end_offset:
                raise Dropped(f"expected offset {expected_offset}, the log ends at {self._log_end_offset}")
            if self._in_flight_bytes + size > APPENDS_IN_FLIGHT_BYTES_MAX:
                raise Dropped(f"{self._in_flight_bytes} bytes are in flight")
            data, header = placed(batch, expected_offset, controller_epoch)
        except (NotController, Dropped) as error:
            future.set_exception(error)
            return future
        self._log_end_offset = header.next_offset
        self._in_flight_bytes += size
        made_at = self._loop.time()

        def place(index: int, term: int) -> bytes | None:
            if index == 0 or term != controller_epoch:
                self._in_flight_bytes -= size
                if not future.done():
                    future.set_exception(NotController(f"leadership of epoch {controller_epoch} is lost"))
                return None
            self._open.append(Open(index, size, future, made_at))
            return batch_command(data)

        self.node.submit(place)
        return future

    def _check_leading(self, controller_epoch: int) -> None:
        if self._active_epoch is None or controller_epoch != self._active_epoch or self.node.halted:
            raise NotController(f"epoch {controller_epoch}: this node is in {self.epoch}, led by {self.leader_id}")
        if self._resigning is not None:
            raise NotController("this leader transfers its leadership")

    def read_index(self) -> asyncio.Future[int]:
        """See MetadataLog. It waits for the term's first entry if that is not applied yet."""
        future: asyncio.Future[int] = self._loop.create_future()
        if self.node.halted or not self.node.replica.core.is_leader():
            future.set_exception(NotController(f"led by {self.leader_id}"))
        else:
            self.node.leader.reads.ask(future)
            self.node.wake()
        return future

    def voters(self) -> tuple[Voter, ...]:
        """See MetadataLog."""
        committed = self.node.replica.voters.committed or {}
        return tuple(Voter(node_id=node_id, directory_id=Uuid(committed[node_id])) for node_id in sorted(committed))

    @property
    def membership(self) -> Membership:
        """Changes of the voters, at the leader of a dynamic quorum."""
        return self.node.membership

    def voter_endpoints(self) -> Endpoints:
        """Return where the voters of a dynamic quorum listen, by the newest set in this log; empty in a static one."""
        return dict(self.node.replica.voters.endpoints)

    def reported_endpoints(self) -> Endpoints:
        """Return the endpoints of this node and of connected peers; a static quorum has them too."""
        voters = self.node.replica.voters
        found = {peer: list(info.endpoints) for peer, info in voters.peer_infos.items()}
        return found | {voters.node_id: list(voters.listens_at)}

    def replicas(self) -> tuple[ReplicaState, ...]:
        """See MetadataLog."""
        return replica_states(self.node.replica, self.node.leader.peers, self.log_end_offset)

    def readmit(self, node_id: int, directory_id: Uuid) -> None:
        """Count a voter by its new directory from now on, by this node's decision alone (`kvorum quorum readmit`).

        For a quorum that cannot elect because a voter lost its directory and another is dead. Entries committed on
        those two alone are given up; if the dead one still runs with them applied, it ends when it meets the new
        leader.
        Raises ReadmissionRefused while this node follows or leads, ValueError if it is not a voter.
        """
        replica = self.node.replica
        if replica.core.leader_id() is not None and not replica.prevotes.leader_gone(self._loop.time()):
            raise ReadmissionRefused(
                f"node {replica.core.leader_id()} is the leader and readmits it when it has caught up"
            )
        if replica.core.is_leader():
            raise ReadmissionRefused("this node is the leader and readmits it when it has caught up")
        if node_id not in self.node.peer_ids:
            raise ValueError(f"node {node_id} is not another voter of this quorum: {self.node.peer_ids}")
        self.node.readmit(node_id, bytes(directory_id))

    def resign(self) -> asyncio.Future[int | None]:
        """See MetadataLog."""
        if self._resigning is not None:
            return self._resigning
        future: asyncio.Future[int | None] = self._loop.create_future()
        if not self.node.replica.core.is_leader() or self.node.halted or not self.node.leader.start_transfer():
            future.set_result(None)
            return future
        self._resigning = future
        self._resign_timer = self._loop.call_later(self._settings.transfer_timeout_s, self._resigned, None)
        return future

    def _resigned(self, successor: int | None) -> None:
        future, self._resigning = self._resigning, None
        self.node.leader.transfer_to = None
        if self._resign_timer is not None:
            self._resign_timer.cancel()
            self._resign_timer = None
        if future is not None and not future.done():
            future.set_result(successor)

    def add_listener(self, listener: MetadataLogListener) -> None:
        """See MetadataLog."""
        self._listeners.append(listener)

    def set_snapshot_source(self, source: SnapshotSource) -> None:
        """See MetadataLog."""
        self.node.snapshotting.source = source

    def take_snapshot(self) -> asyncio.Future[SnapshotId | None]:
        """See MetadataLog."""
        future: asyncio.Future[SnapshotId | None] = self._loop.create_future()
        if self.node.snapshotting.source is None or self.node.halted:
            future.set_result(None)
        else:
            self.node.snapshotting.request(future)
        return future

    async def snapshot_now(self) -> SnapshotTaken:
        """Write a snapshot on request. Raises SnapshotBusy, NothingToSnapshot."""
        snapshotting = self.node.snapshotting
        if snapshotting.source is None or self.node.halted:
            raise NothingToSnapshot("this node is not a member of the quorum yet, or no longer")
        if snapshotting.is_busy:
            raise SnapshotBusy("a snapshot is being written")
        written = await self.take_snapshot() is not None
        snapshot = self.node.replica.snapshots.open_latest()
        if snapshot is None:
            raise NothingToSnapshot("nothing has been applied yet")
        try:
            return SnapshotTaken(snapshot_id=snapshot.snapshot_id, size=snapshot.file_size, written=written)
        finally:
            snapshot.close()

    def latest_snapshot(self) -> SnapshotView | None:
        """See MetadataLog."""
        return self.node.replica.snapshots.open_latest()

    # StateMachine.

    def apply(self, index: int, term: int, command: bytes) -> Steps[None]:
        """See StateMachine."""
        if not command.startswith(BATCH_PREFIX):
            if command != NO_OP and not command.startswith(SET_PREFIXES):
                raise UnknownCommand(f"entry {index}: kind {command[:PREFIX_SIZE]!r}")
            return
        header = parse_header(command, PREFIX_SIZE)
        if header.base_offset != self.high_watermark or header.partition_leader_epoch != term:
            self._drop(self._waiting(index), header, term)
            return
        batch = command[PREFIX_SIZE:]
        for listener in self._listeners:
            yield from listener.on_batch_applied(header.base_offset, term, header.max_timestamp, batch) or ()
        self.high_watermark = header.next_offset
        self._last_epoch = term
        waiting = self._waiting(index)
        if waiting is not None and not waiting.future.done():
            waiting.future.set_result(header.base_offset)
            self.node.observer.committed(self._loop.time() - waiting.made_at)

    def _waiting(self, index: int) -> Open | None:
        """Take out the append that became entry `index`, if it was made here in this term."""
        if not self._open or self._open[0].index != index:
            return None
        waiting = self._open.popleft()
        self._in_flight_bytes -= waiting.size
        return waiting

    def _drop(self, waiting: Open | None, header: BatchHeader, term: int) -> None:
        if waiting is not None and not waiting.future.done():
            waiting.future.set_exception(
                Dropped(
                    f"expected offset {header.base_offset} in epoch {header.partition_leader_epoch}, "
                    f"the log was at {self.high_watermark} in {term}"
                )
            )

    def load(self, snapshot: Snapshot) -> Steps[None]:
        """See StateMachine."""
        for listener in self._listeners:
            yield from listener.on_snapshot_loaded(snapshot) or ()
        self.high_watermark = snapshot.snapshot_id.end_offset
        self._last_epoch = snapshot.snapshot_id.epoch

    def snapshot_id(self) -> SnapshotId:
        """See StateMachine."""
        return SnapshotId(end_offset=self.high_watermark, epoch=self._last_epoch)

    def lost_leadership(self) -> None:
        """See StateMachine."""
        if self._active_epoch is not None:
            self._active_epoch = None
            for listener in self._listeners:
                listener.on_inactive()
        lost, self._open = self._open, deque()
        for one in lost:
            self._in_flight_bytes -= one.size
            if not one.future.done():
                one.future.set_exception(UnknownOutcome("leadership was lost before the append was committed"))
        self.node.leader.reads.fail(NotController("leadership was lost"))

    def _after_tick(self) -> None:
        """Notify the listeners of changes of the tick, and finish reads."""
        node, core = self.node, self.node.replica.core
        leader = (core.leader_id(), core.term())
        if leader != self._leader:
            self._leader = leader
            for listener in self._listeners:
                listener.on_leader_changed(*leader)
        if self._resigning is not None and leader[0] not in (None, self.node_id):
            self._resigned(leader[0])
        if not core.is_leader():
            return
        applied = core.last_applied()
        if self._active_epoch is None and applied >= node.leader.first_index:
            self._active_epoch = core.term()
            self._log_end_offset = self.high_watermark
            for listener in self._listeners:
                listener.on_active(core.term())
        node.leader.reads.finish(applied_index=applied, high_watermark=self.high_watermark)
