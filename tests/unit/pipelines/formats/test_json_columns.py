"""JSON read a column at a time gives what json_rows gives, for records of every kind, right and wrong."""

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
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
    VarcharType,
    VariantType,
)

from kvorum.pipelines.formats import json_rows, schemas
from kvorum.pipelines.formats.json_columns import ColumnReader
from kvorum.pipelines.formats.json_rows import Reader
from tests.unit.pipelines.formats.test_json_rows import NOT_JSON, TABLE

FLAT: list[DataType] = [
    BooleanType(), ByteType(), ShortType(), IntegerType(), LongType(), FloatType(), DoubleType(), StringType(),
    VarcharType(3), BinaryType(), DateType(), TimestampType(), TimestampNTZType(),
]  # fmt: skip
NESTED: list[DataType] = [
    DecimalType(10, 2), DecimalType(38, 18), VariantType(), ArrayType(DoubleType()),
    MapType(StringType(), StringType()),
    StructType([StructField("a", StringType()), StructField("b", DoubleType())]),
]  # fmt: skip
VALUES = [
    "null", "true", "false", "0", "-0", "5", "1.0", "1.50", "-0.0", "1e5", "1E-7", "15e-1", "1e400", "1e-400", "300",
    "-129", "40000", "2147483648", "9223372036854775807", "9223372036854775808", "18446744073709551616",
    "123456789012345678901234567890", "9" * 400, "0.1234567890123456789012345", "16777217", "1e39", "01", "1.", ".5",
    "+1", "NaN", "Infinity", '"NaN"', '"-Infinity"', '"x"', '"abcd"', '""', '"5"', '"1.50"', '"YWI="', '"\\u0041\\n"',
    '"a\\":b"', '":"', '" : "', '"\\ud83d\\udc3f"', '"\\ud800"', '"zwölf"', '"\t"', '"2020-02-29"', '"2020-02-30"',
    '"2020-02-29T23:59:59Z"', '"2020-02-29 23:59:59.1+01:00"', '"2020-02-29T23:59:59"', '"2020-02-29T00:00:00 No/One"',
    "{}", "[]", '{"a": 1.50, "b": 1.50}', '{"a":1,"a":2}', '{"a":{"a":1}}', "[1.50, null]", "[[]]", "[1,]", "{", "[",
]  # fmt: skip


def assert_same(reader: Reader, texts: list[bytes | None]) -> list[dict[str, Any]]:
    data = pa.array(texts, pa.binary())
    found, wanted = ColumnReader(reader).decoded(data), reader.decoded(data)
    assert found.type == wanted.type
    assert repr(found.to_pylist()) == repr(wanted.to_pylist())
    found.validate(full=True)
    return found.to_pylist()


blanks = st.sampled_from(["", "", "", " ", "\n  ", "\t"])
names = st.sampled_from(["a", "b", "c", "a", "z", "\\u0061", 'a\\"', "ä", ""])


@st.composite
def texts(draw: st.DrawFn) -> bytes | None:
    """Return a record: an object of names and values, at times something around it or instead of it."""
    pairs = draw(st.lists(st.tuples(names, st.sampled_from(VALUES), blanks, blanks, blanks), max_size=5))
    text = "{" + ",".join(f'{one}"{name}"{two}:{three}{value}' for name, value, one, two, three in pairs) + "}"
    data = text.encode(errors="surrogatepass")
    match draw(st.integers(0, 30)):
        case 0:
            return None
        case 1:
            return draw(st.sampled_from([b"", b"null", b"5", b"[]", b'"x"', *NOT_JSON]))
        case 2:
            return b"\xef\xbb\xbf" + data
        case 3:
            return data + draw(st.sampled_from([b" ", b"\n", b"x", b"{}", b'{"a":1}', b",", b"\0"]))
        case 4:
            position = draw(st.integers(0, len(data)))
            return data[:position] + draw(st.binary(min_size=0, max_size=2)) + data[position + 1 :]
    return data


@settings(max_examples=60)
@given(st.lists(st.sampled_from(FLAT), min_size=3, max_size=3), st.lists(texts(), max_size=8))
def test_flat_records_are_read_as_row_by_row(kinds: list[DataType], records: list[bytes | None]) -> None:
    assert_same(Reader(kind=StructType(list(map(StructField, "abc", kinds)))), records)


