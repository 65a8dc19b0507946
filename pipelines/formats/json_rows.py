"""JSON a row at a time: each field exactly as it was written, or the field and the reason why not.

Runs in Spark's Python workers. Spark's from_json is faster, but it rounds decimals to the column's scale, drops the
time after a date, ignores bytes behind the value, takes the last of two equal keys and does not name the wrong field.

`schema` is a schema in Kafka Connect's JSON form, if the pipeline has one: it has what is optional, defaults, and
scales that Spark's decimals cannot have.
"""

import base64
import json
import math
import re
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any, Final
from zoneinfo import ZoneInfo

import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_type

from kvorum.pipelines.faults import Unfit, shown
from kvorum.pipelines.formats.base import EXACT, FormatError, by_row, fitted
from kvorum.pipelines.formats.schemas import BITS

NOT_FINITE: Final = ("NaN", "Infinity", "-Infinity", "+Infinity", "INF", "-INF", "+INF")
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROS: Final = timedelta(microseconds=1)
MOMENT: Final = re.compile(
    r"(\d{4})-(\d\d?)-(\d\d?)"
    r"(?:[T ](\d\d?):(\d\d?)(?::(\d\d?)(?:\.(\d+))?)?\s*(Z|UTC|[+-]\d\d?:?\d\d|[A-Za-z_]+/\S+)?)?"
)
VARIANT_DIGITS: Final = 38
Convert = Callable[[Any], Any]
Schema = Mapping[str, Any] | None


class Number(str):
    """A JSON number with a point or an exponent, as it was written."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Reads texts of one schema."""

    kind: T.DataType
    schema: Schema = None
    connect: bool = False
    """Times and decimals are Kafka Connect's."""
    envelope: bool = False
    zone: str = "UTC"
    """Of times that have none."""
    defaults: bool = True
    """Null becomes the field's default."""

    def function(self) -> Callable[[bytes], Any]:
        """Return the function that reads one text; it raises Unfit. Raises FormatError for a type without JSON."""
        convert = self.convert(self.kind, self.schema)
        return lambda data: convert(payload(data) if self.envelope else parsed(data))

    def decoded(self, data: "pa.Array[Any]") -> "pa.Array[Any]":
        """Return what texts say, as structs of value and error. json_columns.ColumnReader is the faster form."""
        return by_row(data, self.function(), to_arrow_type(as_text(self.kind), timezone="UTC"))

    def convert(self, kind: T.DataType, schema: Schema) -> Convert:
        """Return the conversion of a value that may be null or missing."""
        plain = self.plain(kind, schema)
        default, is_required = None, False
        if schema is not None:
            is_required = schema.get("optional") is not True
            if self.defaults and schema.get("default") is not None:
                default = plain(DECODER.decode(json.dumps(schema["default"])))

        if default is None and not is_required:
            return lambda value: None if value is None else plain(value)

        def one(value: Any) -> Any:
            if value is not None:
                return plain(value)
            if default is None:
                raise Unfit("required, but null or missing")
            return default

        return one

    def plain(self, kind: T.DataType, schema: Schema) -> Convert:
        """Return the conversion of a value that is not null."""
        schema = schema or {}
        match kind:
            case T.StructType():
                inner = {one["field"]: one for one in schema.get("fields", ())}
                fields = [(one.name, self.convert(one.dataType, inner.get(one.name))) for one in kind.fields]
                return partial(_struct, fields)
            case T.ArrayType():
                return partial(_array, self.convert(kind.elementType, schema.get("items")))
            case T.MapType():
                key = self.convert(kind.keyType, schema.get("keys"))
                is_text = isinstance(kind.keyType, T.StringType)
                return partial(_map, key, self.convert(kind.valueType, schema.get("values")), is_text)
            case T.DecimalType():
                scale = int(schema["parameters"]["scale"]) if schema.get("parameters") else kind.scale
                return partial(_connect_decimal, kind, scale) if self.connect else partial(_decimal, kind)
            case T.TimestampType() | T.TimestampNTZType() if self.connect:
                return _milliseconds
            case T.DateType() if self.connect:
                return _integer(T.IntegerType())
            case T.TimestampType():
                return partial(_timestamp, UTC if self.zone in ("UTC", "Z") else ZoneInfo(self.zone))
            case T.TimestampNTZType():
                return partial(_timestamp, None)
            case T.DateType():
                return _date
            case T.CharType() | T.VarcharType():
                return partial(_limited, kind.length)
            case _ if type(kind) in BITS:
                return _integer(kind)
            case _ if type(kind) in PLAIN:
                return PLAIN[type(kind)]
            case _:
                raise FormatError(f"json: {kind.simpleString()} is not read from JSON: give the field another type")


