"""Limits of connections of the process and their rates: by address, by listener, and in total (Kafka's
ConnectionQuotas, KIP-402, KIP-612).

A connection beyond a limit is rejected with a log line. One above the rate is accepted and served later: for its client
it is like a slow network, as a connection that Kafka has not accepted yet. One above the quota of its address is
ignored for a while and then closed (ip_rates), as in Kafka.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kvorum.network.ip_rates import CONNECTION_CREATION_RATE, IpConnectionRates
from kvorum.network.quota_rate import Windows
from kvorum.runtime.config import Settings
from kvorum.runtime.config_defs import LISTENER_PREFIX
from kvorum.runtime.config_types import parse_counts_per_host

UNLIMITED: Final = (1 << 31) - 1
BURST_S: Final = 1.0
"""Time of idleness that is saved up for a burst of connections."""
DELAY_S_MAX: Final = 30.0
"""A connection with a longer delay is rejected: its client has disconnected by then, and few may wait."""
FAILURES_MAX: Final = 10
"""kvorum.sasl.failed.authentication.rate.per.ip."""
FAILURE_DELAY_S_MAX: Final = 10.0
"""A connection with a failed authentication is kept no longer."""
FAILURE_ADDRESSES_MAX: Final = 10_000
"""Addresses whose failures are counted; the one that has not failed for longest is forgotten first."""

CONNECTIONS: Final = "max.connections"
CREATION_RATE: Final = "max.connection.creation.rate"
PER_ADDRESS: Final = "max.connections.per.ip"
OVERRIDES: Final = "max.connections.per.ip.overrides"
FAILURE_RATE: Final = "kvorum.sasl.failed.authentication.rate.per.ip"
KEYS: Final = (CONNECTIONS, CREATION_RATE, PER_ADDRESS, OVERRIDES)


class Refusal(NamedTuple):
    """A connection that is rejected, and the reason; it is closed this time after it arrived."""

    reason: str
    after_s: float = 0.0


def concerns_connections(key: str) -> bool:
    """Return whether a config, for one listener or for all, is one of those limits."""
    return key in KEYS or (key.startswith(LISTENER_PREFIX) and key.endswith((f".{CONNECTIONS}", f".{CREATION_RATE}")))


class CreationRate:
    """max.connection.creation.rate: connections per second, evenly after a burst of BURST_S. Sans-IO."""

    __slots__ = ("_next_s", "per_second")

    def __init__(self, per_second: int = UNLIMITED) -> None:
        """Start with a full burst. The rate can be set at any time; 0 admits no connection."""
        self.per_second = per_second
        self._next_s = float("-inf")

    def delay_s(self, now_s: float) -> float:
        """Return how long a connection that comes now has to wait; it is not counted yet."""
        if self.per_second >= UNLIMITED:
            return 0.0
        if self.per_second <= 0:
            return float("inf")
        return max(0.0, max(self._next_s, now_s - BURST_S) + 1 / self.per_second - now_s)

    def count(self, now_s: float) -> None:
        """Count a connection that was taken; others come behind it."""
        if 0 < self.per_second < UNLIMITED:
            self._next_s = max(self._next_s, now_s - BURST_S) + 1 / self.per_second


class FailedAuthentications:
    """Failed authentications of addresses: their answers leave at a limited rate, however many connections there are.

    A delay per connection alone does not slow down an address with many of them. Sans-IO.
    """

    __slots__ = ("_rates", "per_second")

    def __init__(self, per_second: int = FAILURES_MAX) -> None:
        """Start without failures."""
        self.per_second = per_second
        self._rates: OrderedDict[str, CreationRate] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of addresses."""
        return len(self._rates)

    def delay_s(self, address: str, now_s: float) -> float:
        """Count a failure; return the time until it may be answered, at most FAILURE_DELAY_S_MAX."""
        rate = self._rates.setdefault(address, CreationRate(self.per_second))
        self._rates.move_to_end(address)
        if len(self._rates) > FAILURE_ADDRESSES_MAX:
            self._rates.popitem(last=False)
        delay_s = rate.delay_s(now_s)
        if delay_s > FAILURE_DELAY_S_MAX:
            return FAILURE_DELAY_S_MAX
        rate.count(now_s)
        return delay_s


