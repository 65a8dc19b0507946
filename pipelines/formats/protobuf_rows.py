"""Protobuf by the protobuf package: a message's type in Spark, and what runs in Spark's Python workers."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kvorum.pipelines.faults import meant
from kvorum.pipelines.formats.avro_rows import by_row
from kvorum.pipelines.formats.base import FormatError

TIMESTAMP: Final = "google.protobuf.Timestamp"
D = FieldDescriptor
PLAIN: Final[dict[int, DataType]] = {
    D.CPPTYPE_INT32: IntegerType(),
    D.CPPTYPE_INT64: LongType(),
    D.CPPTYPE_UINT32: LongType(),
    D.CPPTYPE_UINT64: DecimalType(20, 0),
    D.CPPTYPE_DOUBLE: DoubleType(),
    D.CPPTYPE_FLOAT: FloatType(),
    D.CPPTYPE_BOOL: BooleanType(),
    D.CPPTYPE_ENUM: StringType(),
}


def described(descriptors: bytes, message: str) -> Descriptor:
    """Return a message's descriptor. Raises FormatError."""
    pool, there = descriptor_pool.DescriptorPool(), list[str]()
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(descriptors)
        there = [".".join(filter(None, (file.package, one.name))) for file in files.file for one in file.message_type]
        for file in files.file:
            pool.Add(file)
        found: Descriptor = pool.FindMessageTypeByName(message)
        return found
    except DecodeError as error:
        raise FormatError("not a descriptor file: create it with protoc --descriptor_set_out") from error
    except (KeyError, TypeError) as error:
        hint = meant(message, there)
        raise FormatError(f"message {message!r} is not in the descriptor file{hint or f': {error}'}") from error


def spark_type(descriptors: bytes, message: str) -> StructType:
    """Return a message's type. Raises FormatError."""
    return _struct(described(descriptors, message), ())


def _struct(found: Descriptor, inside: tuple[str, ...]) -> StructType:
    if found.full_name in inside:
        raise FormatError(f"{found.full_name} is recursive: Spark has no type for it")
    deeper = (*inside, found.full_name)
    return StructType([StructField(one.name, _type(one, deeper)) for one in found.fields])


def _type(one: FieldDescriptor, inside: tuple[str, ...]) -> DataType:
    if _is_map(one):
        entry = one.message_type.fields_by_name
        return MapType(_single(entry["key"], inside), _single(entry["value"], inside))
    kind = _single(one, inside)
    return ArrayType(kind) if one.is_repeated else kind


def _single(one: FieldDescriptor, inside: tuple[str, ...]) -> DataType:
    if one.type == D.TYPE_BYTES:
        return BinaryType()
    if one.cpp_type == D.CPPTYPE_STRING:
        return StringType()
    if one.message_type is not None:
        return TimestampType() if one.message_type.full_name == TIMESTAMP else _struct(one.message_type, inside)
    return PLAIN[one.cpp_type]


def _is_map(one: FieldDescriptor) -> bool:
    return one.message_type is not None and one.message_type.GetOptions().map_entry


def decoded(descriptors: bytes, message: str, kind: StructType, data: "pa.Array[Any]") -> "pa.Array[Any]":
    """Return messages as structs of `kind`; structs of value and error."""
    found = described(descriptors, message)
    make = message_factory.GetMessageClass(found)

    def one(datum: bytes) -> dict[str, Any]:
        return _values(make.FromString(datum))

    return by_row(data, one, to_arrow_type(kind, timezone="UTC"))


def _values(message: Message) -> dict[str, Any]:
    made = dict[str, Any]()
    for one in message.DESCRIPTOR.fields:
        value = getattr(message, one.name)
        if _is_map(one):
            inner = one.message_type.fields_by_name["value"]
            made[one.name] = [(key, _value(inner, item)) for key, item in value.items()]
        elif one.is_repeated:
            made[one.name] = [_value(one, item) for item in value]
        else:
            made[one.name] = None if one.has_presence and not message.HasField(one.name) else _value(one, value)
    return made


def _value(one: FieldDescriptor, value: Any) -> Any:
    if one.message_type is not None:
        if one.message_type.full_name == TIMESTAMP:
            return value.seconds * 1_000_000 + value.nanos // 1000
        return _values(value)
    if one.enum_type is not None:
        named = one.enum_type.values_by_number.get(value)
        return named.name if named is not None else str(value)
    return Decimal(value) if one.cpp_type == D.CPPTYPE_UINT64 else value


def encoded(descriptors: bytes, message: str, data: "pa.Array[Any]") -> "pa.Array[Any]":
    """Return structs as messages' bytes."""
    make = message_factory.GetMessageClass(described(descriptors, message))

    def one(value: dict[str, Any]) -> bytes:
        made = make()
        _fill(made, value)
        return bytes(made.SerializeToString(deterministic=True))

    return by_row(data, one, pa.binary())


def _fill(message: Message, value: dict[str, Any]) -> None:
    for one in message.DESCRIPTOR.fields:
        given = value.get(one.name)
        if given is None:
            continue
        if _is_map(one):
            _fill_map(getattr(message, one.name), one.message_type.fields_by_name["value"], dict(given))
        elif one.is_repeated:
            target = getattr(message, one.name)
            for item in given:
                if one.message_type is not None:
                    _fill_message(target.add(), item)
                else:
                    target.append(_plain(one, item))
        elif one.message_type is not None:
            inner = getattr(message, one.name)
            inner.SetInParent()
            _fill_message(inner, given)
        else:
            setattr(message, one.name, _plain(one, given))


def _fill_map(target: Any, inner: FieldDescriptor, given: dict[Any, Any]) -> None:
    for key, item in given.items():
        if inner.message_type is not None:
            _fill_message(target[key], item)
        else:
            target[key] = _plain(inner, item)


def _fill_message(target: Message, given: Any) -> None:
    if target.DESCRIPTOR.full_name == TIMESTAMP:
        target.FromDatetime(given)
    else:
        _fill(target, given)


def _plain(one: FieldDescriptor, value: Any) -> Any:
    if one.enum_type is not None and isinstance(value, str):
        return one.enum_type.values_by_name[value].number
    convert: Callable[[Any], Any] = int if isinstance(value, Decimal) else lambda same: same
    return convert(value)
