"""The cleaners of a broker (Kafka's LogCleaner): each takes the dirtiest log, cleans it, and looks again.

    idle -> choosing -> cleaning (map, then group by group: write, swap) -> checkpoint -> choosing
                            |-> aborted: the log was truncated, deleted, or is not compacted now; chosen again when due
                            |-> uncleanable: its bytes cannot be read; not tried again, a person has to look
                            |-> its disk failed: the log directory goes offline

storage.cleaner.choice selects the range, storage.cleaner.cleaning cleans it. Retention skips a log while it is being
cleaned, and runs after.

Followers clean as leaders do, each its own log, up to the high watermark they know.
"""

import asyncio
from random import Random

from kvorum.protocol.errors import KafkaError
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.runtime.clock import Clock
from kvorum.runtime.config import Settings
from kvorum.runtime.disk import Disk
from kvorum.runtime.logs import get_logger
from kvorum.runtime.worker import WorkerLost
from kvorum.storage.checkpoints import CLEANED_OFFSETS
from kvorum.storage.cleaner.choice import Cleanable, look_at
from kvorum.storage.cleaner.cleaning import Aborted, Cleaning
from kvorum.storage.cleaner.hosts import Host, NoWorker, OpenHost
from kvorum.storage.cleaner.last_run import LastRun, report
from kvorum.storage.cleaner.pace import Pace
from kvorum.storage.cleaner.settings import CleanerConfig
from kvorum.storage.directory_checkpoints import DirectoryCheckpoints
from kvorum.storage.log import Log
from kvorum.storage.log_table import LogTable
from kvorum.storage.segment import CorruptSegment

log = get_logger("storage")

