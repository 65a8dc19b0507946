"""Avro's schemas and Spark's types.

A union of null and one type is that type. A union of int and long is a long, of float and double a double; others are
rejected. Logical types: date, timestamp-millis and -micros, local-timestamp-*, decimal, uuid (as text); time-* are read
as their numbers.
"""

import itertools
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar

import fastavro
from fastavro.schema import SchemaParseException, UnknownType
from pyspark.sql import types as T

from kvorum.pipelines.faults import meant
from kvorum.pipelines.formats.base import FormatError
from kvorum.pipelines.formats.schemas import DECIMAL_PRECISION, from_file, named

G = TypeVar("G")

PLAIN: Final[Mapping[str, T.DataType]] = {
    "boolean": T.BooleanType(),
    "int": T.IntegerType(),
    "long": T.LongType(),
    "float": T.FloatType(),
    "double": T.DoubleType(),
    "bytes": T.BinaryType(),
    "string": T.StringType(),
    "enum": T.StringType(),
    "fixed": T.BinaryType(),
}
NESTED: Final = ("record", "array", "map")
LOGICAL: Final[Mapping[tuple[str, str], T.DataType]] = {
    ("int", "date"): T.DateType(),
    ("long", "timestamp-millis"): T.TimestampType(),
    ("long", "timestamp-micros"): T.TimestampType(),
    ("long", "local-timestamp-millis"): T.TimestampNTZType(),
    ("long", "local-timestamp-micros"): T.TimestampNTZType(),
}
WIDENED: Final[Mapping[frozenset[str], str]] = {
    frozenset({"int", "long"}): "long",
    frozenset({"float", "double"}): "double",
}
WRITTEN: Final[Mapping[type[T.DataType], str | dict[str, str]]] = {
    T.BooleanType: "boolean",
    T.ByteType: "int",
    T.ShortType: "int",
    T.IntegerType: "int",
    T.LongType: "long",
    T.FloatType: "float",
    T.DoubleType: "double",
    T.BinaryType: "bytes",
    T.StringType: "string",
    T.DateType: {"type": "int", "logicalType": "date"},
    T.TimeType: {"type": "long", "logicalType": "time-micros"},
    T.TimestampType: {"type": "long", "logicalType": "timestamp-micros"},
    T.TimestampNTZType: {"type": "long", "logicalType": "local-timestamp-micros"},
}


def parsed(given: Any) -> Any:
    """Return a schema as data, checked. Raises FormatError."""
    said = from_file(given)
    if isinstance(said, str) and said.lstrip()[:1] in ("{", "[", '"'):
        try:
            said = json.loads(said)
        except json.JSONDecodeError as error:
            raise FormatError(f"{named(given)}the Avro schema is not JSON: {error}") from error
    try:
        fastavro.parse_schema(_copied(said))
    except UnknownType as error:
        # A name that is none; or the mapping that says it, if the name stands for a type with parts.
        name = error.name.get("type") if isinstance(error.name, dict) else error.name
        hint = meant(str(name), (*PLAIN, *NESTED))
        raise FormatError(f"{named(given)}not an Avro schema: unknown type {name!r}{hint}") from error
    except KeyError as error:
        raise FormatError(f"{named(given)}not an Avro schema: {error} is missing") from error
    except (SchemaParseException, TypeError, ValueError) as error:
        raise FormatError(f"{named(given)}not an Avro schema: {error}") from error
    return _without_times(said)


def checked(given: G) -> G:
    """Return a schema after a look at it, for a validator of a model. Raises FormatError."""
    parsed(given)
    return given


def _without_times(schema: Any) -> Any:
    """Return a schema whose times of the day are plain numbers: Spark's own TIME is off by default."""
    match schema:
        case list():
            return [_without_times(one) for one in schema]
        case dict():
            is_time = str(schema.get("logicalType", "")).startswith("time-")
            return {key: _without_times(one) for key, one in schema.items() if not (is_time and key == "logicalType")}
        case _:
            return schema


