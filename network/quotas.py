"""Enforces client quotas: bytes in, bytes out, event loop time, metadata changes. Sans-IO.

One ClientQuotas per kind of use. Without a quota of a kind nothing is counted for it, and without any only `enabled` is
read. A client over a quota gets its response at once with a throttle time, during which its connection is not read
(KIP-219).
Source: Kafka's ClientQuotaManager, ClientRequestQuotaManager, ControllerMutationQuotaManager.
"""

from collections.abc import Callable, Iterator
from math import nan
from typing import Final, Generic, Protocol, TypeVar

from kvorum.network.authorizer import MutationQuota
from kvorum.network.context import RequestContext
from kvorum.network.quota_entities import Quotas, QuotaTable, Scope
from kvorum.network.quota_rate import Rate, TokenBucket, Windows
from kvorum.protocol.errors import ErrorCode, KafkaError

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"

METERS_MAX: Final = 10_000
"""Number of scopes with stored usage, of each kind: clients can choose any client ids.

Above it the least recently used tenth is dropped, and starts again.
"""
THROTTLE_WINDOWS: Final = Windows(2, 30_000)
"""Windows of the mean throttle time (Kafka's metrics.num.samples and metrics.sample.window.ms)."""
UNBOUNDED_BYTES: Final = 2**31 - 1


class Measure(Protocol):
    """Unit of a meter."""

    @property
    def last_event_ms(self) -> float:
        """Time of its last use."""
        ...


M = TypeVar("M", bound=Measure)


class Meter(Generic[M]):
    """One scope's use, and its quota now."""

    __slots__ = ("_throttled", "bound", "measure", "scope")

    def __init__(self, scope: Scope, measure: M, bound: float) -> None:
        """Start with no use."""
        self.scope = scope
        self.measure = measure
        self.bound = bound
        self._throttled: tuple[Rate, Rate] | None = None

    def note(self, throttle_ms: int, now_ms: float) -> int:
        """Record a client's throttle time, if any, and return it."""
        if throttle_ms > 0:
            if self._throttled is None:
                self._throttled = Rate(THROTTLE_WINDOWS, now_ms), Rate(THROTTLE_WINDOWS, now_ms)
            for rate, value in zip(self._throttled, (throttle_ms, 1), strict=True):
                rate.record(value, now_ms)
        return throttle_ms

    def throttle_time_ms(self, now_ms: float) -> float:
        """Return the mean of the times that clients were held back lately; not a number where none was."""
        if self._throttled is None:
            return nan
        times, count = (rate.measure(now_ms) for rate in self._throttled)
        return times / count if count else nan


