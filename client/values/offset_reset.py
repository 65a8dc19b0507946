"""Resets of a group's offsets: the target, and the result per partition."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from kvorum.protocol.errors import KafkaError
from kvorum.protocol.topic_partition import TopicPartition

Position = Literal["earliest", "latest", "current"]


class ResetError(ValueError):
    """An impossible reset, with the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetTarget:
    """Target of an offset reset: exactly one of the fields. Raises ValueError for none or several."""

    to: Position | None = None
    """earliest or latest: an end of the log; current: the committed offset, the latest if there is none."""
    offset: int | None = None
    """This one in every partition."""
    shift_by: int | None = None
    """Relative to the committed offset."""
    timestamp_ms: int | None = None
    """First record with at least this timestamp, the latest offset if there is none."""
    offsets: Mapping[TopicPartition, int] | None = None
    """One offset per partition; only these partitions."""

    def __post_init__(self) -> None:
        """Require exactly one target."""
        fields = (self.to, self.offset, self.shift_by, self.timestamp_ms, self.offsets)
        if sum(each is not None for each in fields) != 1:
            raise ValueError("give exactly one of to, offset, shift_by, timestamp_ms, offsets")
        if self.to is not None and self.to not in get_args(Position):
            raise ValueError(f"{self.to!r} is not one of {', '.join(get_args(Position))}")


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetReset:
    """A group's offset in one partition: before (None: none), target, and after, which is within the log."""

    topic: str
    partition: int
    before: int | None
    target: int
    after: int
    note: str | None = None
    """Why it is the latest offset."""
    error: KafkaError | None = None
    """None: it was committed, or would be."""

    @property
    def topic_partition(self) -> TopicPartition:
        """Return the partition."""
        return TopicPartition(self.topic, self.partition)

    @property
    def is_above(self) -> bool:
        """Return whether the target is above the log end."""
        return self.target > self.after

    @property
    def is_below(self) -> bool:
        """Return whether the target is below the log start."""
        return self.target < self.after
