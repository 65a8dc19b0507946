"""NetworkMetrics over the process's registry: one object for all its listeners."""

from typing import Final

from kvorum.protocol.errors import ErrorCode
from kvorum.runtime import metric_names as names
from kvorum.runtime.metrics import Counter, Histogram, Metrics

INCOMING_BYTES: Final = "kafka_server_socket_server_metrics_incoming_byte_total"
OUTGOING_BYTES: Final = "kafka_server_socket_server_metrics_outgoing_byte_total"


class RegistryMetrics:
    """Counts what connections tell. A request costs one look into a dictionary and three additions."""

    __slots__ = (
        *("_answers", "_bytes", "_closed", "_count", "_created", "_errors", "_incoming", "_outgoing"),
        *("_refused", "_requests", "_seconds"),
    )

    def __init__(self, metrics: Metrics) -> None:
        """Register the families."""
        self._count = metrics.gauge(names.CONNECTION_COUNT)
        self._created = metrics.counter(names.CONNECTION_CREATION)
        self._closed = metrics.counter(names.CONNECTION_CLOSE)
        self._refused = metrics.counter(names.CONNECTIONS_REFUSED)
        self._requests = metrics.counter(names.REQUESTS)
        self._errors = metrics.counter(names.REQUEST_ERRORS)
        self._seconds = metrics.histogram(names.REQUEST_SECONDS)
        self._incoming = metrics.counter(INCOMING_BYTES, "Bytes read from sockets", ("listener",))
        self._outgoing = metrics.counter(OUTGOING_BYTES, "Bytes given to sockets", ("listener",))
        # APIs, versions and error codes are few: so is this.
        self._answers: dict[tuple[str, int, int], tuple[Counter, Counter, Histogram]] = {}
        self._bytes: dict[str, tuple[Counter, Counter]] = {}
        """By listener: what came, and what went."""

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

    def handled(self, api: str, version: int, error_code: int, elapsed_ms: float) -> None:
        """See NetworkMetrics."""
        known = self._answers.get((api, version, error_code))
        if known is None:
            known = self._answers[api, version, error_code] = (
                self._requests.labels(api, version),
                self._errors.labels(api, ErrorCode(error_code).name),
                self._seconds.labels(api),
            )
        requests, errors, seconds = known
        requests.add()
        errors.add()
        seconds.observe(elapsed_ms / 1000)
