"""Where a group is to go on: what is asked for, made into an offset for each partition. Sans-IO.

One way of eight: earliest, latest, current, offset, shift, time (of a date or a duration back), file. What comes out
never lies outside the log: it is moved to its nearest end, and said so.

Source: Kafka's ConsumerGroupCommand.prepareOffsetsToReset, checkOffsetsRange, CsvUtils; Utils.getDateTime.
"""

import csv
import io
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum, auto

from kvorum.admin.places import Place

PLACES = re.compile(r"(?P<topic>[^:]+)(?::(?P<partitions>\d+(?:,\d+)*))?")
DURATION = re.compile(
    r"(?P<sign>[+-]?)P(?=.)(?:(?P<days>[+-]?\d+)D)?"
    r"(?:T(?=.)(?:(?P<hours>[+-]?\d+)H)?(?:(?P<minutes>[+-]?\d+)M)?(?:(?P<seconds>[+-]?\d+(?:\.\d{1,9})?)S)?)?",
    re.IGNORECASE,
)
ZONE = re.compile(r"(?:Z|[+-]\d{2}(?::?\d{2})?)$")


class Way(Enum):
    """How the new offsets are found."""

    EARLIEST = auto()
    LATEST = auto()
    CURRENT = auto()
    OFFSET = auto()
    SHIFT = auto()
    TIME = auto()
    FILE = auto()


class ResetError(ValueError):
    """A reset that cannot be done as it was asked for; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What is asked for: `number` is the offset, the shift, or the time in ms; `file` has offsets by group."""

    way: Way
    number: int = 0
    file: Mapping[str, Mapping[Place, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """What the leaders say of a partition: where it begins and ends, and the offset of the time that is asked for."""

    start: int
    end: int
    of_time: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The new offsets of a group, and what was other than asked for."""

    offsets: dict[Place, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def plan(scenario: Scenario, group_id: str, logs: Mapping[Place, Log], committed: Mapping[Place, int]) -> Plan:
    """Return where a group is to go on in each partition of `logs`. Raises ResetError."""
    made = Plan()
    for place, log in sorted(logs.items()):
        offset = wanted(scenario, group_id, place, log, committed)
        made.offsets[place] = within(place, offset, log, made.warnings)
    return made


def wanted(scenario: Scenario, group_id: str, place: Place, log: Log, committed: Mapping[Place, int]) -> int:
    """Return the offset that is asked for, be it in the log or not. Raises ResetError."""
    match scenario.way:
        case Way.EARLIEST:
            return log.start
        case Way.LATEST:
            return log.end
        case Way.CURRENT:
            return committed.get(place, log.end)
        case Way.OFFSET:
            return scenario.number
        case Way.TIME:
            return log.end if log.of_time is None else log.of_time
        case Way.SHIFT:
            if place not in committed:
                raise ResetError(
                    f"Cannot shift offset for partition {place} since there is no current committed offset"
                )
            return committed[place] + scenario.number
        case Way.FILE:
            return scenario.file[group_id][place]


def within(place: Place, offset: int, log: Log, warnings: list[str]) -> int:
    """Return an offset that the log has, or its end."""
    nearest = min(max(offset, log.start), log.end)
    if nearest != offset:
        side = "higher than latest" if offset > log.end else "lower than earliest"
        warnings.append(
            f"New offset ({offset}) is {side} offset for topic partition {place}. Value will be set to {nearest}"
        )
    return nearest


def parse_places(text: str) -> tuple[str, list[int] | None]:
    """Read TOPIC or TOPIC:0,1,2; None stands for all partitions. Raises ResetError."""
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
            raise ValueError("no date, T and time of day")
        moment = datetime.fromisoformat(text)
        if not ZONE.search(clock):
            moment = moment.replace(tzinfo=UTC)
        return round(moment.timestamp() * 1000)
    except ValueError as error:
        raise ResetError(f"{text!r} is not YYYY-MM-DDThh:mm:ss.sss: {error}") from error


def parse_duration(text: str) -> timedelta:
    """Return what PnDTnHnMnS says (java.time.Duration). Raises ResetError."""
    match = DURATION.fullmatch(text)
    if match is None:
        raise ResetError(f"{text!r} is not a duration like P1DT2H30M or PT15M")
    parts = {name: float(match[name] or 0) for name in ("days", "hours", "minutes", "seconds")}
    found = timedelta(**parts)
    return -found if match["sign"] == "-" else found


def parse_plan(text: str, group_id: str | None) -> dict[str, dict[Place, int]]:
    """Read lines of TOPIC,PARTITION,OFFSET, or GROUP,TOPIC,PARTITION,OFFSET where several groups are meant.

    The first has the offsets below `group_id`. Raises ResetError with the number of the line.
    """
    found: dict[str, dict[Place, int]] = {}
    for number, row in enumerate(csv.reader(io.StringIO(text)), start=1):
        if not row:
            continue
        cells = [cell.strip() for cell in row]
        try:
            if len(cells) == 3 and group_id is not None:
                cells.insert(0, group_id)
            group, topic, partition, offset = cells
            place = Place(topic, int(partition))
            found.setdefault(group, {})[place] = int(offset)
        except ValueError:
            shape = "TOPIC,PARTITION,OFFSET" if group_id is not None else "GROUP,TOPIC,PARTITION,OFFSET"
            raise ResetError(f"line {number} is not {shape}: {','.join(row)}") from None
    return found


def format_plan(offsets: Iterable[tuple[str, Mapping[Place, int]]], *, with_group: bool) -> str:
    """Write what `parse_plan` reads."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for group_id, rows in offsets:
        for place, offset in rows.items():
            writer.writerow([*([group_id] if with_group else []), place.topic, place.partition, offset])
    return text.getvalue()
