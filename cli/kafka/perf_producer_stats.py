"""Statistics of a producer's performance test, and their lines. Sans-IO: times are arguments, in ms.

Source: Kafka's ProducerPerformance.Stats.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

MIB: Final = 1024 * 1024
REPORTING_MS: Final = 5_000
SAMPLES_MAX: Final = 500_000
"""Latencies that are kept for the percentiles; of more records only every so-many-th is."""
PERCENTILES: Final = (0.5, 0.95, 0.99, 0.999)


@dataclass(slots=True)
class Window:
    """Counts of one reporting interval."""

    start_ms: float
    count: int = 0
    size: int = 0
    latency_ms: int = 0
    latency_ms_max: int = 0

    def add(self, latency_ms: int, size: int) -> None:
        """Count a record."""
        self.count += 1
        self.size += size
        self.latency_ms += latency_ms
        self.latency_ms_max = max(self.latency_ms_max, latency_ms)

    def rates(self, now_ms: float) -> tuple[float, float]:
        """Return (records per second, MiB per second) so far."""
        seconds = max(now_ms - self.start_ms, 1e-3) / 1_000
        return self.count / seconds, self.size / seconds / MIB

    @property
    def latency_ms_average(self) -> float:
        """Return the mean latency; NaN of nothing, as in Java."""
        return self.latency_ms / self.count if self.count else float("nan")


@dataclass(slots=True, kw_only=True)
class ProducerStats:
    """The statistics of a producer: all of it, and since the last line."""

    expected: int
    start_ms: float
    is_steady: bool = False
    """Whether it counts records after the warm-up."""
    reporting_ms: int = REPORTING_MS
    is_quiet: bool = False
    """Whether its windows are no longer printed."""
    total: Window = field(init=False)
    window: Window = field(init=False)
    latencies_ms: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Begin."""
        self.total, self.window = Window(self.start_ms), Window(self.start_ms)

    def record(self, latency_ms: int, size: int, now_ms: float) -> list[str]:
        """Count an acknowledged record; return the lines to print now."""
        if self.total.count % max(1, self.expected // SAMPLES_MAX) == 0:
            self.latencies_ms.append(latency_ms)
        self.total.add(latency_ms, size)
        self.window.add(latency_ms, size)
        if now_ms - self.window.start_ms < self.reporting_ms:
            return []
        first = self.is_steady and self.total.count == self.window.count
        lines = ["In steady state."] if first else []
        if not self.is_quiet:
            lines.append(self.window_line(now_ms))
        self.window = Window(now_ms)
        return lines

    def window_line(self, now_ms: float) -> str:
        """Return the line of the last window."""
        window = self.window
        records, mib = window.rates(now_ms)
        return (
            f"{window.count} records sent, {records:.1f} records/sec ({mib:.2f} MB/sec), "
            f"{window.latency_ms_average:.1f} ms avg latency, {window.latency_ms_max:.1f} ms max latency."
        )

    def total_line(self, now_ms: float) -> str:
        """Return the last line."""
        total = self.total
        records, mib = total.rates(now_ms)
        half, most, nearly_all, all_but_few = percentiles(self.latencies_ms)
        return (
            f"{total.count}{' steady state' if self.is_steady else ''} records sent, {records:.6f} records/sec "
            f"({mib:.2f} MB/sec), {total.latency_ms_average:.2f} ms avg latency, {total.latency_ms_max:.2f} ms max "
            f"latency, {half} ms 50th, {most} ms 95th, {nearly_all} ms 99th, {all_but_few} ms 99.9th."
        )


def percentiles(latencies_ms: Sequence[int]) -> list[int]:
    """Return the latencies at PERCENTILES; 0 of nothing."""
    found = sorted(latencies_ms)
    return [found[int(each * len(found))] if found else 0 for each in PERCENTILES]
