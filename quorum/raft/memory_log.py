"""A MetadataLog of one voter, in memory, for controller tests. It commits at once or on demand.

`MemoryLog(loop_commits=True)` applies each append in the same call; with False, `commit(count)` does, so a
test can inspect (or break) appended, uncommitted entries. `elect` and `depose` simulate elections.
"""

import asyncio
from collections import deque
from collections.abc import Iterator

from typing_extensions import Buffer

from kvorum.protocol.batch_header import BatchHeader
from kvorum.protocol.uuids import ONE_UUID
from kvorum.quorum.raft.batches import placed
from kvorum.quorum.raft.log import (
    Dropped,
    MetadataLogListener,
    NotController,
    ReplicaState,
    SnapshotId,
    SnapshotSource,
    SnapshotView,
    UnknownOutcome,
    Voter,
)
from kvorum.quorum.steps import finish

CHUNK_SIZE = 64 * 1024


class MemorySnapshot:
    """A snapshot that is a bytes object."""

    __slots__ = ("_content", "size", "snapshot_id")

    def __init__(self, snapshot_id: SnapshotId, content: bytes) -> None:
        """Store the content."""
        self.snapshot_id = snapshot_id
        self.size = len(content)
        self._content = content

    def read(self, position: int, size: int) -> bytes:
        """See SnapshotView."""
        return self._content[position : position + size]

    def chunks(self) -> Iterator[bytes]:
        """See SnapshotView."""
        for position in range(0, self.size, CHUNK_SIZE):
            yield self._content[position : position + CHUNK_SIZE]

    def close(self) -> None:
        """See SnapshotView."""


class MemoryLog:
    """See MetadataLog. Call `elect()` to make it the active leader; it starts as a follower that knows no leader."""

    def __init__(self, *, node_id: int = 1, commits_at_once: bool = True) -> None:
        """Start empty. Futures belong to the running loop."""
        self.node_id = node_id
        self.commits_at_once = commits_at_once
        self.leader_id: int | None = None
        self.epoch = 0
        self.high_watermark = 0
        self.log_end_offset = 0
        self.batches: list[bytes] = []
        self._open: deque[tuple[bytes, BatchHeader, asyncio.Future[int]]] = deque()
        self._listeners: list[MetadataLogListener] = []
        self._source: SnapshotSource | None = None
        self._snapshot: MemorySnapshot | None = None
        self._last_epoch = 0

    @property
    def log_start_offset(self) -> int:
        """See MetadataLog."""
        return self._snapshot.snapshot_id.end_offset if self._snapshot else 0

    def elect(self) -> int:
        """Become the active leader of a new epoch, and return it."""
        self.depose()
        self.epoch += 1
        self.leader_id = self.node_id
        self.log_end_offset = self.high_watermark
        for listener in self._listeners:
            listener.on_leader_changed(self.node_id, self.epoch)
        for listener in self._listeners:
            listener.on_active(self.epoch)
        return self.epoch

    def depose(self, leader_id: int | None = None) -> None:
        """Lose leadership (to `leader_id`): uncommitted entries are removed, their futures fail with UnknownOutcome."""
        was_leader, self.leader_id = self.leader_id == self.node_id, leader_id
        if was_leader:
            for listener in self._listeners:
                listener.on_inactive()
        lost, self._open = self._open, deque()
        self.log_end_offset = self.high_watermark
        for _, _, future in lost:
            if not future.done():
                future.set_exception(UnknownOutcome("leadership lost"))
        if leader_id is not None:
            self.epoch += 1
        if was_leader or leader_id is not None:
            for listener in self._listeners:
                listener.on_leader_changed(leader_id, self.epoch)

    def is_active(self) -> bool:
        """See MetadataLog."""
        return self.leader_id == self.node_id

    def append(self, batch: Buffer, expected_offset: int, controller_epoch: int) -> asyncio.Future[int]:
        """See MetadataLog."""
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        try:
            if not self.is_active() or controller_epoch != self.epoch:
                raise NotController(f"epoch {controller_epoch}, this log is in {self.epoch}, led by {self.leader_id}")
            if expected_offset != self.log_end_offset:
                raise Dropped(f"expected offset {expected_offset}, the log ends at {self.log_end_offset}")
            data, header = placed(batch, expected_offset, controller_epoch)
        except (NotController, Dropped) as error:
            future.set_exception(error)
            return future
        self.log_end_offset = header.next_offset
        self._open.append((data, header, future))
        if self.commits_at_once:
            self.commit()
        return future

    def commit(self, count: int | None = None) -> int:
        """Commit and apply this number of open batches (None: all); return how many there were."""
        done = 0
        while self._open and (count is None or done < count):
            data, header, future = self._open.popleft()
            self.batches.append(data)
            self.high_watermark = header.next_offset
            self._last_epoch = header.partition_leader_epoch
            for listener in self._listeners:
                steps = listener.on_batch_applied(
                    header.base_offset, header.partition_leader_epoch, header.max_timestamp, data
                )
                if steps is not None:
                    finish(steps)
            if not future.done():
                future.set_result(header.base_offset)
            done += 1
        return done

    def read_index(self) -> asyncio.Future[int]:
        """See MetadataLog."""
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        if self.is_active():
            future.set_result(self.high_watermark)
        else:
            future.set_exception(NotController(f"led by {self.leader_id}"))
        return future

    def voters(self) -> tuple[Voter, ...]:
        """See MetadataLog."""
        return (Voter(node_id=self.node_id, directory_id=ONE_UUID),)

    def replicas(self) -> tuple[ReplicaState, ...]:
        """See MetadataLog."""
        if not self.is_active():
            return ()
        return (
            ReplicaState(
                node_id=self.node_id,
                directory_id=ONE_UUID,
                is_voter=True,
                log_end_offset=self.log_end_offset,
                last_fetch_timestamp_ms=-1,
                last_caught_up_timestamp_ms=-1,
            ),
        )

    def resign(self) -> asyncio.Future[int | None]:
        """See MetadataLog."""
        self.depose()
        future: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        future.set_result(None)
        return future

    def add_listener(self, listener: MetadataLogListener) -> None:
        """See MetadataLog."""
        self._listeners.append(listener)

    def set_snapshot_source(self, source: SnapshotSource) -> None:
        """See MetadataLog."""
        self._source = source

    def take_snapshot(self) -> asyncio.Future[SnapshotId | None]:
        """See MetadataLog."""
        future: asyncio.Future[SnapshotId | None] = asyncio.get_running_loop().create_future()
        if self._source is None or self.high_watermark == self.log_start_offset:
            future.set_result(None)
            return future
        snapshot_id = SnapshotId(end_offset=self.high_watermark, epoch=self._last_epoch)
        self._snapshot = MemorySnapshot(snapshot_id, b"".join(self._source.capture().chunks))
        future.set_result(snapshot_id)
        return future

    def latest_snapshot(self) -> SnapshotView | None:
        """See MetadataLog."""
        return self._snapshot
