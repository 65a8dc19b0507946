"""Metrics of every process: roles, lag of the event loop, and its idle time.

Processor, memory and open files are prometheus_client's own (`process_...`); `runtime.metrics` adds them to a scrape.

Lag is the delay of a timer, and so of everything that is due at that time. The timer is due every LOOK_MS by the clock,
not relative to its last run: after the loop was blocked for a second ten samples are due, and all count, the last of
them with the smallest lag. So a quantile refers to points in time, and one long block is not a single sample.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Final

from kvorum.runtime import metric_names as names
from kvorum.runtime.clock import Clock
from kvorum.runtime.disk import Disk
from kvorum.runtime.logs import get_logger
from kvorum.runtime.metrics import Metrics
from kvorum.runtime.process import io_bytes, thread_cpu_seconds
from kvorum.runtime.recent import Recent

log = get_logger("cluster")

LOOK_MS: Final = 100
"""A loop that is blocked for longer is always noticed.

This is not polling: no request waits for it, and a check costs some 20 microseconds, 0.02 % of a core.
"""
IDLE_SECONDS: Final = 10
LAG_SECONDS: Final = 60
"""No less than Prometheus' usual time between two scrapes: the greatest lag is in one of them."""
LAG_BOUNDS: Final = tuple(
    ms / 1000
    for ms in (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 1_000, 2_000, 5_000, 10_000, 30_000)
)
"""Seconds, close to each other around 10 ms, the limit for work on the loop. The clock is of 1 ms."""
COUNTED_MAX: Final = 1_000
"""Limit of one block: 100 s. A process that was stopped for a day must not count for seconds."""
WARN_MS_MIN: Final = 500
"""Clients notice it, and an active controller's followers become candidates after 0.4 to 0.8 s of silence."""
WARN_EVERY_MS: Final = 10_000
IDLE_NAMES: Final = (names.NETWORK_PROCESSOR_AVG_IDLE, names.REQUEST_HANDLER_AVG_IDLE)
"""Under the names of Kafka's threads that serve clients.

On a combined node the broker exposes them: dashboards sum the values of a node, and the controller's loop has other
names.
"""


def build_info(metrics: Metrics, role: str, node_id: int) -> None:
    """Expose the version of this process."""
    metrics.gauge(names.BUILD_INFO).labels(version("kvorum"), role, node_id).set(1)


def follow_disk(metrics: Metrics, counted: Callable[[], tuple[int, int] | None] = io_bytes) -> None:
    """Expose the bytes that the process read from and wrote to disks, if the kernel counts them."""

    def read(index: int) -> list[tuple[tuple[()], float]]:
        found = counted()
        return [] if found is None else [((), found[index])]

    metrics.gauge(names.DISK_READ_BYTES).sample(lambda: read(0))
    metrics.gauge(names.DISK_WRITE_BYTES).sample(lambda: read(1))


def follow_certificates(metrics: Metrics, clock: Clock, ends: Callable[[], list[tuple[str, float]]]) -> None:
    """Expose the time until certificates expire; `ends` returns (listener, seconds since 1970)."""

    def left() -> list[tuple[tuple[str], float]]:
        now = clock.wall_ms() / 1000
        return [((listener,), end - now) for listener, end in ends()]

    metrics.gauge(names.CERTIFICATE_EXPIRY).sample(left)


def follow_volume(metrics: Metrics, disk: Disk, path: str) -> None:
    """Expose the free space of a directory's volume: a controller's, with its metadata."""
    metrics.gauge(names.LOG_DIRECTORY_FREE_BYTES).sample(lambda: of_volume(path, disk.free_bytes))
    metrics.gauge(names.LOG_DIRECTORY_TOTAL_BYTES).sample(lambda: of_volume(path, disk.total_bytes))


def of_volume(path: str, read: Callable[[str], int]) -> list[tuple[tuple[str], float]]:
    """Return one row, none if the disk does not answer: its writers detect failures."""
    try:
        return [((path,), read(path))]
    except OSError:
        return []


