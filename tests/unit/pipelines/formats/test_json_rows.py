"""JSON read with a schema: each type's values exactly, or a failure with field, value and reason."""

import base64
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    TimeType,
    VarcharType,
    VariantType,
)

from kvorum.pipelines.faults import Unfit
from kvorum.pipelines.formats import json_rows, schemas
from kvorum.pipelines.formats.base import FormatError
from kvorum.pipelines.formats.json_rows import Reader

SECOND = 1_000_000
LEAP = 1583020799 * SECOND  # 2020-02-29T23:59:59Z


class Fails(str):
    """The reason's beginning."""

    __slots__ = ()


def read(reader: Reader, text: str | bytes) -> Any:
    return reader.function()(text if isinstance(text, bytes) else text.encode())


# (type, JSON, value or reason)
TABLE: list[tuple[DataType, str, Any]] = [
    (BooleanType(), "true", True),
    (BooleanType(), "1", Fails("1 is not true or false")),
    (BooleanType(), '"true"', Fails('"true" is not true or false')),
    (ByteType(), "-128", -128),
    (ByteType(), "300", Fails("300 is out of the range of tinyint")),
    (ShortType(), "32767", 32767),
    (ShortType(), "-32769", Fails("-32769 is out of the range of smallint")),
    (IntegerType(), "2147483647", 2147483647),
    (IntegerType(), "1.0", Fails("1.0 is not an integer (int)")),
    (IntegerType(), "true", Fails("true is not an integer (int)")),
    (IntegerType(), '"1"', Fails('"1" is not an integer (int)')),
    (LongType(), "9223372036854775807", 2**63 - 1),
    (LongType(), "9223372036854775808", Fails("9223372036854775808 is out of the range of bigint")),
    (LongType(), "9" * 4000, Fails("999")),
    (DoubleType(), "0.1", 0.1),
    (DoubleType(), "5", 5.0),
    (DoubleType(), '"NaN"', "nan"),
    (DoubleType(), '"-Infinity"', float("-inf")),
    (DoubleType(), "1e400", Fails("1e400 is out of the range of double")),
    (DoubleType(), "9" * 400, Fails("999")),
    (DoubleType(), '"x"', Fails('"x" is not a number')),
    (FloatType(), "1.5", 1.5),
    (FloatType(), "1e40", Fails("1e40 is out of the range of float")),
    (StringType(), '"zw\\u00f6lf \U0001f43f"', "zw\u00f6lf \U0001f43f"),
    (StringType(), "1.50", "1.50"),
    (StringType(), '{"x": 1.50, "y": [1e5, null]}', '{"x":1.50,"y":[1e5,null]}'),
    (StringType(), '"\\ud800"', Fails("half of a surrogate pair")),
    (VarcharType(3), '"abc"', "abc"),
    (VarcharType(3), '"abcd"', Fails("abcd has more than 3 characters")),
    (BinaryType(), '"YWI="', b"ab"),
    (BinaryType(), '"YWI"', Fails('"YWI" is not base64')),
    (BinaryType(), "5", Fails("5 is not a base64 string")),
    (DecimalType(10, 2), "1.50", Decimal("1.50")),
    (DecimalType(10, 2), "15e-1", Decimal("1.50")),
    (DecimalType(10, 2), "1.500", Decimal("1.50")),
    (DecimalType(10, 2), '"7"', Decimal("7.00")),
    (DecimalType(10, 2), "1.005", Fails("1.005 has more than the 2 digits after the point of decimal(10,2)")),
    (DecimalType(10, 2), "123456789", Fails("123456789 is out of the range of decimal(10,2)")),
    (DecimalType(38, 0), "9" * 38, Decimal("9" * 38)),
    (DecimalType(38, 0), "1e38", Fails("1E+38 is out of the range")),
    (DecimalType(38, 38), "0." + "1" * 38, Decimal("0." + "1" * 38)),
    (DecimalType(38, 18), "0", Decimal(0)),
    (DecimalType(10, 2), '"x"', Fails('"x" is not a number')),
    (DecimalType(10, 2), '"NaN"', Fails("NaN is not a number")),
    (TimestampType(), '"2020-02-29T23:59:59Z"', LEAP),
    (TimestampType(), '"2020-02-29T23:59:59.123456000Z"', LEAP + 123456),
    (TimestampType(), '"2020-03-01 00:59:59.1+01:00"', LEAP + 100000),
    (TimestampType(), '"2020-03-01 00:59:59 Europe/Berlin"', LEAP),
    (TimestampType(), '"2020-03-01"', LEAP + SECOND),
    (TimestampType(), '"2020-02-29T23:59:59.1234567Z"', Fails('"2020-02-29T23:59:59.1234567Z" has more digits')),
    (TimestampType(), '"2019-02-29T00:00:00Z"', Fails('"2019-02-29T00:00:00Z" is not a timestamp')),
    (TimestampType(), "1583020799123", Fails("1583020799123 is not a timestamp")),
    (TimestampNTZType(), '"2020-02-29T23:59:59"', LEAP),
    (TimestampNTZType(), '"2020-02-29T23:59:59Z"', Fails('"2020-02-29T23:59:59Z" has a time zone')),
    (DateType(), '"2020-02-29"', "2020-02-29"),
    (DateType(), '"2020-02-29T23:59:59"', Fails('"2020-02-29T23:59:59" is not a date')),
    (DateType(), '"2019-02-29"', Fails('"2019-02-29" is not a date')),
    (ArrayType(IntegerType()), "[1, null]", [1, None]),
    (ArrayType(IntegerType()), "[1, 2, 0.5]", Fails("field [2]: 0.5 is not an integer")),
    (ArrayType(IntegerType()), "{}", Fails("{} is not an array")),
    (MapType(StringType(), LongType()), '{"a": 1, "b": null}', [("a", 1), ("b", None)]),
    (MapType(StringType(), LongType()), '{"a b": "x"}', Fails('field ["a b"]: "x" is not an integer')),
    (MapType(IntegerType(), LongType()), "[[1, 2]]", [(1, 2)]),
    (MapType(IntegerType(), LongType()), "[[1, 2], [1, 3]]", Fails("a key occurs twice")),
    (VariantType(), '{"a": 1.50}', '{"a":1.50}'),
]


