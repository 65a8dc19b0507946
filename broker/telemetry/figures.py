"""Exposition of clients' metrics on /metrics, and metrics of the pushes (Kafka's client-metrics group)."""

from collections.abc import Callable

from kvorum.broker.telemetry.manager import ClientMetricsManager
from kvorum.runtime import metric_names as names
from kvorum.runtime.metrics import Metrics


def follow_client_metrics(metrics: Metrics, manager: ClientMetricsManager, now_ms: Callable[[], int]) -> None:
    """Register all families; they are read at each scrape."""
    metrics.gauge(names.CLIENT_METRICS_INSTANCES).labels().follow(lambda: manager.count(now_ms()))
    metrics.gauge(names.CLIENT_METRIC).sample(manager.series.rows)
    for name, value in (
        (names.CLIENT_METRICS_UNKNOWN_SUBSCRIPTIONS, lambda: manager.unknown_subscriptions),
        (names.CLIENT_METRICS_THROTTLED, lambda: manager.throttled),
        (names.CLIENT_METRICS_EXPORTS, lambda: manager.exports),
        (names.CLIENT_METRICS_EXPORT_ERRORS, lambda: manager.export_errors),
        (names.CLIENT_METRICS_BYTES, lambda: manager.exported_bytes),
        (names.CLIENT_METRICS_DROPPED, lambda: manager.series.dropped),
    ):
        metrics.counter(name).sample(one_row(value))


def one_row(value: Callable[[], int]) -> Callable[[], list[tuple[tuple[object, ...], float]]]:
    """Return a number that is counted elsewhere as a metric without labels wants it."""
    return lambda: [((), value())]
