"""A broker's own copy of the metadata log: the storage log `__cluster_metadata-0`, its checkpoints, and their image.

The broker fetches committed batches only, so nothing in the copy is ever taken back; a copy that is lost, or whose end
was cut by a crash, is fetched again. At start the image needs the newest checkpoint and the log from there on.

Everything long is done in slices (kvorum.quorum.slices). Only the loader's one task calls in here.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from kvorum.protocol.errors import KafkaError
from kvorum.protocol.parts import Part
from kvorum.protocol.records import batches
from kvorum.quorum.batches import METADATA_FOLDER, decode_batch
from kvorum.quorum.image import MetadataDelta, MetadataImage, TransactionBuffer
from kvorum.quorum.metadata_log_file import joined, open_metadata_log
from kvorum.quorum.raft.log import SnapshotId
from kvorum.quorum.records import MetadataRecord
from kvorum.quorum.slices import Slices
from kvorum.quorum.snapshots import (
    LoadedSnapshot,
    PartialSnapshot,
    SnapshotDamaged,
    SnapshotFiles,
    encode_snapshot,
    load_snapshot,
)
from kvorum.quorum.steps import used_up
from kvorum.runtime import blocking
from kvorum.runtime.clock import Clock
from kvorum.runtime.config import Settings
from kvorum.runtime.disk import Disk
from kvorum.runtime.logs import get_logger
from kvorum.storage.log import Log

log = get_logger("quorum")

READ_BYTES: Final = 1024 * 1024


class MetadataCopyDiverged(Exception):
    """The controllers do not serve what continues this copy: metadata was lost there, or this is another's copy."""


