"""Avro by fastavro: each logical type exactly, or a failure that names the field."""

import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from fastavro.read import LOGICAL_READERS
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kvorum.pipelines.formats import avro
from kvorum.pipelines.formats.base import FormatError, with_integers


def record(*fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields]}


def logical(kind: str, logical_type: str, /, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": logical_type, **more}


def without_logical(schema: Any) -> Any:
    """Return a schema of plain types, to write any bytes."""
    if isinstance(schema, dict):
        kept = {key: without_logical(value) for key, value in schema.items() if key != "logicalType"}
        return {key: value for key, value in kept.items() if key not in ("precision", "scale")}
    return [without_logical(one) for one in schema] if isinstance(schema, list) else schema


def bytes_of(schema: Any, value: Any) -> bytes:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(json.loads(json.dumps(without_logical(schema)))), value)
    return buffer.getvalue()


def read(schema: Any, *data: bytes, writer: Any = None) -> list[dict[str, Any]]:
    reader = avro.parsed(schema)
    kind = avro.spark_type(reader)
    found = avro.decoded({None: avro.parsed(writer or schema)}, reader, kind, pa.array(data, pa.binary()))
    integers = with_integers(found.type)
    rows: list[dict[str, Any]] = found.cast(integers).to_pylist()
    return rows


FAR = 9_000_000_000_000_000  # microseconds: the year 2255; with three more digits beyond Python's years
# (schema, what the bytes hold, value or the error's beginning)
TABLE: list[tuple[Any, Any, Any]] = [
    (logical("long", "timestamp-millis"), 1583020799123, 1583020799123000),
    (logical("long", "timestamp-millis"), -FAR, -FAR * 1000),
    (logical("long", "timestamp-millis"), 2**62, "field f: 4611686018427387904 ms is out of the range of timestamp"),
    (logical("long", "timestamp-micros"), FAR * 1000 + 1, FAR * 1000 + 1),
    (logical("long", "local-timestamp-millis"), -1, -1000),
    (logical("long", "local-timestamp-micros"), -1, -1),
    (logical("long", "timestamp-nanos"), 1583020799123456789, 1583020799123456789),
    (logical("int", "date"), 5_000_000, 5_000_000),
    (logical("int", "time-millis"), 86_399_999, 86_399_999),
    (logical("long", "time-micros"), 86_399_999_999, 86_399_999_999),
    (logical("bytes", "decimal", precision=4, scale=2), (1234).to_bytes(2), Decimal("12.34")),
    (logical("bytes", "decimal", precision=4, scale=2), b"\x00\x00\x04\xd2", Decimal("12.34")),
    (logical("bytes", "decimal", precision=4, scale=2), (123456).to_bytes(3), "field f: 1234.56 is out of the range"),
    (logical("bytes", "decimal", precision=38), (10**38 - 1).to_bytes(16), Decimal(10**38 - 1)),
    (logical("bytes", "decimal", precision=38, scale=38), (1).to_bytes(1), Decimal("1E-38")),
    (logical("bytes", "decimal", precision=4, scale=2), b"", "field f: no bytes are not a decimal"),
    (
        logical("fixed", "decimal", name="D", size=3, precision=5, scale=1),
        (-5).to_bytes(3, signed=True),
        Decimal("-0.5"),
    ),
    (logical("string", "uuid"), "2DA0B9C0-0000-0000-0000-000000000001", "2DA0B9C0-0000-0000-0000-000000000001"),
    (logical("fixed", "duration", name="D", size=12), bytes(range(12)), bytes(range(12))),
    (["null", logical("long", "timestamp-millis")], None, None),
    (["null", logical("long", "timestamp-millis")], 5, 5000),
    (["int", "long"], 2**40, 2**40),
    ({"type": "array", "items": logical("bytes", "decimal", precision=3)}, [b"\x05"], [Decimal(5)]),
    ({"type": "map", "values": logical("int", "date")}, {"k": -1}, [("k", -1)]),
]


@pytest.mark.parametrize(
    ("schema", "held", "wanted"), TABLE, ids=[f"{json.dumps(s)[:60]}-{h}"[:90] for s, h, _ in TABLE]
)
def test_each_logical_type_is_read_exactly_or_its_field_fails(schema: Any, held: Any, wanted: Any) -> None:
    before = dict(LOGICAL_READERS)
    (found,) = read(record(("f", schema)), bytes_of(record(("f", schema)), {"f": held}))
    assert before == LOGICAL_READERS, "other users of fastavro in the process are not affected"
    if isinstance(wanted, str) and wanted.startswith("field"):
        assert found["value"] is None and found["error"].startswith(wanted)
    else:
        assert found == {"value": {"f": wanted}, "error": None}


def test_a_failure_names_the_field_that_the_bytes_are_not() -> None:
    inner = {
        "type": "record",
        "name": "Inner",
        "fields": [{"name": "a", "type": "string"}, {"name": "b", "type": "int"}],
    }
    schema = record(("id", "long"), ("in", inner), ("kind", {"type": "enum", "name": "K", "symbols": ["A"]}))
    whole = bytes_of(schema, {"id": 1, "in": {"a": "xyz", "b": 300}, "kind": "A"})
    assert read(schema, whole)[0]["error"] is None
    errors = [
        one["error"] for one in read(schema, b"", whole[:4], whole[:6], whole[:-1], whole[:-1] + b"\x09", whole + b"xx")
    ]
    assert errors[0] == "field id: the bytes end before its value does"
    assert errors[1].startswith("field in.a: the bytes ") and errors[2].startswith("field in.b: the bytes ")
    assert errors[3:5] == [errors[3], errors[4]] and all(
        one.startswith("field kind: the bytes ") for one in errors[3:5]
    )
    assert errors[5] == "2 bytes follow the value"


