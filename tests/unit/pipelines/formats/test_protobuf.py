"""Protobuf by the protobuf package: values exactly, or a failure that names the field."""

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    DataType,
    DecimalType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kvorum.pipelines.formats import protobuf
from kvorum.pipelines.formats.base import with_integers

D = descriptor_pb2.FieldDescriptorProto
FIELDS = {
    "id": D.TYPE_INT32, "big": D.TYPE_UINT64, "name": D.TYPE_STRING, "real": D.TYPE_DOUBLE, "small": D.TYPE_FLOAT,
}  # fmt: skip


def descriptors() -> bytes:
    file = descriptor_pb2.FileDescriptorProto(name="t.proto", package="t", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    kind = file.enum_type.add(name="Kind")
    kind.value.add(name="NONE", number=0)
    message, inner = file.message_type.add(name="M"), file.message_type.add(name="Inner")
    inner.field.add(name="text", number=1, type=D.TYPE_STRING, label=D.LABEL_OPTIONAL)
    for number, (name, code) in enumerate(FIELDS.items(), 1):
        message.field.add(name=name, number=number, type=code, label=D.LABEL_OPTIONAL)
    for number, name, type_name in ((6, "at", ".google.protobuf.Timestamp"), (7, "inner", ".t.Inner")):
        message.field.add(name=name, number=number, type=D.TYPE_MESSAGE, type_name=type_name, label=D.LABEL_OPTIONAL)
    message.field.add(name="kind", number=8, type=D.TYPE_ENUM, type_name=".t.Kind", label=D.LABEL_OPTIONAL)
    timestamp = descriptor_pb2.FileDescriptorProto.FromString(timestamp_pb2.DESCRIPTOR.serialized_pb)
    return descriptor_pb2.FileDescriptorSet(file=[timestamp, file]).SerializeToString()


FILE = descriptors()
KIND = protobuf.spark_type(FILE, "t.M")


def read(*data: bytes) -> list[dict[str, Any]]:
    found = protobuf.decoded(FILE, "t.M", KIND, pa.array(data, pa.binary()))
    rows: list[dict[str, Any]] = found.cast(with_integers(found.type)).to_pylist()
    return rows


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"\x1a\x05ab", "field name: the bytes end before its value does"),
        (b"\x1a\x01\xff", "field name: not UTF-8 at byte 0"),
        (b"\x08\x01\x3a\x03\x0a\x01\xff", "field inner.text: not UTF-8 at byte 0"),
        (b"\x08\xff", "field id: the bytes end before its value does"),
        (b"\x21\x00", "field real: the bytes end before its value does"),
        (b"\xff", "field number 0: the bytes end before its value does"),
    ],
)
def test_bytes_that_are_no_message_name_the_field(data: bytes, error: str) -> None:
    (found,) = read(data)
    assert found["value"] is None and found["error"].startswith(error)


# (field, Spark's type, value in Arrow, value that is read back or the error's beginning)
WRITTEN: list[tuple[str, DataType, Any, Any]] = [
    ("id", LongType(), 5, 5),
    ("id", LongType(), 2**40, "field id: Value out of range"),
    ("big", DecimalType(20, 0), Decimal(2**64 - 1), Decimal(2**64 - 1)),
    ("big", DecimalType(10, 2), Decimal("1.50"), "field big: 1.50 is not a whole number"),
    ("real", DecimalType(10, 2), Decimal("1.50"), 1.5),
    (
        "real",
        DecimalType(38, 20),
        Decimal("0.12345678901234567890"),
        "field real: 0.12345678901234567890 is not a double",
    ),
    ("small", DoubleType(), 0.5, 0.5),
    ("small", DoubleType(), 0.1, "field small: 0.1 is not a float of 32 bits"),
    ("kind", StringType(), "SOME", "field kind: SOME is not one of NONE"),
    ("at", TimestampType(), -1, -1),
    ("at", TimestampType(), 2**60, "field at: "),
    ("name", LongType(), 5, "field name: "),
    ("inner", StructType([StructField("text", LongType())]), {"text": 5}, "field inner.text: "),
]


@pytest.mark.parametrize(("name", "kind", "value", "wanted"), WRITTEN, ids=[f"{n}-{v}" for n, _, v, _ in WRITTEN])
def test_each_value_is_written_exactly_or_its_field_fails(name: str, kind: DataType, value: Any, wanted: Any) -> None:
    struct = StructType([StructField(name, kind)])
    data = pa.array([{name: value}], to_arrow_type(struct, timezone="UTC"))
    (made,) = protobuf.encoded(FILE, "t.M", data).to_pylist()
    if isinstance(wanted, str):
        assert made["value"] is None and made["error"].startswith(wanted), made
        return
    (found,) = read(made["value"])
    assert found["error"] is None and found["value"][name] == wanted


def test_nanoseconds_are_not_cut() -> None:
    (found,) = read(b"\x32\x02\x10\x01")  # at: nanos 1
    assert found["error"] == "field at: 0.000000001 s since 1970 has more digits than microseconds"
