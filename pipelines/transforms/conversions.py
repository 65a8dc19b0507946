"""Java's conversions between plain types as column expressions, whatever Spark's ANSI mode says.

Narrower integers wrap, floating point saturates and cuts off towards zero, text must be a number from its first to its
last letter, any text but `true` is false. These are Connect's Cast and header values.
"""

import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kvorum.pipelines.formats.schemas import BITS, PLAIN
from kvorum.pipelines.transforms import patterns
from kvorum.pipelines.transforms.patterns import DAY_MS
from kvorum.pipelines.transforms.values import Clock, TransformError, Value

TYPES: Final = {name: kind for name, kind in PLAIN.items() if name not in ("float", "double", "bytes")}
"""Connect's names."""
TARGETS: Final[Mapping[str, T.DataType]] = {
    "string": T.StringType(),
    "unix": T.LongType(),
    "Date": T.DateType(),
    "Time": T.IntegerType(),
    "Timestamp": T.TimestampType(),
}
PER_SECOND: Final = {"seconds": 1, "milliseconds": 1000, "microseconds": 1_000_000, "nanoseconds": 1_000_000_000}
NUMBERS: Final[tuple[type[T.DataType], ...]] = (*BITS, T.FloatType, T.DoubleType, T.DecimalType)
INTEGER: Final = r"^[+-]?\d+$"
# Double.parseDouble's grammar but for hexadecimal; it ignores space around the number.
FLOATING: Final = r"^\s*[+-]?(NaN|Infinity|((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[fFdD]?))\s*$"
ISO: Final = ("HH:mm:ss.SSS'Z'", "yyyy-MM-dd", "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")
LITERAL: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$")
FLOAT_MAX: Final = Decimal("3.4028235E38")
DOUBLE_MAX: Final = Decimal("1.7976931348623157E308")
INSTANCES: Final[Sequence[tuple[str, T.DataType]]] = (
    ("^BIGINT$", T.LongType()),
    (r"^(DOUBLE|FLOAT|DECIMAL\(.*)$", T.DoubleType()),
    ("^BOOLEAN$", T.BooleanType()),
    ("^STRING$", T.StringType()),
)
"""What JSON holds: a pattern of schema_of_variant's names, and the type."""


def to_type(column: Column, kind: T.DataType, wanted: T.DataType) -> Column | None:
    """Convert a value of a plain type; null if it is not convertible. None: there is no such conversion."""
    match kind, wanted:
        case _, T.StringType():
            return to_text(column, kind)
        case T.DateType(), _:
            return to_type(F.unix_date(column), T.IntegerType(), wanted)
        case ((T.TimestampType() | T.TimestampNTZType() | T.TimeType()), _):
            return to_type(millis(column, kind), T.LongType(), wanted)
        case T.BooleanType(), T.BooleanType():
            return column
        case T.BooleanType(), _:
            return F.when(column, 1).when(~column, 0).cast(wanted)
        case T.StringType(), T.BooleanType():
            return F.lower(column) == F.lit("true")
        case T.StringType(), T.FloatType() | T.DoubleType():
            return F.when(column.rlike(FLOATING), F.regexp_replace(F.trim(column), "[fFdD]$", "").try_cast(wanted))
        case T.StringType(), _:
            return F.when(column.rlike(INTEGER), column.try_cast(wanted))
        case _, T.BooleanType():
            whole = to_type(column, kind, T.LongType())
            return None if whole is None else whole != F.lit(0)
        case _, T.FloatType() | T.DoubleType() if isinstance(kind, NUMBERS):
            return column.cast(wanted)
        case ((T.FloatType() | T.DoubleType()), _):
            # Double.intValue saturates; shorter types take their low bits from the int.
            return _narrowed(_saturated(column.cast("double"), 64 if isinstance(wanted, T.LongType) else 32), wanted)
        case T.DecimalType(), _:
            # BigDecimal.longValue: the low 64 bits of the whole part. What is beyond 64 bits is null here.
            return _narrowed(F.when(column >= 0, F.floor(column)).otherwise(F.ceil(column)).try_cast("long"), wanted)
        case _ if isinstance(kind, NUMBERS):
            return _narrowed(column.cast("long"), wanted)
        case _:
            return None


def _narrowed(column: Column, wanted: T.DataType) -> Column:
    """Return the low bits of a long."""
    bits = BITS[type(wanted)]
    return column if bits == 64 else F.shiftright(F.shiftleft(column, 64 - bits), 64 - bits).cast(wanted)


def _saturated(column: Column, bits: int) -> Column:
    """Return a double as the long nearest to it among those of `bits` bits, cut off towards zero; NaN is 0."""
    most, least = (1 << (bits - 1)) - 1, -(1 << (bits - 1))
    whole = F.when(F.isnan(column), F.lit(0).cast("long"))
    whole = whole.when(column >= F.lit(float(most)), F.lit(most).cast("long"))
    whole = whole.when(column <= F.lit(float(least)), F.lit(least).cast("long"))
    return whole.otherwise(column.try_cast("long"))


