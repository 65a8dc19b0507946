"""The cleaners of a broker (Kafka's LogCleaner): each takes the dirtiest log, cleans it, and looks again.

    idle -> choosing -> cleaning (map, then group by group: write, swap) -> checkpoint -> choosing
                            |-> aborted: the log was cut, deleted, or is compacted no more; chosen anew when it is due
                            |-> uncleanable: its bytes cannot be read; not tried again, a person has to look
                            |-> its disk failed: the log directory goes offline

A cleaning's reading and writing is a host's (storage.cleaner.hosts), a slice at a time; in between it is seen here
whether it is still wanted, and its bytes are paid for. The swap of a segment holds the table's `disk_work` as all that
renames does. Retention leaves a log alone while it is being cleaned, and has its turn after.

Followers clean as leaders do, each its own log, up to the high watermark they know of.
"""

import asyncio
import contextlib
from dataclasses import dataclass
from random import Random

from kvorum.protocol.errors import KafkaError
from kvorum.runtime import blocking, failpoints
from kvorum.runtime.clock import Clock
from kvorum.runtime.config import Settings
from kvorum.runtime.disk import Disk
from kvorum.runtime.logs import get_logger
from kvorum.runtime.worker import WorkerLost
from kvorum.storage.checkpoints import CLEANED_OFFSETS
from kvorum.storage.cleaner.batch_filter import LastRecord
from kvorum.storage.cleaner.choice import Cleanable, job_of, look_at
from kvorum.storage.cleaner.cleaner import CleanerStats, Job
from kvorum.storage.cleaner.grouping import Source
from kvorum.storage.cleaner.hosts import Host, NoWorker, OpenHost
from kvorum.storage.cleaner.last_run import LastRun, report
from kvorum.storage.cleaner.offset_map import SECRET_SIZE
from kvorum.storage.cleaner.settings import CleanerConfig
from kvorum.storage.cleaner.swap import discard, offer, prepare
from kvorum.storage.cleaner.throttle import Throttle
from kvorum.storage.cleaner.work import Advanced, Begin, End, Map, Task, Write
from kvorum.storage.directory_checkpoints import DirectoryCheckpoints
from kvorum.storage.log import Log
from kvorum.storage.log_table import LogTable
from kvorum.storage.names import TopicPartition
from kvorum.storage.segment import CorruptSegment, Segment

log = get_logger("storage")

LOGS_PER_LOOK = 50
"""After so many logs were looked at, others have their turn."""
LOAD_FACTOR_MIN = 0.01
"""A smaller share of the slots is not reckoned with when they are counted out."""
IDLE_SECONDS = 60.0
"""A host that had nothing to do for so long gives its memory back."""
LOST_MAX = 3
"""So often in a row a worker may die of a log: killed for memory perhaps. Then it is the log, and a person looks."""
BYTES_AT_ONCE_MIN = 64 * 1024
BYTES_AT_ONCE_MAX = 8 * 1024 * 1024
PAUSE_SECONDS_MAX = 0.5
"""A throttled cleaner looks up this often: it may not be wanted any more."""


class Aborted(Exception):
    """The cleaning is not wanted any more, or what it has seen is not so any more."""


@dataclass(slots=True)
class _Run:
    """One cleaning under way, and the log's structure when it began."""

    log: Log
    structure: int
    host: Host


