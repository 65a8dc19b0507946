"""Avro: plain, or behind Confluent's five bytes.

`schema` is the reader's schema. Records written with an older one are read with that (`writer.schema`; behind the five
bytes: `schemas`, by their id) and converted by Avro's rules: fields added need defaults.

Types: a union of null and one type is that type. A union of int and long is a long, of float and double a double;
others are rejected. Logical types: date, timestamp-millis and -micros, local-timestamp-*, decimal, uuid (as text);
time-* are read as their numbers.

Rows are read and written by fastavro in Spark's Python workers. Logical types are converted here: fastavro rounds a
decimal to its precision, cuts a time to milliseconds and has no years beyond Python's.
"""

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from functools import partial
from typing import Annotated, Any, Final, Literal, Self

import fastavro
import pyarrow as pa
from fastavro.read import LOGICAL_READERS
from fastavro.schema import SchemaParseException, UnknownType
from fastavro.validation import ValidationError, validate
from pydantic import AfterValidator, model_validator
from pydantic import Field as Option
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_type
from typing_extensions import override

from kvorum.pipelines.faults import Unfit, meant, shown
from kvorum.pipelines.formats import schemas
from kvorum.pipelines.formats.base import EXACT, Coded, Format, FormatError, as_float, by_row, by_rows, fitted

MAGIC: Final = 0
PREFIX_BYTES: Final = 5
INTEGERS: Final = {"int": 32, "long": 64}
MILLISECONDS: Final = ("timestamp-millis", "local-timestamp-millis")
MICROSECONDS: Final = ("timestamp-micros", "local-timestamp-micros")
PLAIN: Final[Mapping[str, T.DataType]] = {
    "boolean": T.BooleanType(),
    "int": T.IntegerType(),
    "long": T.LongType(),
    "float": T.FloatType(),
    "double": T.DoubleType(),
    "bytes": T.BinaryType(),
    "string": T.StringType(),
}
NAMED: Final[Mapping[str, T.DataType]] = {"enum": T.StringType(), "fixed": T.BinaryType()}
NESTED: Final = ("record", "array", "map")
LOGICAL: Final[Mapping[tuple[str, str], T.DataType]] = {
    ("int", "date"): T.DateType(),
    ("long", "timestamp-millis"): T.TimestampType(),
    ("long", "timestamp-micros"): T.TimestampType(),
    ("long", "local-timestamp-millis"): T.TimestampNTZType(),
    ("long", "local-timestamp-micros"): T.TimestampNTZType(),
}
WIDENED: Final = {frozenset({"int", "long"}): T.LongType(), frozenset({"float", "double"}): T.DoubleType()}
Convert = Callable[[Any], Any]
Leaf = Callable[[Mapping[str, Any], T.DataType], Convert]


# Schemas


def parsed(given: Any) -> Any:
    """Return a schema as data, checked. Raises FormatError."""
    found, where = schemas.read(given)
    try:
        if isinstance(found, str) and found.lstrip()[:1] in ("{", "[", '"'):
            found = json.loads(found)
        _for_fastavro(found)
        return _without_times(found)
    except json.JSONDecodeError as error:
        raise FormatError(f"{where}the Avro schema is not JSON: {error}") from error
    except UnknownType as error:
        # A name that is none; or the mapping that says it, if the name stands for a type with parts.
        name = error.name.get("type") if isinstance(error.name, dict) else error.name
        reason: Any = f"unknown type {name!r}{meant(str(name), (*PLAIN, *NAMED, *NESTED))}"
    except KeyError as error:
        reason = f"{error} is missing"
    except (SchemaParseException, TypeError, ValueError) as error:
        reason = error
    raise FormatError(f"{where}not an Avro schema: {reason}")


