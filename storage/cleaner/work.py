"""The reads and writes of one cleaning, as tasks and results: plain values, which another process can decode.

    Begin(job, secret, ...)            the cleaning, without work yet
    Map()                 -> Mapped    the dirty section's keys; how many sources become each segment
    Write(sources, ...)   -> Written   one cleaned segment, whole and durable; the caller swaps it in
    End()                              files and memory are released; written files stay

A task runs in slices, so that the caller checks in between whether it is still needed, and charges the bytes. Sans-IO
except for the disk.
"""

from typing import Final, TypeAlias

import msgspec

from kvorum.runtime.clock import Clock
from kvorum.runtime.disk import Disk
from kvorum.storage.cleaner.batch_filter import BatchFilter, LastRecord
from kvorum.storage.cleaner.cleaned_segment import CleanedSegment
from kvorum.storage.cleaner.cleaner import Cleaner, CleanerStats, Job, Steps
from kvorum.storage.cleaner.offset_map import OffsetMap


class Begin(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A cleaning with its resources; sizes in bytes, of this one cleaner."""

    job: Job
    secret: bytes
    """Keys the identity of keys."""
    memory_bytes: int
    slots_max: int
    io_buffer_size: int
    load_factor: float


class Map(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Go over the dirty section."""


class Write(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Write what stays of the job's sources[first:end]."""

    first: int
    end: int
    producers: dict[int, LastRecord]
    """Last records of the known producers at the job's end."""


class End(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Release all resources."""


Task: TypeAlias = Begin | Map | Write | End


class Slice(msgspec.Struct, frozen=True, kw_only=True):
    """Amount of work between two responses; steps of a cleaning take about a fifth of a millisecond."""

    steps_max: int
    ms_max: int
    bytes_max: int


class Advanced(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Result of a slice. `size`: bytes read and written; other values count when the task is done."""

    size: int
    is_done: bool
    latest_offset: int = -1
    """Mapped: up to where, inclusive, the log is in the map."""
    source_counts: tuple[int, ...] = ()
    """Mapped: how many sources each segment is made from, from the first on; none of those behind the map."""
    segment_size: int = 0
    """Written: the segment's bytes."""
    has_txn_file: bool = False
    stats: CleanerStats = CleanerStats()


DONE: Final = Advanced(size=0, is_done=True)


class Work:
    """One cleaning after another. Raises the cleaner's errors; then `End` or another `Begin` follows."""

    __slots__ = ("_batch_filter", "_cleaner", "_clock", "_disk", "_job", "_offset_map", "_steps", "_target", "_task")

    def __init__(self, disk: Disk, clock: Clock) -> None:
        """Start without a cleaning."""
        self._disk = disk
        self._clock = clock
        self._job: Job | None = None
        self._cleaner: Cleaner | None = None
        self._offset_map: OffsetMap | None = None
        self._batch_filter: BatchFilter | None = None
        self._target: CleanedSegment | None = None
        self._task: Task | None = None
        self._steps: Steps | None = None

    def advance(self, task: Task | None, limit: Slice) -> Advanced:
        """Start the task, or continue the last one if it is None."""
        if task is not None:
            self._take(task)
        if self._steps is None:
            return DONE
        began_ms, size = self._clock.monotonic_ms(), 0
        for _ in range(limit.steps_max):
            step = next(self._steps, None)
            if step is None:
                return self._done(size)
            size += step
            if size >= limit.bytes_max or self._clock.monotonic_ms() - began_ms >= limit.ms_max:
                break
        return Advanced(size=size, is_done=False)

    def _take(self, task: Task) -> None:
        self._task = task
        match task:
            case Begin():
                self._end()
                self._begin(task)
            case Map():
                cleaner, job = self._of_this()
                self._steps = cleaner.build_map(job)
            case Write():
                self._steps = self._write(task)
            case End():
                self._end()

    def _of_this(self) -> tuple[Cleaner, Job]:
        assert self._cleaner is not None and self._job is not None, "a cleaning has begun"
        return self._cleaner, self._job

    def _begin(self, task: Begin) -> None:
        self._job = task.job
        self._offset_map = OffsetMap(task.memory_bytes, task.secret, task.slots_max)
        self._cleaner = Cleaner(self._disk, self._offset_map, task.io_buffer_size, task.load_factor)

    def _write(self, task: Write) -> Steps:
        cleaner, job = self._of_this()
        group = job.sources[task.first : task.end]
        if self._batch_filter is None:
            self._batch_filter = cleaner.begin(job)
        self._close_target()
        self._target = CleanedSegment(
            self._disk,
            job.folder,
            group[0].base_offset,
            index_interval_bytes=job.config.index_interval_bytes,
            buffer_size=cleaner.io_buffer_size,
            has_txn_file=group[0].has_txn_file,
        )
        return cleaner.clean_group(job, group, self._batch_filter, task.producers, self._target)

    def _done(self, size: int) -> Advanced:
        """Return the result of a task."""
        self._steps = None
        cleaner, job = self._of_this()
        if isinstance(self._task, Map):
            counts = tuple(len(group) for group in cleaner.groups(job))
            latest_offset = cleaner.offset_map.latest_offset
            return Advanced(
                size=size, is_done=True, latest_offset=latest_offset, source_counts=counts, stats=cleaner.stats
            )
        target = self._target
        assert target is not None, "a segment was written"
        self._close_target()
        return Advanced(
            size=size,
            is_done=True,
            segment_size=target.size,
            has_txn_file=target.has_txn_file,
            stats=cleaner.stats,
        )

    def _close_target(self) -> None:
        if self._target is not None:
            self._target.close()
        self._target = None

    def _end(self) -> None:
        if self._steps is not None:
            self._steps.close()
        self._close_target()
        if self._offset_map is not None:
            self._offset_map.close()
        self._steps = self._offset_map = self._cleaner = self._batch_filter = self._job = None
