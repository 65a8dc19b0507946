"""Formats: bytes to values and back, what is neither, and schemas that change."""

import base64
import io
import json
import struct
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.long

MOMENT = datetime(2020, 2, 29, 23, 59, 59, 123000, tzinfo=UTC)


def frame_of(spark: "SparkSession", *values: bytes | None) -> "DataFrame":
    from kvorum.pipelines import frames

    rows = [(None if value is None else bytearray(value), index) for index, value in enumerate(values)]
    return frames.record_frame(spark.createDataFrame(rows, "value binary, offset long").coalesce(1))


def decode(spark: "SparkSession", name: str, options: Mapping[str, Any], *values: bytes | None) -> list[Any]:
    """Return what bytes mean: values, or `failed`."""
    from kvorum.pipelines import formats

    frame = formats.converter(name, options).decode(frame_of(spark, *values), "value")
    return answers(frame)


def answers(frame: "DataFrame") -> list[Any]:
    found = []
    for row in sorted(frame.collect(), key=lambda row: row["offset"]):
        failure = row["_failure"] if "_failure" in row else None  # noqa: SIM401
        if failure is not None:
            assert row["value"] is None and failure["stage"] == "VALUE_CONVERTER" and failure["value"] is not None
            found.append("failed")
        else:
            value = row["value"]
            found.append(value.asDict(recursive=True) if hasattr(value, "asDict") else value)
    return found


def encode(frame: "DataFrame", name: str, options: Mapping[str, Any]) -> list[bytes | None]:
    from kvorum.pipelines import formats, frames

    made = formats.converter(name, options).encode(frames.record_frame(frame), "value")
    rows = sorted(made.collect(), key=lambda row: row["offset"])
    return [None if row["value"] is None else bytes(row["value"]) for row in rows]


def test_text_bytes_and_numbers(spark: "SparkSession") -> None:
    assert decode(spark, "string", {}, b"a", b"\xff", b"", None) == ["a", "failed", "", None]
    assert decode(spark, "bytes", {}, b"\xff", None) == [b"\xff", None]
    assert decode(spark, "integer", {}, *(struct.pack(">i", n) for n in (0, 1, -1, -(2**31))), b"x", None) == [
        0, 1, -1, -(2**31), "failed", None,
    ]  # fmt: skip
    numbers = spark.createDataFrame([(0, 5), (1, -5), (2, None), (3, 2**40)], "offset long, value long")
    assert encode(numbers, "long", {}) == [struct.pack(">q", 5), struct.pack(">q", -5), None, struct.pack(">q", 2**40)]
    assert encode(numbers, "integer", {}) == [struct.pack(">i", 5), struct.pack(">i", -5), None, None]
    assert encode(numbers, "string", {}) == [b"5", b"-5", None, b"1099511627776"]


SCHEMA = "a INT, b STRING, c ARRAY<INT>, d STRUCT<e: BOOLEAN>"


def test_json_with_a_schema(spark: "SparkSession") -> None:
    """Fields may be missing or new; what is of another type, or no JSON, fails; nothing is lost."""
    found = decode(
        spark, "json", {"schema": SCHEMA},
        b'{"a":1,"b":"x","c":[1],"d":{"e":true},"new":1}', b'{"b":null}', b'{"a":"x"}', b"{", b"", b"null", b"5", None,
        b'{"a":1} x', b'{"a":1,"a":2}', b'{"b":"\xff"}', b'\xef\xbb\xbf{"a":3}',
    )  # fmt: skip
    assert found[:2] == [
        {"a": 1, "b": "x", "c": [1], "d": {"e": True}},
        {"a": None, "b": None, "c": None, "d": None},
    ]
    assert found[2:8] == ["failed", "failed", "failed", None, "failed", None]
    assert found[8:11] == ["failed", "failed", "failed"] and found[11]["a"] == 3


def test_json_with_texts_of_limited_length(spark: "SparkSession") -> None:
    schema = "a VARCHAR(3), b CHAR(2), c ARRAY<VARCHAR(2)>, d STRUCT<v: VARIANT>"
    found = decode(spark, "json", {"schema": schema}, b'{"a":"abc","b":"5","c":["q"],"d":{"v":1}}', b'{"a":"abcd"}')
    assert [found[0][name] for name in "abc"] == ["abc", "5", ["q"]] and found[1] == "failed"