def _for_fastavro(schema: Any) -> Any:
    """Return a copy of a schema as fastavro needs it: it writes into what it parses."""
    return fastavro.parse_schema(json.loads(json.dumps(schema)))


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
            return WIDENED[plain]
        raise FormatError(f"a union of {', '.join(sorted(plain))} has no type in Spark: give the field one type")
    if isinstance(schema, str):
        if schema in PLAIN:
            return PLAIN[schema]
        if schema in inside:
            raise FormatError(f"{schema!r} is recursive: Spark has no type for it")
        if schema in named:
            return _type(named[schema], named, inside)
        raise FormatError(f"Avro's {schema!r} has no type in Spark")
    kind, logical = schema.get("type"), schema.get("logicalType")
    if "name" in schema:
        named[schema["name"]] = schema
    match kind:
        case "record":
            deeper = (*inside, schema["name"])
            return T.StructType(
                [T.StructField(one["name"], _type(one["type"], named, deeper)) for one in schema["fields"]]
            )
        case "array":
            return T.ArrayType(_type(schema["items"], named, inside))
        case "map":
            return T.MapType(T.StringType(), _type(schema["values"], named, inside))
        case "bytes" | "fixed" if logical == "decimal":
            precision, most = int(schema["precision"]), schemas.DECIMAL_PRECISION
            if precision > most:
                raise FormatError(f"a decimal of {precision} digits: Spark's have {most} at most")
            return T.DecimalType(precision, int(schema.get("scale", 0)))
        case str() if (kind, logical) in LOGICAL:
            return LOGICAL[kind, str(logical)]
        case str() if kind in NAMED:
            return NAMED[kind]
        case _:
            return _type(kind, named, inside)


# The format


Schema = Annotated[str | dict[str, Any] | list[Any], AfterValidator(parsed)]


class AvroFormat(Format):
    """One datum per record, no container file. Schemas are JSON as text, as a mapping, or as `file:PATH`."""

    schema_: Schema | None = Option(default=None, alias="schema")
    writer: Schema | None = Option(default=None, alias="writer.schema")
    wire: Literal["plain", "confluent"] = "plain"
    schemas: dict[int, Schema] = Option(default_factory=dict)
    """Of records behind the five bytes, by id."""
    id: int | None = Option(default=None, alias="schema.id")
    """What is written into the five bytes."""

    @model_validator(mode="after")
    def _wire(self) -> Self:
        if self.wire == "plain" and (self.schemas or self.id is not None):
            raise ValueError("schemas and schema.id require wire: confluent")
        return self

    @override
    def read(self, column: Column, spark: SparkSession) -> Coded:
        reader = self.schema_ if self.schema_ is not None else self.writer
        if reader is None:
            raise FormatError("format avro needs a schema to read")
        writers: dict[Any, Any] = {None: reader if self.writer is None else self.writer}
        if self.wire == "confluent":
            writers = {**({} if self.id is None else {self.id: reader}), **self.schemas}
            if not writers:
                raise FormatError("wire: confluent needs schemas, or a schema.id for the one schema")
        kind = spark_type(reader)
        return by_rows(partial(decoded, writers, reader, kind), kind, column, "avro")

    @override
    def write(self, column: Column, field: T.StructField) -> Coded:
        kind, schema = field.dataType, self.schema_
        if schema is None:
            raise FormatError("format avro needs a schema to write")
        if isinstance(schema, dict) and schema.get("type") == "record":
            there = [str(one["name"]) for one in schema["fields"]]
            unknown = [name for name in getattr(kind, "names", ()) if name not in there]
            if unknown:
                raise FormatError(f"the Avro schema has no field {unknown[0]!r}; it has {', '.join(there)}")
        coded = by_rows(partial(encoded, schema, kind), T.BinaryType(), column, "avro")
        if self.wire == "plain":
            return coded
        if self.id is None:
            raise FormatError("wire: confluent needs a schema.id to write")
        prefix = F.unhex(F.lit(f"{MAGIC:02X}{self.id:08X}"))
        return Coded(F.concat(prefix, coded.column), coded.error)


