"""One cleaning of one log, as the event loop sees it: map, then group by group write and swap.

A host (storage.cleaner.hosts) reads and writes, one slice at a time; between slices this checks whether the cleaning is
still wanted, and charges its bytes to the rate. The swap of a segment holds the table's `disk_work`, as all renames do.
If the log was truncated, deleted, or is no longer compacted: Aborted, and all written files are removed.
"""

import asyncio
import contextlib
from random import Random
from typing import Final, NamedTuple

from kvorum.runtime import blocking, failpoints
from kvorum.runtime.clock import Clock
from kvorum.runtime.disk import Disk
from kvorum.runtime.logs import get_logger
from kvorum.runtime.worker import WorkerLost
from kvorum.storage.cleaner.batch_filter import LastRecord
from kvorum.storage.cleaner.choice import Cleanable, job_of
from kvorum.storage.cleaner.cleaner import CleanerStats, Job
from kvorum.storage.cleaner.grouping import Source
from kvorum.storage.cleaner.hosts import Host
from kvorum.storage.cleaner.offset_map import SECRET_SIZE
from kvorum.storage.cleaner.pace import Pace
from kvorum.storage.cleaner.settings import IO_BUFFER_BYTES_MAX
from kvorum.storage.cleaner.swap import discard, offer, prepare
from kvorum.storage.cleaner.work import Advanced, Begin, End, Map, Task, Write
from kvorum.storage.log_table import LogTable
from kvorum.storage.segment import Segment

PAUSE_SECONDS_MAX: Final = 0.5
"""Interval at which a throttled cleaner checks whether it is still wanted."""

log = get_logger("storage")


class Aborted(Exception):
    """The cleaning is no longer wanted, or the log has changed."""


class Cleaned(NamedTuple):
    """Result of a cleaning: the log is clean below `end_offset`."""

    end_offset: int
    stats: CleanerStats


