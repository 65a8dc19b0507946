"""The newest records of a topic: searched from the ends of its partitions backwards, one piece at a time.

The order is by timestamps, if each partition has its records in their order; within a partition by offsets. A partition
is searched further back only while its records may be among the newest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kvorum.client.records.record_browser import Browser, Limits, Progress, RecordMatch, StopReason, run_parser
from kvorum.client.records.record_filter import RecordFilter
from kvorum.client.records.record_reader import Reader
from kvorum.client.records.record_views import RecordSubject
from kvorum.protocol.records import Record
from kvorum.runtime.clock import Clock

FURTHER: Final = 8
"""Growth factor of the offsets that a round reads of a partition; the first round reads only the last one."""


@dataclass(slots=True, kw_only=True)
class PartitionSearch:
    """State of one partition: records found, oldest first, from `low` up to the start of the search."""

    first: int
    """Log start offset."""
    low: int
    """Down to here it was looked through."""
    rows: list[Record] = field(default_factory=list)
    horizon_ms: int | None = None
    """The oldest timestamp read; earlier records are older. None: no record was read."""


class NewestSearch:
    """Searches for this number of records, below `bounds`.

    Owned by one task; `looked` and `progress` are its progress.
    """

    def __init__(
        self,
        reader: Reader,
        limits: Limits,
        clock: Clock,
        earliest: Mapping[int, int],
        bounds: Mapping[int, int],
        wanted: RecordFilter | None = None,
    ) -> None:
        """Search within `limits`; `limits.records` is the number of wanted records."""
        self._reader = reader
        self._limits = limits
        self._clock = clock
        self._filter = wanted
        self.searches = {each: PartitionSearch(first=earliest[each], low=bound) for each, bound in bounds.items()}
        self.progress = Progress(offsets=dict(bounds))

    async def find(self) -> list[RecordMatch]:
        """Return them, oldest first. Raises KafkaError, Unreachable."""
        deadline_ms = self._clock.monotonic_ms() + self._limits.time_ms
        width = 1
        while True:
            taken, open_partitions = newest_of(self.searches, self._limits.records)
            stopped = self._stop_reason(bool(open_partitions), deadline_ms)
            if stopped is not None:
                self.progress.stopped_by = stopped
                self.progress.match_count = len(taken)
                before = places_before(self.searches, taken)
                if stopped is StopReason.LIMIT and all(
                    before[each] <= row.first for each, row in self.searches.items()
                ):
                    self.progress.stopped_by = StopReason.END
                self.progress.offsets = before
                return taken
            await self._look(open_partitions, min(width, self._room() // len(open_partitions) or 1), deadline_ms)
            width *= FURTHER

    def _room(self) -> int:
        """Return how many more records may be inspected, assuming the size of the previous ones."""
        limits, progress = self._limits, self.progress
        each = progress.size // progress.scan_count if progress.scan_count else 0
        left = limits.scans_max - progress.scan_count
        return min(left, (limits.size - progress.size) // each) if each else left

    def _stop_reason(self, is_open: bool, deadline_ms: int) -> StopReason | None:
        if not is_open:
            return StopReason.LIMIT
        if self.progress.scan_count >= self._limits.scans_max:
            return StopReason.SCANNED
        if self.progress.size >= self._limits.size:
            return StopReason.BYTES
        return StopReason.TIME if self._clock.monotonic_ms() >= deadline_ms else None

    async def _look(self, partitions: Sequence[int], width: int, deadline_ms: int) -> None:
        """Look through the next piece of each. One that was not looked through whole is as if it had not been."""
        ends = {each: self.searches[each].low for each in partitions}
        begins = {each: max(self.searches[each].first, end - width) for each, end in ends.items()}
        rows: dict[int, list[Record]] = {each: [] for each in partitions}
        horizon: dict[int, int] = {}
        left = self._limits.scans_max - self.progress.scan_count
        limits = Limits(
            records=left + 1,  # the other limit comes first
            scans_max=left,
            size=max(1, self._limits.size - self.progress.size),
            time_ms=max(1, deadline_ms - self._clock.monotonic_ms()),
        )
        browser = Browser(
            reader=self._reader, progress=Progress(offsets=dict(begins)), limits=limits, clock=self._clock, ends=ends
        )
        async for found in browser.records():
            assert found is not None, "it does not follow"
            partition, record = found
            horizon[partition] = min(horizon.get(partition, record.timestamp), record.timestamp)
            if await self._matches(found):
                rows[partition].append(record)
        self.progress.scan_count += browser.progress.scan_count
        self.progress.size += browser.progress.size
        for each in partitions:
            if browser.progress.offsets[each] >= ends[each]:
                looked = self.searches[each]
                found_rows = [*rows[each], *looked.rows]
                looked.rows = found_rows[-self._limits.records :]
                looked.low = begins[each] if len(looked.rows) == len(found_rows) else looked.rows[0].offset
                if each in horizon:
                    newer_ms = looked.horizon_ms
                    looked.horizon_ms = horizon[each] if newer_ms is None else min(horizon[each], newer_ms)

    async def _matches(self, found: RecordMatch) -> bool:
        if self._filter is None:
            return True
        return await run_parser(found.record, self._filter.matches, RecordSubject(found.partition, found.record))


def newest_of(looked: Mapping[int, PartitionSearch], wanted: int) -> tuple[list[RecordMatch], list[int]]:
    """Return (the newest records found, oldest first; the partitions that may have more of them further back)."""
    left = {each: len(row.rows) for each, row in looked.items()}
    taken: list[RecordMatch] = []
    while len(taken) < wanted:
        heads = [(looked[each].rows[count - 1].timestamp, each) for each, count in left.items() if count]
        if not heads:
            break
        _, partition = max(heads)
        left[partition] -= 1
        taken.append(RecordMatch(partition, looked[partition].rows[left[partition]]))
    last_ms = taken[-1].record.timestamp if len(taken) == wanted else None
    open_partitions = [
        each
        for each, row in looked.items()
        if left[each] == 0
        and row.low > row.first
        and (last_ms is None or row.horizon_ms is None or row.horizon_ms > last_ms)
    ]
    return taken[::-1], open_partitions


def places_before(looked: Mapping[int, PartitionSearch], taken: Sequence[RecordMatch]) -> dict[int, int]:
    """Return {partition: the offset below which all records are older than those taken}."""
    counts = dict.fromkeys(looked, 0)
    for found in taken:
        counts[found.partition] += 1
    return {
        each: row.rows[-1 - counts[each]].offset + 1 if len(row.rows) > counts[each] else row.low
        for each, row in looked.items()
    }