# Reading, in Spark's Python workers


def decoded(writers: Mapping[int | None, Any], reader: Any, kind: T.DataType, data: "pa.Array[Any]") -> "pa.Array[Any]":
    """Return the values of bytes, as `kind`. `writers`: by the id in Confluent's five bytes, or None without them."""
    wanted, normal = _for_fastavro(reader), exact(reader, kind, _read_leaf, list)
    prepared = {number: _for_fastavro(writer) for number, writer in writers.items()}

    def one(datum: bytes) -> Any:
        number, body = None, datum
        if None not in writers:
            if len(datum) < PREFIX_BYTES or datum[0] != MAGIC:
                raise Unfit("not behind Confluent's five bytes")
            number, body = int.from_bytes(datum[1:PREFIX_BYTES]), datum[PREFIX_BYTES:]
        if number not in writers:
            raise Unfit(f"there is no schema of id {number}")
        written, buffer = prepared[number], io.BytesIO(body)
        try:
            found = fastavro.schemaless_reader(buffer, written, None if written == wanted else wanted)
        except Exception as error:
            raise failed_field(writers[number], body, error) from error
        if buffer.tell() < len(body):
            raise Unfit(f"{len(body) - buffer.tell()} bytes follow the value")
        return normal(found)

    with exact_types():
        return by_row(data, one, to_arrow_type(kind, timezone="UTC"))


def failed_field(schema: Any, datum: bytes, error: Exception) -> Unfit:
    """Return a failure to read as one of the field that the bytes cannot be: each field is tried in turn."""
    fields = schema.get("fields", ()) if isinstance(schema, dict) and schema.get("type") == "record" else ()
    end = 0
    for count, field in enumerate(fields, 1):
        prefix, buffer = {**schema, "fields": fields[:count]}, io.BytesIO(datum)
        try:
            fastavro.schemaless_reader(buffer, _for_fastavro(prefix), None)
            end = buffer.tell()
        except Exception as caught:
            return failed_field(field["type"], datum[end:], caught).within(str(field["name"]))
    if isinstance(error, EOFError | IndexError):
        return Unfit("the bytes end before its value does")
    if isinstance(error, Unfit):
        return Unfit(str(error))
    return Unfit(f"the bytes are not a {_named(schema)} ({type(error).__name__})")


def _named(schema: Any) -> str:
    if isinstance(schema, dict):
        return str(schema.get("logicalType") or schema.get("name") or schema.get("type"))
    return " or ".join(map(_named, schema)) if isinstance(schema, list) else str(schema)


@contextmanager
def exact_types() -> Iterator[None]:
    """Read logical types exactly: fastavro has one table of functions per process."""
    before = dict(LOGICAL_READERS)
    unchanged = (*(f"long-{name}" for name in MICROSECONDS), "int-date", "string-uuid")
    LOGICAL_READERS.update(dict.fromkeys(unchanged, lambda value, *_: value))
    LOGICAL_READERS.update(dict.fromkeys((f"long-{name}" for name in MILLISECONDS), _milliseconds))
    LOGICAL_READERS.update(dict.fromkeys(("bytes-decimal", "fixed-decimal"), _decimal))
    try:
        yield
    finally:
        LOGICAL_READERS.clear()
        LOGICAL_READERS.update(before)


def _milliseconds(value: int, *_: Any) -> int:
    if not -(1 << 63) <= value * 1000 < 1 << 63:
        raise Unfit(f"{value} ms is out of the range of timestamp")
    return value * 1000


def _decimal(value: bytes, writer: Any, *_: Any) -> Decimal:
    if not value:
        raise Unfit("no bytes are not a decimal")
    scale = int(writer.get("scale", 0))
    number = Decimal(int.from_bytes(value, signed=True)).scaleb(-scale, EXACT)
    return fitted(T.DecimalType(int(writer["precision"]), scale), number)


