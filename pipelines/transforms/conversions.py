"""Java's conversions between plain types as column expressions, whatever Spark's ANSI mode says.

Narrower integers wrap, floating point saturates and cuts off towards zero, text must be a number from its first to its
last letter, any text but `true` is false. These are Connect's Cast and header values.

Date patterns are SimpleDateFormat's, in UTC. They are written letter by letter from milliseconds, since Spark's own
formatter has other letters and follows the session's time zone, and read by Spark's parser, with translated letters.

Letters: G y M L d H k K h m s S E u F a D z Z X. Not: w W Y, which depend on the machine's locale. Read are fewer: not
G E u F. Unlike SimpleDateFormat the parser takes no month 13, and nothing after the pattern's end; S is a fraction of a
second (SimpleDateFormat reads six digits of it as so many milliseconds).
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kvorum.pipelines.formats.schemas import BITS, PLAIN
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
LETTERS: Final = "GyMLdHkKhmsSEuFaDzZX"
LOCALE_LETTERS: Final = "wWY"
NUMBER_LETTERS: Final = "yMdHhkKmsSD"
WRITTEN_ONLY: Final = "GEuF"
ZONES: Final = "zZX"
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 86_400_000
MONTHS: Final = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


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
    time, date, both = (formatted(moment, pattern) for pattern in ISO)
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
            number = _rescaled(F.try_variant_get(was.column, "$", "bigint"), per_second, 1000)
            moment = F.unix_millis(F.try_variant_get(was.column, "$", "timestamp"))
            found = F.when(kind == "BIGINT", number).when(kind.isin("TIMESTAMP", "TIMESTAMP_NTZ", "DATE"), moment)
            text = F.try_variant_get(was.column, "$", "string")
            return found.when(kind == "STRING", parsed(text, pattern)) if pattern else found
        case T.StringType():
            if not pattern:
                raise TransformError("a format is needed to read text")
            return parsed(was.column, pattern)
        case T.LongType():
            return _rescaled(was.column, per_second, 1000)
        case Clock() | T.DateType() | T.TimestampType() | T.TimestampNTZType() | T.TimeType():
            return millis(was.column, was.type)
        case _:
            shown = was.type.simpleString()
            raise TransformError(f"{shown} is not a time; use string, bigint, date, time or timestamp")


def _rescaled(column: Column, per_second: int, wanted: int) -> Column:
    """Return a number of units per second in other units, cut off towards zero."""
    if wanted < per_second:
        return divided(column, per_second // wanted)
    return column * F.lit(wanted // per_second).cast("long")


def moment_as(moment: Column, target: str, pattern: str, per_second: int) -> Column:
    """Return milliseconds in the target's type."""
    match target:
        case "string":
            return formatted(moment, pattern)
        case "unix":
            return _rescaled(moment, 1000, per_second)
        case "Date":
            return days(moment)
        case "Time":
            return ms_of_day(moment).cast("int")
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


# Date patterns


def divided(column: Column, by: int) -> Column:
    """Return a long divided, cut off towards zero (TimeUnit's way)."""
    return F.call_function("div", column, F.lit(by).cast("long"))


def days(moment: Column) -> Column:
    """Return the date of milliseconds since 1970."""
    unit = F.lit(DAY_MS).cast("long")
    return F.date_from_unix_date(F.call_function("div", moment - F.pmod(moment, unit), unit).cast("int"))


def ms_of_day(moment: Column) -> Column:
    """Return the time of day of milliseconds since 1970."""
    return F.pmod(moment, F.lit(DAY_MS).cast("long"))


def _hour(moment: Column) -> Column:
    return divided(ms_of_day(moment), HOUR_MS)


DIGITS: Final[Mapping[str, Callable[[Column], Column]]] = {
    **dict.fromkeys("ML", lambda moment: F.month(days(moment))),
    "d": lambda moment: F.dayofmonth(days(moment)),
    "D": lambda moment: F.dayofyear(days(moment)),
    "u": lambda moment: F.weekday(days(moment)) + 1,
    "F": lambda moment: F.floor((F.dayofmonth(days(moment)) - 1) / 7) + 1,
    "H": _hour,
    "k": lambda moment: F.when(_hour(moment) == 0, 24).otherwise(_hour(moment)),
    "K": lambda moment: _hour(moment) % 12,
    "h": lambda moment: F.when(_hour(moment) % 12 == 0, 12).otherwise(_hour(moment) % 12),
    "m": lambda moment: divided(ms_of_day(moment) % HOUR_MS, 60_000),
    "s": lambda moment: divided(ms_of_day(moment) % 60_000, 1000),
    "S": lambda moment: ms_of_day(moment) % 1000,
}
"""Letters that are written as a number."""