def test_a_writer_with_another_unit_or_scale_is_read_in_its_own() -> None:
    old = record(("at", logical("long", "timestamp-millis")), ("d", logical("bytes", "decimal", precision=5, scale=2)))
    new = record(("at", logical("long", "timestamp-micros")), ("d", logical("bytes", "decimal", precision=6, scale=3)))
    (found,) = read(new, bytes_of(old, {"at": 5, "d": b"\x7b"}), writer=old)
    assert found["value"] == {"at": 5000, "d": Decimal("1.230")}
    (failed,) = read(old, bytes_of(new, {"at": 5, "d": b"\x7b"}), writer=new)
    assert failed["error"].startswith("field d: 0.123 has more than the 2 digits")


def test_a_decimal_that_spark_does_not_have_is_an_error_before_the_start() -> None:
    with pytest.raises(FormatError, match="a decimal of 50 digits: Spark's have 38 at most"):
        avro.spark_type(logical("bytes", "decimal", precision=50))


# (Spark's type, Avro's type, value in Arrow, what is read back or the error's beginning)
WRITTEN: list[tuple[DataType, Any, Any, Any]] = [
    (TimestampType(), logical("long", "timestamp-micros"), FAR * 1000 + 1, FAR * 1000 + 1),
    (TimestampType(), logical("long", "timestamp-millis"), 5000, 5),
    (TimestampType(), logical("long", "timestamp-millis"), 5001, "field f: 5001 microseconds since 1970 are not milli"),
    (TimestampType(), ["null", logical("long", "timestamp-millis")], None, None),
    (TimestampType(), "long", 1, "field f: a timestamp is not a type without logicalType"),
    (DateType(), logical("int", "date"), 5_000_000, 5_000_000),
    (LongType(), "int", 2**40, "field f: 1099511627776 is out of the range of int"),
    (IntegerType(), "long", 5, 5),
    (DoubleType(), "float", 0.5, 0.5),
    (DoubleType(), "float", 0.1, "field f: 0.1 is not a float of 32 bits"),
    (StringType(), {"type": "enum", "name": "K", "symbols": ["A"]}, "B", "field R.f is <B> of type"),
    (IntegerType(), "string", 5, "field R.f is <5> of type"),
    (DecimalType(6, 3), logical("bytes", "decimal", precision=5, scale=2), Decimal("1.234"), "ValueError: "),
    (ArrayType(LongType()), {"type": "array", "items": ["null", "int"]}, [1, None], [1, None]),
    (MapType(StringType(), LongType()), {"type": "map", "values": "long"}, [("k", 1)], {"k": 1}),
]


@pytest.mark.parametrize(
    ("kind", "schema", "value", "wanted"), WRITTEN, ids=[f"{k.simpleString()}-{v}" for k, _, v, _ in WRITTEN]
)
def test_each_type_is_written_exactly_or_its_field_fails(kind: DataType, schema: Any, value: Any, wanted: Any) -> None:
    struct = StructType([StructField("f", kind)])
    data = pa.array([{"f": value}], to_arrow_type(struct, timezone="UTC"))
    (found,) = avro.encoded(record(("f", schema)), struct, data).to_pylist()
    if isinstance(wanted, str):
        assert found["value"] is None and found["error"].startswith(wanted), found
        return
    plain = fastavro.parse_schema(json.loads(json.dumps(without_logical(record(("f", schema))))))
    assert fastavro.schemaless_reader(io.BytesIO(found["value"]), plain, None) == {"f": wanted}


def test_behind_confluents_prefix_each_record_is_read_with_the_schema_of_its_id() -> None:
    old, new = record(("id", "int")), record(("id", "long"))
    new["fields"].append({"name": "label", "type": "string", "default": "none"})
    reader = avro.parsed(new)
    kind = avro.spark_type(reader)
    data = [
        b"\0\0\0\0\1" + bytes_of(old, {"id": 5}),
        b"\0\0\0\1\2" + bytes_of(new, {"id": 2**40, "label": "l"}),
        b"\0\0\0\0\3" + bytes_of(old, {"id": 5}),
        b"\1\0\0\0\1" + bytes_of(old, {"id": 5}),
        b"\0\0\0\0",
        b"\0\0\0\0\1",
        None,
    ]
    found = avro.decoded({1: avro.parsed(old), 258: reader}, reader, kind, pa.array(data, pa.binary()))
    assert found.to_pylist() == [
        {"value": {"id": 5, "label": "none"}, "error": None},
        {"value": {"id": 2**40, "label": "l"}, "error": None},
        {"value": None, "error": "there is no schema of id 3"},
        {"value": None, "error": "not behind Confluent's five bytes"},
        {"value": None, "error": "not behind Confluent's five bytes"},
        {"value": None, "error": "field id: the bytes end before its value does"},
        {"value": None, "error": None},
    ]


def test_a_union_of_several_types_is_an_error_before_the_start() -> None:
    with pytest.raises(FormatError, match="a union of int, string has no type in Spark: give the field one type"):
        avro.spark_type(avro.parsed(record(("f", ["null", "int", "string"]))))