@pytest.mark.parametrize(("kind", "text", "wanted"), TABLE, ids=[f"{k.simpleString()}-{t[:24]}" for k, t, _ in TABLE])
def test_each_type(kind: DataType, text: str, wanted: Any) -> None:
    reader = Reader(kind=kind)
    if isinstance(wanted, Fails):
        with pytest.raises(Unfit) as caught:
            read(reader, text)
        assert str(caught.value).startswith(wanted)
        return
    found = read(reader, text)
    if kind == DateType():
        found = str(found)
    assert (str(found) if wanted == "nan" else found) == wanted
    inside = Reader(kind=StructType([StructField("a.b", kind)]))
    assert reader.decoded(pa.array([text.encode()]))[0]["error"].as_py() is None, "Arrow holds it"
    assert read(inside, b'{"a.b": null}') == read(inside, b'{"other": 1}') == {"a.b": None}


NOT_JSON = {
    b'5,"value":7': "not JSON at character 1: Extra data",
    b'5}{"value":6': "not JSON at character 1: Extra data",
    b"5 6": "not JSON at character 2: Extra data",
    b"not": "not JSON at character 0: Expecting value",
    b"": "not JSON at character 0: Expecting value",
    b"01": "not JSON at character 1: Extra data",
    b"NaN": "not JSON: NaN is not a value",
    b"'5'": "not JSON at character 0: Expecting value",
    b"// 1\n5": "not JSON at character 0: Expecting value",
    b"\xff": "not UTF-8 at byte 0",
    b"[" * 100_000: "not read: nested too deeply",
    b"9" * 5000: "not read: Exceeds the limit",
    b'{"a": 1, "a": 1}': "the key 'a' occurs twice",
}


@pytest.mark.parametrize(("text", "reason"), NOT_JSON.items(), ids=[str(text[:20]) for text in NOT_JSON])
def test_text_that_is_not_json_fails(text: bytes, reason: str) -> None:
    with pytest.raises(Unfit) as caught:
        read(Reader(kind=StringType()), text)
    assert str(caught.value).startswith(reason)
    checked = json_rows.checked(False, pa.array([text]))
    assert checked[0]["error"].as_py().startswith(reason), "the same without a schema"


@pytest.mark.parametrize("text", [b" 8\n", b"\xef\xbb\xbf8"], ids=["blanks", "byte-order mark"])
def test_what_json_allows_around_a_value(text: bytes) -> None:
    assert read(Reader(kind=LongType()), text) == 8


