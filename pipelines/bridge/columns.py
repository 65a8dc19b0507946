"""Records as Arrow columns: when read those of Spark's Kafka source, when written those of its sink and a timestamp."""

from collections.abc import Iterator
from itertools import islice, repeat
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Message
from pyspark.sql import types as T

from kvorum.pipelines.bridge.client import OptionError
from kvorum.pipelines.bridge.offsets import OffsetRange
from kvorum.pipelines.frames import COLUMNS, HEADERS_TYPE

Header = tuple[str, bytes | None]

TEXT: Final = (T.BinaryType, T.StringType)
# Types of the columns that are written. Other columns are ignored.
WRITTEN: dict[str, tuple[type[T.DataType], ...]] = {
    "key": TEXT,
    "value": TEXT,
    "topic": (T.StringType,),
    "partition": (T.IntegerType,),
    "timestamp": (T.TimestampType, T.TimestampNTZType),
    "headers": (T.ArrayType,),
}
UNASSIGNED = -1
NOW = 0  # for librdkafka: the time of producing


def read_schema(include_headers: bool) -> T.StructType:
    """Return the columns that are read."""
    schema = T.StructType()
    for name, kind in COLUMNS.items():
        if include_headers or name != "headers":
            schema.add(name, kind)
    return schema


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


def check_written(schema: T.StructType, topic: str | None) -> None:
    """Raise OptionError unless a frame of this schema can be written; `topic`: the topic of all rows, or None."""
    kinds = {field.name: field.dataType for field in schema.fields}
    if "value" not in kinds:
        raise OptionError(f"a frame that is written needs a column value, found {', '.join(kinds) or 'none'}")
    if topic is None and "topic" not in kinds:
        raise OptionError("no topic: set option topic, or give the frame a column topic")
    for name, allowed in WRITTEN.items():
        kind = kinds.get(name)
        if kind is not None and (not isinstance(kind, allowed) or (name == "headers" and not _are_headers(kind))):
            simple = " or ".join(each().simpleString() for each in allowed if each is not T.ArrayType)
            expected = simple or HEADERS_TYPE.simpleString()
            raise OptionError(f"column {name} must be {expected}, found {kind.simpleString()}")


def _are_headers(kind: T.DataType) -> bool:
    """Return whether a type is that of headers, with values as bytes or text."""
    element = kind.elementType if isinstance(kind, T.ArrayType) else None
    if not isinstance(element, T.StructType) or element.names != ["key", "value"]:
        return False
    return isinstance(element["key"].dataType, T.StringType) and isinstance(element["value"].dataType, TEXT)


def outgoing(batch: pa.RecordBatch, topic: str | None) -> tuple[Iterator[tuple[Any, ...]], bool]:
    """Return the rows of a batch, and whether none of them has a timestamp or headers.

    A row is (topic, value, key, partition, timestamp in ms, headers). Raises OptionError for a row without a topic.
    """
    if topic is None and batch.column("topic").null_count:
        raise OptionError("a row has no topic: fill column topic, or set option topic")
    partitions, timestamps, headers = (_present(batch, name) for name in ("partition", "timestamp", "headers"))
    rows = zip(
        repeat(topic) if topic is not None else batch.column("topic").to_pylist(),
        _binary(batch, "value"),
        _binary(batch, "key"),
        repeat(UNASSIGNED) if partitions is None else partitions.fill_null(UNASSIGNED).to_pylist(),
        repeat(NOW) if timestamps is None else _millis(timestamps),
        repeat(None) if headers is None else _headers(headers),
        strict=False,
    )
    return rows, timestamps is None and headers is None


def _present(batch: pa.RecordBatch, name: str) -> Any:
    """Return a column (an Arrow array), or None if it is missing or null in all rows."""
    column = batch.column(name) if name in batch.schema.names else None
    return None if column is None or column.null_count == len(column) else column


def _binary(batch: pa.RecordBatch, name: str) -> list[bytes | None]:
    """Return a column of text or bytes as bytes."""
    column = _present(batch, name)
    if column is None:
        return [None] * batch.num_rows
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = column.cast(pa.binary() if pa.types.is_string(column.type) else pa.large_binary())
    values: list[bytes | None] = column.to_pylist()
    return values


def _millis(column: Any) -> list[int]:
    """Return timestamps in milliseconds, rounded down; nulls are the time of producing."""
    micros = column.cast(pa.timestamp("us")).cast(pa.int64())
    millis = pc.cast(pc.floor(pc.divide(micros.cast(pa.float64()), 1000.0)), pa.int64())
    numbers: list[Any] = millis.fill_null(NOW).to_pylist()
    return numbers


def _headers(column: Any) -> list[list[Header] | None]:
    """Return each row's headers, None for a row without."""
    keys, values = column.flatten().flatten()
    pairs: Iterator[Header] = zip(keys.to_pylist(), values.to_pylist(), strict=True)
    return [list(islice(pairs, count)) or None for count in column.value_lengths().fill_null(0).to_pylist()]
