"""Quantiles of the last minutes, in little memory: Kafka's Histogram and Timer as Prometheus reads them. Sans-IO.

Values fall into buckets that are 9 % apart, counted by minute; a quantile is the middle of the bucket it falls into, so
4.5 % off at most. Kafka keeps a thousand values of the last five minutes, the newer ones more likely.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from math import ceil, floor, log2
from types import MappingProxyType
from typing import Final

QUANTILES: Final[Mapping[str, float]] = MappingProxyType(
    {"0.50": 0.5, "0.75": 0.75, "0.95": 0.95, "0.98": 0.98, "0.99": 0.99, "0.999": 0.999}
)
"""As the JMX exporter writes what Kafka's beans have (50thPercentile and so on)."""
WINDOW_MS: Final = 60_000
WINDOWS: Final = 5
BUCKETS_PER_DOUBLING: Final = 8
NOTHING: Final = -1_000_000
"""The bucket of 0 and of values near it."""
SMALLEST: Final = 1e-6


def bucket_of(value: float) -> int:
    """Return the bucket a value falls into."""
    return floor(log2(value) * BUCKETS_PER_DOUBLING) if value > SMALLEST else NOTHING


def middle_of(bucket: int) -> float:
    """Return the representative value of a bucket."""
    return 0.0 if bucket == NOTHING else float(2 ** ((bucket + 0.5) / BUCKETS_PER_DOUBLING))


class Quantiles:
    """Quantiles over a sliding window. Memory: a number for each bucket in use, times WINDOWS."""

    __slots__ = ("_windows", "count")

    def __init__(self) -> None:
        """Start empty."""
        self.count = 0
        """Number of all values so far."""
        self._windows: deque[tuple[int, dict[int, int]]] = deque(maxlen=WINDOWS)
        """By minute, of minutes in which anything came: how many fell into which bucket."""

    def add(self, value: float, now_ms: float, weight: int = 1) -> None:
        """Add a value with a weight; `now_ms` is monotonic."""
        self.count += weight
        minute = int(now_ms // WINDOW_MS)
        windows = self._windows
        if not windows or windows[-1][0] != minute:
            windows.append((minute, {}))
        buckets = windows[-1][1]
        bucket = bucket_of(value)
        buckets[bucket] = buckets.get(bucket, 0) + weight

    def collect(self, now_ms: float) -> dict[str, float]:
        """Return {quantile: value} of the last minutes, empty if nothing came."""
        return Quantiles.merged([self], now_ms)

    @staticmethod
    def merged(several: "Iterable[Quantiles]", now_ms: float) -> dict[str, float]:
        """Return the quantiles of several together."""
        counts: dict[int, int] = {}
        oldest = int(now_ms // WINDOW_MS) - WINDOWS
        for each in several:
            for minute, buckets in each._windows:
                if minute > oldest:
                    for bucket, count in buckets.items():
                        counts[bucket] = counts.get(bucket, 0) + count
        total, passed = sum(counts.values()), 0
        wanted = [(label, ceil(share * total)) for label, share in QUANTILES.items()][::-1]
        found: dict[str, float] = {}
        for bucket in sorted(counts):
            passed += counts[bucket]
            while wanted and passed >= wanted[-1][1]:
                found[wanted.pop()[0]] = middle_of(bucket)
        return found
