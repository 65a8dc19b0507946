"""Subscriptions to client metrics in CLIENT_METRICS configs: their rules and their meaning (KIP-714).

Sans-IO.

    metrics       prefixes of the requested metrics; `*` all, nothing none
    interval.ms   how often they push them
    match         which clients, as SELECTOR=PATTERN, ...: all selectors have to match; none: every client

A selector's pattern is one of RE2, for the whole value. Source: ClientMetricsConfigs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

import re2  # type: ignore[import-untyped]  # the wheel has no stubs

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.runtime.config_types import ConfigType, InvalidValue, parse

METRICS: Final = "metrics"
INTERVAL_MS: Final = "interval.ms"
MATCH: Final = "match"
ALL_METRICS: Final = "*"
INTERVAL_MS_DEFAULT: Final = 300_000
INTERVAL_MS_MIN: Final = 100
INTERVAL_MS_MAX: Final = 3_600_000
SELECTORS: Final = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
PATTERN_MEMORY_MAX: Final = 512 * 1024
"""Size limit of a compiled pattern, as for those of groups."""


class Definition(NamedTuple):
    """One of the three configs."""

    type: ConfigType
    default: str
    documentation: str


DEFINITIONS: Final[Mapping[str, Definition]] = MappingProxyType(
    {
        INTERVAL_MS: Definition(ConfigType.INT, str(INTERVAL_MS_DEFAULT), "Metrics push interval in milliseconds."),
        MATCH: Definition(ConfigType.LIST, "", "Which clients, as SELECTOR=PATTERN, ...; none: every client."),
        METRICS: Definition(ConfigType.LIST, "", "Prefixes of the metrics that clients push; *: all."),
    }
)
"""By name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """A client metrics subscription: metrics, interval and matching clients."""

    name: str
    metrics: frozenset[str]
    interval_ms: int
    match: Mapping[str, Callable[[str], bool]]
    """{selector: whether a value matches}."""

    def matches(self, attributes: Mapping[str, str]) -> bool:
        """Return whether the subscription matches a client; a missing client value matches nothing."""
        return all(selector in attributes and fits(attributes[selector]) for selector, fits in self.match.items())


def subscription_of(name: str, configs: Mapping[str, str]) -> Subscription:
    """Parse the configs of a subscription.

    Raises:
        KafkaError: INVALID_REQUEST (no name, an unknown config, the interval), INVALID_CONFIG (not a number, or not a
            pattern).
    """
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    for key in configs:
        if key not in DEFINITIONS:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {key}")
    values = {key: _parsed(key, configs.get(key, each.default), each.type) for key, each in DEFINITIONS.items()}
    metrics, interval_ms, match = values[METRICS], values[INTERVAL_MS], values[MATCH]
    assert isinstance(metrics, tuple) and isinstance(interval_ms, int) and isinstance(match, tuple), "by their types"
    if not INTERVAL_MS_MIN <= interval_ms <= INTERVAL_MS_MAX:
        message = f"Invalid value {interval_ms} for interval.ms, interval must be between 100 and 3600000 (1 hour)"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    return Subscription(
        name=name, metrics=frozenset(metrics), interval_ms=interval_ms, match=dict(map(_selector, match))
    )


def _parsed(key: str, text: str, kind: ConfigType) -> object:
    try:
        return parse(key, kind, text)
    except InvalidValue as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error


def _selector(text: str) -> tuple[str, Callable[[str], bool]]:
    """Read SELECTOR=PATTERN; as with Java's split, empty parts at the end are dropped."""
    parts = text.split("=")
    while parts and not parts[-1]:
        parts.pop()
    selector = parts[0].strip() if len(parts) == 2 else ""
    if selector not in SELECTORS:
        raise _illegal(text)
    options = re2.Options()
    options.log_errors = False
    options.max_mem = PATTERN_MEMORY_MAX
    try:
        matches = re2.compile(parts[1].strip(), options).fullmatch
    except re2.error as error:
        raise _illegal(text) from error
    return selector, lambda value: matches(value) is not None


def _illegal(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {text}")