class MetadataCopy:
    """A broker's stored copy of the metadata log. `image` is the replayed state; the loader publishes it."""

    def __init__(self, stored: Log, files: SnapshotFiles, clock: Clock) -> None:
        """Take over an open log and its checkpoints; `load` comes next."""
        self._stored = stored
        self._files = files
        self._clock = clock
        self._transactions = TransactionBuffer()
        self._timestamp_ms = -1
        self._snapshot_taken_ms = clock.monotonic_ms()
        self._bytes_since_snapshot = 0
        self._written_bytes = 0
        self._written_ms = clock.monotonic_ms()
        self._change: asyncio.Future[None] | None = None
        self.image = MetadataImage()
        self.end_offset = 0
        """The next offset to fetch."""
        self.epoch = -1
        """The epoch of the last batch."""

    @classmethod
    async def open(cls, disk: Disk, directory: str, settings: Settings, clock: Clock) -> "MetadataCopy":
        """Open the copy below `directory`, recovering the log, and load it. Raises OSError, UnknownRecord."""
        loop = asyncio.get_running_loop()
        stored = await blocking.run(loop, open_metadata_log, disk, directory, settings, clock)
        files = await blocking.run(loop, SnapshotFiles, disk, f"{directory}/{METADATA_FOLDER}")
        copy = cls(stored, files, clock)
        await copy._load()
        return copy

    @property
    def stored(self) -> Log:
        """The storage log, changed by this class only; readers use `readable`."""
        return self._stored

    @property
    def readable(self) -> Log | None:
        """The storage log for others to read, None while a thread takes away from it: nothing there is locked."""
        return self._stored if self._change is None or self._change.done() else None

    @property
    def timestamp_ms(self) -> int:
        """The timestamp of the last batch replayed (ms, wall), -1 before the first."""
        return self._timestamp_ms

    @property
    def log_start_offset(self) -> int:
        """The first offset in the log."""
        return self._stored.log_start_offset

    async def append(self, records: memoryview) -> tuple[MetadataDelta, int]:
        """Store and replay fetched batches; return the changes and the number of batches.

        Raises KafkaError (a damaged batch), UnknownRecord, InvalidTransaction, MetadataCopyDiverged, OSError.

        Batches below the end (a fetch in the middle of a batch returns the whole batch) are skipped.
        """
        slices = Slices()
        delta = MetadataDelta(self.image)
        count = 0
        for position, header in batches(records):
            if header.next_offset <= self.end_offset:
                continue
            if header.base_offset != self.end_offset:
                raise MetadataCopyDiverged(f"received a batch at {header.base_offset}, expected {self.end_offset}")
            try:
                found = decode_batch(records, position, header)
            except KafkaError:
                if count == 0:
                    raise
                break  # earlier batches are complete; the next fetch begins with this one
            self._stored.append_as_follower(records[position : position + header.size])
            await self._replay(delta, header.base_offset, found, slices)
            self._moved_to(header.next_offset, header.partition_leader_epoch, header.max_timestamp)
            self._bytes_since_snapshot += header.size
            count += 1
        self._stored.high_watermark = self.end_offset
        await self._finish(delta, slices)
        return delta, count

    async def load_snapshot(self, snapshot_id: SnapshotId, part: PartialSnapshot) -> None:
        """Replace everything with a fetched snapshot. Raises SnapshotDamaged, OSError; then nothing has changed."""
        loop = asyncio.get_running_loop()
        loaded = await Slices().run(load_snapshot(snapshot_id, part.chunks()))
        await blocking.run(loop, part.finish)
        await self._change_in_thread(self._stored.truncate_fully_and_start_at, snapshot_id.end_offset)
        await blocking.run(loop, self._files.delete_before, snapshot_id.end_offset)
        self._start_at(snapshot_id, loaded)
        log.info("metadata snapshot loaded", end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch)

    def partial(self, snapshot_id: SnapshotId) -> PartialSnapshot:
        """Start to receive a snapshot."""
        return self._files.partial(snapshot_id)

    async def clear(self) -> None:
        """Throw the copy away, to fetch all of it again."""
        loop = asyncio.get_running_loop()
        await blocking.run(loop, self._files.delete_before, 1 << 63)
        await self._change_in_thread(self._stored.truncate_fully_and_start_at, 0)
        nothing = LoadedSnapshot(image=MetadataImage(), transactions=TransactionBuffer(), timestamp_ms=-1)
        self._start_at(SnapshotId(end_offset=0, epoch=-1), nothing)

    @property
    def snapshot_written(self) -> tuple[int, int]:
        """Bytes of the last snapshot written here, 0 before the first, and milliseconds since then, or since opened."""
        return self._written_bytes, self._clock.monotonic_ms() - self._written_ms

    async def snapshot_if_due(self, bytes_max: int, interval_ms: int) -> bool:
        """Write a checkpoint of the image if enough records or time have passed, and trim the log below it."""
        age_ms = self._clock.monotonic_ms() - self._snapshot_taken_ms
        due = self._bytes_since_snapshot >= bytes_max or (0 < interval_ms <= age_ms and self._bytes_since_snapshot > 0)
        if not due or self._transactions.open_since is not None:
            return False
        loop = asyncio.get_running_loop()
        snapshot_id = SnapshotId(end_offset=self.end_offset, epoch=self.epoch)
        chunks = encode_snapshot(self.image.to_records(), self.epoch, self._timestamp_ms)
        size = await blocking.run(loop, self._files.write, snapshot_id, chunks)
        await self._change_in_thread(self._let_go_below, snapshot_id.end_offset)
        self._snapshot_taken_ms = self._written_ms = self._clock.monotonic_ms()
        self._bytes_since_snapshot = 0
        self._written_bytes = size
        log.info("metadata snapshot written", end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch, bytes=size)
        return True

    async def close(self) -> None:
        """Close the log, once a thread that changes it has ended: that one is not stopped by a cancellation."""
        if self._change is not None:
            await asyncio.wait((self._change,))
        try:
            await blocking.run(asyncio.get_running_loop(), self._stored.close)
        except KafkaError as error:  # the rest is still to be closed; the next start recovers this log
            log.error("local metadata log not closed cleanly", error=error)

    async def _change_in_thread(self, work: Callable[[int], None], offset: int) -> None:
        """Remove a part of the log in a thread; it is not readable until the thread has ended, even after a cancel."""
        self._change = blocking.run(asyncio.get_running_loop(), work, offset)
        await asyncio.shield(self._change)

    async def _load(self) -> None:
        """Make the image of the newest checkpoint and the log behind it."""
        loop = asyncio.get_running_loop()
        ids = await blocking.run(loop, self._files.ids)
        if ids:
            try:
                self._start_at(ids[-1], await Slices().run(load_snapshot(ids[-1], self._files.read(ids[-1]))))
            except SnapshotDamaged as error:
                # Only a copy: the controllers have it whole.
                log.error("damaged metadata snapshot discarded", end_offset=ids[-1].end_offset, reason=error)
                await self.clear()
        stored = self._stored
        if not stored.log_start_offset <= self.end_offset <= stored.log_end_offset:
            # The log's end was lost in a crash, or its start was trimmed and the checkpoint is missing.
            log.warning(
                "local metadata log restarted", log_start=stored.log_start_offset, log_end=stored.log_end_offset
            )
            await blocking.run(loop, stored.truncate_fully_and_start_at, self.end_offset)
        slices = Slices()
        while self.end_offset < stored.log_end_offset:
            parts = await blocking.run(loop, self._read, self.end_offset)
            view = memoryview(joined(parts))
            delta = MetadataDelta(self.image)
            before = self.end_offset
            for position, header in batches(view):
                if header.next_offset > self.end_offset:
                    found = decode_batch(view, position, header)
                    await self._replay(delta, header.base_offset, found, slices)
                    self._moved_to(header.next_offset, header.partition_leader_epoch, header.max_timestamp)
                    self._bytes_since_snapshot += header.size
            assert self.end_offset > before, "a read below the end brings at least one batch"
            await self._finish(delta, slices)
        stored.high_watermark = self.end_offset

    def _read(self, offset: int) -> tuple[Part, ...] | list[Part]:
        end = self._stored.log_end_offset
        return self._stored.read(offset, READ_BYTES, upper_bound_offset=end, min_one_message=True).parts

    async def _replay(
        self, delta: MetadataDelta, base_offset: int, found: list[MetadataRecord], slices: Slices
    ) -> None:
        """Replay a batch: no effect inside a transaction, the whole transaction at its end."""
        ready = used_up(self._transactions.feed_batch(base_offset, found))
        await slices.breathe()
        await slices.run(delta.replay_all(ready))

    def _moved_to(self, end_offset: int, epoch: int, timestamp_ms: int) -> None:
        self.end_offset, self.epoch, self._timestamp_ms = end_offset, epoch, timestamp_ms

    async def _finish(self, delta: MetadataDelta, slices: Slices) -> None:
        """Adopt the replayed state. Inside a transaction the image stays at the offset before it."""
        open_since = self._transactions.open_since
        offset = self.end_offset - 1 if open_since is None else open_since - 1
        if offset > self.image.offset:
            self.image = await slices.run(delta.applied(offset, self.epoch))
        else:
            assert delta.is_empty, "what comes out of a transaction moves the image"

    def _start_at(self, snapshot_id: SnapshotId, loaded: LoadedSnapshot) -> None:
        self.image = loaded.image
        self._transactions = loaded.transactions
        self._moved_to(snapshot_id.end_offset, snapshot_id.epoch, loaded.timestamp_ms)
        self._bytes_since_snapshot = 0
        self._snapshot_taken_ms = self._clock.monotonic_ms()

    def _let_go_below(self, end_offset: int) -> None:
        stored, now_ms = self._stored, self._clock.wall_ms()
        stored.roll()
        stored.maybe_increment_log_start_offset(end_offset)
        stored.delete_old_segments(now_ms)
        stored.flush()
        stored.purge_deleted(now_ms)
        self._files.delete_before(end_offset)
