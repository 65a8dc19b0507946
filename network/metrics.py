"""NetworkMetrics over the process's registry: one object for all its listeners."""

from collections import Counter as Counts
from collections.abc import Callable, Iterator
from functools import partial

from kvorum.network.lane import LaneRequest
from kvorum.network.outbox import Outbox
from kvorum.network.request_times import (
    FETCH,
    FETCH_CONSUMER,
    FETCH_FOLLOWER,
    STAGES,
    VERIFICATION,
    RequestTimes,
    sample_of_lane,
)
from kvorum.network.shared import Authentication
from kvorum.protocol.errors import ErrorCode
from kvorum.runtime import metric_names as names
from kvorum.runtime.metrics import Counter, Family, Gauge, Metrics, SummaryRow
from kvorum.runtime.quantiles import Quantiles
from kvorum.runtime.recent_values import RecentValues

API_OF = {FETCH_CONSUMER: FETCH, FETCH_FOLLOWER: FETCH, VERIFICATION: "AddPartitionsToTxn"}
"""API of names that distinguish some of an API's requests."""
IN_BOTH = (FETCH_CONSUMER, FETCH_FOLLOWER)
"""Exposed under the API's name as well, as in Kafka."""
AUTHENTICATION_NAMES = {
    Authentication.SUCCEEDED: names.SUCCESSFUL_AUTHENTICATION,
    Authentication.FAILED: names.FAILED_AUTHENTICATION,
    Authentication.SUCCEEDED_AGAIN: names.SUCCESSFUL_REAUTHENTICATION,
    Authentication.FAILED_AGAIN: names.FAILED_REAUTHENTICATION,
    Authentication.SUCCEEDED_WITHOUT_SESSIONS: names.SUCCESSFUL_AUTHENTICATION_NO_REAUTH,
}
Row = tuple[tuple[object, ...], float]