def test_a_failure_has_field_value_and_reason() -> None:
    kind = StructType([StructField("items", ArrayType(StructType([StructField("price", DecimalType(10, 2))])))])
    data = pa.array([b'{"items": [{"price": 1}, {"price": 1.005}]}', b"{}", None, b'{"items": 5}'])
    found = Reader(kind=kind).decoded(data)
    assert [one["error"] for one in found.to_pylist()] == [
        "field items[1].price: 1.005 has more than the 2 digits after the point of decimal(10,2)",
        None,
        None,
        "field items: 5 is not an array",
    ]


def connect(schema: dict[str, Any], envelope: bool = False) -> Reader:
    kind, _ = schemas.parsed(schema)
    form = schema
    assert form is not None
    return Reader(kind=kind, schema=form, connect=True, envelope=envelope)


def decimal_schema(scale: int) -> dict[str, Any]:
    return {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": str(scale)}}


def base64_of(number: int) -> str:
    return base64.b64encode(number.to_bytes((number.bit_length() + 8) // 8, "big", signed=True)).decode()


@given(st.integers(-(10**39), 10**39), st.integers(-5, 45))
def test_connects_decimals_are_exact_or_fail(number: int, scale: int) -> None:
    reader = connect(decimal_schema(scale))
    wanted = Decimal(f"{number}E{-scale}")
    kind = reader.kind
    assert isinstance(kind, DecimalType)
    try:
        found = read(reader, json.dumps(base64_of(number)))
    except Unfit as unfit:
        digits = str(abs(number)).rstrip("0") or "0"
        whole = max(len(str(abs(number))) - scale, 0)
        too_fine = scale - (len(str(abs(number))) - len(digits)) > kind.scale
        assert whole > kind.precision - kind.scale or too_fine, str(unfit)
        return
    assert found == wanted and pa.scalar(found, pa.decimal128(kind.precision, kind.scale)).as_py() == wanted


def test_connects_types_and_its_rules_for_null() -> None:
    logical = "org.apache.kafka.connect.data."
    fields = [
        {"field": "at", "type": "int64", "name": f"{logical}Timestamp", "optional": True},
        {"field": "day", "type": "int32", "name": f"{logical}Date", "optional": True},
        {"field": "clock", "type": "int32", "name": f"{logical}Time", "optional": True},
        {"field": "count", "type": "int16", "default": 7},
        {"field": "tags", "type": "array", "items": {"type": "string"}, "optional": True},
        {"field": "id", "type": "string"},
    ]
    reader = connect({"type": "struct", "fields": fields, "optional": True}, envelope=True)

    def payload(**values: Any) -> str:
        return json.dumps({"schema": None, "payload": values})

    found = read(reader, payload(id="x", at=-1, day=-1, clock=1, tags=["a"]))
    assert found == {"at": -1000, "day": -1, "clock": 1, "count": 7, "tags": ["a"], "id": "x"}
    assert read(reader, json.dumps({"schema": None, "payload": None})) is None
    for text, reason in {
        payload(): "field id: required, but null or missing",
        payload(id="x", tags=[None]): "field tags[0]: required, but null or missing",
        payload(id="x", at=2**62): "field at: 4611686018427387904000 is out of the range of bigint",
        payload(id="x", day=2**31): "field day: 2147483648 is out of the range of int",
        '{"payload": {}}': 'not an object of exactly "schema" and "payload"',
        '{"schema": null, "payload": null, "more": 1}': 'not an object of exactly "schema" and "payload"',
    }.items():
        with pytest.raises(Unfit) as caught:
            read(reader, text)
        assert str(caught.value).startswith(reason)
    numeric = connect(decimal_schema(-2))
    assert read(numeric, "1200") == Decimal(1200) and read(numeric, f'"{base64_of(12)}"') == Decimal(1200)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('{"a": {"b": [0.1, 1e-5, 12345678901234567890123456789012345678, 1.5e3]}}', None),
        ('{"a": {"b": [0.1234567890123456789012345678901234567890123]}}', "field a.b[0]: "),
        ('{"a": 1e400}', "field a: 1e400 is out of the range of double"),
        ('{"a": 123456789012345678901e-5}', "field a: 123456789012345678901e-5 has more digits than a VARIANT"),
        ('["\\ud800"]', "field [0]: half of a surrogate pair"),
    ],
)
def test_without_a_schema_numbers_are_exact_or_fail(text: str, field: str | None) -> None:
    (found,) = json_rows.checked(False, pa.array([text.encode()])).to_pylist()
    assert found["error"] is None if field is None else found["error"].startswith(field)


def test_a_type_that_json_does_not_have_is_an_error_before_the_start() -> None:
    with pytest.raises(FormatError, match="is not read from JSON"):
        Reader(kind=StructType([StructField("t", TimeType())])).function()