def by_instance(column: Column, wanted: T.DataType) -> Column:
    """Return a VARIANT's value in another type, by what each row holds; null for arrays and objects."""
    kind, result = F.schema_of_variant(column), F.lit(None).cast(wanted)
    for pattern, inner in INSTANCES:
        got = to_type(F.try_variant_get(column, "$", inner.simpleString()), inner, wanted)
        assert got is not None, (inner, wanted)
        result = F.when(kind.rlike(pattern), got).otherwise(result)
    return result


def to_text(column: Column, kind: T.DataType) -> Column | None:
    """Return a value's text: numbers as Java writes them, bytes in base64, dates and times in ISO 8601."""
    match kind:
        case T.StringType():
            return column
        case T.BinaryType():
            return F.base64(column)
        case Clock() | T.DateType() | T.TimestampType() | T.TimestampNTZType() | T.TimeType():
            return _iso(millis(column, kind))
        case _ if isinstance(kind, (T.BooleanType, *NUMBERS)):
            return column.cast("string")
        case _:
            return None


def _iso(moment: Column) -> Column:
    """Return milliseconds as Connect's Values writes them: the time of 1970's first day, a midnight's date, or both."""
    time, date, both = (patterns.formatted(moment, pattern) for pattern in ISO)
    is_midnight = F.pmod(moment, F.lit(DAY_MS).cast("long")) == 0
    return F.when((moment >= 0) & (moment < DAY_MS), time).when(is_midnight, date).otherwise(both)


def millis(column: Column, kind: T.DataType) -> Column:
    """Return a date, a time or a timestamp as milliseconds since 1970."""
    match kind:
        case Clock():
            return column.cast("long")
        case T.DateType():
            return F.unix_date(column).cast("long") * F.lit(DAY_MS).cast("long")
        case T.TimeType():
            return F.time_to_millis(column)
        case T.TimestampNTZType():
            return F.unix_millis(F.to_utc_timestamp(column.cast("timestamp"), F.lit("UTC")))
        case _:
            return F.unix_millis(column)


def moment_of(was: Value, pattern: str, per_second: int) -> Column:
    """Return a time as milliseconds since 1970; null where it is none. Raises TransformError."""
    match was.type:
        case T.VariantType():
            kind = F.schema_of_variant(was.column)
            number = _from_unix(F.try_variant_get(was.column, "$", "bigint"), per_second)
            moment = F.unix_millis(F.try_variant_get(was.column, "$", "timestamp"))
            found = F.when(kind == "BIGINT", number).when(kind.isin("TIMESTAMP", "TIMESTAMP_NTZ", "DATE"), moment)
            text = F.try_variant_get(was.column, "$", "string")
            return found.when(kind == "STRING", patterns.parsed(text, pattern)) if pattern else found
        case T.StringType():
            if not pattern:
                raise TransformError("a format is needed to read text")
            return patterns.parsed(was.column, pattern)
        case T.LongType():
            return _from_unix(was.column, per_second)
        case Clock() | T.DateType() | T.TimestampType() | T.TimestampNTZType() | T.TimeType():
            return millis(was.column, was.type)
        case _:
            shown = was.type.simpleString()
            raise TransformError(f"{shown} is not a time; use string, bigint, date, time or timestamp")


def _from_unix(column: Column, per_second: int) -> Column:
    """Return unix time as milliseconds."""
    if per_second <= 1000:
        return column * F.lit(1000 // per_second).cast("long")
    return patterns.divided(column, per_second // 1000)


def moment_as(moment: Column, target: str, pattern: str, per_second: int) -> Column:
    """Return milliseconds in the target's type."""
    match target:
        case "string":
            return patterns.formatted(moment, pattern)
        case "unix":
            if per_second < 1000:
                return patterns.divided(moment, 1000 // per_second)
            return moment * F.lit(per_second // 1000).cast("long")
        case "Date":
            return patterns.days(moment)
        case "Time":
            return patterns.ms_of_day(moment).cast("int")
        case _:
            return F.timestamp_millis(moment)


def header_text(literal: str) -> str | None:
    """Return what a header holds for InsertHeader's literal; None: no value.

    Connect parses it as a value of some type and writes that value again: `007` becomes 7, `1.50` 1.5, `[1, 2]` [1,2],
    and `null` no value at all; other text stays as it is.
    """
    text = literal.strip()
    if text == "null":
        return None
    if LITERAL.match(text):
        return _number_text(Decimal(text))
    try:
        is_nested = text[:1] in ("[", "{")
        return json.dumps(json.loads(text), separators=(",", ":"), ensure_ascii=False) if is_nested else text
    except json.JSONDecodeError:
        return text


def _number_text(number: Decimal) -> str:
    """Return a number as Java writes the narrowest type that holds it: integers, then float, double, BigDecimal."""
    if number == number.to_integral_value() and abs(number) < FLOAT_MAX:
        return f"{number:f}".partition(".")[0].removeprefix("+")
    if abs(number) <= DOUBLE_MAX:
        text = repr(float(number)).upper().replace("E+", "E")
        mantissa, e, exponent = text.partition("E")
        return f"{mantissa}{'' if '.' in mantissa or not e else '.0'}{e}{exponent}"
    return str(number.normalize())
