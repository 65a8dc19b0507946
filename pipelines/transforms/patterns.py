"""Java's date patterns (SimpleDateFormat's, which Connect's options are written in) as column expressions, in UTC.

Written out letter by letter from milliseconds, since Spark's own formatter has other letters and follows the session's
time zone. Read by Spark's parser, for which the letters are translated.

Letters: G y M L d H k K h m s S E u F a D z Z X. Not: w W Y, which depend on the machine's locale. Read are fewer: not
G E u F. Unlike SimpleDateFormat the parser takes no month 13, and nothing after the pattern's end; S is a fraction of a
second (SimpleDateFormat reads six digits of it as so many milliseconds).
"""

import re
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from kvorum.pipelines.transforms import moments
from kvorum.pipelines.transforms.values import TransformError

LOCALE_LETTERS: Final = "wWY"
NUMBER_LETTERS: Final = "yMdHhkKmsSD"
READ_LETTERS: Final = "yMLdHhkKmsSaDzZX"
ZONES: Final = "zZX"
HOUR_MS: Final = 3_600_000
MONTHS: Final = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@dataclass(frozen=True, slots=True)
class Token:
    """A run of one letter, or text (letter empty)."""

    letter: str
    count: int = 0
    text: str = ""


def tokens(pattern: str) -> list[Token]:
    """Return a pattern's parts. Raises TransformError for letters that cannot be written."""
    found = list[Token]()
    for matched in re.finditer(r"'((?:[^']|'')*)'|([A-Za-z])\2*|([^A-Za-z']+)|(')", pattern):
        quoted, letter, other, single = matched.groups()
        if single:
            raise TransformError(f"unterminated quote in {pattern!r}")
        if letter is None:
            text = other if quoted is None else quoted.replace("''", "'") or "'"
            if found and not found[-1].letter:
                found[-1] = Token("", text=found[-1].text + text)
            else:
                found.append(Token("", text=text))
            continue
        if letter in LOCALE_LETTERS:
            raise TransformError(f"{letter!r} in {pattern!r} depends on the machine's locale")
        if letter not in "GyMLdHkKhmsSEuFaDzZX":
            raise TransformError(f"{letter!r} in {pattern!r} is not a letter of a date pattern")
        found.append(Token(letter, count=len(matched.group())))
    return found


def formatted(moment: Column, pattern: str) -> Column:
    """Return milliseconds since 1970 written by a pattern. Raises TransformError."""
    parts = [_written(moment, token) for token in tokens(pattern)]
    return F.concat(*parts) if parts else F.when(moment.isNotNull(), F.lit(""))


def _written(moment: Column, token: Token) -> Column:
    count = token.count
    day = F.date_from_unix_date(moments.floored(moment, moments.DAY_MS).cast("int"))
    of_day = F.pmod(moment, F.lit(moments.DAY_MS).cast("long"))
    hour = moments.divided(of_day, HOUR_MS)
    match token.letter:
        case "":
            return F.lit(token.text)
        case "G":
            return F.lit("AD")
        case "y":
            return _padded(F.pmod(F.year(day), F.lit(100)), 2) if count == 2 else _padded(F.year(day), count)
        case "M" | "L":
            return _padded(F.month(day), count) if count < 3 else _named(F.month(day), MONTHS, short=count == 3)
        case "E":
            return _named(F.weekday(day) + 1, DAYS, short=count <= 3)
        case "a":
            return F.when(hour < 12, "AM").otherwise("PM")
        case "z":
            return F.lit("UTC" if count < 4 else "Coordinated Universal Time")
        case "Z":
            return F.lit("+0000")
        case "X":
            return F.lit("Z")
        case letter:
            return _padded(_number(letter, day, of_day, hour), count)


def _number(letter: str, day: Column, of_day: Column, hour: Column) -> Column:
    match letter:
        case "d":
            return F.dayofmonth(day)
        case "D":
            return F.dayofyear(day)
        case "u":
            return F.weekday(day) + 1
        case "F":
            return F.floor((F.dayofmonth(day) - 1) / 7) + 1
        case "H":
            return hour
        case "k":
            return F.when(hour == 0, 24).otherwise(hour)
        case "K":
            return hour % 12
        case "h":
            return F.when(hour % 12 == 0, 12).otherwise(hour % 12)
        case "m":
            return moments.divided(of_day % HOUR_MS, 60_000)
        case "s":
            return moments.divided(of_day % 60_000, 1000)
        case _:
            assert letter == "S", letter
            return of_day % 1000


def _padded(number: Column, count: int) -> Column:
    """Return a number with at least so many digits; none is cut off."""
    text = number.cast("string")
    return text if count < 2 else F.when(F.length(text) >= count, text).otherwise(F.lpad(text, count, "0"))


def _named(number: Column, names: tuple[str, ...], *, short: bool) -> Column:
    return F.element_at(F.array(*(F.lit(name[:3] if short else name) for name in names)), number.cast("int"))


def parsed(text: Column, pattern: str) -> Column:
    """Return the milliseconds since 1970 that a text says; null where it says none. Raises TransformError."""
    found = tokens(pattern)
    unread = [token.letter for token in found if token.letter and token.letter not in READ_LETTERS]
    if unread:
        raise TransformError(f"{unread[0]!r} in {pattern!r} can be written but not parsed")
    translated = "".join(_translated(found, index) for index in range(len(found)))
    if any(token.letter in ZONES for token in found if token.letter):
        return F.unix_millis(F.try_to_timestamp(text, F.lit(translated)))
    # Without a zone the parser would take the session's.
    utc = F.concat(text, F.lit(" +0000"))
    return F.unix_millis(F.try_to_timestamp(utc, F.lit(f"{translated}' 'xx")))


def _translated(found: list[Token], index: int) -> str:
    """Return a token in DateTimeFormatter's letters; a number takes the digits there are, unless one follows it."""
    token = found[index]
    if not token.letter:
        return "'" + token.text.replace("'", "''") + "'"
    if token.letter == "L":
        return "M" * min(token.count, 4)
    neighbours = [found[at].letter for at in (index - 1, index + 1) if 0 <= at < len(found)]
    beside = any(letter in NUMBER_LETTERS for letter in neighbours if letter)
    named = token.letter == "M" and token.count > 2
    if token.letter in NUMBER_LETTERS and not beside and not named and token.letter != "S":
        return token.letter if token.letter != "y" or token.count != 2 else "yy"
    return token.letter * token.count
