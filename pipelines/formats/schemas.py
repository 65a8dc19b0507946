"""Schemas as pipelines' files write them, as Spark's types; and Spark's types as Connect's schemas.

A schema is text in Spark's DDL (`id BIGINT, tags ARRAY<STRING>`), or a mapping: Spark's own JSON form (`type: struct`,
fields with `name`) or Connect's (fields with `field`). What Connect's says besides types (names, defaults) goes into
the metadata of the struct's fields.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pyspark.errors import PySparkException
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
    VariantType,
)

from kvorum.pipelines.formats.base import FormatError

NAME: Final = "connect.name"
VERSION: Final = "connect.version"
DEFAULT: Final = "connect.default"
LOGICAL: Final = "org.apache.kafka.connect.data."
TIME: Final = f"{LOGICAL}Time"
DECIMAL_PRECISION: Final = 38
"""Spark's largest; Connect's Decimal has a scale only."""

PLAIN: Final[Mapping[str, DataType]] = {
    "int8": ByteType(),
    "int16": ShortType(),
    "int32": IntegerType(),
    "int64": LongType(),
    "float": FloatType(),
    "float32": FloatType(),
    "double": DoubleType(),
    "float64": DoubleType(),
    "boolean": BooleanType(),
    "string": StringType(),
    "bytes": BinaryType(),
}
"""Connect's types; JSON's envelope says float and double."""

CONNECT_NAMES: Final[Mapping[type[DataType], str]] = {
    ByteType: "int8",
    ShortType: "int16",
    IntegerType: "int32",
    LongType: "int64",
    FloatType: "float",
    DoubleType: "double",
    BooleanType: "boolean",
    StringType: "string",
    BinaryType: "bytes",
}


def from_file(given: str | Mapping[str, Any]) -> str | Mapping[str, Any]:
    """Return what a schema says: itself, or the text of the file that `file:PATH` names. Raises FormatError."""
    if not isinstance(given, str) or not given.startswith("file:"):
        return given
    try:
        return Path(given.removeprefix("file:")).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FormatError(f"{given.removeprefix('file:')} cannot be read: {error}") from error


def parsed(given: str | Mapping[str, Any]) -> tuple[DataType, dict[str, Any]]:
    """Return a schema's type, and metadata for the column that has it. Raises FormatError."""
    said = from_file(given)
    if isinstance(said, str) and said.lstrip().startswith("{"):
        try:
            said = json.loads(said)
        except json.JSONDecodeError as error:
            raise FormatError(f"the schema is not JSON: {error}") from error
    if isinstance(said, str):
        return from_ddl(said), {}
    assert isinstance(said, Mapping)
    inner = said.get("fields", ())
    if str(said.get("type")) in (*PLAIN, "array", "map", "struct") and all("field" in one for one in inner):
        return from_connect(said)
    try:
        return StructType.fromJson(dict(said)), {}
    except (KeyError, TypeError, ValueError, PySparkException) as error:
        raise FormatError(f"the schema is neither Spark's nor Connect's: {error}") from error


def from_ddl(text: str) -> DataType:
    """Return the type of Spark's DDL. Raises FormatError."""
    try:
        return StructType.fromDDL(text)
    except PySparkException as error:
        reason = str(error).strip().splitlines()[0]
        raise FormatError(f"the schema {text!r} is not Spark's DDL: {reason}") from error


def fields_of(kind: DataType, what: str) -> StructType:
    """Return a struct. Raises FormatError for other types."""
    if not isinstance(kind, StructType):
        raise FormatError(f"format {what} needs a schema of fields, not {kind.simpleString()}")
    return kind


def from_connect(schema: Mapping[str, Any]) -> tuple[DataType, dict[str, Any]]:
    """Return the type of a schema in Connect's JSON form, and metadata for the field that has it."""
    kind, name = str(schema.get("type")), str(schema.get("name") or "")
    metadata: dict[str, Any] = {}
    if name and (not name.startswith(LOGICAL) or name == TIME):
        metadata[NAME] = name
    if schema.get("version") is not None and NAME in metadata:
        metadata[VERSION] = int(schema["version"])
    if schema.get("default") is not None:
        metadata[DEFAULT] = json.dumps(schema["default"])
    return _from_connect(kind, name, schema), metadata


def _from_connect(kind: str, name: str, schema: Mapping[str, Any]) -> DataType:
    match kind, name.removeprefix(LOGICAL):
        case "int64", "Timestamp":
            return TimestampType()
        case "int32", "Date":
            return DateType()
        case "int32", "Time":
            return IntegerType()  # named in the metadata: Spark's own TIME is off by default
        case "bytes", "Decimal":
            return DecimalType(DECIMAL_PRECISION, int(schema.get("parameters", {}).get("scale", 0)))
        case "struct", _:
            made = [(one, *from_connect(one)) for one in schema.get("fields", ())]
            return StructType([StructField(str(one["field"]), inner, metadata=more) for one, inner, more in made])
        case "array", _:
            return ArrayType(from_connect(schema["items"])[0])
        case "map", _:
            return MapType(from_connect(schema["keys"])[0], from_connect(schema["values"])[0])
        case _ if kind in PLAIN:
            return PLAIN[kind]
        case _:
            raise FormatError(f"{kind!r} is no type of Connect's")


def to_connect(kind: DataType, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return a type as a schema in Connect's JSON form: everything optional, as Spark's columns are."""
    said = _to_connect(kind)
    said["optional"] = True
    if NAME in metadata:
        said["name"] = metadata[NAME]
    if VERSION in metadata:
        said["version"] = metadata[VERSION]
    if DEFAULT in metadata:
        said["default"] = json.loads(metadata[DEFAULT])
    return said


def _to_connect(kind: DataType) -> dict[str, Any]:
    match kind:
        case StructType():
            inner = [{**to_connect(one.dataType, one.metadata or {}), "field": one.name} for one in kind.fields]
            return {"type": "struct", "fields": inner}
        case ArrayType():
            return {"type": "array", "items": to_connect(kind.elementType, {})}
        case MapType():
            return {"type": "map", "keys": to_connect(kind.keyType, {}), "values": to_connect(kind.valueType, {})}
        case TimestampType() | TimestampNTZType():
            return {"type": "int64", "name": f"{LOGICAL}Timestamp", "version": 1}
        case DateType():
            return {"type": "int32", "name": f"{LOGICAL}Date", "version": 1}
        case TimeType():
            return {"type": "int32", "name": f"{LOGICAL}Time", "version": 1}
        case DecimalType():
            parameters = {"scale": str(kind.scale), "connect.decimal.precision": str(kind.precision)}
            return {"type": "bytes", "name": f"{LOGICAL}Decimal", "version": 1, "parameters": parameters}
        case VariantType():
            raise FormatError("a value without a schema cannot be written with one: give the source's format a schema")
        case _ if type(kind) in CONNECT_NAMES:
            return {"type": CONNECT_NAMES[type(kind)]}
        case _:
            raise FormatError(f"Connect has no type for {kind.simpleString()}")
