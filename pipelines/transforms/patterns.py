"""Java's date patterns (SimpleDateFormat's, which Connect's options are written in) as column expressions, in UTC.

Written letter by letter from milliseconds, since Spark's own formatter has other letters and follows the session's
time zone. Read by Spark's parser, for which the letters are translated.

Letters: G y M L d H k K h m s S E u F a D z Z X. Not: w W Y, which depend on the machine's locale. Read are fewer: not
G E u F. Unlike SimpleDateFormat the parser takes no month 13, and nothing after the pattern's end; S is a fraction of a
second (SimpleDateFormat reads six digits of it as so many milliseconds).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from kvorum.pipelines.transforms.values import TransformError

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


def divided(column: Column, by: int) -> Column:
    """Return a long divided, cut off towards zero (TimeUnit's way)."""
    return column if by == 1 else F.call_function("div", column, F.lit(by).cast("long"))


def days(moment: Column) -> Column:
    """Return the date of milliseconds since 1970."""
    unit = F.lit(DAY_MS).cast("long")
    return F.date_from_unix_date(F.call_function("div", moment - F.pmod(moment, unit), unit).cast("int"))


def ms_of_day(moment: Column) -> Column:
    """Return the time of day of milliseconds since 1970."""
    return F.pmod(moment, F.lit(DAY_MS).cast("long"))


def _hour(moment: Column) -> Column:
    return divided(ms_of_day(moment), HOUR_MS)


NUMBERS: Final[Mapping[str, Callable[[Column], Column]]] = {
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
            return _padded(NUMBERS[letter](moment), count)


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
