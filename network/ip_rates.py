"""Connection rates of IP addresses (connection_creation_rate of an ip entity, KIP-612).

Sans-IO.

A connection above the rate is accepted, ignored while its rate is too high, and closed: Kafka's ConnectionQuotas.
"""

from collections.abc import Iterable, Mapping
from ipaddress import IPv6Address, ip_address
from typing import Final

from kvorum.network.quota_rate import Rate, Windows

CONNECTION_CREATION_RATE: Final = "connection_creation_rate"
RATES_MAX: Final = 10_000
"""Addresses whose rate is known; of one more the tenth seen least lately are forgotten."""


def is_address(name: str) -> bool:
    """Distinguish an IPv4 or IPv6 address from a host name."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def plain(address: str) -> str:
    """Return an address in its canonical form, IPv4 inside IPv6 as IPv4; other text unchanged."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(found)


class IpConnectionRates:
    """The limits on addresses, and how fast each connects."""

    __slots__ = ("_by_address", "_rates", "_windows", "default")

    def __init__(self, windows: Windows | None = None) -> None:
        """Start without limits."""
        self._windows = windows or Windows()
        self.default: float | None = None
        """Rate limit of an address without its own limit."""
        self._by_address: dict[str, float] = {}
        self._rates: dict[str, Rate] = {}

    def update(self, default: float | None, by_address: Iterable[tuple[str, float]]) -> None:
        """Apply the limits from now on; None: no limit for addresses without their own."""
        self.default = default
        self._by_address = {plain(address): limit for address, limit in by_address}
        if default is None:
            self._rates = {key: rate for key, rate in self._rates.items() if key in self._by_address}

    @property
    def limits(self) -> Mapping[str, float]:
        """The limits by address."""
        return self._by_address

    def throttle_ms(self, address: str, now_s: float) -> int:
        """Count a connection and return 0; or the time during which it is ignored before it is closed, not counted."""
        if self.default is None and not self._by_address:
            return 0
        key, now_ms = plain(address), now_s * 1000
        limit = self._by_address.get(key, self.default)
        if limit is None:
            return 0
        rate = self._rates.get(key)
        if rate is None:
            if len(self._rates) >= RATES_MAX:
                self._forget()
            rate = self._rates[key] = Rate(self._windows, now_ms)
        rate.record(1, now_ms)
        throttle_ms = min(rate.throttle_ms(limit, now_ms), self._windows.size_ms)
        if throttle_ms:
            rate.record(-1, now_ms)
        return throttle_ms

    def _forget(self) -> None:
        oldest = sorted(self._rates, key=lambda key: self._rates[key].last_event_ms)
        for key in oldest[: RATES_MAX // 10]:
            del self._rates[key]