Token = tuple[str, str]
"""A letter and its run, or no letter and text."""


def tokens(pattern: str) -> list[Token]:
    """Return a pattern's parts. Raises TransformError for letters that cannot be written."""
    found = list[Token]()
    for matched in re.finditer(r"'((?:[^']|'')*)'|([A-Za-z])\2*|([^A-Za-z']+)|(')", pattern):
        quoted, letter, other, single = matched.groups()
        if single:
            raise TransformError(f"unterminated quote in {pattern!r}")
        if letter is None:
            text = other if quoted is None else quoted.replace("''", "'") or "'"
            before = found.pop()[1] if found and not found[-1][0] else ""
            found.append(("", before + text))
        elif letter in LOCALE_LETTERS:
            raise TransformError(f"{letter!r} in {pattern!r} depends on the machine's locale")
        elif letter not in LETTERS:
            raise TransformError(f"{letter!r} in {pattern!r} is not a letter of a date pattern")
        else:
            found.append((letter, matched.group()))
    return found


def formatted(moment: Column, pattern: str) -> Column:
    """Return milliseconds since 1970 written by a pattern. Raises TransformError."""
    parts = [_written(moment, letter, text) for letter, text in tokens(pattern)]
    return F.concat(*parts) if parts else F.when(moment.isNotNull(), F.lit(""))


def _written(moment: Column, letter: str, text: str) -> Column:
    count = len(text)
    match letter:
        case "":
            return F.lit(text)
        case "G" | "Z" | "X":
            return F.lit({"G": "AD", "Z": "+0000", "X": "Z"}[letter])
        case "z":
            return F.lit("UTC" if count < 4 else "Coordinated Universal Time")
        case "y":
            year = F.year(days(moment))
            return _padded(F.pmod(year, F.lit(100)) if count == 2 else year, count)
        case "M" | "L" if count > 2:
            return _named(F.month(days(moment)), MONTHS, short=count == 3)
        case "E":
            return _named(F.weekday(days(moment)) + 1, DAYS, short=count <= 3)
        case "a":
            return F.when(_hour(moment) < 12, "AM").otherwise("PM")
        case _:
            return _padded(DIGITS[letter](moment), count)


def _padded(number: Column, count: int) -> Column:
    """Return a number with at least so many digits; none is cut off."""
    text = number.cast("string")
    return text if count < 2 else F.when(F.length(text) >= count, text).otherwise(F.lpad(text, count, "0"))


def _named(number: Column, names: Sequence[str], *, short: bool) -> Column:
    return F.element_at(F.array(*(F.lit(name[:3] if short else name) for name in names)), number.cast("int"))


def parsed(text: Column, pattern: str) -> Column:
    """Return the milliseconds since 1970 that a text says; null where it says none. Raises TransformError."""
    found = tokens(pattern)
    letters = "".join(letter for letter, _ in found)
    unread = [letter for letter in letters if letter in WRITTEN_ONLY]
    if unread:
        raise TransformError(f"{unread[0]!r} in {pattern!r} can be written but not parsed")
    translated = "".join(_translated(found, index) for index in range(len(found)))
    if not set(letters) & set(ZONES):
        # Without a zone the parser would take the session's.
        text, translated = F.concat(text, F.lit(" +0000")), f"{translated}' 'xx"
    return F.unix_millis(F.try_to_timestamp(text, F.lit(translated)))


def _translated(found: Sequence[Token], index: int) -> str:
    """Return a token in DateTimeFormatter's letters; a number takes the digits there are, unless one follows it."""
    letter, text = found[index]
    if not letter:
        return "'" + text.replace("'", "''") + "'"
    if letter == "L":
        return "M" * min(len(text), 4)
    neighbours = [found[at][0] for at in (index - 1, index + 1) if 0 <= at < len(found)]
    is_beside = any(near in NUMBER_LETTERS for near in neighbours if near)
    is_name = letter == "M" and len(text) > 2
    if letter in NUMBER_LETTERS and letter != "S" and not is_beside and not is_name:
        return "yy" if text == "yy" else letter
    return text
