"""What a broker counts of transactions, under the names of Kafka's beans."""

from typing import Final, Protocol

from kvorum.runtime import metric_names as names
from kvorum.runtime.metrics import Counter, Histogram, Metrics

VERIFICATION_MS: Final = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000)
"""Bounds: from a coordinator on this broker to one that did not answer in request.timeout.ms."""


class TransactionFigures:
    """How verifications went."""

    __slots__ = ("_failures", "_took_ms")

    def __init__(self, metrics: Metrics) -> None:
        """Find or make the numbers."""
        self._failures: Counter = metrics.counter(names.VERIFICATION_FAILURES).labels()
        self._took_ms: Histogram = metrics.histogram(names.VERIFICATION_MS, bounds=VERIFICATION_MS).labels()

    def verified(self, took_ms: int, refused_count: int) -> None:
        """Count one question, and the partitions of it that were refused."""
        self._took_ms.observe(took_ms)
        self._failures.add(refused_count)


class WaitingMarkers(Protocol):
    """A MarkerSender, as far as it is counted."""

    @property
    def without_leader_count(self) -> int:
        """Markers whose partition had no leader when they were routed."""
        ...

    @property
    def retried_count(self) -> int:
        """Markers that were refused, and wait for another try."""
        ...


def follow_markers(metrics: Metrics, markers: WaitingMarkers) -> None:
    """Tell of the markers that wait."""
    metrics.gauge(names.MARKERS_WITHOUT_LEADER).labels().follow(lambda: markers.without_leader_count)
    metrics.gauge(names.MARKERS_RETRIED).labels().follow(lambda: markers.retried_count)