class ClientQuotas(Generic[M]):
    """The quotas of one key, and their usage."""

    __slots__ = ("_by_client", "_key", "_make", "_meters", "_table", "enabled")

    def __init__(self, key: str, make: Callable[[float], M]) -> None:
        """Start without quotas. `make` creates a measure for a new scope, from its quota."""
        self._key = key
        self._make = make
        self._table = QuotaTable()
        self._meters: dict[Scope, Meter[M]] = {}
        self._by_client: dict[tuple[str, str], Meter[M] | None] = {}
        self.enabled = False

    def update(self, quotas: Quotas) -> None:
        """Apply new quotas; usage is kept if the scope still has a quota."""
        self._table = QuotaTable(self._key, quotas)
        self._by_client.clear()
        self.enabled = bool(self._table)
        for scope, meter in tuple(self._meters.items()):
            bound = self._table.bound(scope)
            if bound is None:
                del self._meters[scope]
            else:
                meter.bound = bound

    def meter(self, ctx: RequestContext) -> Meter[M] | None:
        """Return the scope of a request's client, None if it has no quota."""
        client = (ctx.principal.name, ctx.client_id or "")
        if client in self._by_client:
            return self._by_client[client]
        if len(self._by_client) >= METERS_MAX:
            self._by_client.clear()
        meter = self._by_client[client] = self._find(*client)
        return meter

    def meters(self) -> Iterator[Meter[M]]:
        """Go over all scopes that were used."""
        return iter(self._meters.values())

    def _find(self, user: str, client_id: str) -> Meter[M] | None:
        scope = self._table.scope(user, client_id)
        bound = self._table.bound(scope)
        if bound is None:
            return None
        meter = self._meters.get(scope)
        if meter is None:
            if len(self._meters) >= METERS_MAX:
                self._forget()
            meter = self._meters[scope] = Meter(scope, self._make(bound), bound)
        return meter

    def _forget(self) -> None:
        oldest = sorted(self._meters.values(), key=lambda meter: meter.measure.last_event_ms)
        for meter in oldest[: METERS_MAX // 10]:
            del self._meters[meter.scope]
        self._by_client.clear()


class BrokerQuotas:
    """Quotas of a broker's clients."""

    __slots__ = ("_now_s", "_windows", "enabled", "fetch", "produce", "request", "timed")

    def __init__(self, now_s: Callable[[], float], windows: Windows) -> None:
        """Start without quotas. `now_s` is the event loop's time."""
        self._now_s = now_s
        self._windows = windows
        self.produce = ClientQuotas(PRODUCER_BYTE_RATE, self._rate)
        self.fetch = ClientQuotas(CONSUMER_BYTE_RATE, self._rate)
        self.request = ClientQuotas(REQUEST_PERCENTAGE, self._rate)
        self.enabled = self.timed = False

    def _rate(self, bound: float) -> Rate:
        return Rate(self._windows, self._now_s() * 1000)

    def update(self, quotas: Quotas) -> None:
        """Take over the quotas that are in force from now on."""
        for kind in (self.produce, self.fetch, self.request):
            kind.update(quotas)
        self.timed = self.request.enabled
        self.enabled = self.produce.enabled or self.fetch.enabled or self.request.enabled

    def throttle_ms(self, ctx: RequestContext, *, produced: int = 0, exempt: bool = False) -> int:
        """See Quotas."""
        now_ms = self._now_s() * 1000
        throttle_ms = 0
        if produced and self.produce.enabled:
            throttle_ms = self._count(self.produce, ctx, produced, now_ms)
        if self.request.enabled and not exempt:
            throttle_ms = max(throttle_ms, self._count_time(ctx, now_ms))
        return throttle_ms

    def fetch_throttle_ms(self, ctx: RequestContext, fetched: int) -> int:
        """See Quotas."""
        now_ms = self._now_s() * 1000
        request_ms = self._count_time(ctx, now_ms) if self.request.enabled else 0
        fetch_ms = self._count(self.fetch, ctx, fetched, now_ms) if self.fetch.enabled else 0
        throttle_ms = max(fetch_ms, request_ms)
        if throttle_ms and self.fetch.enabled:
            meter = self.fetch.meter(ctx)
            if meter is not None:
                meter.measure.record(-fetched, now_ms)
        return throttle_ms

    def fetch_bytes_max(self, ctx: RequestContext) -> int:
        """See Quotas."""
        meter = self.fetch.meter(ctx) if self.fetch.enabled else None
        if meter is None:
            return UNBOUNDED_BYTES
        count, size_ms = self._windows
        return int(min(meter.bound * (count - 1) * size_ms / 1000, UNBOUNDED_BYTES))

    def times(self, ctx: RequestContext) -> bool:
        """See Quotas."""
        return self.request.enabled and self.request.meter(ctx) is not None

    def _count(self, quotas: ClientQuotas[Rate], ctx: RequestContext, value: float, now_ms: float) -> int:
        """Count a use; return the throttle time of its client."""
        meter = quotas.meter(ctx)
        if meter is None:
            return 0
        meter.measure.record(value, now_ms)
        return meter.note(meter.measure.throttle_ms(meter.bound, now_ms), now_ms)

    def _count_time(self, ctx: RequestContext, now_ms: float) -> int:
        """Count the loop time of a request, in percent of a second; the delay is at most one window."""
        spent_ms = now_ms - ctx.received_ms if ctx.spent_ms is None else ctx.spent_ms
        meter = self.request.meter(ctx)
        if meter is None:
            return 0
        meter.measure.record(spent_ms / 10, now_ms)
        return meter.note(min(meter.measure.throttle_ms(meter.bound, now_ms), self._windows.size_ms), now_ms)


class ControllerQuotas:
    """Quota of partitions created and removed per second (KIP-599)."""

    __slots__ = ("_now_s", "_windows", "mutation")

    def __init__(self, now_s: Callable[[], float], windows: Windows) -> None:
        """Start without quotas. `now_s` is the event loop's time."""
        self._now_s = now_s
        self._windows = windows
        self.mutation = ClientQuotas(CONTROLLER_MUTATION_RATE, self._bucket)

    def _bucket(self, bound: float) -> TokenBucket:
        return TokenBucket(self._windows, bound, self._now_s() * 1000)

    def update(self, quotas: Quotas) -> None:
        """Take over the quotas that are in force from now on."""
        self.mutation.update(quotas)

    def mutation_quota(self, ctx: RequestContext, strict_version: int) -> MutationQuota | None:
        """See MutationQuotas."""
        meter = self.mutation.meter(ctx) if self.mutation.enabled else None
        return None if meter is None else Mutations(meter, self._now_s, strict=ctx.api_version >= strict_version)


class Mutations:
    """Metadata changes of one request (MutationQuota): strict rejects above the quota, permissive throttles."""

    __slots__ = ("_meter", "_noted_ms", "_now_s", "_strict", "_throttle_ms")

    def __init__(self, meter: Meter[TokenBucket], now_s: Callable[[], float], *, strict: bool) -> None:
        """Start with nothing."""
        self._meter = meter
        self._now_s = now_s
        self._strict = strict
        self._throttle_ms = 0
        self._noted_ms = 0.0

    def record(self, count: int) -> None:
        """See MutationQuota."""
        now_ms = self._now_s() * 1000
        bucket, rate = self._meter.measure, self._meter.bound
        if not self._strict:
            bucket.take(count, rate, now_ms)
        if bucket.tokens(rate, now_ms) < 0:  # by however little: the time for it may well be rounded to none
            self._throttle_ms, self._noted_ms = bucket.throttle_ms(rate, now_ms), now_ms
            if self._strict:
                message = "The throttling quota has been exceeded."
                raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, message)
        elif self._strict:
            bucket.take(count, rate, now_ms)

    def throttle_ms(self) -> int:
        """See MutationQuota."""
        if not self._throttle_ms:
            return 0
        now_ms = self._now_s() * 1000
        return self._meter.note(max(0, round(self._throttle_ms - (now_ms - self._noted_ms))), now_ms)
