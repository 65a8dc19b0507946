"""Settings of the group coordinator from the node's configuration. Times in ms."""

from dataclasses import dataclass, field
from typing import Final

from kvorum.broker.coordinator.group.consumer.settings import ConsumerSettings
from kvorum.runtime.config import Settings

MINUTE_MS: Final = 60_000
DAY_MS: Final = 24 * 60 * MINUTE_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """Kafka's keys are named beside the fields, with Kafka's defaults."""

    group_size_max: int = 2**31 - 1
    """group.max.size"""
    initial_rebalance_delay_ms: int = 3_000
    """group.initial.rebalance.delay.ms"""
    session_timeout_ms_min: int = 6_000
    """group.min.session.timeout.ms"""
    session_timeout_ms_max: int = 30 * MINUTE_MS
    """group.max.session.timeout.ms"""
    new_member_join_timeout_ms: int = 5 * MINUTE_MS
    """Time limit of a new member's parked JoinGroup, which has no session yet. No key, as in Kafka."""
    offset_metadata_chars_max: int = 4_096
    """offset.metadata.max.bytes, which Kafka counts in UTF-16 units."""
    offsets_retention_ms: int = 7 * DAY_MS
    """offsets.retention.minutes"""
    offsets_retention_check_interval_ms: int = 10 * MINUTE_MS
    """offsets.retention.check.interval.ms"""
    consumer: ConsumerSettings = field(default_factory=ConsumerSettings)
    """group.consumer.*"""

    @classmethod
    def of(cls, settings: Settings) -> "GroupSettings":
        """Read them from a node's: all are read-only in Kafka, so they hold for as long as the process does."""
        return cls(
            group_size_max=settings.int("group.max.size"),
            initial_rebalance_delay_ms=settings.int("group.initial.rebalance.delay.ms"),
            session_timeout_ms_min=settings.int("group.min.session.timeout.ms"),
            session_timeout_ms_max=settings.int("group.max.session.timeout.ms"),
            offset_metadata_chars_max=settings.int("offset.metadata.max.bytes"),
            offsets_retention_ms=settings.int("offsets.retention.minutes") * MINUTE_MS,
            offsets_retention_check_interval_ms=settings.int("offsets.retention.check.interval.ms"),
            consumer=ConsumerSettings.of(settings),
        )