def messages(spark: "SparkSession", name: str, options: Mapping[str, Any], *values: bytes) -> list[str | None]:
    """Return why bytes fail."""
    from kvorum.pipelines import formats

    rows = formats.converter(name, options).decode(frame_of(spark, *values), "value").collect()
    found = [row["_failure"] for row in sorted(rows, key=lambda row: row["offset"])]
    return [None if one is None else one["message"] for one in found]


def test_a_record_is_decoded_once_whatever_is_done_about_failures(spark: "SparkSession") -> None:
    """A filter below the decoding would have its own decoding, at the full cost of the first."""
    from kvorum.pipelines import formats, frames

    decoded = formats.converter("json", {"schema": SCHEMA}).decode(frame_of(spark, b"{}"), "value")
    for frame in (frames.first_failed(decoded), frames.well(decoded), frames.failed(decoded)):
        plan = frame.select("value.a", "value.b")._jdf.queryExecution().executedPlan().toString()
        assert plan.count("ArrowEvalPython") == 1, plan


def test_failures_have_field_value_and_reason(spark: "SparkSession") -> None:
    assert messages(
        spark, "json", {"schema": "d STRUCT<e: DECIMAL(4,2), v: VARIANT>"}, b'{"d":{"e":1.005}}', b'{"d":'
    ) == [
        "json: field d.e: 1.005 has more than the 2 digits after the point of decimal(4,2)",
        "json: not JSON at character 5: Expecting value",
    ]
    assert messages(spark, "json", {}, b"5 6", b'{"a":1e400}', b'{"a":[1.5,2e3]}', b'{"a":1,"a":2}', b"\xff") == [
        "json: not JSON at character 2: Extra data",
        "json: field a: 1e400 is out of the range of double",
        None,
        "json: the key 'a' occurs twice",
        "json: not UTF-8 at byte 0",
    ]
    csv = {"schema": "a INT, d DECIMAL(4,2), t TIMESTAMP, s STRING, f DOUBLE, day DATE"}
    lines = (
        (b"1,1.50,2020-02-29T23:59:59.123456Z,x,1e3,2020-02-29", None),
        (b"1.5,,,,,", "csv: field a: 1.5 is not int"),
        (b"1,1.005,,,,", "csv: field d: 1.005 is not decimal(4,2)"),
        (b"1,,2020-02-29T23:59:59.1234567Z,,,", "csv: field t: 2020-02-29T23:59:59.1234567Z is not timestamp"),
        (b"1,,,,1e400,", "csv: field f: 1e400 is not double"),
        (b"1,,,,,2020-02-29T23:59:59", "csv: field day: 2020-02-29T23:59:59 is not date"),
        (b'1,,,"x,,', "csv: a quoted value has no closing quote"),
        (b"1,2", "csv: not a line of 6 values: a, d, t, s, f, day"),
        (b"", "csv: not a line of 6 values: a, d, t, s, f, day"),
        (b"\xff,,,,,", "csv: the bytes are not UTF-8"),
    )
    assert messages(spark, "csv", csv, *(line for line, _ in lines)) == [reason for _, reason in lines]


GROWN = f"{SCHEMA}, f DOUBLE, g STRUCT<h: STRING>"


@pytest.mark.parametrize("options", [{}, {"schemas.enable": True}], ids=["plain", "envelope"])
def test_json_and_its_evolution(spark: "SparkSession", options: dict[str, Any]) -> None:
    """Writers and readers change one after the other: a field more, a field less, on either side."""

    def text(value: dict[str, Any]) -> bytes:
        return json.dumps({"schema": None, "payload": value} if options else value).encode()

    old = {"a": 1, "b": "x", "c": [1], "d": {"e": True}}
    new = {**old, "f": 0.5, "g": {"h": "y"}}
    deeper = {**old, "d": {"e": True, "more": 1}}
    records = [text(each) for each in (old, new, {"a": 2}, deeper)]
    without = dict.fromkeys(("f", "g"))
    assert decode(spark, "json", {"schema": GROWN, **options}, *records) == [
        {**old, **without}, new, {"a": 2, "b": None, "c": None, "d": None, **without}, {**old, **without},
    ]  # fmt: skip
    less = {"schema": "a INT, d STRUCT<e: BOOLEAN>", **options}
    assert decode(spark, "json", less, *records) == [
        {"a": 1, "d": {"e": True}}, {"a": 1, "d": {"e": True}}, {"a": 2, "d": None}, {"a": 1, "d": {"e": True}},
    ]  # fmt: skip
    wider = {"schema": "a BIGINT, b STRING", **options}
    assert decode(spark, "json", wider, *records)[0] == {"a": 1, "b": "x"}
    assert decode(spark, "json", {"schema": "a INT, b INT", **options}, *records)[0] == "failed", "of another type"


