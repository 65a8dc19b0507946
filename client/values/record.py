"""Records: those that are read, those to write, and the result of a write.

Source: Kafka's ConsumerRecord, ProducerRecord, RecordMetadata.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kvorum.protocol import records
from kvorum.protocol.errors import KafkaException

Header = tuple[str, bytes | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record of a topic."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    """None: a tombstone."""
    headers: tuple[Header, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRecord:
    """A record to write; texts are written as UTF-8."""

    value: bytes | str | None
    """None: a tombstone."""
    key: bytes | str | None = None
    headers: Sequence[tuple[str, bytes | str | None]] = ()
    partition: int | None = None
    """None: selected by the key as in the Java client; without a key one at random for all records of a call."""
    timestamp_ms: int | None = None
    """None: now."""

    def __post_init__(self) -> None:
        """Raise ValueError for a negative timestamp, which means none in a batch."""
        if self.timestamp_ms is not None and self.timestamp_ms < 0:
            raise ValueError(f"timestamp_ms must not be negative: {self.timestamp_ms}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordMetadata:
    """Result of a write of a record."""

    topic: str
    partition: int
    offset: int | None
    """None: it was rejected, or the leader did not respond."""
    timestamp_ms: int
    error: KafkaException | None = None
    """None: it is written. Unreachable: no response; the record may or may not be written."""


def record_value(topic: str, partition: int, record: records.Record) -> Record:
    """Return a record of a batch."""
    return Record(
        topic=topic,
        partition=partition,
        offset=record.offset,
        timestamp_ms=record.timestamp,
        key=record.key,
        value=record.value,
        headers=record.headers,
    )


def batch_record(record: NewRecord, now_ms: int) -> records.Record:
    """Return a record to write in the format of batches."""
    return records.Record(
        key=encode(record.key),
        value=encode(record.value),
        timestamp=now_ms if record.timestamp_ms is None else record.timestamp_ms,
        headers=tuple((name, encode(value)) for name, value in record.headers),
    )


def encode(data: bytes | str | None) -> bytes | None:
    """Return bytes as they are, and texts as UTF-8."""
    return data.encode() if isinstance(data, str) else data
