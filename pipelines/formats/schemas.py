"""Schemas as pipelines' files write them, as Spark's types; and Spark's types as Connect's schemas.

A schema is text in Spark's DDL (`id BIGINT, tags ARRAY<STRING>`), or a mapping in Connect's JSON form. What Connect's
says besides types (names, defaults) goes into the metadata of the struct's fields.
"""

import json
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import AfterValidator
from pyspark.errors import PySparkException
from pyspark.sql import types as T

from kvorum.pipelines.faults import meant
from kvorum.pipelines.formats.base import FormatError

NAME: Final = "connect.name"
VERSION: Final = "connect.version"
DEFAULT: Final = "connect.default"
LOGICAL: Final = "org.apache.kafka.connect.data."
TIME: Final = f"{LOGICAL}Time"
DECIMAL_PRECISION: Final = 38
"""Spark's largest; Connect's Decimal has a scale only."""

PLAIN: Final[Mapping[str, T.DataType]] = {
    "int8": T.ByteType(),
    "int16": T.ShortType(),
    "int32": T.IntegerType(),
    "int64": T.LongType(),
    "float": T.FloatType(),
    "float32": T.FloatType(),
    "double": T.DoubleType(),
    "float64": T.DoubleType(),
    "boolean": T.BooleanType(),
    "string": T.StringType(),
    "bytes": T.BinaryType(),
}
"""Connect's types; JSON's envelope says float and double."""
BITS: Final[Mapping[type[T.DataType], int]] = {T.ByteType: 8, T.ShortType: 16, T.IntegerType: 32, T.LongType: 64}
CONNECT_NAMES: Final = {type(kind): name for name, kind in reversed(list(PLAIN.items()))}

DDL_TYPES: Final = (
    "ARRAY", "BIGINT", "BINARY", "BOOLEAN", "BYTE", "CHAR", "CHARACTER", "DATE", "DEC", "DECIMAL", "DOUBLE", "FLOAT",
    "GEOGRAPHY", "GEOMETRY", "INT", "INTEGER", "INTERVAL", "LONG", "MAP", "NUMERIC", "REAL", "SHORT", "SMALLINT",
    "STRING", "STRUCT", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "TINYINT", "VARCHAR", "VARIANT", "VOID",
)  # fmt: skip
NO_TYPE: Final = re.compile(
    r"""`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\([^)]*\)|--[^\n]*|/\*.*?\*/""", re.DOTALL
)
"""Quoted names, comments, and numbers of a type."""
FILE: Final = "file:"


def read(given: Any) -> tuple[Any, str]:
    """Return a schema, or the text of its file (`file:PATH`) and `PATH: ` for the beginning of messages.

    Raises FormatError.
    """
    if not isinstance(given, str) or not given.startswith(FILE):
        return given, ""
    path = given.removeprefix(FILE)
    try:
        return Path(path).read_text(encoding="utf-8"), f"{path}: "
    except (OSError, UnicodeDecodeError) as error:
        raise FormatError(f"{path} cannot be read: {error}") from error


def parsed(found: str | Mapping[str, Any]) -> tuple[T.DataType, dict[str, Any]]:
    """Return a schema's type, and metadata for the column that has it. Raises FormatError."""
    return (from_ddl(found), {}) if isinstance(found, str) else from_data(found)


def from_data(found: Mapping[str, Any]) -> tuple[T.DataType, dict[str, Any]]:
    """Return the type, and metadata, of a schema in Connect's JSON form. Raises FormatError."""
    try:
        return from_connect(found)
    except FormatError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        lacks = f"{error} is missing" if isinstance(error, KeyError) else error
        raise FormatError(f"the schema is not Kafka Connect's: {lacks}") from error


def checked(given: str | dict[str, Any], *, columns: bool = False) -> str | dict[str, Any]:
    """Return a schema as DDL or as data of JSON; `columns`: one type alone is not enough. Raises FormatError.

    Of DDL the names of types are checked here, all else by Spark's parser at the start.
    """
    found, where = read(given)
    if isinstance(found, str) and found.lstrip().startswith("{"):
        try:
            found = json.loads(found)
        except json.JSONDecodeError as error:
            raise FormatError(f"{where}the schema is not JSON: {error}") from error
    if not isinstance(found, str):
        kind, _ = from_data(found)
        if columns and not isinstance(kind, T.StructType):
            raise FormatError(f"{where}a schema of fields is needed, not {kind.simpleString()}")
        return dict(found)
    for word in unknown_types(found):
        raise FormatError(f"{where}there is no type {word!r}{meant(word, DDL_TYPES)}")
    if columns and re.fullmatch(r"\s*\w*\s*", found):
        raise FormatError(f"{where}columns are needed, `name TYPE, name TYPE`, not {found!r}")
    return found


