"""Protobuf: messages of a descriptor file, by the protobuf package in Spark's Python workers.

`protoc --include_imports --descriptor_set_out=orders.desc orders.proto` makes the file. A field without presence that
was not sent has its zero, one with presence is null; enums are their names, unsigned numbers the next wider type.
"""

from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message
from pydantic import Field as Option
from pydantic import ValidationInfo, field_validator
from pyspark.sql import Column, SparkSession
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_type
from typing_extensions import override

from kvorum.pipelines.faults import Unfit, meant, shown
from kvorum.pipelines.formats.base import Coded, Format, FormatError, as_float, by_row, by_rows

TIMESTAMP: Final = "google.protobuf.Timestamp"
LENGTH: Final = 2
"""The wire type of strings, bytes and messages."""
D = FieldDescriptor
PLAIN: Final[dict[int, T.DataType]] = {
    D.CPPTYPE_INT32: T.IntegerType(),
    D.CPPTYPE_INT64: T.LongType(),
    D.CPPTYPE_UINT32: T.LongType(),
    D.CPPTYPE_UINT64: T.DecimalType(20, 0),
    D.CPPTYPE_DOUBLE: T.DoubleType(),
    D.CPPTYPE_FLOAT: T.FloatType(),
    D.CPPTYPE_BOOL: T.BooleanType(),
    D.CPPTYPE_ENUM: T.StringType(),
}


class ProtobufFormat(Format):
    """One message per record: a descriptor file and the message's full name."""

    descriptor: str = Option(alias="descriptor.file")
    message: str

    @field_validator("descriptor")
    @classmethod
    def _readable(cls, path: str) -> str:
        descriptors_of(path)
        return path

    @field_validator("message")
    @classmethod
    def _present(cls, message: str, info: ValidationInfo) -> str:
        if "descriptor" in info.data:  # otherwise that is what is wrong
            spark_type(descriptors_of(info.data["descriptor"]), message)
        return message

    @override
    def read(self, column: Column, spark: SparkSession) -> Coded:
        descriptors = descriptors_of(self.descriptor)
        kind = spark_type(descriptors, self.message)
        return by_rows(partial(decoded, descriptors, self.message, kind), kind, column, "protobuf")

    @override
    def write(self, column: Column, field: T.StructField) -> Coded:
        """Return a struct as a message's bytes; a field that the message does not have is refused."""
        kind, descriptors = field.dataType, descriptors_of(self.descriptor)
        if not isinstance(kind, T.StructType):
            raise FormatError(f"format protobuf takes fields, not {kind.simpleString()}")
        there = spark_type(descriptors, self.message).names
        unknown = [name for name in kind.names if name not in there]
        if unknown:
            raise FormatError(f"{self.message} has no field {unknown[0]!r}; it has {', '.join(there)}")
        return by_rows(partial(encoded, descriptors, self.message), T.BinaryType(), column, "protobuf")


def descriptors_of(path: str) -> bytes:
    """Return a descriptor file's bytes. Raises FormatError."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise FormatError(f"{path} cannot be read: {error.strerror}") from error


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


def spark_type(descriptors: bytes, message: str) -> T.StructType:
    """Return a message's type. Raises FormatError."""
    return _struct(described(descriptors, message), ())


def _struct(found: Descriptor, inside: tuple[str, ...]) -> T.StructType:
    if found.full_name in inside:
        raise FormatError(f"{found.full_name} is recursive: Spark has no type for it")
    deeper = (*inside, found.full_name)
    return T.StructType([T.StructField(one.name, _type(one, deeper)) for one in found.fields])


def _type(one: FieldDescriptor, inside: tuple[str, ...]) -> T.DataType:
    if _is_map(one):
        entry = one.message_type.fields_by_name
        return T.MapType(_single(entry["key"], inside), _single(entry["value"], inside))
    kind = _single(one, inside)
    return T.ArrayType(kind) if one.is_repeated else kind


def _single(one: FieldDescriptor, inside: tuple[str, ...]) -> T.DataType:
    if one.type == D.TYPE_BYTES:
        return T.BinaryType()
    if one.cpp_type == D.CPPTYPE_STRING:
        return T.StringType()
    if one.message_type is not None:
        return T.TimestampType() if one.message_type.full_name == TIMESTAMP else _struct(one.message_type, inside)
    return PLAIN[one.cpp_type]


def _is_map(one: FieldDescriptor) -> bool:
    return one.message_type is not None and one.message_type.GetOptions().map_entry