def _copied(schema: Any) -> Any:
    """Return a copy: fastavro writes into what it parses."""
    return json.loads(json.dumps(schema))


def field_names(schema: Any) -> list[str] | None:
    """Return the names of a record's fields; None if the schema is not a record."""
    if isinstance(schema, dict) and schema.get("type") == "record":
        return [str(one["name"]) for one in schema["fields"]]
    return None


def spark_type(schema: Any) -> T.DataType:
    """Return the type that a schema's data have. Raises FormatError for what has none."""
    return _type(schema, {}, ())


def _type(schema: Any, named: dict[str, Any], inside: tuple[str, ...]) -> T.DataType:
    if isinstance(schema, list):
        kinds = [one for one in schema if one != "null"]
        plain = frozenset(one if isinstance(one, str) else str(one.get("type")) for one in kinds)
        if len(kinds) == 1:
            return _type(kinds[0], named, inside)
        if plain in WIDENED:
            return PLAIN[WIDENED[plain]]
        raise FormatError(f"a union of {', '.join(sorted(plain))} has no type in Spark: give the field one type")
    if isinstance(schema, str):
        if schema in PLAIN and schema not in ("enum", "fixed"):
            return PLAIN[schema]
        if schema in inside:
            raise FormatError(f"{schema!r} is recursive: Spark has no type for it")
        if schema in named:
            return _type(named[schema], named, inside)
        raise FormatError(f"Avro's {schema!r} has no type in Spark")
    kind, logical = schema.get("type"), schema.get("logicalType")
    if "name" in schema:
        named[schema["name"]] = schema
    if isinstance(kind, dict | list):
        return _type(kind, named, inside)
    match kind:
        case "record":
            deeper = (*inside, schema["name"])
            made = [T.StructField(one["name"], _type(one["type"], named, deeper)) for one in schema["fields"]]
            return T.StructType(made)
        case "array":
            return T.ArrayType(_type(schema["items"], named, inside))
        case "map":
            return T.MapType(T.StringType(), _type(schema["values"], named, inside))
        case "bytes" | "fixed" if logical == "decimal":
            if int(schema["precision"]) > DECIMAL_PRECISION:
                raise FormatError(
                    f"a decimal of {schema['precision']} digits: Spark's have {DECIMAL_PRECISION} at most"
                )
            return T.DecimalType(int(schema["precision"]), int(schema.get("scale", 0)))
        case _ if (kind, logical) in LOGICAL:
            return LOGICAL[kind, str(logical)]
        case _ if kind in PLAIN:
            return PLAIN[kind]
        case _:
            return _type(kind, named, inside)


def of_type(kind: T.DataType, name: str) -> Any:
    """Return a schema for a type: everything may be null but the whole. Raises FormatError."""
    namespace, _, last = name.rpartition(".")
    made = _of_type(kind, itertools.chain([last], (f"{last}{number}" for number in itertools.count(2))))
    if namespace and isinstance(made, dict) and made.get("type") == "record":
        made["namespace"] = namespace
    return made


def _of_type(kind: T.DataType, names: Iterator[str]) -> Any:
    match kind:
        case T.StructType():
            name = next(names)
            made = [
                {"name": one.name, "type": ["null", _of_type(one.dataType, names)], "default": None}
                for one in kind.fields
            ]
            return {"type": "record", "name": name, "fields": made}
        case T.ArrayType():
            return {"type": "array", "items": ["null", _of_type(kind.elementType, names)]}
        case T.MapType() if isinstance(kind.keyType, T.StringType):
            return {"type": "map", "values": ["null", _of_type(kind.valueType, names)]}
        case T.DecimalType():
            return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
        case _ if type(kind) in WRITTEN:
            return WRITTEN[type(kind)]
        case _:
            raise FormatError(f"Avro has no type for {kind.simpleString()}: give it a schema")
