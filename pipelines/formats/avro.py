"""Avro: plain, or behind Confluent's five bytes.

`schema` is the one that is wanted. What was written with an older one is read with that (`writer.schema`; behind the
five bytes: `schemas`, by their id) and comes out in the wanted one by Avro's rules: fields added need defaults.

Rows are read and written by fastavro in Spark's Python workers. Logical types are read and written by functions of our
own: fastavro rounds a decimal to its precision, cuts a time to milliseconds and has no years beyond Python's.
"""

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Annotated, Any, Final, Literal, Self

import fastavro
import pyarrow as pa
from fastavro.read import LOGICAL_READERS
from fastavro.validation import ValidationError, validate
from pydantic import AfterValidator, model_validator
from pydantic import Field as Option
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_type

from kvorum.pipelines.faults import Unfit, shown
from kvorum.pipelines.formats import avro_schemas, modules, schemas
from kvorum.pipelines.formats.base import Coded, FormatError, FormatOptions, Typed
from kvorum.pipelines.formats.rows import EXACT, as_float, by_row, fitted

MAGIC: Final = 0
PREFIX_BYTES: Final = 5
INTEGERS: Final = {"int": 32, "long": 64}
MILLISECONDS: Final = ("timestamp-millis", "local-timestamp-millis")
MICROSECONDS: Final = ("timestamp-micros", "local-timestamp-micros")
Convert = Callable[[Any], Any]
Leaf = Callable[[Mapping[str, Any], T.DataType], Convert]

Schema = Annotated[str | dict[str, Any] | list[Any], AfterValidator(avro_schemas.checked)]


class AvroOptions(FormatOptions):
    """Schemas are Avro's JSON, as text, as a mapping, or as `file:PATH`."""

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


@dataclass(frozen=True, slots=True)
class AvroFormat:
    """One datum a record, no container file."""

    options: AvroOptions

    def read(self, column: Column, spark: SparkSession) -> Coded:
        """Return what a datum says."""
        wanted = self.options.schema_ if self.options.schema_ is not None else self.options.writer
        if wanted is None:
            raise FormatError("format avro needs a schema to read")
        reader = avro_schemas.parsed(wanted)
        writers: dict[int | None, Any] = {None: reader}
        if self.options.wire == "confluent":
            writers = {number: avro_schemas.parsed(schema) for number, schema in self.options.schemas.items()}
            if self.options.id is not None:
                writers.setdefault(self.options.id, reader)
            if not writers:
                raise FormatError("wire: confluent needs schemas, or a schema.id for the one schema")
        elif self.options.writer is not None:
            writers = {None: avro_schemas.parsed(self.options.writer)}
        kind = avro_schemas.spark_type(reader)
        return modules.by_rows(partial(decoded, writers, reader, kind), kind, column, "avro")

    def write(self, value: Typed, spark: SparkSession) -> Coded:
        """Return a value's datum. Without a schema, of the one that its type makes."""
        if self.options.schema_ is not None:
            schema = avro_schemas.parsed(self.options.schema_)
            there = avro_schemas.field_names(schema)
            unknown = [name for name in getattr(value.type, "names", ()) if there is not None and name not in there]
            if unknown:
                raise FormatError(f"the Avro schema has no field {unknown[0]!r}; it has {', '.join(there or ())}")
        else:
            schema = avro_schemas.of_type(value.type, str(value.metadata.get(schemas.NAME, "Value")))
        encode = partial(encoded, schema, value.type)
        coded = modules.by_rows(encode, T.BinaryType(), value.column, "avro")
        if self.options.wire == "plain":
            return coded
        if self.options.id is None:
            raise FormatError("wire: confluent needs a schema.id to write")
        prefix = F.unhex(F.lit(f"{MAGIC:02X}{self.options.id:08X}"))
        return Coded(column=F.concat(prefix, coded.column), wrong=coded.wrong, message=coded.message)


# Reading, in Spark's Python workers


def decoded(writers: Mapping[int | None, Any], reader: Any, kind: T.DataType, data: "pa.Array[Any]") -> "pa.Array[Any]":
    """Return what bytes say, as `kind`. `writers` are by the id in Confluent's five bytes; None: there are none."""
    wanted, normal = _parsed(reader), exact(reader, kind, _read_leaf, list)
    parsed = {number: _parsed(writer) for number, writer in writers.items()}

    def one(datum: bytes) -> Any:
        number, body = (None, datum) if None in writers else _unframed(datum)
        if number not in writers:
            raise Unfit(f"there is no schema of id {number}")
        written, buffer = parsed[number], io.BytesIO(body)
        try:
            found = fastavro.schemaless_reader(buffer, written, None if written == wanted else wanted)
        except Exception as error:
            raise failed_field(writers[number], body, error) from error
        if buffer.tell() < len(body):
            raise Unfit(f"{len(body) - buffer.tell()} bytes follow the value")
        return normal(found)

    with exact_types():
        return by_row(data, one, to_arrow_type(kind, timezone="UTC"))


def _parsed(schema: Any) -> Any:
    """Return a schema as fastavro needs it: it writes into what it parses."""
    return fastavro.parse_schema(json.loads(json.dumps(schema)))


def _unframed(datum: bytes) -> tuple[int, bytes]:
    if len(datum) < PREFIX_BYTES or datum[0] != MAGIC:
        raise Unfit("not behind Confluent's five bytes")
    return int.from_bytes(datum[1:PREFIX_BYTES]), datum[PREFIX_BYTES:]


