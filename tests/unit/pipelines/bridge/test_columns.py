"""Rows to be written are taken out of Arrow columns without a mistake: nulls, slices, texts and bytes, headers."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from kvorum.pipelines.bridge.client import OptionError
from kvorum.pipelines.bridge.columns import check_written, outgoing, read_schema
from kvorum.pipelines.frames import HEADERS_TYPE

HEADER = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def test_every_column_is_taken_from_a_slice() -> None:
    """Slices are where offsets of Arrow's buffers are forgotten."""
    rows = [
        {"key": None, "value": "zero", "topic": "t", "partition": 9, "timestamp": None, "headers": [("x", b"0")]},
        {"key": "k", "value": "one", "topic": "t", "partition": None, "timestamp": 1_999, "headers": None},
        {"key": None, "value": None, "topic": "u", "partition": 2, "timestamp": None, "headers": []},
        {"key": "", "value": "", "topic": "u", "partition": 0, "timestamp": -1, "headers": [("a", None), ("b", b"")]},
    ]
    batch = pa.record_batch(
        {
            "key": pa.array([row["key"] for row in rows], pa.string()),
            "value": pa.array([row["value"] for row in rows], pa.large_string()),
            "topic": pa.array([row["topic"] for row in rows]),
            "partition": pa.array([row["partition"] for row in rows], pa.int32()),
            "timestamp": pa.array([row["timestamp"] for row in rows], pa.timestamp("us", "UTC")),
            "headers": pa.array([row["headers"] for row in rows], HEADER),
        }
    )
    rows_taken, is_plain = outgoing(batch.slice(1), None)
    assert not is_plain and list(rows_taken) == [
        ("t", b"one", b"k", -1, 1, None),
        ("u", None, None, 2, 0, None),
        ("u", b"", b"", 0, -1, [("a", None), ("b", b"")]),
    ]
    assert [row[0] for row in outgoing(batch, "all")[0]] == ["all"] * 4


def test_what_is_not_there_or_null_throughout_costs_nothing() -> None:
    batch = pa.record_batch({"value": pa.nulls(2, pa.binary()), "headers": pa.nulls(2, HEADER)})
    taken, is_plain = outgoing(batch, "t")
    assert is_plain and list(taken) == [("t", None, None, -1, 0, None)] * 2


def test_timestamps_keep_their_milliseconds() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
    batch = pa.record_batch({"value": pa.array([b"x"]), "timestamp": pa.array([moment], pa.timestamp("us", "UTC"))})
    assert [row[4] for row in outgoing(batch, "t")[0]] == [int(moment.timestamp() * 1000)]


def test_a_row_without_a_topic_is_told() -> None:
    batch = pa.record_batch({"value": pa.array([b"x", b"y"]), "topic": pa.array(["t", None])})
    with pytest.raises(OptionError, match="a row has no topic"):
        outgoing(batch, None)


@pytest.mark.parametrize(
    ("schema", "topic", "message"),
    [
        ("key string", "t", "needs a column value"),
        ("value string", None, "no topic"),
        ("value int", "t", "column value must be binary or string, found int"),
        ("value string, partition long", "t", "column partition must be int, found bigint"),
        ("value string, timestamp long", "t", "column timestamp must be timestamp or timestamp_ntz"),
        ("value string, headers array<string>", "t", "column headers must be array<struct<key:string,value:binary>>"),
    ],
)
def test_a_frame_that_cannot_be_written_is_refused(schema: str, topic: str | None, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        check_written(parsed(schema), topic)


def test_what_is_read_can_be_written() -> None:
    check_written(read_schema(True), None)
    check_written(StructType([StructField("value", StringType()), StructField("other", LongType())]), "t")
    assert read_schema(False).names == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert read_schema(True)["headers"].dataType == HEADERS_TYPE


def parsed(text: str) -> StructType:
    """Parse the few types of this file without a JVM."""
    from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType

    kinds: dict[str, DataType] = {
        "string": StringType(),
        "int": IntegerType(),
        "long": LongType(),
        "binary": BinaryType(),
        "array<string>": ArrayType(StringType()),
    }
    pairs = [field.split(" ", 1) for field in text.split(", ")]
    return StructType([StructField(name, kinds[kind]) for name, kind in pairs])
