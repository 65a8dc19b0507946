"""A controller's metadata: the committed image, and the metadata log as a normal log.

Batches that Raft has applied arrive in order (MetadataLogListener), are written to the storage log
`__cluster_metadata-0` with the offsets and epochs in their bytes, and replayed into the image. Raft's journal makes
them durable; brokers (and kafka-dump-log) read the storage log, which may therefore be behind the entries that Raft
applies again after a start, or ahead of them:

    batch at the log's end            appended
    batch below the log's end         compared with the stored one: equal or the node stops
    snapshot, and the log continues from its end or begins there     the log is kept
    snapshot, anything else                                        the log is emptied and begins at the snapshot's end

Raises MetadataMismatch if the two cannot be reconciled: the node must stop, because its answers could be wrong. A
controller ends with it if it held entries that were given up when another was readmitted by force.
"""

import asyncio
from collections.abc import Callable
from itertools import chain
from typing import Final

from kvorum.protocol.batch_header import parse_header
from kvorum.quorum.batches import decode_batch
from kvorum.quorum.image import MetadataDelta, MetadataImage, TransactionBuffer
from kvorum.quorum.metadata_log_file import joined
from kvorum.quorum.raft.log import WHAT_TO_DO, SnapshotContent, SnapshotView
from kvorum.quorum.records import MetadataRecord
from kvorum.quorum.snapshots import encode_snapshot, load_snapshot
from kvorum.quorum.steps import STEP_COUNT, Steps, finish, used_up
from kvorum.runtime import blocking
from kvorum.runtime.clock import Clock
from kvorum.runtime.logs import get_logger
from kvorum.runtime.ordered_set import OrderedSet
from kvorum.storage.log import Log
from kvorum.storage.log_read import ReadInfo

log = get_logger("quorum")

NO_TIMESTAMP: Final = -1


class MetadataMismatch(Exception):
    """The stored metadata log differs from Raft's committed log (WHAT_TO_DO), or the folder was modified."""