def _read_leaf(given: Mapping[str, Any], kind: T.DataType) -> Convert:
    return partial(fitted, kind) if isinstance(kind, T.DecimalType) else _unchanged


def _unchanged(value: Any) -> Any:
    return value


# Writing


def encoded(schema: Any, kind: T.DataType, data: "pa.Array[Any]") -> "pa.Array[Any]":
    """Return values as bytes."""
    prepared, prepare = _for_fastavro(schema), exact(schema, kind, _write_leaf, dict)

    def one(value: Any) -> bytes:
        buffer, made = io.BytesIO(), prepare(value)
        try:
            fastavro.schemaless_writer(buffer, prepared, made, strict_allow_default=True)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            try:
                validate(made, prepared, raise_errors=True)
            except ValidationError as invalid:  # it names the field
                reason = f"field {'; '.join(map(str, invalid.errors or [error]))}"
            except Exception:  # validation fails as writing did: that error is the reason
                pass
            raise Unfit(reason) from error
        return buffer.getvalue()

    return by_row(data, one, to_arrow_type(T.BinaryType()))


def _write_leaf(given: Mapping[str, Any], kind: T.DataType) -> Convert:
    if isinstance(kind, T.TimestampType | T.TimestampNTZType):
        return partial(_time, given.get("logicalType"))
    if given.get("type") == "float":
        return as_float
    if given.get("type") in INTEGERS and "logicalType" not in given:
        return partial(_integer, str(given["type"]))
    return _unchanged


def _integer(name: str, value: Any) -> Any:
    """Return a number that fits: fastavro writes a larger one without an error."""
    limit = 1 << (INTEGERS[name] - 1)
    if isinstance(value, int) and not -limit <= value < limit:
        raise Unfit(f"{shown(value)} is out of the range of {name}")
    return value


def _time(logical: str | None, value: int) -> int:
    if logical in MICROSECONDS:
        return value
    if logical not in MILLISECONDS:
        raise Unfit(f"a timestamp is not a {logical or 'type without logicalType'}")
    if value % 1000:
        raise Unfit(f"{value} microseconds since 1970 are not milliseconds ({logical})")
    return value // 1000


# Both


def exact(schema: Any, kind: T.DataType, leaf: Leaf, entries: Callable[[Iterable[Any]], Any]) -> Convert:
    """Return the conversion of values that may be null. Maps are pairs in Arrow and dicts in fastavro: `entries`."""
    convert = _exact(schema, kind, leaf, entries)
    return lambda value: None if value is None else convert(value)


def _exact(schema: Any, kind: T.DataType, leaf: Leaf, entries: Callable[[Iterable[Any]], Any]) -> Convert:
    branches = [one for one in schema if one != "null"] if isinstance(schema, list) else [schema]
    plain = branches[0] if len(branches) == 1 else None
    if isinstance(plain, dict) and isinstance(plain.get("type"), dict | list):
        return _exact(plain["type"], kind, leaf, entries)
    given: dict[str, Any] = plain if isinstance(plain, dict) else {"type": plain}
    match kind:
        case T.StructType():
            types = {one["name"]: one["type"] for one in given.get("fields", ())}
            fields = [(one.name, exact(types.get(one.name), one.dataType, leaf, entries)) for one in kind]
            return partial(_struct, fields)
        case T.ArrayType():
            item = exact(given.get("items"), kind.elementType, leaf, entries)
            return lambda value: [item(one) for one in value]
        case T.MapType():
            entry = exact(given.get("values"), kind.valueType, leaf, entries)
            return lambda value: entries((key, entry(one)) for key, one in dict(value).items())
        case _:
            return leaf(given, kind)


def _struct(fields: Sequence[tuple[str, Convert]], value: Any) -> Any:
    made, name = dict[str, Any](), ""
    try:
        for name, convert in fields:
            made[name] = convert(value.get(name))
    except Unfit as unfit:
        raise unfit.within(name) from None
    return made