class Cleaning:
    """See the module. `run` once."""

    __slots__ = ("_chance", "_clock", "_disk", "_found", "_host", "_log", "_pace", "_structure", "_table")

    def __init__(
        self, disk: Disk, clock: Clock, table: LogTable, pace: Pace, host: Host, found: Cleanable, chance: Random
    ) -> None:
        """Store the log's structure at the start of the cleaning."""
        self._disk = disk
        self._clock = clock
        self._table = table
        self._pace = pace
        self._host = host
        self._found = found
        self._chance = chance
        self._log = found.log
        self._structure = found.log.cleaning.structure

    async def run(self) -> Cleaned:
        """Build the map and clean group by group.

        Raises Aborted, WorkerLost, and the cleaner's errors: OSError, CorruptSegment, KafkaError, AssertionError.
        """
        job = job_of(self._found, self._clock.wall_ms())
        producers = await self._producers_before(job.end_offset)
        try:
            await self._host.advance(self._begin(job), self._pace.bytes_at_once)
            mapped = await self._drive(Map())
            first, stats = 0, mapped.stats
            for count in mapped.source_counts:
                self._check()
                stats = await self._clean_group(job, first, first + count, producers)
                first += count
        except Exception:
            await self._end()
            raise
        await self._end()
        self._check()
        return Cleaned(max(mapped.latest_offset + 1, job.first_dirty_offset), stats)

    def check_same(self) -> None:
        """Raise Aborted if the log has changed since the cleaning read it."""
        each = self._log
        is_there = each.failure is None and self._table.get(each.partition) is each and not self._table.is_closed
        if not is_there or each.cleaning.structure != self._structure:
            raise Aborted

    def _check(self) -> None:
        """Raise Aborted if the cleaning must stop."""
        is_moving = self._log.partition in self._table.futures
        if not self._pace.is_running or not self._log.config.is_compacted or is_moving:
            raise Aborted
        self.check_same()

    def _begin(self, job: Job) -> Begin:
        """Return a cleaning with one cleaner's share of the buffers, and at most one slot per possible key."""
        config = self._pace.config
        offsets = job.end_offset - job.first_dirty_offset
        return Begin(
            job=job,
            secret=self._chance.randbytes(SECRET_SIZE),
            memory_bytes=config.dedupe_buffer_size // config.threads,
            slots_max=int(offsets / config.load_factor) + 2,
            io_buffer_size=min(config.io_buffer_size // config.threads // 2, IO_BUFFER_BYTES_MAX),
            load_factor=config.load_factor,
        )

    async def _end(self) -> None:
        """Release the resources of the cleaning; a lost worker has none."""
        with contextlib.suppress(WorkerLost):
            await self._host.advance(End(), self._pace.bytes_at_once)

    async def _drive(self, task: Task) -> Advanced:
        """Execute a task, within the permitted rate."""
        loop, pace = asyncio.get_running_loop(), self._pace
        following: Task | None = task
        while True:
            self._check()
            # Before the work: the next log's first step waits for the cost of a log's last step.
            while (left := pace.throttle.wait(loop.time())) > 0:
                await pace.pause(min(left, PAUSE_SECONDS_MAX))
                self._check()
            done = await self._host.advance(following, pace.bytes_at_once)
            following = None
            if done.size:
                pace.throttle.charge(done.size, loop.time())
            if done.is_done:
                return done

    async def _producers_before(self, end_offset: int) -> dict[int, LastRecord]:
        """Return the last batch of each producer below the end of the cleaning: it is kept, at least as a header.

        Kafka uses the last batch of the whole log. If a power loss removes the newest records, no batch is left of a
        producer whose older ones were durable, and its retries are written twice.
        """
        loop, cleaning = asyncio.get_running_loop(), self._log.cleaning
        try:
            return await blocking.run(loop, cleaning.read_last_records, end_offset)
        except ValueError as error:
            self._check()
            log.warning(
                "damaged producer snapshot ignored", partition=self._log.partition, offset=end_offset, error=error
            )
            cleaning.forget_snapshot(end_offset)
            raise Aborted from error

    async def _clean_group(self, job: Job, first: int, end: int, producers: dict[int, LastRecord]) -> CleanerStats:
        """Write one segment of several, sources[first:end], and put it in their place."""
        cleaning = self._log.cleaning
        try:
            written = await self._drive(Write(first=first, end=end, producers=cleaning.still_known(producers)))
            async with self._table.disk_work:
                await self._swap(job, job.sources[first:end], written)
        except Exception:
            # An offered segment stays: the log has failed or is deleted, and the next start completes it.
            if not cleaning.is_offered:
                await self._end()
                loop = asyncio.get_running_loop()
                await blocking.run(loop, discard, self._disk, job.folder, job.sources[first].base_offset)
            raise
        return written.stats

    async def _swap(self, job: Job, group: tuple[Source, ...], written: Advanced) -> None:
        """Replace the sources by a written segment. Holds `disk_work`; a truncation may happen between two steps."""
        loop, cleaning = asyncio.get_running_loop(), self._log.cleaning
        base_offset = group[0].base_offset
        self._check()
        await blocking.run(loop, prepare, self._disk, job.folder, base_offset)
        self._check()
        cleaning.is_offered = True
        offer(self._disk, job.folder, base_offset)
        await blocking.run(loop, self._disk.sync_dir, job.folder)
        failpoints.hit("cleaner.swap.after")
        self.check_same()
        now_ms = self._clock.wall_ms()
        new = Segment(
            self._disk,
            job.folder,
            base_offset,
            size=written.segment_size,
            index_interval_bytes=job.config.index_interval_bytes,
            created_ms=now_ms,
            has_txn_file=written.has_txn_file,
        )
        first = next(iter(cleaning.segments.from_offset(base_offset)))
        old = [each for each in cleaning.segments if first.base_offset <= each.base_offset < group[-1].next_base]
        cleaning.replace(old, new, now_ms)
        await blocking.run(loop, self._disk.sync_dir, job.folder)
        failpoints.hit("cleaner.replace.synced")
