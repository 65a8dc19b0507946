"""Offsets of partitions, by time."""

from dataclasses import dataclass
from enum import IntEnum


class OffsetSpec(IntEnum):
    """Times of ListOffsets that are not timestamps."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOffset:
    """An offset of a partition."""

    offset: int | None
    """None: no record is as new as the requested time."""
    timestamp_ms: int | None
    """Timestamp of the record; None for the first and the last offset."""
    leader_epoch: int | None
