"""Where a group's place in each partition goes when it is reset: decided here, asked and committed elsewhere. Sans-IO.

    earliest, latest   the ends of the log             offset   this one, moved into the log where it lies outside
    current            where it is; latest if nowhere  shift    so far from where it is, moved into the log
    time               the first record that is not older; latest if there is none

Source: Kafka's ConsumerGroupCommand.resetOffsets, checkOffsetsRange.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from kvorum.admin.places import Place
from kvorum.protocol.errors import ErrorCode, KafkaError

NO_RECORD = -1
"""What ListOffsets answers for a time after the last record."""


class Way(Enum):
    """How the new place is found."""

    EARLIEST = "earliest"
    LATEST = "latest"
    CURRENT = "current"
    OFFSET = "offset"
    SHIFT = "shift"
    TIME = "time"


class Ends(NamedTuple):
    """A partition's log: its first offset, and the one behind its last record."""

    earliest: int
    latest: int


class Move(NamedTuple):
    """A group's place in one partition: before (None: nowhere) and after, and what to know of it."""

    place: Place
    before: int | None
    after: int
    note: str | None = None


def plan(
    way: Way,
    ends: Mapping[Place, Ends],
    committed: Mapping[Place, int],
    wanted: Mapping[Place, int],
) -> list[Move]:
    """Return the moves, one for each partition of `ends`, by topic and partition.

    `wanted` holds the offsets (OFFSET), the distances (SHIFT), or what ListOffsets said (TIME); nothing for the others.
    Raises KafkaError INVALID_REQUEST where a place is to be shifted that is nowhere.
    """
    moves = []
    for place in sorted(ends):
        before = committed.get(place)
        offset, note = target(way, place, ends[place], before, wanted.get(place))
        after, moved = into(ends[place], offset)
        moves.append(Move(place, before, after, moved or note))
    return moves


def target(way: Way, place: Place, ends: Ends, before: int | None, wanted: int | None) -> tuple[int, str | None]:
    """Return where it would go, were the log endless, and what to know of it."""
    match way:
        case Way.EARLIEST:
            return ends.earliest, None
        case Way.LATEST:
            return ends.latest, None
        case Way.CURRENT:
            return (ends.latest, "nothing was committed: the latest") if before is None else (before, None)
        case Way.SHIFT:
            if before is None:
                text = f"{place.topic}-{place.partition} cannot be shifted: nothing is committed there"
                raise KafkaError(ErrorCode.INVALID_REQUEST, text)
            assert wanted is not None, "a shift has a distance"
            return before + wanted, None
        case Way.TIME:
            assert wanted is not None, "each partition was asked"
            return (ends.latest, "no record so late: the latest") if wanted == NO_RECORD else (wanted, None)
        case Way.OFFSET:
            assert wanted is not None, "each partition has an offset"
            return wanted, None


def into(ends: Ends, offset: int) -> tuple[int, str | None]:
    """Return the offset, moved into the log, and a note if it was."""
    if offset < ends.earliest:
        return ends.earliest, f"{offset} is below the earliest offset"
    if offset > ends.latest:
        return ends.latest, f"{offset} is above the latest offset"
    return offset, None


def scope(topics: Mapping[str, Sequence[int]], asked: Mapping[str, Sequence[int] | None]) -> list[Place]:
    """Return the partitions that are asked for (None: all of a topic). Raises KafkaError for one that is not there."""
    found = []
    for name, partitions in asked.items():
        if name not in topics:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r}")
        for partition in topics[name] if partitions is None else partitions:
            if partition not in topics[name]:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{name}-{partition}")
            found.append(Place(name, partition))
    return sorted(set(found))