class LogCleaner:
    """See the module. `start` once, `close` once; `configure` whenever settings change."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        table: LogTable,
        checkpoints: DirectoryCheckpoints,
        settings: Settings,
        chance: Random,
        open_host: OpenHost,
    ) -> None:
        """Do nothing before `start`."""
        self._disk = disk
        self._clock = clock
        self._table = table
        self._checkpoints = checkpoints
        self._chance = chance
        self._config = CleanerConfig.of(settings)
        self._throttle = Throttle(self._config.bytes_per_second_max)
        self._open_host = open_host
        self._hosts: dict[int, Host] = {}
        self._lost: dict[TopicPartition, int] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._wake = asyncio.Event()
        self._is_started = False
        self._is_running = True
        self._uncleanable: dict[TopicPartition, Log] = {}
        self.last_runs: dict[int, LastRun] = {}
        self.dirtiest_ratio = 0.0
        self.last_look_ms = clock.wall_ms()

    def start(self) -> None:
        """Begin, on the running loop."""
        self._is_started = True
        self._ensure_workers()

    async def close(self) -> None:
        """Stop, and wait for the step that each cleaner is in."""
        self._is_running = False
        self._wake_all()
        if self._tasks:
            await asyncio.wait(self._tasks.values())
        for index in list(self._hosts):
            await self._close_host(index)

    def configure(self, settings: Settings) -> None:
        """Take over settings: the rate and the number of cleaners at once, buffers from the next log on."""
        config = CleanerConfig.of(settings)
        if config != self._config:
            self._config = config
            self._throttle.set_rate(config.bytes_per_second_max)
            self._wake_all()
            self._ensure_workers()

    @property
    def uncleanable(self) -> list[Log]:
        """The logs whose cleaning failed, as far as they are still there."""
        return [each for partition, each in self._uncleanable.items() if self._table.get(partition) is each]

    @property
    def dead_count(self) -> int:
        """How many cleaners have ended with a fault of our own."""
        ended = [task for task in self._tasks.values() if task.done() and not task.cancelled()]
        return sum(task.exception() is not None for task in ended)

    def uncleanable_bytes(self, each: Log) -> int:
        """Return what of such a log waits for its cleaning. It must not have failed."""
        return look_at(each, self._clock.wall_ms()).cleanable_bytes

    # Cleaners

    def _wake_all(self) -> None:
        self._wake.set()
        self._wake = asyncio.Event()

    def _ensure_workers(self) -> None:
        """Have as many cleaners as are configured; those too many end by themselves."""
        if not (self._is_started and self._is_running):
            return
        loop = asyncio.get_running_loop()
        for index in range(self._config.threads):
            if index not in self._tasks or self._tasks[index].done():
                task = loop.create_task(self._work(index), name=f"log-cleaner-{index}")
                task.add_done_callback(_report_fault)
                self._tasks[index] = task

    async def _work(self, index: int) -> None:
        """Be one cleaner."""
        loop = asyncio.get_running_loop()
        worked_at = loop.time()
        while self._is_running and index < self._config.threads:
            if await self.clean_dirtiest(index):
                worked_at = loop.time()
                continue
            if loop.time() - worked_at > IDLE_SECONDS:
                await self._close_host(index)
            await self._pause(self._config.backoff_ms / 1000)
        self.last_runs.pop(index, None)
        await self._close_host(index)

    async def _close_host(self, index: int) -> None:
        if (host := self._hosts.pop(index, None)) is not None:
            await host.close()

    async def _pause(self, seconds: float) -> None:
        """Wait, or until settings change or the broker stops."""
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return

    async def clean_dirtiest(self, index: int = 0) -> bool:
        """Clean the log that is due most; return whether one was cleaned. What each cleaner does, again and again."""
        found = await self._dirtiest(index)
        if found is None:
            await self._keep_checkpoints()
            return False
        each = found.log
        each.cleaning.is_in_progress = True
        try:
            is_done = await self._clean(index, found)
        finally:
            each.cleaning.is_in_progress = False
        if each.failure is None:
            try:
                each.delete_old_segments(self._clock.wall_ms())
            except KafkaError as error:
                log.warning("retention stopped", partition=each.partition, error=error)
        return is_done

    async def _dirtiest(self, index: int) -> Cleanable | None:
        """Return the log to clean next, None if none is due."""
        now_ms = self.last_look_ms = self._clock.wall_ms()
        dirtiest = due = None
        overdue_ms = 0
        for count, each in enumerate(self._table.logs(), start=1):
            if count % LOGS_PER_LOOK == 0:
                await asyncio.sleep(0)
            if not self._is_candidate(each):
                continue
            try:
                seen = look_at(each, now_ms)
            except KafkaError as error:
                log.warning("a log cannot be looked at by the cleaner", partition=each.partition, error=error)
                continue
            overdue_ms = max(overdue_ms, seen.overdue_ms)
            if dirtiest is None or seen.ratio > dirtiest.ratio:
                dirtiest = seen
            if seen.is_due and (due is None or seen.ratio > due.ratio):
                due = seen
        self.dirtiest_ratio = 0.0 if dirtiest is None else dirtiest.ratio
        self.last_runs.setdefault(index, LastRun()).overdue_ms = overdue_ms
        self._uncleanable = {each.partition: each for each in self.uncleanable}
        return due if due is not None and self._is_candidate(due.log) else None

    def _is_candidate(self, each: Log) -> bool:
        if not each.config.is_compacted or each.failure is not None or each.cleaning.is_in_progress:
            return False
        if each.partition in self._table.futures:  # it is being copied: Kafka pauses its cleaning, too
            return False
        return self._uncleanable.get(each.partition) is not each and self._table.get(each.partition) is each

    # One cleaning

    async def _clean(self, index: int, found: Cleanable) -> bool:
        """Clean a log; return whether it is clean now."""
        each = found.log
        host = self._hosts.setdefault(index, self._open_host(self._disk, self._clock))
        run = _Run(each, each.cleaning.structure, host)
        last = self.last_runs.setdefault(index, LastRun())
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            end_offset = await self._clean_all(run, found, last)
            each.cleaning.cleaned_offset = end_offset
            await self._keep_checkpoints()
        except Aborted:
            log.info("cleaning aborted", partition=each.partition)
            return False
        except NoWorker as error:
            log.warning("cleaning waits for a worker", partition=each.partition, error=error)
            return False
        except WorkerLost as error:
            await self._close_host(index)
            self._lost_worker(each, error)
            return False
        except (OSError, CorruptSegment, KafkaError, AssertionError) as error:
            self._failed(run, error)
            return False
        self._lost.pop(each.partition, None)
        last.seconds = loop.time() - began
        report(each, found.first_dirty_offset, end_offset, last)
        return True

    async def _clean_all(self, run: _Run, found: Cleanable, last: LastRun) -> int:
        """Build the map and clean group by group; return up to where the log is clean then."""
        job = job_of(found, self._clock.wall_ms())
        producers = await self._producers_before(run, job.end_offset)
        try:
            await run.host.advance(self._begin(job), self._bytes_at_once)
            mapped = await self._drive(run, Map())
            first, stats = 0, mapped.stats
            for count in mapped.source_counts:
                self._check(run)
                stats = await self._clean_group(run, job, first, first + count, producers)
                first += count
        except Exception:
            await self._end(run)
            raise
        await self._end(run)
        self._check(run)
        last.stats = stats
        return max(mapped.latest_offset + 1, job.first_dirty_offset)

    def _begin(self, job: Job) -> Begin:
        """Return a cleaning with one cleaner's share of the buffers, and no more slots than there may be keys."""
        config = self._config
        offsets = job.end_offset - job.first_dirty_offset
        return Begin(
            job=job,
            secret=self._chance.randbytes(SECRET_SIZE),
            memory_bytes=config.dedupe_buffer_size // config.threads,
            slots_max=int(offsets / max(config.load_factor, LOAD_FACTOR_MIN)) + 2,
            io_buffer_size=config.io_buffer_size // config.threads // 2,
            load_factor=config.load_factor,
        )

    async def _end(self, run: _Run) -> None:
        """Have what a cleaning holds given back; a worker that is lost holds nothing."""
        with contextlib.suppress(WorkerLost):
            await run.host.advance(End(), self._bytes_at_once)

    async def _producers_before(self, run: _Run, end_offset: int) -> dict[int, LastRecord]:
        """Return what each producer had written last by the end of the cleaning: that much stays, as a header at least.

        Kafka goes by what it has written by now, wherever that is: where a power loss takes the newest records, nothing
        is left then of a producer whose older ones were durable, and what it sends again is written twice.
        """
        loop, cleaning = asyncio.get_running_loop(), run.log.cleaning
        try:
            return await blocking.run(loop, cleaning.read_last_records, end_offset)
        except ValueError as error:
            self._check(run)
            log.warning("a producer snapshot is damaged", partition=run.log.partition, offset=end_offset, error=error)
            cleaning.forget_snapshot(end_offset)
            raise Aborted from error

    async def _clean_group(
        self, run: _Run, job: Job, first: int, end: int, producers: dict[int, LastRecord]
    ) -> CleanerStats:
        """Write one segment of several, sources[first:end], and put it in their place."""
        try:
            known = run.log.cleaning.still_known(producers)
            written = await self._drive(run, Write(first=first, end=end, producers=known))
            async with self._table.disk_work:
                await self._swap(run, job, job.sources[first:end], written)
        except Exception:
            # What is offered stays: the log has failed or is deleted, and the next start settles it.
            if not run.log.cleaning.is_offered:
                await self._end(run)
                loop = asyncio.get_running_loop()
                await blocking.run(loop, discard, self._disk, job.folder, job.sources[first].base_offset)
            raise
        return written.stats

    async def _swap(self, run: _Run, job: Job, group: tuple[Source, ...], written: Advanced) -> None:
        """Put a written segment in the place of its sources. Holds `disk_work`; a cut may come between two steps."""
        loop, cleaning = asyncio.get_running_loop(), run.log.cleaning
        base_offset = group[0].base_offset
        self._check(run)
        await blocking.run(loop, prepare, self._disk, job.folder, base_offset)
        self._check(run)
        cleaning.is_offered = True
        offer(self._disk, job.folder, base_offset)
        await blocking.run(loop, self._disk.sync_dir, job.folder)
        failpoints.hit("cleaner.swap.after")
        self._check_same(run)
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

    @property
    def _bytes_at_once(self) -> int:
        """How many bytes a cleaner may go on with before it pays: those of a tenth of a second, within limits."""
        return int(min(max(self._config.bytes_per_second_max / 10, BYTES_AT_ONCE_MIN), BYTES_AT_ONCE_MAX))

    async def _drive(self, run: _Run, task: Task) -> Advanced:
        """Have a task done, no faster than allowed."""
        loop = asyncio.get_running_loop()
        following: Task | None = task
        while True:
            self._check(run)
            # Before the work: what a log's last step has cost is waited for by the next log's first.
            while (left := self._throttle.wait(loop.time())) > 0:
                await self._pause(min(left, PAUSE_SECONDS_MAX))
                self._check(run)
            done = await run.host.advance(following, self._bytes_at_once)
            following = None
            if done.size:
                self._throttle.charge(done.size, loop.time())
            if done.is_done:
                return done

    def _check(self, run: _Run) -> None:
        """Raise Aborted where the cleaning is not to go on."""
        is_moving = run.log.partition in self._table.futures
        if not self._is_running or not run.log.config.is_compacted or is_moving:
            raise Aborted
        self._check_same(run)

    def _check_same(self, run: _Run) -> None:
        """Raise Aborted where the log is not what the cleaning has seen."""
        each = run.log
        is_there = each.failure is None and self._table.get(each.partition) is each and not self._table.is_closed
        if not is_there or each.cleaning.structure != run.structure:
            raise Aborted

    def _failed(self, run: _Run, error: Exception) -> None:
        """Act on what ended a cleaning, unless the log was taken away under it."""
        each = run.log
        try:
            self._check_same(run)
        except Aborted:
            log.info("cleaning aborted", partition=each.partition, error=error)
            return
        if isinstance(error, OSError):
            directory = self._table.dir_of(each.partition)
            assert directory is not None, "a log of the table lies somewhere"
            self._table.take_offline(directory, error)
            return
        self._uncleanable[each.partition] = each
        log.error("log cannot be cleaned, and is left as it is", partition=each.partition, error=error)

    def _lost_worker(self, each: Log, error: WorkerLost) -> None:
        """Try again later, unless workers keep dying of this log."""
        count = self._lost[each.partition] = self._lost.get(each.partition, 0) + 1
        log.warning("the cleaner's worker was lost", partition=each.partition, error=error, count=count)
        if count >= LOST_MAX:
            self._lost.pop(each.partition)
            self._uncleanable[each.partition] = each
            log.error("log cannot be cleaned, and is left as it is", partition=each.partition, error=error)

    async def _keep_checkpoints(self) -> None:
        """Write down what is clean, where that has changed."""
        if any(self._checkpoints.is_cleaned_stale(directory) for directory in self._table.dirs):
            await self._checkpoints.write_all(CLEANED_OFFSETS)


def _report_fault(task: asyncio.Task[None]) -> None:
    """Hand a fault of our own to the loop's exception handler, which ends the node."""
    error = None if task.cancelled() else task.exception()
    if error is not None:
        context = {"message": f"task {task.get_name()} failed", "exception": error, "task": task}
        task.get_loop().call_exception_handler(context)
