"""Periodic work on a broker's replicas: time-outs, ISR shrinks, high watermark checkpoints,
logs that could not be opened.

Timers are the loop's; two runs of one task never overlap. Periodic work on logs is in broker.log_maintenance.
"""

import asyncio
from collections.abc import Awaitable, Callable

from kvorum.broker.replica.hosted import HostedPartitions, Outbox
from kvorum.broker.replica.isr_changes import maybe_shrink_isr
from kvorum.broker.replica.tasks import spawn
from kvorum.runtime.clock import Clock
from kvorum.runtime.config import Settings
from kvorum.runtime.timers import Timers
from kvorum.storage.log_manager import LogManager

TIMER_MS_MIN = 1
REOPEN_INTERVAL_MS = 5_000
"""How often logs that failed for lack of descriptors or memory are opened again. Costs nothing without such logs."""
INTERVAL_MS_MAX = 100 * 365 * 24 * 3600 * 1000
"""A hundred years; event loops cannot wait much longer."""


class Deadlines:
    """Advances `timers` when their next deadline is due: one call of the loop is scheduled at a time."""

    __slots__ = ("_armed_ms", "_handle", "_now_ms", "_timers")

    def __init__(self, timers: Timers, now_ms: Callable[[], int]) -> None:
        """Arm nothing yet."""
        self._timers = timers
        self._now_ms = now_ms
        self._armed_ms: int | None = None
        self._handle: asyncio.TimerHandle | None = None

    def arm(self) -> None:
        """Look at the next deadline; called after each time something was parked. O(1) unless it is an earlier one."""
        deadline_ms = self._timers.next_deadline_ms()
        if deadline_ms is None or (self._armed_ms is not None and self._armed_ms <= deadline_ms):
            return
        if self._handle is not None:
            self._handle.cancel()
        delay_ms = max(TIMER_MS_MIN, deadline_ms - self._now_ms())
        self._armed_ms = deadline_ms
        self._handle = asyncio.get_running_loop().call_later(delay_ms / 1000, self._due)

    def close(self) -> None:
        """Cancel the scheduled call."""
        if self._handle is not None:
            self._handle.cancel()
        self._handle = None
        self._armed_ms = 0

    def _due(self) -> None:
        self._handle = self._armed_ms = None
        self._timers.advance(self._now_ms())
        self.arm()


class PeriodicTasks:
    """Repeated work: each task runs `interval_ms` after its last run ended."""

    __slots__ = ("_tasks",)

    def __init__(self) -> None:
        """Start without any."""
        self._tasks: list[asyncio.Task[None]] = []

    def every(self, interval_ms: int, name: str, work: Callable[[], Awaitable[None] | None]) -> None:
        """Do `work` again and again until closed. An interval beyond INTERVAL_MS_MAX (Kafka's 2^63 - 1) is never."""
        if interval_ms <= INTERVAL_MS_MAX:
            self._tasks.append(spawn(name, self._repeat(interval_ms, work)))

    async def close(self) -> None:
        """Stop all tasks, and wait for running ones."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _repeat(self, interval_ms: int, work: Callable[[], Awaitable[None] | None]) -> None:
        while True:
            await asyncio.sleep(interval_ms / 1000)
            running = work()
            if running is not None:
                await running


class Housekeeping:
    """Periodic tasks of a broker."""

    def __init__(
        self, settings: Settings, clock: Clock, hosted: HostedPartitions, outbox: Outbox, log_manager: LogManager
    ) -> None:
        """Do nothing before `start`."""
        self._settings = settings
        self._clock = clock
        self._hosted = hosted
        self._outbox = outbox
        self._log_manager = log_manager
        self._tasks = PeriodicTasks()

    def start(self, reopen: Callable[[], Awaitable[None]]) -> None:
        """Begin. `reopen` is DeltaApplier's."""
        settings, every = self._settings, self._tasks.every
        every(max(1, settings.int("replica.lag.time.max.ms") // 2), "isr-expiration", self._shrink_isrs)
        every(
            settings.int("replica.high.watermark.checkpoint.interval.ms"), "highwatermark-checkpoint", self._checkpoint
        )
        every(REOPEN_INTERVAL_MS, "replica-reopen", reopen)

    async def close(self) -> None:
        """Stop."""
        await self._tasks.close()

    def _shrink_isrs(self) -> None:
        now_ms = self._clock.monotonic_ms()
        for partition in tuple(self._hosted.leaders()):
            maybe_shrink_isr(partition, now_ms)
            # One that was waited for, to let it join, may be so no longer: by time, or fenced.
            partition.maybe_increment_leader_high_watermark(now_ms)
            self._outbox.settle(partition)

    async def _checkpoint(self) -> None:
        await self._log_manager.checkpoint_high_watermarks()