class LoopWatch:
    """Measures the running event loop by a timer of its own."""

    def __init__(
        self,
        metrics: Metrics,
        clock: Clock,
        cpu_seconds: Callable[[], float] = thread_cpu_seconds,
        idle_names: Iterable[str] = IDLE_NAMES,
    ) -> None:
        """Prepare the metrics.

        `cpu_seconds` returns the processor time of the loop's thread.

        `idle_names`: names of the idle-time metrics, where Kafka has a thread for each.
        """
        self._clock = clock
        self._cpu_seconds = cpu_seconds
        self._lag = metrics.histogram(names.EVENT_LOOP_LAG, bounds=LAG_BOUNDS).labels()
        self._lags = Recent(LAG_SECONDS)
        self._busy = Recent(IDLE_SECONDS)
        self._timer: asyncio.TimerHandle | None = None
        self._began_ms = clock.monotonic_ms()
        self._due_ms = self._began_ms + LOOK_MS
        self._used = cpu_seconds()
        self._warned_ms = -WARN_EVERY_MS
        self._unsaid = 0
        metrics.gauge(names.EVENT_LOOP_LAG_MAX).labels().follow(self.lag_seconds)
        for name in idle_names:
            metrics.gauge(name).labels().follow(self.idle_share)

    def start(self) -> None:
        """Start sampling."""
        self._began_ms = self._clock.monotonic_ms()
        self._due_ms = self._began_ms + LOOK_MS
        self._warned_ms = self._began_ms - WARN_EVERY_MS
        self._used = self._cpu_seconds()
        self._timer = asyncio.get_running_loop().call_later(LOOK_MS / 1000, self._look)

    def close(self) -> None:
        """Stop sampling. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def lag_seconds(self) -> float:
        """Return how late the timer was at most, in the last minute."""
        return self._lags.largest(self._clock.monotonic_ms()) / 1000

    def idle_share(self) -> float:
        """Return the share of the last seconds in which the loop's thread used no processor; 1 before the first."""
        now_ms = self._clock.monotonic_ms()
        seconds = min(float(IDLE_SECONDS), max(1.0, (now_ms - self._began_ms) / 1000))
        return max(0.0, 1 - self._busy.total(now_ms) / seconds)

    def _look(self) -> None:
        now_ms, used = self._clock.monotonic_ms(), self._cpu_seconds()
        late_ms, computed = max(0, now_ms - self._due_ms), max(0.0, used - self._used)
        self._lags.add(late_ms, now_ms)
        self._busy.add(computed, now_ms)
        for each_ms in range(late_ms, max(-1, late_ms - COUNTED_MAX * LOOK_MS), -LOOK_MS):
            self._lag.observe(each_ms / 1000)
        if late_ms >= WARN_MS_MIN:
            self._warn(late_ms, computed, now_ms)
        self._due_ms += (late_ms // LOOK_MS + 1) * LOOK_MS
        self._used = used
        self._timer = asyncio.get_running_loop().call_later((self._due_ms - now_ms) / 1000, self._look)

    def _warn(self, late_ms: int, computed: float, now_ms: int) -> None:
        """Log it, unless a line was written recently.

        Little computation in a long block: a busy machine, or a system call.
        """
        if now_ms - self._warned_ms < WARN_EVERY_MS:
            self._unsaid += 1
            return
        log.warning("event loop blocked", ms=late_ms, computed_ms=round(computed * 1000), unsaid=self._unsaid)
        self._warned_ms, self._unsaid = now_ms, 0


@contextmanager
def watch_loop(metrics: Metrics, clock: Clock, idle_names: Iterable[str] = IDLE_NAMES) -> Iterator[None]:
    """Measure the running event loop meanwhile; see LoopWatch for `idle_names`."""
    watch = LoopWatch(metrics, clock, idle_names=idle_names)
    watch.start()
    try:
        yield
    finally:
        watch.close()
