"""Moments as milliseconds since 1970, whole numbers divided: what patterns and conversions share.

Connect's Time is an integer here, milliseconds of the day, whose metadata name it: Spark's own TIME is off by default.
Where such a column is looked at, its type is Clock.
"""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DateType, IntegerType, TimestampNTZType, TimeType

DAY_MS: Final = 86_400_000
TIME_NAME: Final = "org.apache.kafka.connect.data.Time"


class Clock(IntegerType):
    """Milliseconds of a day; in a frame an integer with metadata."""


def millis(column: Column, kind: DataType) -> Column:
    """Return a date, a time or a timestamp as milliseconds since 1970."""
    match kind:
        case Clock():
            return column.cast("long")
        case DateType():
            return F.unix_date(column).cast("long") * F.lit(DAY_MS).cast("long")
        case TimeType():
            return F.time_to_millis(column)
        case TimestampNTZType():
            return F.unix_millis(F.to_utc_timestamp(column.cast("timestamp"), F.lit("UTC")))
        case _:
            return F.unix_millis(column)


def divided(column: Column, by: int) -> Column:
    """Return a long divided, cut off towards zero (TimeUnit's way)."""
    return column if by == 1 else F.call_function("div", column, F.lit(by).cast("long"))


def floored(column: Column, by: int) -> Column:
    """Return a long divided, rounded down."""
    unit = F.lit(by).cast("long")
    return F.call_function("div", column - F.pmod(column, unit), unit)
