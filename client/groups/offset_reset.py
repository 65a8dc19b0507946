"""Targets of an offset reset per partition: decided here, read and committed elsewhere. Sans-IO.

    earliest, latest   the ends of the log             offset     this one in every partition
    current            committed offset, else latest   shift      relative to the committed offset
    time               first record that is not older, else latest
                                                       explicit   an offset per partition

The result is always within the log: an offset outside is replaced by the nearer end, and the result has the original.
Source: Kafka's ConsumerGroupCommand.resetOffsets, prepareOffsetsToReset, checkOffsetsRange.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from kvorum.protocol.topic_partition import TopicPartition


class Way(Enum):
    """Kind of the target."""

    EARLIEST = "earliest"
    LATEST = "latest"
    CURRENT = "current"
    OFFSET = "offset"
    SHIFT = "shift"
    TIME = "time"
    EXPLICIT = "explicit"


class ResetError(ValueError):
    """An impossible reset, with the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Kind of a reset: `number` is the offset, the shift, or the time in ms; `offsets` those of EXPLICIT."""

    way: Way
    number: int = 0
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)


class Ends(NamedTuple):
    """Offsets of a partition: first, log end, and that of the requested time.

    `of_time` is None if no record is late enough, or without a requested time.
    """

    earliest: int
    latest: int
    of_time: int | None = None


class Move(NamedTuple):
    """A group's offset in one partition: before (None: none), requested, and after, which is within the log."""

    place: TopicPartition
    before: int | None
    wanted: int
    after: int
    note: str | None = None
    """Additional information: why it is the latest."""

    @property
    def is_above(self) -> bool:
        """Return whether the requested offset is above the log end."""
        return self.wanted > self.after

    @property
    def is_below(self) -> bool:
        """Return whether the requested offset is below the log start."""
        return self.wanted < self.after


def plan(
    scenario: Scenario, ends: Mapping[TopicPartition, Ends], committed: Mapping[TopicPartition, int]
) -> list[Move]:
    """Return the moves, one for each partition of `ends`, by topic and partition.

    Raises ResetError if a missing offset is to be shifted.
    """
    moves = []
    for place, log in sorted(ends.items()):
        before = committed.get(place)
        wanted, note = target(scenario, place, log, before)
        moves.append(Move(place, before, wanted, min(max(wanted, log.earliest), log.latest), note))
    return moves


def target(scenario: Scenario, place: TopicPartition, log: Ends, before: int | None) -> tuple[int, str | None]:
    """Return the target offset without regard to the log's ends, and notes on it. Raises ResetError."""
    match scenario.way:
        case Way.EARLIEST:
            return log.earliest, None
        case Way.LATEST:
            return log.latest, None
        case Way.CURRENT:
            return (log.latest, "no committed offset: the latest offset is used") if before is None else (before, None)
        case Way.OFFSET:
            return scenario.number, None
        case Way.SHIFT:
            if before is None:
                raise ResetError(
                    f"Cannot shift offset for partition {place} since there is no current committed offset"
                )
            return before + scenario.number, None
        case Way.TIME:
            return (
                (log.latest, "no record with such a timestamp: the latest offset is used")
                if log.of_time is None
                else (log.of_time, None)
            )
        case Way.EXPLICIT:
            return scenario.offsets[place], None
