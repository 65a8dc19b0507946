"""Settings of consumer groups from the broker's and the group's configs. Times in ms. Sans-IO.

A group's own configs (ConfigResource GROUP) win over the broker's while they are within the broker's bounds; out of
them they are taken as the nearest bound, as Kafka does since 4.3. Source: GroupCoordinatorConfig, GroupConfig.evaluate.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from kvorum.quorum.image import MetadataImage
from kvorum.quorum.image.configs import ResourceType
from kvorum.runtime.config import Settings
from kvorum.runtime.config_defs import BROKER, GROUP, is_value

SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL: Final = "consumer.assignment.interval.ms"


class MigrationPolicy(Enum):
    """Groups with members that may change their protocol (group.consumer.migration.policy)."""

    DISABLED = "disabled"
    DOWNGRADE = "downgrade"
    UPGRADE = "upgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def allows_upgrade(self) -> bool:
        """Whether a classic group becomes a consumer group when a member of the new protocol joins."""
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def allows_downgrade(self) -> bool:
        """Whether a consumer group becomes a classic group when its last member of the new protocol leaves."""
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


class Bounded(NamedTuple):
    """A value of the broker, and the permitted range of a group's own value."""

    value: int
    min: int
    max: int

    def of(self, configs: Mapping[str, str], key: str) -> int:
        """Return a group's value: its own within the bounds, else (also if it is not a number) the broker's."""
        own = configs.get(key)
        if own is None or not is_value(GROUP[key], own):
            return self.value
        return min(max(int(own), self.min), self.max)


SESSION_TIMEOUT_MS: Final = Bounded(45_000, 45_000, 60_000)
HEARTBEAT_INTERVAL_MS: Final = Bounded(5_000, 5_000, 15_000)
ASSIGNMENT_INTERVAL_MS: Final = Bounded(1_000, 0, 15_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """Kafka's keys are named beside the fields, with Kafka's defaults."""

    session_timeout_ms: Bounded = SESSION_TIMEOUT_MS
    """group.consumer.session.timeout.ms, group.consumer.{min,max}.session.timeout.ms"""
    heartbeat_interval_ms: Bounded = HEARTBEAT_INTERVAL_MS
    """group.consumer.heartbeat.interval.ms, group.consumer.{min,max}.heartbeat.interval.ms"""
    assignment_interval_ms: Bounded = ASSIGNMENT_INTERVAL_MS
    """group.consumer.assignment.interval.ms, group.consumer.{min,max}.assignment.interval.ms"""
    size_max: int = 2**31 - 1
    """group.consumer.max.size"""
    assignors: tuple[str, ...] = ("uniform", "range")
    """group.consumer.assignors; the first is the default"""
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    """group.consumer.migration.policy"""
    regex_refresh_interval_ms: int = 10 * 60_000
    """An internal key in Kafka, group.consumer.regex.refresh.interval.ms: here it has none."""

    @classmethod
    def of(cls, settings: Settings) -> "ConsumerSettings":
        """Read them from a node's."""

        def bounded(name: str) -> Bounded:
            return Bounded(
                settings.int(f"group.consumer.{name}"),
                settings.int(f"group.consumer.min.{name}"),
                settings.int(f"group.consumer.max.{name}"),
            )

        return cls(
            session_timeout_ms=bounded("session.timeout.ms"),
            heartbeat_interval_ms=bounded("heartbeat.interval.ms"),
            assignment_interval_ms=bounded("assignment.interval.ms"),
            size_max=settings.int("group.consumer.max.size"),
            assignors=tuple(settings.list("group.consumer.assignors")),
            migration_policy=MigrationPolicy(settings.str("group.consumer.migration.policy").lower()),
        )

    def session_timeout_of(self, image: MetadataImage, group_id: str) -> int:
        """Return how long a member of this group may be silent."""
        return self.session_timeout_ms.of(image.configs.of(ResourceType.GROUP, group_id), SESSION_TIMEOUT)

    def heartbeat_interval_of(self, image: MetadataImage, group_id: str) -> int:
        """Return how often a member of this group is to send a heartbeat."""
        return self.heartbeat_interval_ms.of(image.configs.of(ResourceType.GROUP, group_id), HEARTBEAT_INTERVAL)

    def assignment_interval_of(self, image: MetadataImage, group_id: str) -> int:
        """Return how long this group's target holds at least; the one of these that can be set for all brokers."""
        bounded = self.assignment_interval_ms
        dynamic = image.configs.broker_value((f"group.{ASSIGNMENT_INTERVAL}",), None)
        if dynamic is not None and is_value(BROKER[dynamic.key], dynamic.value):
            bounded = bounded._replace(value=min(max(int(dynamic.value), bounded.min), bounded.max))
        return bounded.of(image.configs.of(ResourceType.GROUP, group_id), ASSIGNMENT_INTERVAL)
