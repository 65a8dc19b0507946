"""Java's conversions between plain types as column expressions, whatever Spark's ANSI mode says.

Narrower integers wrap, floating point saturates and cuts off towards zero, text must be a number from its first to its
last letter, any text but `true` is false. These are Connect's Cast and header values.
"""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
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
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
    TimeType,
)

from kvorum.pipelines.transforms import patterns
from kvorum.pipelines.transforms.moments import DAY_MS, Clock, millis

BITS: Final[dict[type[DataType], int]] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
NUMBERS: Final = (ByteType, ShortType, IntegerType, LongType, FloatType, DoubleType, DecimalType)
INTEGER: Final = r"^[+-]?\d+$"
# Double.parseDouble's grammar but for hexadecimal; it ignores space around the number.
FLOATING: Final = r"^\s*[+-]?(NaN|Infinity|((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[fFdD]?))\s*$"


def to_type(column: Column, kind: DataType, wanted: DataType) -> Column | None:
    """Convert a value of a plain type; null if it is not convertible. None: there is no such conversion."""
    if isinstance(kind, DateType | TimestampType | TimestampNTZType | TimeType) and not isinstance(wanted, StringType):
        number = F.unix_date(column) if isinstance(kind, DateType) else millis(column, kind)
        column, kind = number, IntegerType() if isinstance(kind, DateType) else LongType()
    if isinstance(wanted, StringType):
        return to_text(column, kind)
    if isinstance(wanted, BooleanType):
        return to_boolean(column, kind)
    if isinstance(wanted, FloatType | DoubleType):
        return to_floating(column, kind, wanted)
    return to_integer(column, kind, wanted)


def to_integer(column: Column, kind: DataType, wanted: DataType) -> Column | None:
    """Return an integer of some width."""
    bits = BITS[type(wanted)]
    match kind:
        case BooleanType():
            return F.when(column, 1).when(~column, 0).cast(wanted)
        case StringType():
            return F.when(column.rlike(INTEGER), column.try_cast(wanted))
        case FloatType() | DoubleType():
            # Double.intValue saturates; shorter types take their low bits from the int.
            return narrowed(saturated(column.cast("double"), 64 if bits == 64 else 32), wanted)
        case DecimalType():
            # BigDecimal.longValue: the low 64 bits of the whole part. What is beyond 64 bits is null here.
            return narrowed(F.when(column >= 0, F.floor(column)).otherwise(F.ceil(column)).try_cast("long"), wanted)
        case ByteType() | ShortType() | IntegerType() | LongType():
            return narrowed(column.cast("long"), wanted)
        case _:
            return None


def narrowed(column: Column, wanted: DataType) -> Column:
    """Return the low bits of a long."""
    bits = BITS[type(wanted)]
    return column if bits == 64 else F.shiftright(F.shiftleft(column, 64 - bits), 64 - bits).cast(wanted)


def saturated(column: Column, bits: int) -> Column:
    """Return a double as the long nearest to it among those of `bits` bits, cut off towards zero; NaN is 0."""
    most, least = (1 << (bits - 1)) - 1, -(1 << (bits - 1))
    whole = F.when(F.isnan(column), F.lit(0).cast("long"))
    whole = whole.when(column >= F.lit(float(most)), F.lit(most).cast("long"))
    whole = whole.when(column <= F.lit(float(least)), F.lit(least).cast("long"))
    return whole.otherwise(column.try_cast("long"))


def to_floating(column: Column, kind: DataType, wanted: DataType) -> Column | None:
    """Return a float or a double."""
    match kind:
        case BooleanType():
            return F.when(column, 1).when(~column, 0).cast(wanted)
        case StringType():
            trimmed = F.regexp_replace(F.trim(column), "[fFdD]$", "")
            return F.when(column.rlike(FLOATING), trimmed.try_cast(wanted))
        case _ if isinstance(kind, NUMBERS):
            return column.cast(wanted)
        case _:
            return None


def to_boolean(column: Column, kind: DataType) -> Column | None:
    """Return whether a number's whole part is not zero, or a text says true."""
    match kind:
        case BooleanType():
            return column
        case StringType():
            return F.lower(column) == F.lit("true")
        case _:
            whole = to_integer(column, kind, LongType())
            return None if whole is None else whole != F.lit(0)


def to_text(column: Column, kind: DataType) -> Column | None:
    """Return a value's text: numbers as Java writes them, bytes in base64, dates and times in ISO 8601."""
    match kind:
        case StringType():
            return column
        case BinaryType():
            return F.base64(column)
        case Clock() | DateType() | TimestampType() | TimestampNTZType() | TimeType():
            return iso(millis(column, kind))
        case BooleanType() | ByteType() | ShortType() | IntegerType() | LongType() | FloatType() | DoubleType():
            return column.cast("string")
        case DecimalType():
            return column.cast("string")
        case _:
            return None


def iso(moment: Column) -> Column:
    """Return milliseconds as Connect's Values writes them: the time of 1970's first day, a midnight's date, or both."""
    texts = [patterns.formatted(moment, pattern) for pattern in ISO]
    return (
        F.when((moment >= 0) & (moment < DAY_MS), texts[0])
        .when(F.pmod(moment, F.lit(DAY_MS).cast("long")) == 0, texts[1])
        .otherwise(texts[2])
    )


ISO: Final = ("HH:mm:ss.SSS'Z'", "yyyy-MM-dd", "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")