class RegistryMetrics:
    """Counts the events of connections. A request costs one dictionary lookup and two additions."""

    __slots__ = (
        *("_answers", "_authentications", "_by_cipher", "_bytes", "_closed", "_count", "_created", "_incoming"),
        *("_latencies", "_now_s", "_outgoing", "_refused", "_seconds"),
    )

    def __init__(self, metrics: Metrics, now_s: Callable[[], float]) -> None:
        """Register the families; `now_s` is the clock of the calling loop."""
        self._now_s = now_s
        self._count = metrics.gauge(names.CONNECTION_COUNT)
        self._by_cipher = metrics.gauge(names.CONNECTIONS_BY_CIPHER)
        self._created = metrics.counter(names.CONNECTION_CREATION)
        self._closed = metrics.counter(names.CONNECTION_CLOSE)
        self._refused = metrics.counter(names.CONNECTIONS_REFUSED)
        self._authentications: dict[Authentication, Family[Counter] | Family[Gauge]] = {
            outcome: metrics.counter(name) for outcome, name in AUTHENTICATION_NAMES.items()
        }
        self._authentications[Authentication.EXPIRED] = metrics.gauge(names.EXPIRED_CONNECTIONS_KILLED)
        self._latencies: dict[str, RecentValues] = {}
        """Of re-authentications, by listener."""
        metrics.gauge(names.REAUTHENTICATION_LATENCY_AVG).sample(self._latency_avg)
        metrics.gauge(names.REAUTHENTICATION_LATENCY_MAX).sample(self._latency_max)
        self._seconds = metrics.histogram(names.REQUEST_SECONDS)
        self._incoming = metrics.counter(names.INCOMING_BYTES)
        self._outgoing = metrics.counter(names.OUTGOING_BYTES)
        # APIs, versions and error codes are few: so is this.
        self._answers: dict[tuple[str, int, int], RequestTimes] = {}
        """By name, version and error code."""
        self._bytes: dict[str, tuple[Counter, Counter]] = {}
        """By listener: bytes received and sent."""
        metrics.counter(names.REQUESTS).sample(self._by_version)
        metrics.counter(names.REQUEST_ERRORS).sample(self._by_error)
        for index, name in enumerate(STAGES):
            metrics.summary(name).sample(partial(self._stage, index))

    def connections(self, listener: str, change: int) -> None:
        """See NetworkMetrics."""
        self._count.labels(listener).add(change)
        (self._created if change > 0 else self._closed).labels(listener).add()

    def refused(self, listener: str, reason: str) -> None:
        """See NetworkMetrics."""
        self._refused.labels(listener, reason).add()

    def authenticated(self, listener: str, outcome: Authentication) -> None:
        """See NetworkMetrics."""
        self._authentications[outcome].labels(listener).add()

    def connections_by_cipher(self, listener: str, cipher: tuple[str, str], change: int) -> None:
        """See NetworkMetrics."""
        self._by_cipher.labels(listener, *cipher).add(change)

    def reauthenticated(self, listener: str, latency_ms: float) -> None:
        """See NetworkMetrics."""
        self._latencies.setdefault(listener, RecentValues()).add(latency_ms, self._now_s())

    def received(self, listener: str, size: int) -> None:
        """See NetworkMetrics."""
        self._bytes_of(listener)[0].add(size)

    def sent(self, listener: str, size: int) -> None:
        """See NetworkMetrics."""
        self._bytes_of(listener)[1].add(size)

    def _bytes_of(self, listener: str) -> tuple[Counter, Counter]:
        known = self._bytes.get(listener)
        if known is None:
            known = self._bytes[listener] = (self._incoming.labels(listener), self._outgoing.labels(listener))
        return known

    def handled(self, api: str, version: int, error_code: int, elapsed_ms: float) -> RequestTimes | None:
        """See NetworkMetrics."""
        key = (api, version, error_code)
        times = self._answers.get(key)
        if times is None:
            times = self._answers[key] = RequestTimes(self._seconds.labels(API_OF.get(api, api)))
        times.count += 1
        times.seconds.observe(elapsed_ms / 1000)
        return times if times.count >= times.next_at else None

    def handled_by_lane(self, api: str, version: int, elapsed_ms: float, taken: LaneRequest, outbox: Outbox) -> None:
        """See NetworkMetrics."""
        times = self.handled(api, version, 0, elapsed_ms)
        if times is not None:
            outbox.watch(sample_of_lane(times, taken, elapsed_ms))

    # Called at a scrape

    def _latency_avg(self) -> Iterator[Row]:
        now_s = self._now_s()
        for listener, values in self._latencies.items():
            if (found := values.average(now_s)) is not None:
                yield (listener,), found

    def _latency_max(self) -> Iterator[Row]:
        now_s = self._now_s()
        for listener, values in self._latencies.items():
            if (found := values.maximum(now_s)) is not None:
                yield (listener,), found

    def _by_version(self) -> list[Row]:
        counts: Counts[tuple[object, ...]] = Counts()
        for (api, version, _), times in self._answers.items():
            for name in names_of(api):
                counts[name, version] += times.count
        return list(counts.items())

    def _by_error(self) -> list[Row]:
        counts: Counts[tuple[object, ...]] = Counts()
        for (api, _, error_code), times in self._answers.items():
            for name in names_of(api):
                counts[name, ErrorCode(error_code).name] += times.count
        return list(counts.items())

    def _stage(self, index: int) -> Iterator[SummaryRow]:
        now_ms = self._now_s() * 1000
        by_name: dict[str, list[RequestTimes]] = {}
        for (api, _, _), times in self._answers.items():
            for name in names_of(api):
                by_name.setdefault(name, []).append(times)
        for name, several in by_name.items():
            stages = [times.stages[index] for times in several]
            yield (name,), sum(times.count for times in several), Quantiles.merged(stages, now_ms)


def names_of(api: str) -> tuple[str, ...]:
    """Return the names under which a request is exposed."""
    return (api, API_OF[api]) if api in IN_BOTH else (api,)
