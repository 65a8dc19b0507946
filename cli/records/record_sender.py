"""Sends records with an unmodified producer, one after the other, with their results, and handles signals."""

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

FLUSH_SECONDS: Final = 60.0
STOP_SECONDS: Final = 5.0
"""Time limit of records in flight after a signal; a second signal ends the wait."""
POLL_SECONDS: Final = 0.2
"""librdkafka's calls are not interrupted by a signal, so that none may take longer."""
STOPPED: Final = "the command was stopped before"
ANY_PARTITION: Final = -1
Header = tuple[str, str | bytes | None]
T = TypeVar("T")
DeliveryCallback = Callable[["KafkaError | None", "Message | None"], None]


class ProducerRecord(NamedTuple):
    """A record before it is sent: without a partition the key decides, without a timestamp it is now."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()
    partition: int = ANY_PARTITION
    timestamp: int | None = None


class StopSignal(KeyboardInterrupt):
    """A signal that ends the sending; the message is its name."""


class StopSignals:
    """SIGINT, SIGTERM and SIGHUP while records are sent: raised where input is read, noted everywhere else."""

    def __init__(self) -> None:
        """Start without a signal."""
        self.names: list[str] = []
        self._is_reading = False

    @contextmanager
    def handle(self) -> Iterator[None]:
        """Handle the signals inside this block."""
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {number: signal.signal(number, self._note) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.names.append(signal.Signals(number).name)
        self.check()

    def check(self) -> None:
        """Raise Stopped for a signal that came, if input is being read."""
        if self.names and self._is_reading:
            self._is_reading = False
            raise StopSignal(self.names[0])

    def interrupt_reads(self, records: Iterator[T]) -> Iterator[T]:
        """Yield the items that are read; only reading is interrupted. Raises StopSignal."""
        while True:
            self._is_reading = True
            self.check()
            try:
                record = next(records)
            except StopIteration:
                return
            finally:
                self._is_reading = False
            yield record


class RecordSender:
    """Sends records and counts acknowledgements: a failed record does not stop the others."""

    def __init__(
        self, client: Any, topic: str, on_delivery: DeliveryCallback | None = None, signals: StopSignals | None = None
    ) -> None:
        """Send to this topic; `on_delivery` is called for each record, with its error if it was not acknowledged."""
        self._signals = StopSignals() if signals is None else signals
        self.sent = 0
        self.acknowledged = 0
        self.failed = 0
        self.reason: str | None = None
        """Why the first one failed."""
        self._client = client
        self._topic = topic
        self._on_delivery = on_delivery

    def send(self, record: ProducerRecord) -> None:
        """Hand one record to the client, waiting for room."""
        from confluent_kafka import KafkaException

        named: dict[str, Any] = {} if record.timestamp is None else {"timestamp": record.timestamp}
        if record.partition != ANY_PARTITION:
            named["partition"] = record.partition
        if record.headers:
            named["headers"] = list(record.headers)
        self.sent += 1
        while True:
            try:
                self._client.produce(
                    self._topic, record.value, record.key, on_delivery=self._on_delivery_result, **named
                )
                break
            except BufferError:
                self._client.poll(POLL_SECONDS)
                if self._signals.names:
                    self.failed += 1
                    self.reason = self.reason or STOPPED
                    return
            except KafkaException as error:  # of this record: it is larger than the client sends
                self._on_delivery_result(error.args[0], None)
                break
        self._client.poll(0)

    def finish(self, seconds: float = FLUSH_SECONDS) -> int:
        """Wait for records in flight, after a signal only briefly; return the number of unacknowledged records."""
        signals, begun = len(self._signals.names), time.monotonic()
        limit = min(seconds, STOP_SECONDS) if signals else seconds
        while left := self._client.flush(POLL_SECONDS):
            if len(self._signals.names) > signals:
                if signals:
                    break
                signals, begun, limit = 1, time.monotonic(), STOP_SECONDS
            if time.monotonic() - begun >= limit:
                break
        if left and self.reason is None:
            self.reason = STOPPED if self._signals.names else "timed out"
        return self.failed + int(left)

    def _on_delivery_result(self, error: "KafkaError | None", message: "Message | None") -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.failed += 1
            self.reason = self.reason or f"{error.str()} ({error.name()})"
        if self._on_delivery is not None:
            self._on_delivery(error, message)
