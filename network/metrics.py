"""NetworkMetrics over the process's registry: one object for all its listeners."""

from collections import Counter as Counts
from collections.abc import Callable, Iterator
from functools import partial

from kvorum.network.request_times import FETCH, FETCH_CONSUMER, FETCH_FOLLOWER, STAGES, VERIFICATION, RequestTimes
from kvorum.protocol.errors import ErrorCode
from kvorum.runtime import metric_names as names
from kvorum.runtime.metrics import Counter, Family, Histogram, Metrics, SummaryRow
from kvorum.runtime.quantiles import Quantiles

PARTS_OF_FETCH = (FETCH_CONSUMER, FETCH_FOLLOWER)
API_OF = {FETCH_CONSUMER: FETCH, FETCH_FOLLOWER: FETCH, VERIFICATION: "AddPartitionsToTxn"}
"""Of names that tell some of an API's requests apart."""


class RegistryMetrics:
    """Counts what connections tell. A request costs one look into a dictionary and four additions."""

    __slots__ = (
        *("_answers", "_bytes", "_closed", "_count", "_created", "_errors", "_incoming", "_now_s", "_outgoing"),
        *("_refused", "_requests", "_seconds", "_times"),
    )

    def __init__(self, metrics: Metrics, now_s: Callable[[], float]) -> None:
        """Register the families; `now_s` is the clock of the loop that tells."""
        self._count = metrics.gauge(names.CONNECTION_COUNT)
        self._created = metrics.counter(names.CONNECTION_CREATION)
        self._closed = metrics.counter(names.CONNECTION_CLOSE)
        self._refused = metrics.counter(names.CONNECTIONS_REFUSED)
        self._requests = metrics.counter(names.REQUESTS)
        self._errors = metrics.counter(names.REQUEST_ERRORS)
        self._seconds = metrics.histogram(names.REQUEST_SECONDS)
        self._incoming = metrics.counter(names.INCOMING_BYTES)
        self._outgoing = metrics.counter(names.OUTGOING_BYTES)
        self._now_s = now_s
        # APIs, versions and error codes are few: so is this.
        self._answers: dict[tuple[str, int, int], tuple[Counter, Counter, Histogram, RequestTimes]] = {}
        self._times: dict[str, RequestTimes] = {}
        self._bytes: dict[str, tuple[Counter, Counter]] = {}
        """By listener: what came, and what went."""
        self._follow_times(metrics)

    def connections(self, listener: str, change: int) -> None:
        """See NetworkMetrics."""
        self._count.labels(listener).add(change)
        (self._created if change > 0 else self._closed).labels(listener).add()

    def refused(self, listener: str, reason: str) -> None:
        """See NetworkMetrics."""
        self._refused.labels(listener, reason).add()

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
        known = self._answers.get((api, version, error_code))
        if known is None:
            known = self._answers[api, version, error_code] = (
                self._requests.labels(api, version),
                self._errors.labels(api, ErrorCode(error_code).name),
                self._seconds.labels(API_OF.get(api, api)),
                self._times.setdefault(api, RequestTimes()),
            )
        requests, errors, seconds, times = known
        requests.add()
        errors.add()
        seconds.observe(elapsed_ms / 1000)
        times.count += 1
        return times if times.count >= times.next_at else None

    def _follow_times(self, metrics: Metrics) -> None:
        """Have Fetch told as a whole beside its parts, as Kafka does, and the stages of all requests."""
        self._requests.sample(partial(whole_fetch, self._requests))
        self._errors.sample(partial(whole_fetch, self._errors))
        for index, name in enumerate(STAGES):
            metrics.summary(name).sample(partial(self._stage, index))

    def _stage(self, index: int) -> Iterator[SummaryRow]:
        now_ms = self._now_s() * 1000
        for api, times in tuple(self._times.items()):
            yield (api,), times.count, times.stages[index].told(now_ms)
        parts = [self._times[api] for api in PARTS_OF_FETCH if api in self._times]
        if parts:
            count = sum(times.count for times in parts)
            yield (FETCH,), count, Quantiles.merged([times.stages[index] for times in parts], now_ms)


def whole_fetch(family: Family[Counter]) -> list[tuple[tuple[str, str], float]]:
    """Return what a family counts of Fetch by its second label, its parts together."""
    counts: Counts[str] = Counts()
    for (api, other), counter in family.children():
        if api in PARTS_OF_FETCH:
            counts[other] += int(counter.value)
    return [((FETCH, other), count) for other, count in counts.items()]