@settings(max_examples=40)
@given(st.lists(st.sampled_from([*FLAT, *NESTED]), min_size=3, max_size=3), st.lists(texts(), max_size=8))
def test_nested_records_and_decimals_are_read_as_row_by_row(kinds: list[DataType], records: list[bytes | None]) -> None:
    assert_same(Reader(kind=StructType(list(map(StructField, "abc", kinds)))), records)


@pytest.mark.parametrize("kind", [*FLAT, *NESTED], ids=lambda kind: kind.simpleString())
def test_each_value_alone_and_all_together(kind: DataType) -> None:
    reader = Reader(kind=StructType([StructField("a", kind)]))
    values = [*VALUES, *(text for one, text, _ in TABLE if one == kind)]
    records: list[bytes | None] = [b'{"a": %s}' % value.encode() for value in values]
    for record in records:
        assert_same(reader, [record])
    assert_same(reader, records)


@settings(max_examples=50)
@given(st.lists(st.tuples(names, st.integers(0, 9), names, st.integers(0, 9)), min_size=1, max_size=3))
def test_a_record_with_as_many_names_as_fields_may_have_one_of_them_twice(found: list[tuple[Any, ...]]) -> None:
    kind = StructType([StructField("a", IntegerType()), StructField("b", IntegerType())])
    assert_same(Reader(kind=kind), [f'{{"{a}":{one},"{b}":{two}}}'.encode() for a, one, b, two in found])


CONNECT = {
    "type": "struct",
    "fields": [
        {"field": "a", "type": "int32"},
        {"field": "b", "type": "string", "optional": True},
        {"field": "c", "type": "double", "default": 1.5},
        {"field": "at", "type": "int64", "name": "org.apache.kafka.connect.data.Timestamp", "optional": True},
        {"field": "d", "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "optional": True,
         "parameters": {"scale": "2"}},
    ],
}  # fmt: skip


@pytest.mark.parametrize("defaults", [True, False])
def test_connects_schema_with_and_without_its_envelope(defaults: bool) -> None:
    kind, _ = schemas.parsed(CONNECT)
    payloads = [
        b'{"a":1,"b":"x","c":2.0,"at":0,"d":"AQ=="}', b'{"a":1}', b"{}", b'{"a":null}', b"null", b"5", b'{"a":1,"a":2}',
        b'{"a":1,"at":true}', b'{"a":true,"at":1}', b'{"a":1,"c":5,"d":1.25}', b'{"a":1,"c":null}', b'{"a":1}}', b"",
    ]  # fmt: skip
    plain = Reader(kind=kind, schema=CONNECT, connect=True, defaults=defaults)
    assert_same(plain, [*payloads, None])
    schema = json.dumps(CONNECT, separators=(",", ":")).encode()
    whole = [b'{"schema":%s,"payload":%s}' % (schema, payload) for payload in payloads]
    other = [
        b'{"payload":{"a":1},"schema":null}', b'{"schema":null,"payload":{"a":1}}', b'{"schema":null}', None,
        b'{"schema":null,"payload":{"a":1},"schema":null}', b'{"schema":%s,"payload":{"a":1}} ' % schema,
        b'{"schema":%s,"payload":{"a":1},"more":1}' % schema, b'{"schema":{"payload":1},"payload":{"a":1}}',
    ]  # fmt: skip
    reader = Reader(kind=kind, schema=CONNECT, connect=True, envelope=True, defaults=defaults)
    for first in [*whole[:1], *other]:
        assert_same(reader, [first, *whole, *other])


def test_records_that_need_no_second_look_get_none(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = StructType([StructField("a", IntegerType()), StructField("b", StringType()), StructField("c", DoubleType())])
    reader = Reader(kind=kind)
    records = [b'{"a":1,"b":"x:","c":1.5}', b'{ "b" : "x" ,\n"a" : 1, "more": {"a": [1.50]}\n}', None, b'{"c":null}']
    wanted = reader.decoded(pa.array(records)).to_pylist()

    def fail(*_: object) -> None:
        raise AssertionError("read again row by row")

    monkeypatch.setattr(json_rows, "by_row", fail)
    assert ColumnReader(reader).decoded(pa.array(records)).to_pylist() == wanted
    assert wanted[1]["value"] == {"a": 1, "b": "x", "c": None}
