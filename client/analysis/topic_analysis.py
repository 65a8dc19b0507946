"""Statistics of a topic's records: counts, sizes, keys, by partition and by hour. Sans-IO."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kvorum.client.analysis.sketches import DistinctCounter, SizeSummary
from kvorum.protocol.records import Record

HOUR_MS: Final = 3_600_000
HOURS_MAX: Final = 336
"""Two weeks: only the newest hours are returned."""


@dataclass(slots=True)
class PartitionCounts:
    """Counts of one partition."""

    records: int = 0
    size: int = 0
    """Bytes of keys, values and headers."""
    null_keys: int = 0
    tombstones: int = 0
    first_offset: int = -1
    last_offset: int = -1
    first_timestamp_ms: int = -1
    last_timestamp_ms: int = -1
    """The minimum and the maximum: records need not be in this order."""
    disordered: int = 0
    """Records with a lower timestamp than the one before them has."""
    _before_ms: int = -1

    def take(self, record: Record, size: int) -> None:
        """Count one."""
        self.records += 1
        self.size += size
        self.null_keys += record.key is None
        self.tombstones += record.value is None
        stamp = record.timestamp
        if self.records == 1:
            self.first_offset, self.first_timestamp_ms, self.last_timestamp_ms = record.offset, stamp, stamp
        self.last_offset = record.offset
        self.first_timestamp_ms = min(self.first_timestamp_ms, stamp)
        self.last_timestamp_ms = max(self.last_timestamp_ms, stamp)
        self.disordered += stamp < self._before_ms
        self._before_ms = stamp


@dataclass(slots=True)
class Analysis:
    """Analysis of the records of a topic that were added."""

    partitions: dict[int, PartitionCounts] = field(default_factory=dict)
    keys: SizeSummary = field(default_factory=SizeSummary)
    values: SizeSummary = field(default_factory=SizeSummary)
    """Sizes of those that are not null."""
    distinct_keys: DistinctCounter = field(default_factory=DistinctCounter)
    distinct_values: DistinctCounter = field(default_factory=DistinctCounter)
    hours: dict[int, tuple[int, int]] = field(default_factory=dict)
    """{the hour's number since 1970: (records, bytes)}, the newest of them."""

    def take(self, partition: int, record: Record) -> None:
        """Count one record."""
        size = sum(len(name) + len(value or b"") for name, value in record.headers)
        for data, sizes, distinct in (
            (record.key, self.keys, self.distinct_keys),
            (record.value, self.values, self.distinct_values),
        ):
            if data is not None:
                sizes.add(len(data))
                distinct.add(data)
                size += len(data)
        counts = self.partitions.get(partition)
        if counts is None:
            counts = self.partitions[partition] = PartitionCounts()
        counts.take(record, size)
        hour = record.timestamp // HOUR_MS
        records, bytes_before = self.hours.get(hour, (0, 0))
        self.hours[hour] = (records + 1, bytes_before + size)
        if len(self.hours) > HOURS_MAX:
            del self.hours[min(self.hours)]


def progress_ratio(begin: Mapping[int, int], now: Mapping[int, int], ends: Mapping[int, int]) -> float:
    """Return the processed share of all offsets, 1 without any."""
    whole = sum(ends[each] - begin[each] for each in begin)
    return sum(now[each] - begin[each] for each in begin) / whole if whole else 1.0


def total(counts: Sequence[PartitionCounts], name: str) -> int:
    """Return a count of all partitions."""
    return sum(int(getattr(each, name)) for each in counts)
