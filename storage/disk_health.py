"""Health of the disk under one log: the first failure takes the log out of use, and is reported once.

Lack of descriptors or memory (runtime.disk.PROCESS_ERRNOS) is not a disk failure: the operation fails with
KAFKA_STORAGE_ERROR, which clients retry, and the log stays in service. This applies to operations that can be retried
from the start. An incomplete one (`change`) takes the log out of use.
"""

from collections.abc import Callable
from types import TracebackType
from typing import Final

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.runtime.clock import Clock
from kvorum.runtime.disk import is_process_error
from kvorum.runtime.logs import get_logger
from kvorum.storage.segment import CorruptSegment

LACK_LOG_INTERVAL_MS: Final = 10_000

log = get_logger("storage")


class LackLog:
    """Logs that the process lacks descriptors or memory, at most one line in LACK_LOG_INTERVAL_MS."""

    __slots__ = ("_due_ms", "_failures")

    def __init__(self) -> None:
        """Start without log lines."""
        self._due_ms = 0
        self._failures = 0

    def failed(self, partition: TopicPartition, error: Exception, now_ms: int) -> None:
        """Count an operation that failed, and log it if a line is due."""
        self._failures += 1
        if now_ms >= self._due_ms:
            text = "log operation failed: no descriptors or memory"
            log.warning(text, partition=partition, error=error, failures=self._failures)
            self._due_ms, self._failures = now_ms + LACK_LOG_INTERVAL_MS, 0


lack_log: Final = LackLog()
"""The instance of this process."""


class Access:
    """A use of the disk: its errors become KAFKA_STORAGE_ERROR, and the log is taken out of use.

    A class with one object per log: a generator's context would cost as much as a small append.
    """

    __slots__ = ("_health", "_may_retry")

    def __init__(self, health: "DiskHealth", may_retry: bool) -> None:
        """Belong to a log."""
        self._health = health
        self._may_retry = may_retry

    def __enter__(self) -> None:
        """Begin, if the log may be used. Raises KafkaError."""
        self._health.check()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End. Raises KafkaError."""
        if isinstance(error, OSError | CorruptSegment):
            if self._may_retry and is_process_error(error):
                raise self._health.lacking(error)
            raise self._health.failed(error)


class DiskHealth:
    """Health of one log. `failure` is set once the log is permanently out of use."""

    __slots__ = ("_access", "_change", "_clock", "_on_io_error", "_partition", "failure")

    def __init__(
        self, partition: TopicPartition, on_io_error: Callable[[Exception], None] | None, clock: Clock
    ) -> None:
        """Start well. `on_io_error` is called once, when the disk fails."""
        self._partition = partition
        self._clock = clock
        self._on_io_error = on_io_error
        self.failure: Exception | None = None
        self._access = Access(self, may_retry=True)
        self._change = Access(self, may_retry=False)

    def check(self) -> None:
        """Raise KafkaError KAFKA_STORAGE_ERROR once the log is out of use."""
        if self.failure is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory of {self._partition} is offline")

    def access(self) -> Access:
        """Return the context of an operation that may be tried again if the process lacks descriptors or memory."""
        return self._access

    def change(self) -> Access:
        """Return the context of an operation that must not end half done, such as a truncation."""
        return self._change

    def lacking(self, error: Exception) -> KafkaError:
        """Return what to raise where the process lacks descriptors or memory; the log stays in service."""
        lack_log.failed(self._partition, error, self._clock.monotonic_ms())
        return self._storage_error(error)

    def failed(self, error: Exception) -> KafkaError:
        """Take the log offline, call the listener; return the exception to raise."""
        is_news = self.failure is None
        self.failure = error
        if is_news and self._on_io_error is not None:
            self._on_io_error(error)
        return self._storage_error(error)

    def _storage_error(self, error: Exception) -> KafkaError:
        """Return the error with its cause, from which cluster.exits recognises a full disk.

        mypyc compiles `raise ... from` as `raise` alone, so the cause is set here.
        """
        storage_error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self._partition}: {error}")
        storage_error.__cause__ = error
        return storage_error

    def abandon(self, error: Exception) -> None:
        """Take the log offline without calling the listener. The first reason is kept."""
        if self.failure is None:
            self.failure = error
