"""Start and end in a partition, as entered: by number, from an end, by time, or a range.

Sans-IO.

start, beginning, earliest      the first record                   -100      100 records before the end
end, latest                     after the last record              +100      100 records after the first
1200                            this offset                        @1767225600000, @2026-01-01, @-1h     by time
100:200   :end   @-1h:end       from one (or the first) up to, but without, the other
s@MS, e@MS                      from a time, and up to a time (kcat)
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import Final, NamedTuple

OFFSET_MAX: Final = 2**63 - 1
SECONDS_DIGITS_MAX: Final = 10
"""A number with at most this number of digits is seconds since 1970, a longer one milliseconds."""
UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
AGO = re.compile(r"-(?:[0-9]+(?:ms|s|m|h|d))+", re.ASCII)
AGO_PART = re.compile(r"([0-9]+)(ms|s|m|h|d)", re.ASCII)
NUMBER = re.compile(r"([+-]?)([0-9]{1,19})", re.ASCII)
FIRST = ("start", "beginning", "earliest")
BEHIND = ("end", "latest")


class Kind(Enum):
    """Reference point of an offset."""

    START = "start"
    END = "end"
    OFFSET = "offset"
    BEFORE_END = "before the end"
    AFTER_START = "after the start"
    TIME = "time"


class Bound(NamedTuple):
    """One place: a number of records, an offset, or a time in ms."""

    kind: Kind
    number: int = 0


class Range(NamedTuple):
    """First offset, and end; None: unbounded."""

    start: Bound
    end: Bound | None = None


class RangeError(ValueError):
    """An invalid position; the message lists the valid ones."""


def parse_range(text: str, now_ms: int) -> Range:
    """Read a place or a range. Raises RangeError."""
    if text.startswith("s@"):
        return Range(Bound(Kind.TIME, time_of(text[2:], now_ms)))
    if text.startswith("e@"):
        return Range(Bound(Kind.START), Bound(Kind.TIME, time_of(text[2:], now_ms)))
    try:
        return Range(bound_of(text, now_ms))
    except RangeError as error:
        refusal = error
    for place, character in enumerate(
        text
    ):  # a time of day has colons too: the split is the one that makes both sides valid
        first, last = text[:place], text[place + 1 :]
        if character != ":" or not (first or last):
            continue
        try:
            start = bound_of(first, now_ms) if first else Bound(Kind.START)
            return Range(start, bound_of(last, now_ms) if last else None)
        except RangeError:
            continue
    raise refusal


def bound_of(text: str, now_ms: int) -> Bound:
    """Read one place. Raises RangeError."""
    word = text.lower()
    if word in FIRST:
        return Bound(Kind.START)
    if word in BEHIND:
        return Bound(Kind.END)
    if text.startswith("@"):
        return Bound(Kind.TIME, time_of(text[1:], now_ms))
    match = NUMBER.fullmatch(text)
    if match is None or int(match[2]) > OFFSET_MAX:
        raise RangeError(f"{text!r} is not an offset: use start, end, N, -N, +N, @TIME, or FROM:TO of these")
    kind = {"": Kind.OFFSET, "-": Kind.BEFORE_END, "+": Kind.AFTER_START}[match[1]]
    return Bound(kind, int(match[2]))


def time_of(text: str, now_ms: int) -> int:
    """Return the ms of a time: since 1970, a date, or an age. Raises RangeError."""
    if text.isascii() and text.isdecimal():
        return int(text) * (1_000 if len(text) <= SECONDS_DIGITS_MAX else 1)
    if AGO.fullmatch(text):
        return now_ms - sum(int(number) * UNITS_MS[unit] for number, unit in AGO_PART.findall(text))
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return round(moment.timestamp() * 1_000)
    except (ValueError, OverflowError):
        raise RangeError(f"{text!r} is not a time: use ms or s since 1970, 2026-01-31T12:00:00Z, or -1h30m") from None


def join_ranges(ranges: Sequence[Range]) -> Range:
    """Return one range of several: kcat's s@ and e@ are each a half of one. Raises RangeError."""
    starts = [each.start for each in ranges if each.end is None]
    ends = [each for each in ranges if each.end is not None]
    if len(ranges) == 2 and len(starts) == 1 and len(ends) == 1 and ends[0].start.kind is Kind.START:
        return Range(starts[0], ends[0].end)
    if len(ranges) != 1:
        raise RangeError("expected one start and one end")
    return ranges[0]


def resolve_bound(bound: Bound, low: int, high: int, at_time: int | None) -> int:
    """Return the offset of a place in a partition of these ends; `at_time`: the first record from then on, if any."""
    match bound.kind:
        case Kind.START:
            return low
        case Kind.END:
            return high
        case Kind.OFFSET:
            return bound.number
        case Kind.BEFORE_END:
            return max(low, high - bound.number)
        case Kind.AFTER_START:
            return min(high, low + bound.number)
        case Kind.TIME:
            return high if at_time is None or at_time < 0 else at_time
