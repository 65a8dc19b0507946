"""A broker's own copy of the metadata log: the storage log `__cluster_metadata-0`, its checkpoints, and their image.

The broker fetches committed batches only, so nothing in the copy is ever taken back; a copy that is lost, or whose end
was cut by a crash, is fetched again. What the image needs at start is the newest checkpoint and the log from there on.

Everything long is done in slices: between two batches (or, within one, every few hundred records) the event loop gets
its turn when SLICE_MS have passed. Only the loader's one task calls in here.
"""

import asyncio
from collections.abc import Iterator
from typing import Final

from kvorum.protocol.errors import KafkaError
from kvorum.protocol.parts import Part
from kvorum.protocol.records import batches
from kvorum.quorum.batches import METADATA_FOLDER, decode_batch
from kvorum.quorum.image import MetadataDelta, MetadataImage, TransactionBuffer
from kvorum.quorum.metadata_log_file import joined, open_metadata_log
from kvorum.quorum.raft.log import SnapshotId
from kvorum.quorum.records import MetadataRecord
from kvorum.quorum.snapshots import PartialSnapshot, SnapshotDamaged, SnapshotFiles, decode_snapshot, encode_snapshot
from kvorum.runtime import blocking
from kvorum.runtime.clock import Clock
from kvorum.runtime.config import Settings
from kvorum.runtime.disk import Disk
from kvorum.runtime.logs import get_logger
from kvorum.storage.log import Log

log = get_logger("quorum")

SLICE_MS: Final = 5
"""Looked at between two batches: with the one in hand the event loop is held for less than 10 ms."""
RECORDS_BETWEEN_LOOKS: Final = 200
"""Some 3 us a record: 200 of them take less than a millisecond."""
RECORDS_APPLIED_AT_ONCE_MAX: Final = 1_000
"""An image that so much leads to is made in some 3 ms; a larger one is made off the loop, which keeps its turns."""
READ_BYTES: Final = 1024 * 1024


class MetadataCopyDiverged(Exception):
    """The controllers do not serve what continues this copy: metadata was lost there, or this is another's copy."""


class Slices:
    """Gives the event loop its turn when a slice is used up."""

    __slots__ = ("_loop", "_started")

    def __init__(self) -> None:
        """Begin a slice."""
        self._loop = asyncio.get_running_loop()
        self._started = self._loop.time()

    async def breathe(self) -> None:
        """Let others run if it is their turn."""
        if (self._loop.time() - self._started) * 1000 >= SLICE_MS:
            await asyncio.sleep(0)
            self._started = self._loop.time()


