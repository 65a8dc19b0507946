"""`__cluster_metadata` as clients read it: this broker's own copy of the metadata log, one partition led by itself.

The loader follows the log from the active controller and keeps the copy; records up to the newest published image are
readable here. Clients cannot append to it, so `high watermark` and `log end` are equal. While the loader trims its
start in a thread, for some milliseconds after a snapshot, readers have to retry.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from kvorum.broker.replica.types import LogRead
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.parts import Part
from kvorum.runtime.ordered_set import OrderedSet
from kvorum.storage.epoch_cache import UNDEFINED_EPOCH, EpochEndOffset
from kvorum.storage.log_read import TimestampOffset

PARTITION: Final = 0


class Readable(Protocol):
    """Result of a read."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """The batches' bytes."""
        ...

    @property
    def size(self) -> int:
        """Their length."""
        ...


class MetadataLogCopy(Protocol):
    """The copy, as far as this module needs it (`storage.log.Log`)."""

    @property
    def log_start_offset(self) -> int:
        """The first offset there is."""
        ...

    @property
    def high_watermark(self) -> int:
        """One past the last offset that may be read."""
        ...

    @property
    def latest_epoch(self) -> int | None:
        """The newest epoch in it."""
        ...

    def read(self, offset: int, max_bytes: int, upper_bound_offset: int, min_one_message: bool) -> Readable:
        """Return whole batches from the one that holds `offset`."""
        ...

    def end_offset_for_epoch(self, epoch: int) -> EpochEndOffset:
        """Return the largest known epoch not above this one, and its end."""
        ...

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """Return the first record of at least this timestamp (ms)."""
        ...

    def offset_of_max_timestamp(self) -> TimestampOffset | None:
        """Return the first record with the greatest timestamp."""
        ...


class MetadataLogReader:
    """Reads the copy, and wakes readers that wait for more records."""

    __slots__ = ("_copy", "_leader_epoch", "_published", "_waiting")

    def __init__(self, copy: Callable[[], MetadataLogCopy | None], published: Callable[[], int] | None = None) -> None:
        """`copy` returns the copy, None while it is not open or must not be read.

        `published` returns the offset after the image in use by this broker; None: the whole copy is published.
        """
        self._copy = copy
        self._published = published
        self._leader_epoch = UNDEFINED_EPOCH
        self._waiting: OrderedSet[asyncio.Future[None]] = OrderedSet()

    @property
    def leader_epoch(self) -> int:
        """The epoch this broker leads its copy in: that of the newest batch; the last one known while none is read."""
        copy = self._copy()
        if copy is not None:
            epoch = copy.latest_epoch
            self._leader_epoch = UNDEFINED_EPOCH if epoch is None else epoch
        return self._leader_epoch

    def log(self, current_leader_epoch: int) -> MetadataLogCopy:
        """Return the copy, to be read before any await.

        A reader with an older epoch is accepted: the metadata log's epochs change during reads, and nothing is
        truncated.

        Raises:
            KafkaError: OFFSET_NOT_AVAILABLE (it is unreadable now; LEADER_NOT_AVAILABLE would mean the same, but
                Java's consumer treats it as an error in a Fetch), UNKNOWN_LEADER_EPOCH (the reader's is above ours).
        """
        copy = self._copy()
        if copy is None:
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, "the metadata log is not available")
        if current_leader_epoch > self.leader_epoch:
            raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH, f"the current leader epoch is {self.leader_epoch}")
        if self.end(copy) < copy.log_start_offset:
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, "a loaded snapshot is not published yet")
        return copy

    def end(self, copy: MetadataLogCopy) -> int:
        """Return the readable end of the copy: it is replayed before any response uses it."""
        return copy.high_watermark if self._published is None else min(copy.high_watermark, self._published())

    def read(self, offset: int, max_bytes: int, current_leader_epoch: int, min_one_message: bool) -> LogRead:
        """Return the records from `offset` on. Raises KafkaError OFFSET_OUT_OF_RANGE; errors of `log` and Log.read."""
        copy = self.log(current_leader_epoch)
        start, end = copy.log_start_offset, self.end(copy)
        if not start <= offset <= end:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is not within [{start}, {end}]")
        if offset == end:
            return LogRead((), 0, end, end, start, end)
        info = copy.read(offset, max_bytes, end, min_one_message)
        return LogRead(info.parts, info.size, end, end, start, end)

    def moved(self) -> "asyncio.Future[None]":
        """Return a future that completes at the next change. Cancel it when it is no longer needed."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        future.add_done_callback(self._waiting.discard)
        return future

    def wake(self) -> None:
        """Wake all waiters after a publication."""
        self._leader_epoch = self.leader_epoch  # known from now on, also while the copy cannot be read
        for future in tuple(self._waiting):
            if not future.done():
                future.set_result(None)
