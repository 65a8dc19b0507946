"""Resets of groups as text: which partitions, a date, a duration, warnings. Sans-IO.

Source: Kafka's ConsumerGroupCommand (parseTopicPartitionsToReset, checkOffsetsRange); Utils.getDateTime.
"""

import re
from datetime import UTC, datetime, timedelta

from kvorum.client.groups.offset_reset import Move, ResetError

PLACES = re.compile(r"(?P<topic>[^:]+)(?::(?P<partitions>\d+(?:,\d+)*))?")
DURATION = re.compile(
    r"(?P<sign>[+-]?)P(?=.)(?:(?P<days>[+-]?\d+)D)?"
    r"(?:T(?=.)(?:(?P<hours>[+-]?\d+)H)?(?:(?P<minutes>[+-]?\d+)M)?(?:(?P<seconds>[+-]?\d+(?:\.\d{1,9})?)S)?)?",
    re.IGNORECASE,
)
ZONE = re.compile(r"(?:Z|[+-]\d{2}(?::?\d{2})?)$")


def warning_of(move: Move) -> str | None:
    """Return the message of Kafka's tool for an offset outside the log."""
    if move.wanted == move.after:
        return None
    side = "higher than latest" if move.is_above else "lower than earliest"
    head = f"New offset ({move.wanted}) is {side} offset for topic partition {move.place}."
    return f"{head} Value will be set to {move.after}"


def parse_places(text: str) -> tuple[str, list[int] | None]:
    """Read TOPIC or TOPIC:0,1,2; None means all partitions. Raises ResetError."""
    match = PLACES.fullmatch(text)
    if match is None:
        raise ResetError(f"{text!r} is not TOPIC or TOPIC:0,1,2")
    numbers = match["partitions"]
    return match["topic"], None if numbers is None else [int(number) for number in numbers.split(",")]


def parse_datetime(text: str) -> int:
    """Return the ms of 2026-01-31T12:00:00.000, which is UTC unless it ends in Z or +hh:mm. Raises ResetError."""
    try:
        date, letter, clock = text.partition("T")
        if not letter or not re.fullmatch(r"\d{4}-\d{2}-\d{2}", date):
            raise ValueError("date, T and time of day expected")
        moment = datetime.fromisoformat(text)
        if not ZONE.search(clock):
            moment = moment.replace(tzinfo=UTC)
        return round(moment.timestamp() * 1000)
    except ValueError as error:
        raise ResetError(f"{text!r} is not YYYY-MM-DDThh:mm:ss.sss: {error}") from error


def parse_duration(text: str) -> timedelta:
    """Return the duration of PnDTnHnMnS (java.time.Duration). Raises ResetError."""
    match = DURATION.fullmatch(text)
    if match is None:
        raise ResetError(f"{text!r} is not a duration such as P1DT2H30M or PT15M")
    parts = {name: float(match[name] or 0) for name in ("days", "hours", "minutes", "seconds")}
    try:
        found = timedelta(**parts)
    except OverflowError:
        raise ResetError(f"{text!r} is too long for a duration") from None
    return -found if match["sign"] == "-" else found
