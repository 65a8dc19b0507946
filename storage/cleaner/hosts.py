"""Runs a cleaning off the event loop: in a separate process, or in threads (simulated disks).

A thread that iterates over records keeps the interpreter from the event loop: at half a millisecond per turn that
doubled the latencies of produce requests and used the loop's core (bench/cleaner_pacing.py). A process beside the
broker does neither; it has a low priority (WORKER_NICENESS), is started with the first log that is due, and ended after
an idle time. It reads segments, which do not change, and writes only `.cleaned` files: its death loses nothing. Only
the broker swaps segments.

Failpoints in the cleaner's writes are hit in the worker, which has the same failpoints as the broker; `kill` there ends
both.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

from kvorum.runtime import blocking, failpoints
from kvorum.runtime.clock import Clock
from kvorum.runtime.disk import Disk
from kvorum.runtime.logs import get_logger
from kvorum.runtime.worker import Worker, WorkerLost
from kvorum.storage.cleaner.work import Advanced, End, Slice, Task, Work
from kvorum.storage.cleaner.worker import Request, advanced, encoded

MODULE: Final = "kvorum.storage.cleaner.worker"
WORKER_NICENESS: Final = 10
"""A tenth of a busy core's time: brokers have priority, and cleaning never stops."""
SLICE_MS: Final = 50
"""Maximum delay until a cancelled cleaning stops; a hundred times the cost of a request."""
STEPS_AT_ONCE_MAX: Final = 3
"""In a thread: each has some 200 records, a fifth of a millisecond; more would show in the latency of requests."""


LOOK_SECONDS: Final = 10.0
LOOKS_MAX: Final = 6
"""Checks of a slice, which takes SLICE_MS, before the worker counts as stuck, and is killed.

One long wait would also end if the whole machine had been suspended for that time.
"""
log = get_logger("storage")


class NoWorker(WorkerLost):
    """No worker could be started: no process slot, memory or file descriptor. The log is not affected."""


class Host(Protocol):
    """Does one cleaner's work. One call at a time."""

    async def advance(self, task: Task | None, bytes_max: int) -> Advanced:
        """Start a task, or continue the last one; return after a slice.

        Raises the cleaner's errors (OSError, CorruptSegment, KafkaError, AssertionError), and WorkerLost.
        """
        ...

    async def close(self) -> None:
        """Release all resources. A later call starts again. Idempotent."""
        ...


OpenHost: TypeAlias = Callable[[Disk, Clock], Host]


class ThreadHost:
    """Works in threads of this process."""

    __slots__ = ("_work",)

    def __init__(self, disk: Disk, clock: Clock) -> None:
        """Start without work."""
        self._work = Work(disk, clock)

    async def advance(self, task: Task | None, bytes_max: int) -> Advanced:
        """See Host. For a millisecond at most, up to the next read or write."""
        limit = Slice(steps_max=STEPS_AT_ONCE_MAX, ms_max=1, bytes_max=1)
        return await blocking.run(asyncio.get_running_loop(), self._work.advance, task, limit)

    async def close(self) -> None:
        """See Host."""
        await self.advance(End(), 1)


class ProcessHost:
    """Works in a process that it starts when there is something to do."""

    __slots__ = ("_look", "_worker")

    def __init__(self) -> None:
        """Start without a worker."""
        self._worker: Worker | None = None
        self._look: asyncio.TimerHandle | None = None

    @property
    def pid(self) -> int | None:
        """The worker's process, None without one."""
        return None if self._worker is None else self._worker.pid

    async def advance(self, task: Task | None, bytes_max: int) -> Advanced:
        """See Host."""
        if self._worker is None:
            if isinstance(task, End):
                return Advanced(size=0, is_done=True)
            try:
                self._worker = Worker(MODULE, WORKER_NICENESS)
            except OSError as error:
                raise NoWorker(f"log cleaner worker not available: {error}") from error
        limit = Slice(steps_max=2**31, ms_max=SLICE_MS, bytes_max=bytes_max)
        request = Request(task=task, limit=limit, failpoints=failpoints.setting)
        loop = asyncio.get_running_loop()
        self._look_after(loop, self._worker, LOOKS_MAX)
        try:
            return await blocking.run(loop, ask, self._worker, request)
        finally:
            if self._look is not None:
                self._look.cancel()

    def _look_after(self, loop: asyncio.AbstractEventLoop, worker: Worker, looks_left: int) -> None:
        """Look again and again, and kill a worker that does not answer."""
        if looks_left:
            self._look = loop.call_later(LOOK_SECONDS, self._look_after, loop, worker, looks_left - 1)
            return
        log.warning("log cleaner worker does not respond, killed", pid=worker.pid)
        worker.kill()

    async def close(self) -> None:
        """See Host."""
        if self._worker is not None:
            worker, self._worker = self._worker, None
            await blocking.run(asyncio.get_running_loop(), worker.close)


def ask(worker: Worker, request: Request) -> Advanced:
    """Execute a slice in a worker."""
    return advanced(worker.ask(encoded(request)))


def open_host(disk: Disk, clock: Clock) -> Host:
    """Return what suits this disk."""
    return ProcessHost() if disk.is_shared else ThreadHost(disk, clock)
