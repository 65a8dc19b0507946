"""An append that is applied completely or not at all.

All checks of an append come before its first byte is written. After that only the disk can fail, which takes the log
out of service, or an unexpected error occurs: then the bytes are removed again, because a recovery would find a
complete batch there and take it for an acknowledged one.
"""

from collections.abc import Callable
from types import TracebackType

from kvorum.runtime.disk import is_process_error
from kvorum.storage.disk_health import DiskHealth
from kvorum.storage.epoch_cache import EpochCache
from kvorum.storage.local_log import LocalLog
from kvorum.storage.log_producers import LogProducers
from kvorum.storage.segment import CorruptSegment, Segment


class AtomicAppend:
    """The context of every append of one log. Converts errors of the disk to KafkaError KAFKA_STORAGE_ERROR."""

    __slots__ = ("_active", "_end_offset", "_epochs", "_health", "_local", "_producers", "_size", "_wall_ms")

    def __init__(
        self,
        health: DiskHealth,
        local: LocalLog,
        producers: LogProducers,
        epochs: EpochCache,
        wall_ms: Callable[[], int],
    ) -> None:
        """Belong to a log."""
        self._health = health
        self._local = local
        self._producers = producers
        self._epochs = epochs
        self._wall_ms = wall_ms
        self._end_offset = self._size = 0
        self._active: Segment = local.segments.active

    def __enter__(self) -> None:
        """Remember where the log ends."""
        local = self._local
        self._end_offset = local.log_end_offset
        self._active = active = local.segments.active
        self._size = active.size

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End: nothing to do unless something was raised."""
        if error is None:
            return
        if isinstance(error, OSError | CorruptSegment):
            if not is_process_error(error):
                raise self._health.failed(error)
            self._undo(error)
            raise self._health.lacking(error)
        if isinstance(error, Exception):
            self._undo(error)

    def _undo(self, error: Exception) -> None:
        """Cut the log back to where the append began; give the log up if that fails."""
        active = self._local.segments.active
        if is_process_error(error) and active is self._active and active.size == self._size:
            return  # it lacked a descriptor before the write
        try:
            self._local.truncate_to(self._end_offset, self._wall_ms())
            self._epochs.truncate_from_end(self._end_offset + 1)
            self._producers.rewind(self._local, self._end_offset)
        except Exception as failure:
            raise self._health.failed(failure) from error
