"""Input of a decision besides the request. Sans-IO: image, time and randomness are passed in.

Every decision is a function `(context, request) -> Result`, or Steps of one if the result may be large; it raises
KafkaError to reject the whole request. It sees the *speculative* image: all earlier decisions, committed or not; no
other decision is made before its last step.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final, Protocol

from kvorum.network.authorizer import MutationQuota
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.create_topics import CreatableTopicConfigs
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.controller.broker_admin_state import Refusals, is_leaving, rests
from kvorum.quorum.controller.config_schema import ConfigSchema
from kvorum.quorum.controller.heartbeats import BrokerHeartbeatManager
from kvorum.quorum.image.cluster import BrokerRegistration
from kvorum.quorum.image.features import ELIGIBLE_LEADER_REPLICAS_VERSION
from kvorum.quorum.image.metadata import MetadataImage
from kvorum.quorum.image.partition import UNASSIGNED_DIRECTORY
from kvorum.quorum.image.topics import TopicImage
from kvorum.runtime.config_defs import BROKER, is_value

LATEST_VERSION: Final = 2**15 - 1
"""The newest version of any request, for callers without one."""

RESERVED_IDS: Final = 100
"""Uuids below this number have a special meaning (DirectoryId.reserved, Uuid.RESERVED)."""

UNCLEAN_LEADER_ELECTION_ENABLE: Final = "unclean.leader.election.enable"
DECOMMISSION_PARTITIONS_MAX: Final = "kvorum.decommission.partitions.max"
MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"


class SettingsView(Protocol):
    """Read access to a node's configuration (runtime.config.Settings)."""

    def int(self, key: str) -> int:
        """Return a number."""
        ...

    def bool(self, key: str) -> bool:
        """Return a truth value."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """Settings of the node that decisions depend on, by Kafka's keys."""

    cluster_id: str
    node_id: int
    controller_ids: frozenset[int] = frozenset()
    """The voters: their dynamic configs may be set although they are not brokers."""
    session_timeout_ms: int = 9_000
    num_partitions: int = 1
    default_replication_factor: int = 1
    delete_topic_enable: bool = True
    decommission_partitions_max: int = 20
    token_lifetime_ms_max: int = 604_800_000
    token_expiry_ms: int = 86_400_000
    shutdown_wait_ms_max: int = 30_000
    """Maximum delay of a controlled shutdown so that no ISR falls below min.insync.replicas. It ends sooner when
    waiting can no longer help; a rolling restart's fetchers catch up within it."""

    @classmethod
    def from_settings(
        cls, settings: SettingsView, cluster_id: str, controller_ids: frozenset[int]
    ) -> "ControllerSettings":
        """Read them from a node's configuration."""
        return cls(
            cluster_id=cluster_id,
            node_id=settings.int("node.id"),
            controller_ids=controller_ids,
            session_timeout_ms=settings.int("broker.session.timeout.ms"),
            num_partitions=settings.int("num.partitions"),
            default_replication_factor=settings.int("default.replication.factor"),
            delete_topic_enable=settings.bool("delete.topic.enable"),
            decommission_partitions_max=settings.int(DECOMMISSION_PARTITIONS_MAX),
            token_lifetime_ms_max=settings.int("delegation.token.max.lifetime.ms"),
            token_expiry_ms=settings.int("delegation.token.expiry.time.ms"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """One decision's surroundings."""

    image: MetadataImage
    next_offset: int
    """The offset at which the change will begin: a new registration's broker epoch."""
    now_ms: int
    """Monotonic."""
    random: Random
    settings: ControllerSettings
    schema: ConfigSchema
    heartbeats: BrokerHeartbeatManager
    """Soft state; registrations and heartbeats write it."""
    api_version: int = LATEST_VERSION
    mutation_quota: MutationQuota | None = None
    """The client's mutation quota (KIP-599); None: unlimited."""
    is_direct: bool = False
    """A client sent the request to this controller directly: no broker checked it against its own configuration."""
    departures_refused: Refusals = field(default_factory=dict)
    """The brokers of this request that cannot be decommissioned, and why (broker_admin_state.refusals_of)."""
    _unclean: dict[str, bool] = field(default_factory=dict)
    _min_isr: dict[str, int] = field(default_factory=dict)
    """Cache of lookups in this decision, by topic."""
    _rests: dict[int, bool] = field(default_factory=dict)
    """Cache of brokers in maintenance in this decision."""
    _described: dict[frozenset[tuple[str, str]], list[CreatableTopicConfigs]] = field(default_factory=dict)
    """The configs of new topics of this decision, by their overrides: most topics of a request have the same."""

    def charge(self, partitions_count: int) -> None:
        """Count partition changes; KafkaError THROTTLING_QUOTA_EXCEEDED: not now.

        Before any record is created, with `validate_only` too (ControllerRequestContext.applyPartitionChangeQuota).
        """
        if self.mutation_quota is not None:
            self.mutation_quota.record(partitions_count)

    def checked_broker(self, broker_id: int, broker_epoch: int) -> BrokerRegistration:
        """Return the registration of the incarnation that sent a request.

        Raises KafkaError STALE_BROKER_EPOCH: there is none, or another one (ClusterControlManager.checkBrokerEpoch).
        """
        broker = self.image.cluster.broker(broker_id)
        if broker is None:
            raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id} is not registered")
        if broker.broker_epoch != broker_epoch:
            message = f"broker {broker_id} has epoch {broker.broker_epoch}, the request came from epoch {broker_epoch}"
            raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, message)
        return broker

    def unclean_election_enabled(self, topic: str) -> bool:
        """Return whether unclean.leader.election.enable is in effect for a topic."""
        enabled = self._unclean.get(topic)
        if enabled is None:
            value = self.schema.topic_value(self.image.configs, topic, UNCLEAN_LEADER_ELECTION_ENABLE)
            enabled = self._unclean[topic] = value.lower() == "true"
        return enabled

    def effective_min_isr(self, topic: TopicImage) -> int:
        """Return min.insync.replicas of a topic, at most its replication factor (KIP-966)."""
        value = self._min_isr.get(topic.name)
        if value is None:
            value = int(self.schema.topic_value(self.image.configs, topic.name, MIN_INSYNC_REPLICAS))
            first = topic.partition(0)
            value = self._min_isr[topic.name] = value if first is None else min(value, len(first.replicas))
        return value

    def describe_new_topic(self, overrides: Mapping[str, str]) -> list[CreatableTopicConfigs]:
        """Return all topic configs with the effective values for a topic with these overrides, by name."""
        key = frozenset(overrides.items())
        found = self._described.get(key)
        if found is None:
            found = self._described[key] = self.schema.describe_new_topic(self.image.configs, overrides)
        return list(found)

    def rests(self, broker_id: int) -> bool:
        """Return whether a broker is in maintenance: it leads only partitions without another in-sync replica."""
        resting = self._rests.get(broker_id)
        if resting is None:
            resting = self._rests[broker_id] = rests(self.image.configs, broker_id)
        return resting

    @property
    def decommission_partitions_max(self) -> int:
        """Maximum number of partitions that move off decommissioned brokers at a time."""
        found = self.image.configs.broker_value((DECOMMISSION_PARTITIONS_MAX,), None)
        if found is None or not is_value(BROKER[DECOMMISSION_PARTITIONS_MAX], found.value):
            return self.settings.decommission_partitions_max
        return int(found.value)

    def is_leaving(self, broker_id: int) -> bool:
        """Return whether a broker is being decommissioned: it gets no new replica."""
        return is_leaving(self.image.configs, broker_id)

    @property
    def elr_enabled(self) -> bool:
        """Return whether partitions have eligible leader replicas (KIP-966)."""
        return self.image.features.level(ELIGIBLE_LEADER_REPLICAS_VERSION) > 0

    def default_directory(self, broker_id: int) -> Uuid:
        """Return the directory of a new replica on a broker: its only log directory, else unassigned (KIP-858)."""
        broker = self.image.cluster.broker(broker_id)
        if broker is None or len(broker.log_dirs) != 1:
            return UNASSIGNED_DIRECTORY
        return broker.log_dirs[0]

    def random_uuid(self) -> Uuid:
        """Return a new id: not reserved, and not looking like an option on a command line (Uuid.randomUuid)."""
        while True:
            uuid = Uuid(self.random.randbytes(16))
            if not is_reserved(uuid) and not str(uuid).startswith("-"):
                return uuid


def is_reserved(uuid: Uuid) -> bool:
    """Return whether a uuid has a special meaning."""
    return int.from_bytes(uuid, "big") < RESERVED_IDS


Acceptable = Callable[[int], bool]
"""Whether a broker may lead."""