class MetadataCopy:
    """See above. `image` is what is replayed so far; who publishes it is the loader's business."""

    def __init__(self, stored: Log, files: SnapshotFiles, clock: Clock) -> None:
        """Take over an open log and its checkpoints; `load` comes next."""
        self._stored = stored
        self._files = files
        self._clock = clock
        self._transactions = TransactionBuffer()
        self._timestamp_ms = -1
        self._snapshot_taken_ms = clock.monotonic_ms()
        self._bytes_since_snapshot = 0
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
        """The storage log, to be read by others and changed by nobody else."""
        return self._stored

    @property
    def timestamp_ms(self) -> int:
        """The timestamp of the last batch replayed (ms, wall), -1 before the first."""
        return self._timestamp_ms

    @property
    def log_start_offset(self) -> int:
        """The first offset in the log."""
        return self._stored.log_start_offset

    async def append(self, records: memoryview) -> tuple[MetadataDelta, int]:
        """Store and replay what was fetched; return what changed and the count of batches.

        Raises KafkaError (a damaged batch), UnknownRecord, InvalidTransaction, MetadataCopyDiverged, OSError.

        Batches below the end (a fetch in the middle of a batch returns the whole batch) are passed over.
        """
        slices = Slices()
        delta = MetadataDelta(self.image)
        count = replayed = 0
        for position, header in batches(records):
            if header.next_offset <= self.end_offset:
                continue
            if header.base_offset != self.end_offset:
                raise MetadataCopyDiverged(f"a batch at {header.base_offset} came, expected {self.end_offset}")
            try:
                found = decode_batch(records, position, header)
            except KafkaError:
                if count == 0:
                    raise
                break  # what came before it is whole; the next fetch begins with it
            self._stored.append_as_follower(records[position : position + header.size])
            replayed += await self._replay(delta, header.base_offset, found, slices)
            self._moved_to(header.next_offset, header.partition_leader_epoch, header.max_timestamp)
            self._bytes_since_snapshot += header.size
            count += 1
        self._stored.high_watermark = self.end_offset
        await self._finish(delta, replayed)
        return delta, count

    async def load_snapshot(self, snapshot_id: SnapshotId, part: PartialSnapshot) -> None:
        """Take a fetched snapshot in place of everything. Raises SnapshotDamaged, OSError; then nothing has changed."""
        loop = asyncio.get_running_loop()
        loaded = await _load(snapshot_id, part.chunks())
        await blocking.run(loop, part.finish)
        await blocking.run(loop, self._stored.truncate_fully_and_start_at, snapshot_id.end_offset)
        await blocking.run(loop, self._files.delete_before, snapshot_id.end_offset)
        self._start_at(snapshot_id, *loaded)
        log.info("metadata snapshot loaded", end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch)

    def partial(self, snapshot_id: SnapshotId) -> PartialSnapshot:
        """Begin to receive a snapshot."""
        return self._files.partial(snapshot_id)

    async def clear(self) -> None:
        """Throw the copy away, to fetch all of it again."""
        loop = asyncio.get_running_loop()
        await blocking.run(loop, self._files.delete_before, 1 << 63)
        await blocking.run(loop, self._stored.truncate_fully_and_start_at, 0)
        self._start_at(SnapshotId(end_offset=0, epoch=-1), MetadataImage(), TransactionBuffer(), -1)

    async def snapshot_if_due(self, bytes_max: int, interval_ms: int) -> bool:
        """Write a checkpoint of the image if so much has come, or so long ago, and let go of the log below it."""
        age_ms = self._clock.monotonic_ms() - self._snapshot_taken_ms
        due = self._bytes_since_snapshot >= bytes_max or (0 < interval_ms <= age_ms and self._bytes_since_snapshot > 0)
        if not due or self._transactions.open_since is not None:
            return False
        loop = asyncio.get_running_loop()
        snapshot_id = SnapshotId(end_offset=self.end_offset, epoch=self.epoch)
        chunks = encode_snapshot(self.image.to_records(), self.epoch, self._timestamp_ms)
        size = await blocking.run(loop, self._files.write, snapshot_id, chunks)
        await blocking.run(loop, self._let_go_below, snapshot_id.end_offset)
        self._snapshot_taken_ms = self._clock.monotonic_ms()
        self._bytes_since_snapshot = 0
        log.info("metadata snapshot written", end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch, bytes=size)
        return True

    async def close(self) -> None:
        """Close the log."""
        await blocking.run(asyncio.get_running_loop(), self._stored.close)

    async def _load(self) -> None:
        """Make the image of the newest checkpoint and the log behind it."""
        loop = asyncio.get_running_loop()
        ids = await blocking.run(loop, self._files.ids)
        if ids:
            try:
                self._start_at(ids[-1], *await _load(ids[-1], self._files.read(ids[-1])))
            except SnapshotDamaged as error:
                # Only a copy: the controllers have it whole.
                log.error("metadata snapshot is damaged and thrown away", end_offset=ids[-1].end_offset, reason=error)
                await self.clear()
        stored = self._stored
        if not stored.log_start_offset <= self.end_offset <= stored.log_end_offset:
            # The log's end was lost in a crash, or its start was let go of and the checkpoint is gone.
            log.warning("metadata copy starts over", log_start=stored.log_start_offset, log_end=stored.log_end_offset)
            await blocking.run(loop, stored.truncate_fully_and_start_at, self.end_offset)
        slices = Slices()
        while self.end_offset < stored.log_end_offset:
            parts = await blocking.run(loop, self._read, self.end_offset)
            view = memoryview(joined(parts))
            delta = MetadataDelta(self.image)
            before, replayed = self.end_offset, 0
            for position, header in batches(view):
                if header.next_offset > self.end_offset:
                    found = decode_batch(view, position, header)
                    replayed += await self._replay(delta, header.base_offset, found, slices)
                    self._moved_to(header.next_offset, header.partition_leader_epoch, header.max_timestamp)
                    self._bytes_since_snapshot += header.size
            assert self.end_offset > before, "a read below the end brings at least one batch"
            await self._finish(delta, replayed)
        stored.high_watermark = self.end_offset

    def _read(self, offset: int) -> tuple[Part, ...] | list[Part]:
        end = self._stored.log_end_offset
        return self._stored.read(offset, READ_BYTES, upper_bound_offset=end, min_one_message=True).parts

    async def _replay(self, delta: MetadataDelta, base_offset: int, found: list[MetadataRecord], slices: Slices) -> int:
        """Replay a batch; return the count of records that came to be: none of an open transaction, or all of one."""
        ready = self._transactions.feed_batch(base_offset, found)
        await slices.breathe()
        for index, (offset, record) in enumerate(ready):
            delta.replay(record, offset)
            if index % RECORDS_BETWEEN_LOOKS == RECORDS_BETWEEN_LOOKS - 1:
                await slices.breathe()
        return len(ready)

    def _moved_to(self, end_offset: int, epoch: int, timestamp_ms: int) -> None:
        self.end_offset, self.epoch, self._timestamp_ms = end_offset, epoch, timestamp_ms

    async def _finish(self, delta: MetadataDelta, replayed: int) -> None:
        """Adopt what was replayed. Inside a transaction the image stays at the offset before it."""
        open_since = self._transactions.open_since
        offset = self.end_offset - 1 if open_since is None else open_since - 1
        if offset > self.image.offset:
            if replayed <= RECORDS_APPLIED_AT_ONCE_MAX:
                self.image = delta.apply(offset, self.epoch)
            else:
                self.image = await blocking.run(asyncio.get_running_loop(), delta.apply, offset, self.epoch)
        else:
            assert delta.is_empty, "what comes out of a transaction moves the image"

    def _start_at(
        self, snapshot_id: SnapshotId, image: MetadataImage, transactions: TransactionBuffer, timestamp_ms: int
    ) -> None:
        self.image = image
        self._transactions = transactions
        self._moved_to(snapshot_id.end_offset, snapshot_id.epoch, timestamp_ms)
        self._bytes_since_snapshot = 0
        self._snapshot_taken_ms = self._clock.monotonic_ms()

    def _let_go_below(self, end_offset: int) -> None:
        stored, now_ms = self._stored, self._clock.wall_ms()
        stored.roll()
        stored.maybe_increment_log_start_offset(end_offset)
        stored.delete_old_segments(now_ms)
        stored.purge_deleted(now_ms)
        stored.flush()
        self._files.delete_before(end_offset)


async def _load(snapshot_id: SnapshotId, chunks: Iterator[bytes]) -> tuple[MetadataImage, TransactionBuffer, int]:
    """Return a snapshot's image, the transaction open in it, its last batch's timestamp. Raises SnapshotDamaged."""
    slices = Slices()
    delta = MetadataDelta(MetadataImage())
    transactions = TransactionBuffer()
    last_offset = snapshot_id.end_offset - 1
    timestamp_ms = -1
    for batch_timestamp_ms, found in decode_snapshot(chunks):
        timestamp_ms = batch_timestamp_ms
        for record in found:
            for _, ready in transactions.feed(last_offset, record):
                delta.replay(ready)
        await slices.breathe()
    return delta.apply(last_offset, snapshot_id.epoch), transactions, timestamp_ms
