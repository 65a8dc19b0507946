"""Metrics of client quotas, for each scope that has one and was used (Kafka's ClientQuotaManager)."""

from collections.abc import Callable, Iterator

from kvorum.network.quota_rate import Rate
from kvorum.network.quotas import BrokerQuotas, ClientQuotas
from kvorum.runtime import metric_names as names
from kvorum.runtime.metrics import Metrics

Row = tuple[tuple[object, ...], float]


def follow_quotas(metrics: Metrics, quotas: BrokerQuotas, now_s: Callable[[], float]) -> None:
    """Register all of it."""

    def rates(kind: ClientQuotas[Rate]) -> Iterator[Row]:
        for meter in tuple(kind.meters()):
            yield meter.scope, meter.measure.measure(now_s() * 1000)

    def throttle_times(kind: ClientQuotas[Rate]) -> Iterator[Row]:
        for meter in tuple(kind.meters()):
            yield meter.scope, meter.throttle_time_ms(now_s() * 1000)

    metrics.gauge(names.QUOTA_PRODUCE_BYTE_RATE).sample(lambda: rates(quotas.produce))
    metrics.gauge(names.QUOTA_PRODUCE_THROTTLE_TIME).sample(lambda: throttle_times(quotas.produce))
    metrics.gauge(names.QUOTA_FETCH_BYTE_RATE).sample(lambda: rates(quotas.fetch))
    metrics.gauge(names.QUOTA_FETCH_THROTTLE_TIME).sample(lambda: throttle_times(quotas.fetch))
    metrics.gauge(names.QUOTA_REQUEST_TIME).sample(lambda: rates(quotas.request))
    metrics.gauge(names.QUOTA_REQUEST_THROTTLE_TIME).sample(lambda: throttle_times(quotas.request))
