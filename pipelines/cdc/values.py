"""From the text of a PostgreSQL value to what JSON holds of it: one function a type, chosen once a column.

Texts are those of a session with the settings SESSION.
The forms are Debezium's (time.precision.mode, decimal.handling.mode, binary.handling.mode); what JSON has no number for
(NaN and infinity) stays text.
"""

import base64
import math
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

Convert: TypeAlias = Callable[[str], object]

SESSION = {
    "datestyle": "ISO",
    "intervalstyle": "iso_8601",
    "timezone": "UTC",
    "extra_float_digits": "3",
    "bytea_output": "hex",
}
"""Settings of a session that make the text of a value exact and independent of the server's configuration."""

DAY_US = 86_400_000_000

BOOL, BYTEA, INT8, INT2, INT4, OID = 16, 17, 20, 21, 23, 26
FLOAT4, FLOAT8, NUMERIC = 700, 701, 1700
DATE, TIME, TIMESTAMP, TIMESTAMPTZ = 1082, 1083, 1114, 1184

# Array type -> type of its elements, of the types that come with PostgreSQL. An array of any other type stays text.
ARRAYS = {
    143: 142, 199: 114, 651: 650, 1000: BOOL, 1001: BYTEA, 1002: 18, 1003: 19, 1005: INT2, 1007: INT4, 1009: 25,
    1014: 1042, 1015: 1043, 1016: INT8, 1021: FLOAT4, 1022: FLOAT8, 1028: OID, 1040: 829, 1041: 869, 1115: TIMESTAMP,
    1182: DATE, 1183: TIME, 1185: TIMESTAMPTZ, 1187: 1186, 1231: NUMERIC, 1270: 1266, 1561: 1560, 1563: 1562,
    2951: 2950, 3807: 3802,
}  # fmt: skip

_DATE = re.compile(r"(\d{4,})-(\d\d)-(\d\d)( BC)?")
_TIME = re.compile(r"(\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?")
_TIMESTAMP = re.compile(r"(\d{4,}-\d\d-\d\d) ([0-9:.]+)(\+00)?( BC)?")
_BOUNDS = re.compile(r"(\[-?\d+:-?\d+\])+=")
_ARRAY_ITEM = re.compile(r'"((?:[^"\\]|\\.)*)"|([^{},"]+)|[{},]', re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


def days_of(year: int, month: int, day: int) -> int:
    """Return days since 1970-01-01 in the proleptic Gregorian calendar; year 0 is 1 BC, and no year is too large."""
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719_468


def _float(text: str) -> object:
    number = float(text)
    return number if math.isfinite(number) else text


def date_days(text: str) -> object:
    """Return a date as days since 1970; infinity and -infinity stay text."""
    match = _DATE.fullmatch(text)
    if match is None:
        return text
    year = int(match[1])
    return days_of(1 - year if match[4] else year, int(match[2]), int(match[3]))


def _time(text: str) -> object:
    match = _TIME.fullmatch(text)
    if match is None:
        return text
    seconds = (int(match[1]) * 60 + int(match[2])) * 60 + int(match[3])
    return seconds * 1_000_000 + int((match[4] or "").ljust(6, "0"))


def timestamp_micros(text: str) -> object:
    """Return a timestamp, with or without a zone, as microseconds since 1970; infinity and -infinity stay text."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return text
    days, micros = date_days(match[1] + (match[4] or "")), _time(match[2])
    return days * DAY_US + micros if isinstance(days, int) and isinstance(micros, int) else text


def _iso_timestamp(text: str) -> object:
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return text
    date = match[1] if not match[4] else f"{1 - int(match[1][:-6]):05d}{match[1][-6:]}"  # ISO 8601 counts 1 BC as 0
    return f"{date}T{match[2]}{'Z' if match[3] else ''}"


def _base64(text: str) -> object:
    return base64.b64encode(bytes.fromhex(text[2:])).decode()


def parse_array(text: str, element: Convert) -> list[object]:
    """Return the lists of an array's text (`{1,NULL,"a,b"}`, any number of dimensions, with or without its bounds).

    Raises: ValueError if it is no array with the delimiter comma.
    """
    bounds = _BOUNDS.match(text)
    position = bounds.end() if bounds else 0
    top: list[object] = []
    stack = [top]
    while position < len(text):
        match = _ARRAY_ITEM.match(text, position)
        if match is None or not (text.startswith("{", position) or stack[1:]):
            break
        position = match.end()
        quoted, plain = match.groups()
        if quoted is not None:
            stack[-1].append(element(_ESCAPE.sub(r"\1", quoted)))
        elif plain is not None:
            stack[-1].append(None if plain == "NULL" else element(plain))
        elif match[0] == "{":
            stack[-1].append([])
            stack.append(stack[-1][-1])  # type: ignore[arg-type]
        elif match[0] == "}":
            stack.pop()
    if position < len(text) or len(stack) != 1 or len(top) != 1:
        raise ValueError(f"not an array: {text[:40]}")
    return top[0]  # type: ignore[return-value]


PLAIN: Mapping[int, Convert] = {
    BOOL: lambda text: text == "t",
    **dict.fromkeys((INT2, INT4, INT8, OID), int),
    **dict.fromkeys((FLOAT4, FLOAT8), _float),
    TIMESTAMPTZ: _iso_timestamp,  # Debezium's ZonedTimestamp, in every mode
}


def converter(type_oid: int, decimal: str = "string", time: str = "microseconds", binary: str = "base64") -> Convert:
    """Return the function for values of one type, in the forms of Debezium's three modes (cdc/options.py).

    A type without a form of its own stays text (uuid, json, enums...).
    """
    if type_oid in ARRAYS:
        return partial(parse_array, element=converter(ARRAYS[type_oid], decimal, time, binary))
    of_modes: Mapping[int, Convert] = {
        NUMERIC: str if decimal == "string" else _float,
        BYTEA: _base64 if binary == "base64" else lambda text: text[2:],
        TIMESTAMP: timestamp_micros if time == "microseconds" else _iso_timestamp,
        **({DATE: date_days, TIME: _time} if time == "microseconds" else {}),
    }
    return of_modes.get(type_oid) or PLAIN.get(type_oid, str)
