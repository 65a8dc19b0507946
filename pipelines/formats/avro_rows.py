"""Avro by fastavro: what runs in Spark's Python workers, a batch of rows at a time.

Logical types are read and written by functions of our own: fastavro rounds a decimal to its precision, cuts a time to
milliseconds and has no years beyond Python's.
"""

import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from functools import partial
from typing import Any, Final

import fastavro
import pyarrow as pa
from fastavro.read import LOGICAL_READERS
from fastavro.validation import ValidationError, validate
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DecimalType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from kvorum.pipelines.faults import Unfit, shown
from kvorum.pipelines.formats.rows import EXACT, as_float, by_row, fitted

INTEGERS: Final = {"int": 32, "long": 64}
MILLISECONDS: Final = ("timestamp-millis", "local-timestamp-millis")
MICROSECONDS: Final = ("timestamp-micros", "local-timestamp-micros")


def decoded(writer: Any, reader: Any, kind: DataType, data: "pa.Array[Any]") -> "pa.Array[Any]":
    """Return what bytes say, as `kind`."""
    write_schema, read_schema = (fastavro.parse_schema(json.loads(json.dumps(one))) for one in (writer, reader))
    same = write_schema == read_schema
    normal = normaliser(kind)

    def one(datum: bytes) -> Any:
        buffer = io.BytesIO(datum)
        try:
            found = fastavro.schemaless_reader(buffer, write_schema, None if same else read_schema)
        except Exception as error:
            raise failed_field(writer, datum, error) from error
        if buffer.tell() < len(datum):
            raise Unfit(f"{len(datum) - buffer.tell()} bytes follow the value")
        return normal(found)

    with exact_types():
        return by_row(data, one, to_arrow_type(kind, timezone="UTC"))


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
            fastavro.schemaless_reader(buffer, fastavro.parse_schema(json.loads(json.dumps(prefix))), None)
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
    return fitted(DecimalType(int(writer["precision"]), int(writer.get("scale", 0))), number)


def normaliser(kind: DataType) -> Callable[[Any], Any]:
    """Return what turns fastavro's values into Arrow's where they are not the same."""
    match kind:
        case StructType():
            return partial(_struct, [(one.name, normaliser(one.dataType)) for one in kind.fields])
        case ArrayType():
            item = normaliser(kind.elementType)
            return lambda value: None if value is None else [item(one) for one in value]
        case MapType():
            entry = normaliser(kind.valueType)
            return lambda value: None if value is None else [(key, entry(one)) for key, one in value.items()]
        case DecimalType():
            return lambda value: None if value is None else fitted(kind, value)
        case StringType():
            return lambda value: None if value is None else str(value)
        case _:
            return lambda value: value


def _struct(fields: list[tuple[str, Callable[[Any], Any]]], value: Any) -> Any:
    if value is None:
        return None
    made, name = dict[str, Any](), ""
    try:
        for name, convert in fields:
            made[name] = convert(value.get(name))
    except Unfit as unfit:
        raise unfit.within(name) from None
    return made


# Writing


def encoded(schema: Any, kind: DataType, data: "pa.Array[Any]") -> "pa.Array[Any]":
    """Return values as bytes."""
    parsed, prepare = fastavro.parse_schema(json.loads(json.dumps(schema))), preparer(schema, kind)

    def one(value: Any) -> bytes:
        buffer, made = io.BytesIO(), prepare(value)
        try:
            fastavro.schemaless_writer(buffer, parsed, made, strict_allow_default=True)
        except Exception as error:
            raise _refused(made, parsed, error) from error
        return buffer.getvalue()

    return by_row(data, one, to_arrow_type(BinaryType()))


def _refused(value: Any, schema: Any, error: Exception) -> Unfit:
    """Return a failure to write, with the field that fastavro's validation finds."""
    try:
        validate(value, schema, raise_errors=True)
    except ValidationError as invalid:
        return Unfit(f"field {'; '.join(map(str, invalid.errors or [error]))}")
    except Exception:  # validation fails as writing did: that error is the reason
        return Unfit(f"{type(error).__name__}: {error}")
    return Unfit(f"{type(error).__name__}: {error}")


def preparer(schema: Any, kind: DataType) -> Callable[[Any], Any]:
    """Return what turns Arrow's values into those that fastavro writes exactly. Maps are pairs in Arrow."""
    branches = [one for one in schema if one != "null"] if isinstance(schema, list) else [schema]
    plain = branches[0] if len(branches) == 1 else None
    if isinstance(plain, dict) and isinstance(plain.get("type"), dict | list):
        return preparer(plain["type"], kind)
    given: dict[str, Any] = plain if isinstance(plain, dict) else {"type": plain}
    match kind:
        case StructType():
            types = {one["name"]: one["type"] for one in given.get("fields", ())}
            return partial(_struct, [(one.name, preparer(types.get(one.name), one.dataType)) for one in kind.fields])
        case ArrayType():
            return partial(_items, preparer(given.get("items"), kind.elementType))
        case MapType():
            return partial(_entries, preparer(given.get("values"), kind.valueType))
        case TimestampType() | TimestampNTZType():
            return partial(_time, given.get("logicalType"))
        case _ if given.get("type") == "float":
            return lambda value: None if value is None else as_float(value)
        case _ if given.get("type") in INTEGERS and "logicalType" not in given:
            return partial(_integer, str(given["type"]))
        case _:
            return lambda value: value


def _items(item: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else [item(one) for one in value]


def _entries(entry: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else {key: entry(one) for key, one in dict(value).items()}


def _integer(name: str, value: Any) -> Any:
    """Return a number that fits: fastavro writes a larger one without an error."""
    limit = 1 << (INTEGERS[name] - 1)
    if isinstance(value, int) and not -limit <= value < limit:
        raise Unfit(f"{shown(value)} is out of the range of {name}")
    return value


def _time(logical: str | None, value: int | None) -> int | None:
    if value is None or logical in MICROSECONDS:
        return value
    if logical not in MILLISECONDS:
        raise Unfit(f"a timestamp is not a {logical or 'type without logicalType'}")
    if value % 1000:
        raise Unfit(f"{value} microseconds since 1970 are not milliseconds ({logical})")
    return value // 1000
