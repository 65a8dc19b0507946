"""Records handed to an unmodified producer one after the other, and what became of them."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

FLUSH_SECONDS: Final = 60.0
ANY_PARTITION: Final = -1
Header = tuple[str, str | bytes | None]
Told = Callable[["KafkaError | None", "Message | None"], None]


class Outgoing(NamedTuple):
    """A record before it is sent: without a partition the key decides, without a timestamp it is now."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()
    partition: int = ANY_PARTITION
    timestamp: int | None = None


class Sending:
    """Sends records and counts what was acknowledged: one that cannot be sent stops no other."""

    def __init__(self, client: Any, topic: str, told: Told | None = None) -> None:
        """Send to this topic; `told` hears of each record, with its error if it was not acknowledged."""
        self.sent = 0
        self.acknowledged = 0
        self.failed = 0
        self.reason: str | None = None
        """Why the first one was not."""
        self._client = client
        self._topic = topic
        self._told = told

    def send(self, record: Outgoing) -> None:
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
                self._client.produce(self._topic, record.value, record.key, on_delivery=self._delivered, **named)
                break
            except BufferError:
                self._client.poll(1.0)
            except KafkaException as error:  # of this record: it is larger than the client sends
                self._delivered(error.args[0], None)
                break
        self._client.poll(0)

    def finish(self, seconds: float = FLUSH_SECONDS) -> int:
        """Wait for what is under way; return how many records were not acknowledged in all."""
        left = self._client.flush(seconds)
        if left and self.reason is None:
            self.reason = "timed out"
        return self.failed + int(left)

    def _delivered(self, error: "KafkaError | None", message: "Message | None") -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.failed += 1
            self.reason = self.reason or str(error)
        if self._told is not None:
            self._told(error, message)