def test_json_without_a_schema_holds_whatever_comes(spark: "SparkSession") -> None:
    from kvorum.pipelines import formats

    texts = (b'{"b":1,"a":[1,null,{"x":1.50}]}', b'"x"', b"[1]", b"null", b"{", None)
    converter = formats.converter("json")
    read = converter.decode(frame_of(spark, *texts), "value")
    rows = sorted(converter.encode(read, "value").collect(), key=lambda row: row["offset"])
    written = [None if row["value"] is None else json.loads(bytes(row["value"])) for row in rows]
    assert written == [{"b": 1, "a": [1, None, {"x": 1.5}]}, "x", [1], None, None, None]
    assert [row["_failure"] is None for row in rows] == [True, True, True, True, False, True]


def test_connects_envelope(spark: "SparkSession") -> None:
    from kvorum.pipelines import formats, frames

    data = spark.sql(
        "select 0L as offset, struct(timestamp'2020-02-29 23:59:59.123' as at, date'2020-02-29' as day, "
        "cast(-12.34 as decimal(10,2)) as price, binary('ab') as blob, cast(null as string) as none, "
        "map('k', timestamp'1970-01-01 00:00:01') as times) as value"
    )
    (text,) = encode(data, "json", {"schemas.enable": True})
    assert text is not None
    said = json.loads(text)
    assert said["payload"] == {
        "at": 1583020799123, "day": 18321, "price": "+y4=", "blob": "YWI=", "none": None, "times": {"k": 1000},
    }  # fmt: skip
    assert [one.get("name", "").rpartition(".")[2] for one in said["schema"]["fields"]][:3] == [
        "Timestamp",
        "Date",
        "Decimal",
    ]
    back = formats.converter("json", {"schemas.enable": True, "schema": said["schema"]})
    bad = (b'{"payload":{}}', b'{"at":1}', json.dumps({"schema": None, "payload": None}).encode(), None)
    found = answers(back.decode(frame_of(spark, text, *bad), "value"))
    assert found[0]["price"] == Decimal("-12.34") and found[0]["day"] == date(2020, 2, 29) and found[0]["blob"] == b"ab"
    assert found[0]["at"].timestamp() == MOMENT.timestamp()
    assert found[1:] == ["failed", "failed", None, None]
    plain = formats.converter("json", {"dialect": "connect", "nulls": "drop", "decimal.format": "NUMERIC"})
    (row,) = plain.encode(frames.record_frame(data), "value").collect()
    assert json.loads(bytes(row["value"])) == {
        "at": 1583020799123,
        "day": 18321,
        "price": -12.34,
        "blob": "YWI=",
        "times": {"k": 1000},
    }


DECIMALS = [0, 1, -1, 127, 128, -128, -129, 2**63, -(2**63), 2**64, -(2**64) - 1, 10**38 - 1, 1 - 10**38]


def test_decimals_are_written_as_connect_writes_them(spark: "SparkSession") -> None:
    from kvorum.pipelines import formats, frames

    rows = [(index, Decimal(f"{number}E-10")) for index, number in enumerate(DECIMALS)]
    data = spark.createDataFrame(rows, "offset long, d decimal(38,10)").selectExpr(
        "offset", "array(named_struct('d', d)) value"
    )
    for text, number in zip(encode(data, "json", {"dialect": "connect"}), DECIMALS, strict=True):
        assert text is not None
        raw = base64.b64decode(json.loads(text)[0]["d"])
        shortest = ((number if number >= 0 else ~number).bit_length() + 8) // 8  # Java's BigInteger.toByteArray
        assert int.from_bytes(raw, signed=True) == number and len(raw) == shortest
    fine = spark.sql("select 0L offset, struct(array(timestamp'2020-02-29 23:59:59.123456') as at) as value")
    made = formats.converter("json", {"dialect": "connect"}).encode(frames.record_frame(fine), "value")
    (row,) = made.collect()
    assert row["value"] is None and row["_failure"]["message"].startswith(
        "json: field at[]: 2020-02-29 23:59:59.123456 has microseconds"
    )
    (plain,) = encode(fine, "json", {})
    assert plain is not None and json.loads(plain) == {"at": ["2020-02-29T23:59:59.123456Z"]}