LOGS_PER_LOOK = 50
"""Number of logs that are checked before other work runs."""
IDLE_SECONDS = 60.0
"""A host that is idle for this time is closed to free memory."""
CLEANERS_MAX = 64
"""Maximum of simultaneous workers, however large log.cleaner.threads is: each is a process with its buffers."""
LOST_MAX = 3
"""Consecutive deaths of a worker (killed for memory, perhaps) after which the log is the cause; an operator acts."""


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
        self._pace = Pace(CleanerConfig.of(settings))
        self._open_host = open_host
        self._hosts: dict[int, Host] = {}
        self._lost: dict[TopicPartition, int] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._is_started = False
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
        self._pace.stop()
        if self._tasks:
            await asyncio.wait(self._tasks.values())
        for index in list(self._hosts):
            await self._close_host(index)

    def configure(self, settings: Settings) -> None:
        """Take over settings: the rate and the number of cleaners at once, buffers from the next log on."""
        config = CleanerConfig.of(settings)
        if config != self._pace.config:
            self._pace.configure(config)
            self._ensure_workers()

    @property
    def uncleanable(self) -> list[Log]:
        """The existing logs whose cleaning failed."""
        return [each for partition, each in self._uncleanable.items() if self._table.get(partition) is each]

    @property
    def dead_count(self) -> int:
        """Number of cleaners that ended because of an internal error."""
        ended = [task for task in self._tasks.values() if task.done() and not task.cancelled()]
        return sum(task.exception() is not None for task in ended)

    def uncleanable_bytes(self, each: Log) -> int:
        """Return the part of such a log that waits for cleaning. The log must not have failed."""
        return look_at(each, self._clock.wall_ms()).cleanable_bytes

    # Cleaners

    def _ensure_workers(self) -> None:
        """Start or stop cleaners to match the configured number; excess ones end on their own."""
        if not (self._is_started and self._pace.is_running):
            return
        loop = asyncio.get_running_loop()
        for index in range(min(self._pace.config.threads, CLEANERS_MAX)):
            if index not in self._tasks or self._tasks[index].done():
                task = loop.create_task(self._work(index), name=f"log-cleaner-{index}")
                task.add_done_callback(_report_fault)
                self._tasks[index] = task

    async def _work(self, index: int) -> None:
        """Be one cleaner."""
        loop = asyncio.get_running_loop()
        worked_at = loop.time()
        while self._pace.is_running and index < self._pace.config.threads:
            if await self.clean_dirtiest(index):
                worked_at = loop.time()
                continue
            if loop.time() - worked_at > IDLE_SECONDS:
                await self._close_host(index)
            await self._pace.pause(self._pace.config.backoff_ms / 1000)
        self.last_runs.pop(index, None)
        await self._close_host(index)

    async def _close_host(self, index: int) -> None:
        if (host := self._hosts.pop(index, None)) is not None:
            await host.close()

    async def clean_dirtiest(self, index: int = 0) -> bool:
        """Clean the log that is due most; return whether one was cleaned. The loop of each cleaner."""
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
                log.warning("retention failed", partition=each.partition, error=error)
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
                log.warning("log not checked by the cleaner", partition=each.partition, error=error)
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
        if each.partition in self._table.futures:  # it is being copied: Kafka pauses its cleaning too
            return False
        return self._uncleanable.get(each.partition) is not each and self._table.get(each.partition) is each

    # One cleaning

    async def _clean(self, index: int, found: Cleanable) -> bool:
        """Clean a log; return whether it is clean now."""
        each = found.log
        host = self._hosts.setdefault(index, self._open_host(self._disk, self._clock))
        cleaning = Cleaning(self._disk, self._clock, self._table, self._pace, host, found, self._chance)
        last = self.last_runs.setdefault(index, LastRun())
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            end_offset, last.stats = await cleaning.run()
            each.cleaning.cleaned_offset = end_offset
            await self._keep_checkpoints()
        except Aborted:
            log.debug("cleaning aborted", partition=each.partition)
            return False
        except NoWorker as error:
            log.warning("cleaning waits for a worker", partition=each.partition, error=error)
            return False
        except WorkerLost as error:
            await self._close_host(index)
            self._lost_worker(each, error)
            return False
        except (OSError, CorruptSegment, KafkaError, AssertionError) as error:
            self._failed(each, cleaning, error)
            return False
        self._lost.pop(each.partition, None)
        last.seconds = loop.time() - began
        report(each, found.first_dirty_offset, end_offset, last)
        return True

    def _failed(self, each: Log, cleaning: Cleaning, error: Exception) -> None:
        """Act on what ended a cleaning, unless the log was taken away under it."""
        try:
            cleaning.check_same()
        except Aborted:
            log.debug("cleaning aborted", partition=each.partition, error=error)
            return
        if isinstance(error, OSError):
            directory = self._table.dir_of(each.partition)
            assert directory is not None, "a log of the table lies somewhere"
            if each.cleaning.is_offered:  # half of a swap: the next start completes it
                self._table.take_offline(directory, error)
            else:
                self._table.disk_failed(directory, error)
            return
        self._uncleanable[each.partition] = each
        log.error("log not cleaned, left unchanged", partition=each.partition, error=error)

    def _lost_worker(self, each: Log, error: WorkerLost) -> None:
        """Try again later, unless workers keep dying of this log."""
        count = self._lost[each.partition] = self._lost.get(each.partition, 0) + 1
        log.warning("log cleaner worker lost", partition=each.partition, error=error, count=count)
        if count >= LOST_MAX:
            self._lost.pop(each.partition)
            self._uncleanable[each.partition] = each
            log.error("log not cleaned, left unchanged", partition=each.partition, error=error)

    async def _keep_checkpoints(self) -> None:
        """Write the checkpoint of cleaned offsets, if it has changed."""
        if any(self._checkpoints.is_cleaned_stale(directory) for directory in self._table.dirs):
            await self._checkpoints.write_all(CLEANED_OFFSETS)


def _report_fault(task: asyncio.Task[None]) -> None:
    """Hand a fault of our own to the loop's exception handler, which ends the node."""
    error = None if task.cancelled() else task.exception()
    if error is not None:
        context = {"message": f"task {task.get_name()} failed", "exception": error, "task": task}
        task.get_loop().call_exception_handler(context)