def failed_field(schema: Any, datum: bytes, error: Exception) -> Unfit:
    """Return a failure to read as one of the field that the bytes cannot be: each field is tried in turn."""
    reason = (
        str(error) if isinstance(error, Unfit) else f"the bytes are not a {_named(schema)} ({type(error).__name__})"
    )
    if isinstance(error, EOFError | IndexError):
        reason = "the bytes end before its value does"
    fields = schema.get("fields", ()) if isinstance(schema, dict) and schema.get("type") == "record" else ()
    end = 0
    for count, field in enumerate(fields, 1):
        prefix, buffer = {**schema, "fields": fields[:count]}, io.BytesIO(datum)
        try:
            fastavro.schemaless_reader(buffer, _parsed(prefix), None)
            end = buffer.tell()
        except Exception as caught:
            return failed_field(field["type"], datum[end:], caught).within(str(field["name"]))
    return Unfit(reason)


def _named(schema: Any) -> str:
    if isinstance(schema, dict):
        return str(schema.get("logicalType") or schema.get("name") or schema.get("type"))
    return " or ".join(map(_named, schema)) if isinstance(schema, list) else str(schema)


@contextmanager
def exact_types() -> Iterator[None]:
    """Read logical types exactly: fastavro has one table of functions per process."""
    before = dict(LOGICAL_READERS)
    as_it_is: Callable[..., Any] = lambda value, *_: value  # noqa: E731
    LOGICAL_READERS.update(
        {
            **{f"long-{name}": _milliseconds for name in MILLISECONDS},
            **{f"long-{name}": as_it_is for name in MICROSECONDS},
            **dict.fromkeys(("int-date", "string-uuid"), as_it_is),
            **dict.fromkeys(("bytes-decimal", "fixed-decimal"), _decimal),
        }
    )
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
    number = Decimal(int.from_bytes(value, signed=True)).scaleb(-int(writer.get("scale", 0)), EXACT)
    return fitted(T.DecimalType(int(writer["precision"]), int(writer.get("scale", 0))), number)


def _read_leaf(given: Mapping[str, Any], kind: T.DataType) -> Convert:
    match kind:
        case T.DecimalType():
            return partial(fitted, kind)
        case T.StringType():
            return str
        case _:
            return lambda value: value


# Writing


def encoded(schema: Any, kind: T.DataType, data: "pa.Array[Any]") -> "pa.Array[Any]":
    """Return values as bytes."""
    parsed, prepare = _parsed(schema), exact(schema, kind, _write_leaf, dict)

    def one(value: Any) -> bytes:
        buffer, made = io.BytesIO(), prepare(value)
        try:
            fastavro.schemaless_writer(buffer, parsed, made, strict_allow_default=True)
        except Exception as error:
            raise _refused(made, parsed, error) from error
        return buffer.getvalue()

    return by_row(data, one, to_arrow_type(T.BinaryType()))


def _refused(value: Any, schema: Any, error: Exception) -> Unfit:
    """Return a failure to write, with the field that fastavro's validation finds."""
    try:
        validate(value, schema, raise_errors=True)
    except ValidationError as invalid:
        return Unfit(f"field {'; '.join(map(str, invalid.errors or [error]))}")
    except Exception:  # validation fails as writing did: that error is the reason
        return Unfit(f"{type(error).__name__}: {error}")
    return Unfit(f"{type(error).__name__}: {error}")


def _write_leaf(given: Mapping[str, Any], kind: T.DataType) -> Convert:
    match kind:
        case T.TimestampType() | T.TimestampNTZType():
            return partial(_time, given.get("logicalType"))
        case _ if given.get("type") == "float":
            return as_float
        case _ if given.get("type") in INTEGERS and "logicalType" not in given:
            return partial(_integer, str(given["type"]))
        case _:
            return lambda value: value


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
    branches = [one for one in schema if one != "null"] if isinstance(schema, list) else [schema]
    plain = branches[0] if len(branches) == 1 else None
    if isinstance(plain, dict) and isinstance(plain.get("type"), dict | list):
        return exact(plain["type"], kind, leaf, entries)
    given: dict[str, Any] = plain if isinstance(plain, dict) else {"type": plain}

    def inner(part: Any, of: T.DataType) -> Convert:
        return exact(part, of, leaf, entries)

    match kind:
        case T.StructType():
            types = {one["name"]: one["type"] for one in given.get("fields", ())}
            fields = [(one.name, inner(types.get(one.name), one.dataType)) for one in kind]
            return lambda value: None if value is None else _struct(fields, value)
        case T.ArrayType():
            item = inner(given.get("items"), kind.elementType)
            return lambda value: None if value is None else [item(one) for one in value]
        case T.MapType():
            entry = inner(given.get("values"), kind.valueType)
            return lambda value: (
                None if value is None else entries((key, entry(one)) for key, one in dict(value).items())
            )
        case _:
            convert = leaf(given, kind)
            return lambda value: None if value is None else convert(value)


def _struct(fields: Sequence[tuple[str, Convert]], value: Any) -> Any:
    made, name = dict[str, Any](), ""
    try:
        for name, convert in fields:
            made[name] = convert(value.get(name))
    except Unfit as unfit:
        raise unfit.within(name) from None
    return made