def decoded(descriptors: bytes, message: str, kind: T.StructType, data: "pa.Array[Any]") -> "pa.Array[Any]":
    """Return messages as structs of `kind`; structs of value and error."""
    found = described(descriptors, message)
    make = message_factory.GetMessageClass(found)

    def one(datum: bytes) -> dict[str, Any]:
        try:
            return _values(make.FromString(datum))
        except DecodeError as error:
            raise failed_field(found, datum) from error

    return by_row(data, one, to_arrow_type(kind, timezone="UTC"))


def failed_field(message: Descriptor, data: bytes) -> Unfit:
    """Return a failure to read as one of the first field whose bytes are not what its type says."""
    position = 0
    while position < len(data):
        tag, start = _varint(data, position)
        one = message.fields_by_number.get(tag >> 3)
        name = one.name if one is not None else f"number {tag >> 3}"
        start, position = _extent(data, start, tag & 7)
        if position > len(data):
            return Unfit(f"the bytes end before its value does, or are no {message.full_name}", name)
        if one is None or tag & 7 != LENGTH:
            continue
        if one.message_type is not None:
            inner = failed_field(one.message_type, data[start:position])
            if inner.path:
                return inner.within(name)
        elif one.type == D.TYPE_STRING:
            try:
                data[start:position].decode()
            except UnicodeDecodeError as error:
                return Unfit(f"not UTF-8 at byte {error.start}", name)
    return Unfit(f"the bytes are no {message.full_name}")


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Return a number and where it ends; behind the data if it does not."""
    value = 0
    for count, byte in enumerate(data[position : position + 10]):
        value |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return value, position + count + 1
    return 0, len(data) + 1


def _extent(data: bytes, position: int, wire_type: int) -> tuple[int, int]:
    """Return where a value of a wire type starts and ends; behind the data if it does not."""
    if wire_type == LENGTH:
        size, start = _varint(data, position)
        return start, start + size
    sizes = {0: _varint(data, position)[1] - position, 1: 8, 5: 4}
    return position, position + sizes.get(wire_type, len(data) + 1)


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
        if one.message_type.full_name != TIMESTAMP:
            return _values(value)
        if value.nanos % 1000:
            raise Unfit(f"{value.seconds}.{value.nanos:09} s since 1970 has more digits than microseconds", one.name)
        return value.seconds * 1_000_000 + value.nanos // 1000
    if one.enum_type is not None:
        named = one.enum_type.values_by_number.get(value)
        return named.name if named is not None else str(value)
    return Decimal(value) if one.cpp_type == D.CPPTYPE_UINT64 else value


def encoded(descriptors: bytes, message: str, data: "pa.Array[Any]") -> "pa.Array[Any]":
    """Return structs as messages' bytes."""
    found = described(descriptors, message)
    return by_row(data, lambda value: bytes(_message(found, value).SerializeToString(deterministic=True)), pa.binary())


def _message(found: Descriptor, value: dict[str, Any]) -> Message:
    """Return a struct as a message. Raises Unfit."""
    make = message_factory.GetMessageClass(found)
    made = make()
    for one in found.fields:
        given = value.get(one.name)
        if given is None:
            continue
        try:
            if _is_map(one):
                inner = one.message_type.fields_by_name["value"]
                given = {key: _item(inner, item) for key, item in dict(given).items()}
            else:
                given = [_item(one, item) for item in given] if one.is_repeated else _item(one, given)
            made.MergeFrom(make(**{one.name: given}))
        except Unfit as unfit:
            raise unfit.within(one.name) from None
        except (TypeError, ValueError) as error:
            raise Unfit(str(error), one.name) from error
    return made


def _item(one: FieldDescriptor, value: Any) -> Any:
    """Return a value as the field takes it. Raises Unfit if the field would change it."""
    if one.message_type is not None:
        if one.message_type.full_name != TIMESTAMP:
            return _message(one.message_type, value)
        made = message_factory.GetMessageClass(one.message_type)()
        made.FromMicroseconds(value)
        return made
    if one.enum_type is not None and isinstance(value, str):
        if value not in one.enum_type.values_by_name:
            raise Unfit(f"{shown(value)} is not one of {', '.join(one.enum_type.values_by_name)}")
        return one.enum_type.values_by_name[value].number
    is_real = one.cpp_type in (D.CPPTYPE_DOUBLE, D.CPPTYPE_FLOAT)
    if isinstance(value, Decimal):
        number: float = float(value) if is_real else int(value)
        if Decimal(repr(number)) != value:
            raise Unfit(f"{value} is not a {'double' if is_real else 'whole number'}")
        value = number
    return as_float(value) if one.cpp_type == D.CPPTYPE_FLOAT else value
