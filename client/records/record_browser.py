"""Browsing of a topic: the selected records, the start, the limits, and the reason for the end.

Records of several partitions are ordered by timestamp, if each partition has them in order. The end is the log end at
the start of the request. A followed topic continues until a limit, or until the reader disconnects.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple, TypeVar, TypeVarTuple

from kvorum.client.records.record_filter import RecordFilter
from kvorum.client.records.record_reader import FetchPiece, Reader
from kvorum.client.records.record_views import RecordSubject
from kvorum.protocol.records import Record
from kvorum.runtime import blocking
from kvorum.runtime.clock import Clock

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")

FOLLOW_WAIT_MS: Final = 500
"""fetch.max.wait.ms: a leader without new records responds after this time."""


TURN_RECORDS: Final = 256
TURN_BYTES: Final = 256 * 1024
"""Records inspected in one iteration of the loop: some milliseconds if each is JSON."""
LARGE_BYTES: Final = 64 * 1024
"""Size of a record that is parsed in a thread, because this takes milliseconds."""


class StopReason(Enum):
    """Reason of the end: the limit of matches, of records, of bytes or of time; or there was nothing more."""

    LIMIT = "limit"
    SCANNED = "scanned"
    BYTES = "bytes"
    TIME = "time"
    END = "end"


def size_of(record: Record) -> int:
    """Return the size of a record's user data in bytes."""
    headers = sum(len(name) + len(value or b"") for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers


async def run_parser(record: Record, work: Callable[[*Arguments], T], *arguments: *Arguments) -> T:
    """Call a function that parses a record: in a thread if the record is large."""
    if size_of(record) < LARGE_BYTES:
        return work(*arguments)
    return await blocking.run(asyncio.get_running_loop(), work, *arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits, whatever is still unread."""

    records: int
    scans_max: int
    size: int
    time_ms: int


class RecordMatch(NamedTuple):
    """A record that was looked for."""

    partition: int
    record: Record


@dataclass(slots=True, kw_only=True)
class Progress:
    """Progress of a search."""

    offsets: dict[int, int]
    """{partition: first offset that was not inspected}: the start of the next page."""
    match_count: int = 0
    scan_count: int = 0
    size: int = 0
    """Bytes that were read, decompressed."""
    stopped_by: StopReason | None = None


@dataclass(slots=True, kw_only=True)
class Browser:
    """Looks through the partitions of one reader, from `progress.offsets` on, to `ends` or following."""

    reader: Reader
    progress: Progress
    limits: Limits
    clock: Clock
    ends: Mapping[int, int] | None = None
    """{partition: where to stop}; None to follow."""
    filter: RecordFilter | None = None
    _waiting: dict[int, deque[Record]] = field(default_factory=dict)
    """{partition: records that were read and not inspected yet}."""
    _read: dict[int, int] = field(default_factory=dict)
    """{partition: where to read on}."""

    async def records(self) -> AsyncIterator[RecordMatch | None]:
        """Yield the selected records, None after a round without any: a chance to notice a disconnect.

        `progress.stopped_by` has the reason of the end afterwards. Raises KafkaError, Unreachable.
        """
        deadline_ms = self.clock.monotonic_ms() + self.limits.time_ms
        self._read = dict(self.progress.offsets)
        self._waiting = {partition: deque() for partition in self._read}
        turn_bytes = 0
        while True:
            due = self._due()
            if due:
                stopped = self._stop_reason(deadline_ms)
                if stopped is None and self.progress.size >= self.limits.size:
                    stopped = StopReason.BYTES
                if stopped is None:
                    await self._fill(due)
                    if self.ends is None and not any(self._waiting.values()):
                        yield None
            elif not any(self._waiting.values()):
                stopped = StopReason.END
            else:
                stopped = None
            while stopped is None and (found := self._first()) is not None:
                if await self._matches(found):
                    self.progress.match_count += 1
                    yield found
                turn_bytes += size_of(found.record)
                if self.progress.scan_count % TURN_RECORDS == 0 or turn_bytes >= TURN_BYTES:
                    turn_bytes = 0
                    await asyncio.sleep(0)  # others have their turn
                    if self.ends is None:
                        yield None  # no record was selected: the reader sees that it continues
                stopped = self._stop_reason(deadline_ms)
            if stopped is not None:
                self.progress.stopped_by = stopped
                return

    def _due(self) -> dict[int, int]:
        """Return {partition: offset} of those to read on: all that are followed, else those with nothing to look at."""
        ends = self.ends
        if ends is None:
            return self._read if not any(self._waiting.values()) else {}
        return {each: at for each, at in self._read.items() if not self._waiting[each] and at < ends[each]}

    async def _fill(self, due: Mapping[int, int]) -> None:
        """Read on once."""
        wait_ms = FOLLOW_WAIT_MS if self.ends is None else 0
        async for partition, piece in self.reader.read(dict(due), wait_ms, self.ends):
            self._take(partition, piece)

    def _take(self, partition: int, piece: FetchPiece) -> None:
        self.progress.size += piece.size
        self._read[partition] = piece.records.next_offset
        end = None if self.ends is None else self.ends[partition]
        self._waiting[partition].extend(each for each in piece.records.records if end is None or each.offset < end)
        if not self._waiting[partition]:
            self._pass_gap(partition)

    def _pass_gap(self, partition: int) -> None:
        """Move the partition's progress past the offsets without records (markers, compacted) that were read."""
        offset = self._read[partition]
        self.progress.offsets[partition] = offset if self.ends is None else min(offset, self.ends[partition])

    def _first(self) -> RecordMatch | None:
        """Take the oldest of the waiting records; None until every partition with further records has one."""
        if self.ends is not None and self._due():
            return None
        heads = [(rows[0].timestamp, each) for each, rows in self._waiting.items() if rows]
        if not heads:
            return None
        partition = min(heads)[1]
        record = self._waiting[partition].popleft()
        self.progress.scan_count += 1
        if self._waiting[partition]:
            self.progress.offsets[partition] = record.offset + 1
        else:
            self._pass_gap(partition)
        return RecordMatch(partition, record)

    async def _matches(self, found: RecordMatch) -> bool:
        if self.filter is None:
            return True
        return await run_parser(found.record, self.filter.matches, RecordSubject(found.partition, found.record))

    def _stop_reason(self, deadline_ms: int) -> StopReason | None:
        """Return the limit that is reached, if one is."""
        progress, limits = self.progress, self.limits
        if progress.match_count >= limits.records:
            return StopReason.LIMIT
        if progress.scan_count >= limits.scans_max:
            return StopReason.SCANNED
        return StopReason.TIME if self.clock.monotonic_ms() >= deadline_ms else None