class MetadataStore:
    """Stores the committed metadata log and image. One per controller, on its event loop; the source of snapshots."""

    def __init__(self, stored: Log, clock: Clock) -> None:
        """Start with the empty image over an opened storage log; the metadata log brings everything else."""
        self._stored = stored
        self._clock = clock
        self._image = MetadataImage()
        self._transactions = TransactionBuffer()
        self._end_offset = 0
        self._epoch = -1
        self._timestamp_ms = NO_TIMESTAMP
        self._waiters: OrderedSet[asyncio.Future[None]] = OrderedSet()
        self.leader_changed = asyncio.Event()
        """Set when another controller leads, or none."""
        self.on_change: Callable[[MetadataDelta], Steps[None]] | None = None
        """Driven with what committed records change, right before `image` has it; for metrics."""

    @property
    def image(self) -> MetadataImage:
        """The committed image; never shows part of a transaction."""
        return self._image

    @property
    def end_offset(self) -> int:
        """One past the last applied record: the high watermark that is served."""
        return self._end_offset

    @property
    def epoch(self) -> int:
        """The epoch of the last applied batch, -1 before the first."""
        return self._epoch

    @property
    def timestamp_ms(self) -> int:
        """The timestamp of the last applied batch, -1 before the first."""
        return self._timestamp_ms

    @property
    def in_transaction(self) -> bool:
        """Return whether a large change is incomplete."""
        return self._transactions.open_since is not None

    @property
    def log_start_offset(self) -> int:
        """The first offset that can be fetched; earlier records are in the snapshot."""
        return self._stored.log_start_offset

    def read(self, offset: int, max_bytes: int) -> ReadInfo:
        """Read whole committed batches from the one that holds `offset`; at least one. Raises as storage's Log.read."""
        return self._stored.read(offset, max_bytes, upper_bound_offset=self._end_offset, min_one_message=True)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return (epoch, end offset) of the largest epoch not above this one (KIP-101); (-1, -1) if unknown."""
        found = self._stored.end_offset_for_epoch(epoch)
        return found.epoch, min(found.end_offset, self._end_offset)

    async def wait_for_offset(self, end_offset: int) -> None:
        """Wait until everything below this offset is applied."""
        while self._end_offset < end_offset:
            await self.changed()

    def changed(self) -> "asyncio.Future[None]":
        """Return a future that completes when a batch is applied, or at `wake`. Cancel it when no longer needed."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        waiter.add_done_callback(self._waiters.discard)
        return waiter

    def wake(self) -> None:
        """Wake all waiters."""
        for waiter in tuple(self._waiters):
            if not waiter.done():
                waiter.set_result(None)

    # MetadataLogListener. The state that readers see changes in the last step, all of it at once.

    def on_batch_applied(self, base_offset: int, epoch: int, timestamp_ms: int, batch: bytes) -> Steps[None] | None:
        """Store the batch and replay it; the one that ends a transaction replays all of that."""
        view = memoryview(batch)
        header = parse_header(view)
        if base_offset != self._end_offset or header.base_offset != base_offset:
            raise MetadataMismatch(f"applied a batch at {header.base_offset}, expected {self._end_offset}")
        self._store(base_offset, batch, header.next_offset)
        ready = self._transactions.feed_batch(base_offset, decode_batch(view, 0, header))
        steps = self._replay(ready, header.next_offset, epoch, timestamp_ms)
        return steps if len(ready) > STEP_COUNT else finish(steps)

    def _replay(
        self, ready: list[tuple[int, MetadataRecord]], end_offset: int, epoch: int, timestamp_ms: int
    ) -> Steps[None]:
        """Replay the records, which are used up."""
        delta, is_something = MetadataDelta(self._image), bool(ready)
        if is_something or not self.in_transaction:
            records = used_up(ready)
            yield from delta.replay_all(records)
            image = yield from delta.applied(end_offset - 1, epoch)
            if self.on_change is not None and is_something:
                yield from self.on_change(delta)
            self._image = image
        self._end_offset = end_offset
        self._epoch = epoch
        self._timestamp_ms = timestamp_ms
        self.wake()
        yield from delta.let_go()

    def on_snapshot_loaded(self, snapshot: SnapshotView) -> Steps[None]:
        """Use the snapshot's image, and restart the stored log from it."""
        end_offset, epoch = snapshot.snapshot_id.end_offset, snapshot.snapshot_id.epoch
        loaded = yield from load_snapshot(snapshot.snapshot_id, snapshot.chunks())
        self._image = loaded.image
        self._transactions = loaded.transactions
        self._timestamp_ms = loaded.timestamp_ms
        self._end_offset = end_offset
        self._epoch = epoch
        if not self._continues(end_offset, epoch):
            log.info("metadata log restarted from snapshot", end_offset=end_offset, epoch=epoch)
            self._stored.truncate_fully_and_start_at(end_offset)
        self.wake()

    def on_leader_changed(self, leader_id: int | None, epoch: int) -> None:
        """Wake the waiting Fetches."""
        self.leader_changed.set()
        self.wake()

    def on_active(self, epoch: int) -> None:
        """See MetadataLogListener."""
        if self._stored.log_end_offset > self._end_offset:
            # All entries that were ever applied anywhere are applied here now; later ones never were.
            raise MetadataMismatch(
                f"the stored log ends at {self._stored.log_end_offset}, after the committed end {self._end_offset}; "
                f"{WHAT_TO_DO}"
            )

    def on_inactive(self) -> None:
        """Wake the waiting Fetches."""
        self.wake()

    # SnapshotSource

    def capture(self) -> SnapshotContent:
        """Return the image as a snapshot, followed by the records of an open transaction, its marker first."""
        records = chain(self._image.to_records(), self._transactions.open_records())
        return SnapshotContent(chunks=encode_snapshot(records, self._epoch, self._timestamp_ms))

    def _store(self, base_offset: int, batch: bytes, next_offset: int) -> None:
        """Append the batch, or find it where it is already."""
        stored = self._stored
        if base_offset == stored.log_end_offset:
            stored.append_as_follower(memoryview(batch))
            stored.high_watermark = next_offset
            return
        if base_offset > stored.log_end_offset:
            raise MetadataMismatch(
                f"the stored log ends at {stored.log_end_offset}, the next batch is at {base_offset}; {WHAT_TO_DO}"
            )
        stored.high_watermark = max(stored.high_watermark, next_offset)
        if base_offset < stored.log_start_offset:
            return
        info = stored.read(base_offset, len(batch), upper_bound_offset=next_offset, min_one_message=True)
        if joined(info.parts)[: len(batch)] != batch:
            raise MetadataMismatch(f"the stored batch at {base_offset} is not the committed one; {WHAT_TO_DO}")

    def _continues(self, end_offset: int, epoch: int) -> bool:
        """Return whether the stored log contains a snapshot's end with the same history."""
        stored = self._stored
        if not stored.log_start_offset <= end_offset <= stored.log_end_offset:
            return False
        if end_offset in (0, stored.log_start_offset):
            return True
        found = stored.end_offset_for_epoch(epoch)
        return found.epoch == epoch and found.end_offset >= end_offset

    @property
    def log_size(self) -> int:
        """Bytes of the stored log."""
        return self._stored.size

    async def begin_segment(self) -> None:
        """Close the active segment and sync the log after it, outside the event loop. Raises KafkaError, OSError."""
        self._stored.roll()
        plan = self._stored.begin_flush(include_active=False)
        await blocking.run(asyncio.get_running_loop(), plan.run)
        self._stored.complete_flush(plan)

    def trim(self, start_offset: int) -> None:
        """Remove the log below an offset that a snapshot covers. Raises KafkaError KAFKA_STORAGE_ERROR."""
        if start_offset > self._stored.log_start_offset:
            self._stored.maybe_increment_log_start_offset(start_offset)
            now_ms = self._clock.wall_ms()
            self._stored.delete_old_segments(now_ms)
            self._stored.purge_deleted(now_ms)

    async def close(self) -> None:
        """Make the stored log durable and release it."""
        await blocking.run(asyncio.get_running_loop(), self._stored.close)