def as_text(kind: T.DataType) -> T.DataType:
    """Return a type with text in place of types that Arrow functions cannot return."""
    match kind:
        case T.StructType():
            return T.StructType([T.StructField(one.name, as_text(one.dataType), metadata=one.metadata) for one in kind])
        case T.ArrayType():
            return T.ArrayType(as_text(kind.elementType))
        case T.MapType():
            return T.MapType(as_text(kind.keyType), as_text(kind.valueType))
        case T.VariantType() | T.CharType() | T.VarcharType():
            return T.StringType()
        case _:
            return kind


def checked(envelope: bool, data: "pa.Array[Any]") -> "pa.Array[Any]":
    """Return structs of true and error: whether a VARIANT holds each text exactly."""

    def one(text: bytes) -> bool:
        _hold(payload(text) if envelope else parsed(text))
        return True

    return by_row(data, one, pa.bool_())


def _hold(value: Any) -> None:
    """Raise Unfit for a number that a VARIANT does not hold exactly: 38 digits, or a double."""
    match value:
        case dict() | list():
            for name, one in value.items() if isinstance(value, dict) else enumerate(value):
                try:
                    _hold(one)
                except Unfit as unfit:
                    raise unfit.within(name if isinstance(name, str) else f"[{name}]") from None
        case Number() | int() if not isinstance(value, bool):
            text = str(value)
            if "e" not in text.lower() and len(text.lstrip("-").replace(".", "").lstrip("0")) <= VARIANT_DIGITS:
                return
            if Decimal(repr(_double(value))) != Decimal(text):
                raise Unfit(f"{shown(text)} has more digits than a VARIANT holds exactly; give the format a schema")
        case str():
            _string(value)


def payload(data: bytes) -> Any:
    """Return the payload in Kafka Connect's envelope. Raises Unfit."""
    found = parsed(data)
    if not isinstance(found, dict) or found.keys() != {"schema", "payload"}:
        raise Unfit('not an object of exactly "schema" and "payload" (schemas.enable)')
    return found["payload"]


