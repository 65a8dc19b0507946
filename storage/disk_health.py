"""Whether the disk under one log still works: the first failure ends the log's use, and is told once."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.storage.names import TopicPartition
from kvorum.storage.segment import CorruptSegment


class DiskHealth:
    """Of one log. `failure` is set once the log is not to be used any more, for good."""

    __slots__ = ("_on_io_error", "_partition", "failure")

    def __init__(self, partition: TopicPartition, on_io_error: Callable[[Exception], None] | None) -> None:
        """Start well. `on_io_error` is called once, when the disk fails."""
        self._partition = partition
        self._on_io_error = on_io_error
        self.failure: Exception | None = None

    def check(self) -> None:
        """Raise KafkaError KAFKA_STORAGE_ERROR once the log is not to be used any more."""
        if self.failure is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory of {self._partition} is offline")

    @contextmanager
    def access(self) -> Iterator[None]:
        """Turn what the disk raises into KAFKA_STORAGE_ERROR, and give the log up."""
        self.check()
        try:
            yield
        except (OSError, CorruptSegment) as error:
            raise self.failed(error) from error

    def failed(self, error: Exception) -> KafkaError:
        """Give the log up, tell the listener; return what to raise."""
        is_news = self.failure is None
        self.failure = error
        if is_news and self._on_io_error is not None:
            self._on_io_error(error)
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self._partition}: {error}")

    def abandon(self, error: Exception) -> None:
        """Use the log no more, and tell nobody: whoever says so knows. The first reason stays."""
        if self.failure is None:
            self.failure = error
