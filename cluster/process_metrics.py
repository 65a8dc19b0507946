"""What every process tells of itself: what runs here, how late its event loop is, and how much of the time it waits.

Processor, memory and open files are prometheus_client's own (`process_...`); `runtime.metrics` adds them to a scrape.
"""

import asyncio
from collections.abc import Callable
from importlib.metadata import version
from typing import Final

from kvorum.cluster.recent import Recent
from kvorum.runtime import metric_names as names
from kvorum.runtime.clock import Clock
from kvorum.runtime.metrics import Metrics
from kvorum.runtime.process import thread_cpu_seconds

LOOK_MS: Final = 100
"""A loop that stands still for longer is always noticed; to look costs some 20 microseconds."""
WINDOW_SECONDS: Final = 10


def build_info(metrics: Metrics, role: str, node_id: int) -> None:
    """Say what runs here."""
    metrics.gauge(names.BUILD_INFO).labels(version("kvorum"), role, node_id).set(1)


class LoopWatch:
    """Measures the running event loop by a timer of its own."""

    def __init__(self, metrics: Metrics, clock: Clock, cpu_seconds: Callable[[], float] = thread_cpu_seconds) -> None:
        """Prepare the gauges. `cpu_seconds` answers the processor time that the loop's thread has used."""
        self._clock = clock
        self._cpu_seconds = cpu_seconds
        self._lags = Recent(WINDOW_SECONDS)
        self._busy = Recent(WINDOW_SECONDS)
        self._timer: asyncio.TimerHandle | None = None
        self._began_ms = self._looked_ms = clock.monotonic_ms()
        self._used = cpu_seconds()
        metrics.gauge(names.EVENT_LOOP_LAG).labels().follow(self.lag_seconds)
        metrics.gauge(names.NETWORK_PROCESSOR_AVG_IDLE).labels().follow(self.idle_share)
        metrics.gauge(names.REQUEST_HANDLER_AVG_IDLE).labels().follow(self.idle_share)

    def start(self) -> None:
        """Begin to look."""
        self._began_ms = self._looked_ms = self._clock.monotonic_ms()
        self._used = self._cpu_seconds()
        self._timer = asyncio.get_running_loop().call_later(LOOK_MS / 1000, self._look)

    def close(self) -> None:
        """Look no more. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def lag_seconds(self) -> float:
        """Return how late the timer was at most, in the last seconds."""
        return self._lags.largest(self._clock.monotonic_ms()) / 1000

    def idle_share(self) -> float:
        """Return the share of the last seconds in which the loop's thread used no processor; 1 before the first."""
        now_ms = self._clock.monotonic_ms()
        seconds = min(float(WINDOW_SECONDS), max(1.0, (now_ms - self._began_ms) / 1000))
        return max(0.0, 1 - self._busy.total(now_ms) / seconds)

    def _look(self) -> None:
        now_ms, used = self._clock.monotonic_ms(), self._cpu_seconds()
        self._lags.add(max(0, now_ms - self._looked_ms - LOOK_MS), now_ms)
        self._busy.add(max(0.0, used - self._used), now_ms)
        self._looked_ms, self._used = now_ms, used
        self._timer = asyncio.get_running_loop().call_later(LOOK_MS / 1000, self._look)
