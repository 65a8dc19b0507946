"""Records as Arrow columns: when read those of Spark's Kafka source, when written those of its sink and a timestamp."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Message
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from kvorum.pipelines.bridge.client import OptionError
from kvorum.pipelines.bridge.offsets import OffsetRange

Header = tuple[str, bytes | None]

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
READ = (
    ("key", BinaryType()),
    ("value", BinaryType()),
    ("topic", StringType()),
    ("partition", IntegerType()),
    ("offset", LongType()),
    ("timestamp", TimestampType()),
    ("timestampType", IntegerType()),
)
# Types of the columns that are written. Other columns are ignored.
WRITTEN: dict[str, tuple[type[DataType], ...]] = {
    "key": (BinaryType, StringType),
    "value": (BinaryType, StringType),
    "topic": (StringType,),
    "partition": (IntegerType,),
    "timestamp": (TimestampType, TimestampNTZType),
    "headers": (ArrayType,),
}
UNASSIGNED = -1
NOW = 0  # for librdkafka: the time of producing


def read_schema(include_headers: bool) -> StructType:
    """Return the columns that are read."""
    fields = [StructField(name, kind) for name, kind in READ]
    return StructType([*fields, StructField("headers", HEADERS)] if include_headers else fields)


def arrow_schema(include_headers: bool) -> pa.Schema:
    """Return the same as an Arrow schema."""
    return to_arrow_schema(read_schema(include_headers), timezone="UTC")


def record_batch(messages: list[Message], offsets: list[int], source: OffsetRange, schema: pa.Schema) -> pa.RecordBatch:
    """Return the messages of one partition as columns. `offsets` are those of the messages."""
    count = len(messages)
    kinds, millis = list[int](), list[int]()
    for message in messages:  # not a list of pairs: the garbage collector would go through them again and again
        kind, stamp = message.timestamp()
        kinds.append(kind)
        millis.append(stamp)
    columns: list[pa.Array[Any]] = [
        pa.array([message.key() for message in messages], pa.binary()),
        pa.array([message.value() for message in messages], pa.binary()),
        pa.repeat(pa.scalar(source.topic, pa.string()), count),
        pa.repeat(pa.scalar(source.partition, pa.int32()), count),
        pa.array(offsets, pa.int64()),
        pc.multiply(pa.array(millis, pa.int64()), 1000).cast(pa.timestamp("us", "UTC")),
        # librdkafka counts from none, Kafka from create time: 0 is create time, 1 the time of the append.
        pc.subtract(pa.array(kinds, pa.int32()), pa.scalar(1, pa.int32())),
    ]
    if len(schema) > len(columns):
        columns.append(pa.array([message.headers() for message in messages], schema.field("headers").type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def check_written(schema: StructType, topic: str | None) -> None:
    """Raise OptionError unless a frame of this schema can be written; `topic`: the topic of all rows, or None."""
    kinds = {field.name: field.dataType for field in schema.fields}
    if "value" not in kinds:
        raise OptionError(f"a frame that is written needs a column value, found {', '.join(kinds) or 'none'}")
    if topic is None and "topic" not in kinds:
        raise OptionError("no topic: set option topic, or give the frame a column topic")
    for name, allowed in WRITTEN.items():
        if name in kinds and not isinstance(kinds[name], allowed):
            words = " or ".join(kind().simpleString() for kind in allowed if kind is not ArrayType)
            expected = words or HEADERS.simpleString()
            raise OptionError(f"column {name} must be {expected}, found {kinds[name].simpleString()}")
    if "headers" in kinds and not are_headers(kinds["headers"]):
        raise OptionError(f"column headers must be {HEADERS.simpleString()}, found {kinds['headers'].simpleString()}")


def are_headers(kind: DataType) -> bool:
    """Return whether a type is that of headers, with values as bytes or text."""
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = [(field.name, type(field.dataType)) for field in kind.elementType.fields]
    return fields in ([("key", StringType), ("value", BinaryType)], [("key", StringType), ("value", StringType)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """The rows of one Arrow batch by column. None: a column that is missing, or null in all rows."""

    keys: list[bytes | None] | None
    values: list[bytes | None]
    topics: list[str] | None
    partitions: list[int] | None
    timestamps_ms: list[int] | None
    headers: list[list[Header] | None] | None

    def rows(self, topic: str | None) -> Iterator[tuple[Any, ...]]:
        """Iterate over (topic, value, key, partition, timestamp, headers)."""
        return zip(
            repeat(topic) if topic is not None else self.topics or (),
            self.values,
            self.keys or repeat(None),
            self.partitions or repeat(UNASSIGNED),
            self.timestamps_ms or repeat(NOW),
            self.headers or repeat(None),
            strict=False,
        )


def outgoing(batch: pa.RecordBatch, topic: str | None) -> Outgoing:
    """Return the columns of a batch that are written. Raises OptionError for a row without a topic."""
    topics: list[Any] | None = None
    if topic is None:
        column = batch.column("topic")
        if column.null_count:
            raise OptionError("a row has no topic: fill column topic, or set option topic")
        topics = column.to_pylist()
    return Outgoing(
        keys=binary(batch, "key"),
        values=binary(batch, "value") or [None] * batch.num_rows,
        topics=topics,
        partitions=filled(batch, "partition", UNASSIGNED),
        timestamps_ms=timestamps(batch),
        headers=headers(batch),
    )


def present(batch: pa.RecordBatch, name: str) -> Any:
    """Return a column (an Arrow array), or None if it is missing or null in all rows."""
    if name not in batch.schema.names:
        return None
    column = batch.column(name)
    return None if column.null_count == len(column) else column


def binary(batch: pa.RecordBatch, name: str) -> list[bytes | None] | None:
    """Return a column of text or bytes as bytes."""
    column = present(batch, name)
    if column is None:
        return None
    if pa.types.is_string(column.type):
        column = column.cast(pa.binary())
    elif pa.types.is_large_string(column.type):
        column = column.cast(pa.large_binary())
    values: list[bytes | None] = column.to_pylist()
    return values


def filled(batch: pa.RecordBatch, name: str, default: int) -> list[int] | None:
    """Return a column of numbers, with nulls replaced."""
    column = present(batch, name)
    return None if column is None else column.fill_null(default).to_pylist()


def timestamps(batch: pa.RecordBatch) -> list[int] | None:
    """Return the column timestamp in milliseconds, rounded down; nulls are the time of producing."""
    column = present(batch, "timestamp")
    if column is None:
        return None
    micros = column.cast(pa.timestamp("us")).cast(pa.int64())
    millis = pc.cast(pc.floor(pc.divide(micros.cast(pa.float64()), 1000.0)), pa.int64())
    numbers: list[Any] = millis.fill_null(NOW).to_pylist()
    return numbers


def headers(batch: pa.RecordBatch) -> list[list[Header] | None] | None:
    """Return each row's headers, None for a row without."""
    column = present(batch, "headers")
    if column is None:
        return None
    keys, values = column.flatten().flatten()
    pairs: list[Header] = list(zip(keys.to_pylist(), values.to_pylist(), strict=True))
    rows: list[list[Header] | None] = []
    position = 0
    for count in column.value_lengths().fill_null(0).to_pylist():
        rows.append(pairs[position : position + count] if count else None)
        position += count
    return rows