def test_csv(spark: "SparkSession") -> None:
    options = {"schema": "a INT, b STRING", "delimiter": ";"}
    found = decode(spark, "csv", options, b"1;x", b'2;"a;b"', b"x;y", b"1", b"1;2;3", None)
    assert found == [{"a": 1, "b": "x"}, {"a": 2, "b": "a;b"}, "failed", "failed", "failed", None]
    lines = spark.sql("select 0L as offset, named_struct('a', 1, 'b', 'x;y') as value")
    assert encode(lines, "csv", {"delimiter": ";"}) == [b'1;"x;y"']


OLD = {
    "type": "record", "name": "Order", "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}]},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "tags", "type": {"type": "map", "values": ["null", "int"]}},
    ],
}  # fmt: skip
NEW = {**OLD, "fields": [*OLD["fields"][:3], {"name": "label", "type": ["string", "null"], "default": "none"}]}
DATUM = {"id": 7, "at": MOMENT, "price": Decimal("1.50"), "kind": "B", "tags": {"x": 1, "y": None}}


def datum(schema: Any, value: Any) -> bytes:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return buffer.getvalue()


def test_avro_and_its_evolution(spark: "SparkSession") -> None:
    old = datum(OLD, DATUM)
    found = decode(spark, "avro", {"schema": OLD}, old, b"\x01", None)
    assert found[1:] == ["failed", None]
    assert found[0]["price"] == Decimal("1.50") and found[0]["kind"] == "B" and found[0]["tags"] == {"x": 1, "y": None}
    assert found[0]["at"].timestamp() == MOMENT.timestamp()
    evolved = decode(spark, "avro", {"schema": NEW, "writer.schema": OLD}, old)
    assert list(evolved[0]) == ["id", "at", "price", "label"] and evolved[0]["label"] == "none"


def test_avro_fields_that_writers_gave_up(spark: "SparkSession") -> None:
    """What is not written any more is its default for those who still read it; without one, the record fails."""
    written = {**OLD, "fields": OLD["fields"][:2]}
    short = datum(written, {"id": 7, "at": MOMENT})
    defaults = {
        **OLD,
        "fields": [
            *OLD["fields"][:2],
            {**OLD["fields"][3], "default": "A"},
            {"name": "count", "type": "int", "default": 3},
            {"name": "note", "type": ["null", "string"], "default": None},
        ],
    }
    (found,) = decode(spark, "avro", {"schema": defaults, "writer.schema": written}, short)
    assert (found["id"], found["kind"], found["count"], found["note"]) == (7, "A", 3, None)
    assert decode(spark, "avro", {"schema": OLD, "writer.schema": written}, short) == ["failed"]
    wider = {**written, "fields": [{"name": "id", "type": "double"}, written["fields"][1]]}
    (found,) = decode(spark, "avro", {"schema": wider, "writer.schema": written}, short)
    assert found["id"] == 7.0, "a long is read as a double"


def test_avro_behind_confluents_bytes(spark: "SparkSession") -> None:
    """Each record is read with the schema of its id, and all come out in the wanted one."""
    options = {"wire": "confluent", "schema": NEW, "schemas": {1: OLD, 2: NEW}, "schema.id": 2}
    new = {"id": 8, "at": MOMENT, "price": None, "label": "l"}
    texts = [
        b"\0" + struct.pack(">i", number) + body
        for number, body in ((1, datum(OLD, DATUM)), (2, datum(NEW, new)), (3, b""))
    ]
    found = decode(spark, "avro", options, *texts, b"\1", b"", None)
    assert [one if isinstance(one, str | None) else one["label"] for one in found] == [
        "none", "l", "failed", "failed", "failed", None,
    ]  # fmt: skip


def test_avro_is_written(spark: "SparkSession") -> None:
    data = spark.sql("select 0L as offset, named_struct('id', 5L, 'name', 'x', 'none', cast(null as int)) as value")
    kinds = {"id": "long", "name": "string", "none": "int"}
    fields = [{"name": name, "type": ["null", kind], "default": None} for name, kind in kinds.items()]
    schema = {"type": "record", "name": "Value", "fields": fields}
    (made,) = encode(data, "avro", {"schema": schema})
    assert made == datum(schema, {"id": 5, "name": "x", "none": None})
    (framed,) = encode(data, "avro", {"schema": schema, "wire": "confluent", "schema.id": 258})
    assert framed == b"\0\0\0\1\2" + made
    strict = {**schema, "fields": [*fields[:2], {"name": "none", "type": "int"}]}
    assert encode(data, "avro", {"schema": strict}) == [None]