def unknown_types(text: str) -> list[str]:
    """Return the words of a schema in DDL that stand where a type must and are none."""
    plain = NO_TYPE.sub(lambda matched: "x" if matched[0].startswith("`") else " ", text)
    parts = (re.split(r"[\s:]+", part.strip()) for part in re.split(r"<|,|>[^<>,]*", plain))
    words = (part[0] if len(part) == 1 or part[0].upper() in DDL_TYPES else part[1] for part in parts)
    return [word for word in words if word and word.upper() not in DDL_TYPES]


Schema = Annotated[str | dict[str, Any], AfterValidator(checked)]
"""A schema in an option's model: an invalid one is reported before the start."""
Columns = Annotated[str | dict[str, Any], AfterValidator(partial(checked, columns=True))]
"""The same, for what has columns."""


def from_ddl(text: str) -> T.DataType:
    """Return the type of Spark's DDL. Raises FormatError."""
    try:
        return T.StructType.fromDDL(text)
    except PySparkException as error:
        reason = str(error).strip().splitlines()[0]
        raise FormatError(f"the schema {text!r} is not Spark's DDL: {reason}") from error


def fields_of(kind: T.DataType, what: str) -> T.StructType:
    """Return a struct. Raises FormatError for other types."""
    if not isinstance(kind, T.StructType):
        raise FormatError(f"format {what} needs a schema of fields, not {kind.simpleString()}")
    return kind


def from_connect(schema: Mapping[str, Any]) -> tuple[T.DataType, dict[str, Any]]:
    """Return the type of a schema in Connect's JSON form, and metadata for the field that has it."""
    kind, name = str(schema.get("type")), str(schema.get("name") or "")
    metadata: dict[str, Any] = {}
    if name and (not name.startswith(LOGICAL) or name == TIME):
        metadata = {NAME: name, **({} if schema.get("version") is None else {VERSION: int(schema["version"])})}
    if schema.get("default") is not None:
        metadata[DEFAULT] = json.dumps(schema["default"])
    return _from_connect(kind, name, schema), metadata


def _from_connect(kind: str, name: str, schema: Mapping[str, Any]) -> T.DataType:
    match kind, name.removeprefix(LOGICAL):
        case "int64", "Timestamp":
            return T.TimestampType()
        case "int32", "Date":
            return T.DateType()
        case "int32", "Time":
            return T.IntegerType()  # named in the metadata: Spark's own TIME is off by default
        case "bytes", "Decimal":
            # A negative or a larger scale is the reader's business: Spark's types have none.
            scale = int(schema.get("parameters", {}).get("scale", 0))
            return T.DecimalType(DECIMAL_PRECISION, min(max(scale, 0), DECIMAL_PRECISION))
        case "struct", _:
            made = [(one, *from_connect(one)) for one in schema.get("fields", ())]
            return T.StructType([T.StructField(str(one["field"]), inner, metadata=more) for one, inner, more in made])
        case "array", _:
            return T.ArrayType(from_connect(schema["items"])[0])
        case "map", _:
            return T.MapType(from_connect(schema["keys"])[0], from_connect(schema["values"])[0])
        case _ if kind in PLAIN:
            return PLAIN[kind]
        case _:
            there = (*PLAIN, "struct", "array", "map")
            raise FormatError(f"{kind!r} is not a type of Kafka Connect{meant(kind, there)}")


def to_connect(kind: T.DataType, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return a type as a schema in Connect's JSON form: everything optional, as Spark's columns are."""
    made = {**_to_connect(kind), "optional": True}
    made |= {key: metadata[name] for key, name in (("name", NAME), ("version", VERSION)) if name in metadata}
    return made | ({"default": json.loads(metadata[DEFAULT])} if DEFAULT in metadata else {})


def _to_connect(kind: T.DataType) -> dict[str, Any]:
    match kind:
        case T.StructType():
            inner = [{**to_connect(one.dataType, one.metadata or {}), "field": one.name} for one in kind.fields]
            return {"type": "struct", "fields": inner}
        case T.ArrayType():
            return {"type": "array", "items": to_connect(kind.elementType, {})}
        case T.MapType():
            return {"type": "map", "keys": to_connect(kind.keyType, {}), "values": to_connect(kind.valueType, {})}
        case T.TimestampType() | T.TimestampNTZType():
            return {"type": "int64", "name": f"{LOGICAL}Timestamp", "version": 1}
        case T.DateType():
            return {"type": "int32", "name": f"{LOGICAL}Date", "version": 1}
        case T.TimeType():
            return {"type": "int32", "name": f"{LOGICAL}Time", "version": 1}
        case T.DecimalType():
            parameters = {"scale": str(kind.scale), "connect.decimal.precision": str(kind.precision)}
            return {"type": "bytes", "name": f"{LOGICAL}Decimal", "version": 1, "parameters": parameters}
        case T.VariantType():
            raise FormatError("a value without a schema cannot be written with one: give the source's format a schema")
        case _ if type(kind) in CONNECT_NAMES:
            return {"type": CONNECT_NAMES[type(kind)]}
        case _:
            raise FormatError(f"Kafka Connect has no type for {kind.simpleString()}")
