"""Metrics of transactions, under the names of Kafka's beans."""

from collections.abc import Callable
from typing import Protocol

from kvorum.runtime import metric_names as names
from kvorum.runtime.metrics import Metrics
from kvorum.runtime.quantiles import Quantiles


class TransactionFigures:
    """Results of verifications."""

    __slots__ = ("_now_ms", "_took_ms", "refused_count")

    def __init__(self, metrics: Metrics, now_ms: Callable[[], int]) -> None:
        """Register the numbers; `now_ms` is monotonic."""
        self._now_ms = now_ms
        self._took_ms = Quantiles()
        self.refused_count = 0
        """Number of partitions so far."""
        metrics.summary(names.VERIFICATION_MS).follow(self._took_ms, now_ms)
        # A Kafka Meter whose name does not end in PerSec: the JMX exporter exposes only its count, as of a summary.
        metrics.summary(names.VERIFICATION_FAILURES).sample(lambda: [((), self.refused_count, {})])

    def verified(self, took_ms: int, refused_count: int) -> None:
        """Count one question, and the partitions of it that were refused."""
        self._took_ms.add(took_ms, self._now_ms())
        self.refused_count += refused_count


class WaitingMarkers(Protocol):
    """A MarkerSender, for metrics."""

    @property
    def without_leader_count(self) -> int:
        """Markers whose partition had no leader when they were routed."""
        ...

    @property
    def retried_count(self) -> int:
        """Markers that were refused, and wait for another try."""
        ...


def follow_markers(metrics: Metrics, markers: WaitingMarkers) -> None:
    """Expose the number of waiting markers."""
    metrics.gauge(names.MARKERS_WITHOUT_LEADER).labels().follow(lambda: markers.without_leader_count)
    metrics.gauge(names.MARKERS_RETRIED).labels().follow(lambda: markers.retried_count)