@pytest.fixture(scope="module")
def descriptor(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Write a descriptor file as protoc would, of a message with all kinds of fields."""
    from google.protobuf import descriptor_pb2

    D = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="t.proto", package="t", syntax="proto3")
    kind = file.enum_type.add(name="Kind")
    kind.value.add(name="NONE", number=0)
    kind.value.add(name="SOME", number=1)
    inner = file.message_type.add(name="Inner")
    inner.field.add(name="a", number=1, type=D.TYPE_INT32, label=D.LABEL_OPTIONAL)
    message = file.message_type.add(name="M")
    entry = message.nested_type.add(name="MapEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=D.TYPE_STRING, label=D.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=D.TYPE_INT64, label=D.LABEL_OPTIONAL)
    for number, (name, code, type_name, label) in enumerate(
        (
            ("id", D.TYPE_INT64, None, D.LABEL_OPTIONAL),
            ("name", D.TYPE_STRING, None, D.LABEL_OPTIONAL),
            ("kind", D.TYPE_ENUM, ".t.Kind", D.LABEL_OPTIONAL),
            ("inner", D.TYPE_MESSAGE, ".t.Inner", D.LABEL_OPTIONAL),
            ("tags", D.TYPE_STRING, None, D.LABEL_REPEATED),
            ("map", D.TYPE_MESSAGE, ".t.M.MapEntry", D.LABEL_REPEATED),
            ("big", D.TYPE_UINT64, None, D.LABEL_OPTIONAL),
            ("blob", D.TYPE_BYTES, None, D.LABEL_OPTIONAL),
        ),
        1,
    ):
        message.field.add(name=name, number=number, type=code, type_name=type_name, label=label)
    path = tmp_path_factory.mktemp("proto") / "t.desc"
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())
    return str(path)


def test_protobuf(spark: "SparkSession", descriptor: str) -> None:
    options = {"descriptor.file": descriptor, "message": "t.M"}
    data = spark.sql(
        "select 0L as offset, named_struct('id', 5L, 'name', 'x', 'kind', 'SOME', "
        "'inner', named_struct('a', 1), "
        "'tags', array('p', 'q'), 'map', map('k', 2L), "
        "'big', cast(18446744073709551615 as decimal(20,0)), 'blob', binary('b')) as value"
    )
    (made,) = encode(data, "protobuf", options)
    assert made is not None
    found = decode(spark, "protobuf", options, made, b"", b"\xff", None)
    assert found[0] == {
        "id": 5, "name": "x", "kind": "SOME", "inner": {"a": 1}, "tags": ["p", "q"], "map": {"k": 2},
        "big": Decimal(2**64 - 1), "blob": b"b",
    }  # fmt: skip
    assert found[1] == {
        "id": 0,
        "name": "",
        "kind": "NONE",
        "inner": None,
        "tags": [],
        "map": {},
        "big": 0,
        "blob": b"",
    }
    assert found[2:] == ["failed", None]


def test_what_a_format_cannot_do_is_refused(spark: "SparkSession", descriptor: str, tmp_path: Path) -> None:
    from kvorum.pipelines import formats, frames

    frame = frames.record_frame(spark.sql("select 0L as offset, named_struct('a', 1) as value"))
    for name, options, message in (
        ("bytes", {}, "takes bytes or text"),
        ("protobuf", {"descriptor.file": descriptor, "message": "t.M"}, "has no field 'a'"),
        ("protobuf", {"descriptor.file": descriptor, "message": "t.N"}, "message 't.N' is not in the descriptor file"),
        ("protobuf", {"descriptor.file": str(tmp_path / "none"), "message": "t.M"}, "cannot be read"),
        ("avro", {"schema": {"type": "recrd"}}, "not an Avro schema"),
        ("avro", {"schema": {"type": "record", "name": "V", "fields": []}}, "has no field 'a'"),
        ("avro", {"schema": "file:/none"}, "cannot be read"),
        ("json", {"schma": "a INT"}, "schma: Extra inputs"),
        ("avro", {}, "needs a schema to write"),
        ("jsn", {}, "there is no format 'jsn'"),
    ):
        with pytest.raises(Exception, match=message):
            formats.converter(name, options).encode(frame, "value")
    for name, options, message in (
        ("csv", {}, "needs a schema"),
        ("json", {"schema": "a INTT"}, "there is no type 'INTT'; did you mean 'INT'"),
        ("avro", {}, "needs a schema"),
        ("avro", {"schema": ["int", "string"]}, "a union of int, string has no type in Spark"),
    ):
        with pytest.raises(formats.FormatError, match=message):
            formats.converter(name, options).decode(frame_of(spark, b""), "value")