class ConnectionCounts:
    """The open connections and the limits on them; shared by the listeners of a process.

    `by_listener` and `rate_by_listener` are the `listener.name.NAME.` configs of one listener; the protected one (which
    brokers use among themselves) has its own limits only, as in Kafka.
    """

    __slots__ = (
        *("_by_address", "_there", "by_listener", "connections_max", "failures", "ip_rates", "overrides"),
        *("per_address_max", "rate", "rate_by_listener", "total"),
    )

    def __init__(
        self,
        connections_max: int = UNLIMITED,
        per_address_max: int = UNLIMITED,
        overrides: Mapping[str, int] | None = None,
        creation_rate_max: int = UNLIMITED,
    ) -> None:
        """Hold max.connections, max.connections.per.ip with its overrides, and max.connection.creation.rate."""
        self.connections_max = connections_max
        self.per_address_max = per_address_max
        self.overrides = dict(overrides or {})
        self.rate = CreationRate(creation_rate_max)
        self.by_listener: dict[str, int] = {}
        self.rate_by_listener: dict[str, CreationRate] = {}
        self.ip_rates = IpConnectionRates()
        """Connection rate quotas of addresses, on every listener."""
        self.failures = FailedAuthentications()
        self.total = 0
        self._by_address: dict[str, int] = {}
        self._there: dict[str, int] = {}

    @classmethod
    def of(cls, settings: Settings, listeners: Iterable[str] = ()) -> "ConnectionCounts":
        """Return the configured limits, those of these listeners included."""
        counts = cls()
        counts.ip_rates = IpConnectionRates(Windows.of(settings))
        counts.failures.per_second = settings.int(FAILURE_RATE)
        counts.configure(settings, listeners)
        return counts

    def configure(self, settings: Settings, listeners: Iterable[str] = ()) -> None:
        """Take other limits over; connections that are there stay, also above them."""
        self.connections_max = settings.int(CONNECTIONS)
        self.per_address_max = settings.int(PER_ADDRESS)
        self.overrides = parse_counts_per_host(settings.str(OVERRIDES))
        self.rate.per_second = settings.int(CREATION_RATE)
        for listener in listeners:
            self.by_listener[listener] = listener_limit(settings, listener, CONNECTIONS)
            rate = self.rate_by_listener.setdefault(listener, CreationRate())
            rate.per_second = listener_limit(settings, listener, CREATION_RATE)

    def open(self, address: str, *, protected: bool, listener: str = "") -> str | None:
        """Count a connection, whatever its rate; or return the reason of its rejection, without counting it."""
        there = self._by_address.get(address, 0)
        if there >= self.overrides.get(address, self.per_address_max):
            return f"{PER_ADDRESS}: {address} has {there} connections"
        on_listener = self._there.get(listener, 0)
        if on_listener >= self.by_listener.get(listener, UNLIMITED):
            return f"{CONNECTIONS}: {listener} has {on_listener}"
        if self.total >= self.connections_max and not protected:
            return f"{CONNECTIONS}: there are {self.total}"
        self.total += 1
        self._by_address[address] = there + 1
        self._there[listener] = on_listener + 1
        return None

    def admit(self, address: str, now_s: float, *, protected: bool, listener: str = "") -> Refusal | float:
        """Count a connection and return the seconds until it is served; or the reason of its rejection."""
        throttle_ms = self.ip_rates.throttle_ms(address, now_s)
        if throttle_ms:
            return Refusal(f"{CONNECTION_CREATION_RATE}: {address} exceeds its connection rate", throttle_ms / 1000)
        refusal = self.open(address, protected=protected, listener=listener)
        if refusal is not None:
            return Refusal(refusal)
        rates = [self.rate_by_listener[listener]] if listener in self.rate_by_listener else []
        if not protected:
            rates.append(self.rate)
        delay_s = max((rate.delay_s(now_s) for rate in rates), default=0.0)
        if delay_s > DELAY_S_MAX:
            self.close(address, listener)
            return Refusal(f"{CREATION_RATE}: it would wait more than {DELAY_S_MAX:.0f} s")
        for rate in rates:
            rate.count(now_s)
        return delay_s

    def close(self, address: str, listener: str = "") -> None:
        """Forget a counted connection."""
        self.total -= 1
        for counts, key in ((self._by_address, address), (self._there, listener)):
            counts[key] -= 1
            if not counts[key]:
                del counts[key]


def listener_limit(settings: Settings, listener: str, key: str) -> int:
    """Return the value of `listener.name.NAME.KEY`, UNLIMITED if it is not set."""
    own = f"{LISTENER_PREFIX}{listener.lower()}.{key}"
    return settings.int(own) if own in settings.explicit() else UNLIMITED