def parsed(data: bytes) -> Any:
    """Return the value of a JSON text; numbers as they are written. Raises Unfit."""
    try:
        return DECODER.decode(data.decode().removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}"))
    except UnicodeDecodeError as error:
        raise Unfit(f"not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise Unfit(f"not JSON at character {error.pos}: {error.msg}") from error
    except Unfit:
        raise
    except ValueError as error:  # an integer of more than 4300 digits
        raise Unfit(f"not read: {error}") from error
    except RecursionError as error:
        raise Unfit("not read: nested too deeply") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        double = next(name for name in names if names.count(name) > 1)
        raise Unfit(f"the key {double!r} occurs twice")
    return made


def _constant(name: str) -> Any:
    raise Unfit(f"not JSON: {name} is not a value")


DECODER: Final = json.JSONDecoder(object_pairs_hook=_object, parse_float=Number, parse_constant=_constant)


def _struct(fields: list[tuple[str, Convert]], value: Any) -> dict[str, Any]:
    if type(value) is not dict:
        raise Unfit(f"{shown(_written(value))} is not an object")
    made, name, get = dict[str, Any](), "", value.get
    try:
        for name, convert in fields:
            made[name] = convert(get(name))
    except Unfit as unfit:
        raise unfit.within(name) from None
    return made


def _array(item: Convert, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise Unfit(f"{shown(_written(value))} is not an array")
    made = list[Any]()
    try:
        for one in value:
            made.append(item(one))
    except Unfit as unfit:
        raise unfit.within(f"[{len(made)}]") from None
    return made


def _map(key: Convert, item: Convert, is_text: bool, value: Any) -> list[tuple[Any, Any]]:
    """Return pairs. Kafka Connect writes a map whose keys are not strings as an array of pairs."""
    if is_text and isinstance(value, dict):
        pairs = list(value.items())
    elif not is_text and isinstance(value, list) and all(isinstance(one, list) and len(one) == 2 for one in value):
        pairs = [tuple(one) for one in value]
    else:
        raise Unfit(f"{shown(_written(value))} is not {'an object' if is_text else 'an array of pairs'}")
    made, name = list[tuple[Any, Any]](), ""
    try:
        for name, one in pairs:
            made.append((key(name), item(one)))
    except Unfit as unfit:
        raise unfit.within(f"[{_written(name)}]") from None
    if len({json.dumps(each, default=str) for each, _ in made}) < len(made):
        raise Unfit("a key occurs twice")
    return made


def _integer(kind: T.DataType) -> Convert:
    low, high, name = -(1 << (BITS[type(kind)] - 1)), (1 << (BITS[type(kind)] - 1)) - 1, kind.simpleString()

    def one(value: Any) -> int:
        if type(value) is not int:
            raise Unfit(f"{shown(_written(value))} is not an integer ({name})")
        if not low <= value <= high:
            raise Unfit(f"{shown(value)} is out of the range of {name}")
        return value

    return one


LONG: Final = _integer(T.LongType())


def _milliseconds(value: Any) -> int:
    return int(LONG(LONG(value) * 1000))


def _double(value: Any) -> float:
    if type(value) is not int and type(value) is not Number and value not in NOT_FINITE:
        raise Unfit(f"{shown(_written(value))} is not a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if math.isinf(number) and value not in NOT_FINITE:
        raise Unfit(f"{shown(value)} is out of the range of double")
    return number


def _float(value: Any) -> float:
    number = _double(value)
    try:
        struct.pack("<f", number)
    except OverflowError as error:
        raise Unfit(f"{shown(value)} is out of the range of float") from error
    return number


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Unfit(f"{shown(_written(value))} is not true or false")
    return value


def _string(value: Any) -> str:
    """Return a string; another value as JSON, as Spark does."""
    text = value if isinstance(value, str) else _written(value)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise Unfit(f"half of a surrogate pair at character {error.start}") from error
    return text


def _limited(length: int, value: Any) -> str:
    text = _string(value)
    if len(text) > length:
        raise Unfit(f"{shown(text)} has more than {length} characters")
    return text


def _written(value: Any) -> str:
    """Return a value as JSON; numbers as they were written."""
    match value:
        case Number():
            return str(value)
        case dict():
            return "{" + ",".join(f"{_written(name)}:{_written(one)}" for name, one in value.items()) + "}"
        case list():
            return "[" + ",".join(map(_written, value)) + "]"
        case _:
            return json.dumps(value, ensure_ascii=False)


def _binary(value: Any) -> bytes:
    if type(value) is not str:
        raise Unfit(f"{shown(_written(value))} is not a base64 string")
    try:
        return base64.b64decode(value, validate=True)
    except ValueError as error:
        raise Unfit(f"{shown(_written(value))} is not base64: {error}") from error


def _decimal(kind: T.DecimalType, value: Any) -> Decimal:
    if type(value) is not int and not isinstance(value, str):
        raise Unfit(f"{shown(_written(value))} is not a number")
    try:
        return fitted(kind, Decimal(value))
    except InvalidOperation as error:
        raise Unfit(f"{shown(_written(value))} is not a number") from error


def _connect_decimal(kind: T.DecimalType, scale: int, value: Any) -> Decimal:
    """Return Connect's decimal: base64 of the unscaled number, or a number (decimal.format NUMERIC)."""
    if type(value) in (int, Number):
        return _decimal(kind, value)
    data = _binary(value)
    if not data:
        raise Unfit("an empty string is not a decimal")
    return fitted(kind, Decimal(int.from_bytes(data, signed=True)).scaleb(-scale, EXACT))


def _timestamp(zone: tzinfo | None, value: Any) -> int:
    """Return the microseconds of a time as text; without a zone of its own it is in the session's."""
    matched = MOMENT.fullmatch(value) if type(value) is str else None
    if matched is None:
        raise Unfit(f"{shown(_written(value))} is not a timestamp, such as 2024-01-31T12:00:00.000Z")
    *parts, fraction, own = matched.groups()
    if (fraction or "")[6:].strip("0"):
        raise Unfit(f"{shown(_written(value))} has more digits than microseconds")
    if own and zone is None:
        raise Unfit(f"{shown(_written(value))} has a time zone; timestamp_ntz has none")
    year, month, day, hour, minute, second = (int(part or 0) for part in parts)
    micros = int((fraction or "0")[:6].ljust(6, "0"))
    try:
        moment = datetime(year, month, day, hour, minute, second, micros, _zone(own) or zone or UTC)
    except (ValueError, KeyError) as error:
        raise Unfit(f"{shown(_written(value))} is not a timestamp: {error}") from error
    return (moment - EPOCH) // MICROS


def _zone(name: str | None) -> tzinfo | None:
    if name is None or name[0] not in "+-":
        return None if name is None else UTC if name in ("Z", "UTC") else ZoneInfo(name)
    hours, minutes = name[1:-2].rstrip(":"), name[-2:]
    offset = timedelta(hours=int(hours), minutes=int(minutes))
    return timezone(-offset if name[0] == "-" else offset)


def _date(value: Any) -> date:
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d?-\d\d?", value):
        with suppress(ValueError):
            return date(*map(int, value.split("-")))
    raise Unfit(f"{shown(_written(value))} is not a date, such as 2024-01-31")


PLAIN: Final[Mapping[type[T.DataType], Convert]] = {
    T.BooleanType: _boolean,
    T.DoubleType: _double,
    T.FloatType: _float,
    T.StringType: _string,
    T.BinaryType: _binary,
    T.VariantType: _written,
}
