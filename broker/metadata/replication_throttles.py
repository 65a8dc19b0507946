"""Applies the replication throttles of the metadata to the quotas (KIP-73).

    broker's own or cluster-wide   leader.replication.throttled.rate, follower.replication.throttled.rate,
                                   replica.alter.log.dirs.io.max.bytes.per.second
    topic                          leader.replication.throttled.replicas, follower.replication.throttled.replicas

As in Kafka the rates apply as dynamic configs only; values in the node's own file are ignored. Source: Kafka's
BrokerConfigHandler, TopicConfigHandler.
"""

from typing import Final

from kvorum.broker.replica.log_dir_moves import RATE as MOVES_RATE
from kvorum.broker.replica.log_dir_moves import MoveQuota
from kvorum.broker.replica.replication_quota import ReplicationQuota, ReplicationQuotas
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.quorum.image.configs import CLUSTER_DEFAULT, ConfigResource, ConfigsImage, ResourceType
from kvorum.quorum.publisher import LoaderManifest
from kvorum.runtime import config_defs
from kvorum.runtime.config_types import InvalidValue
from kvorum.runtime.logs import get_logger

log = get_logger("broker")

RATE: Final = "{side}.replication.throttled.rate"
REPLICAS: Final = "{side}.replication.throttled.replicas"


class ReplicationThrottles:
    """A MetadataPublisher that comes after the replicas."""

    __slots__ = ("_broker_id", "_moves", "_sides")

    def __init__(self, broker_id: int, quotas: ReplicationQuotas, moves: MoveQuota) -> None:
        """Set the rates of these quotas."""
        self._broker_id = broker_id
        self._moves = moves
        self._sides: dict[str, ReplicationQuota] = {"leader": quotas.leader, "follower": quotas.follower}

    def on_metadata_update(self, delta: MetadataDelta, image: MetadataImage, manifest: LoaderManifest) -> None:
        """See MetadataPublisher."""
        own = {ConfigResource(ResourceType.BROKER, name) for name in (str(self._broker_id), CLUSTER_DEFAULT)}
        for resource in delta.configs_delta.changes:
            if resource.resource_type == ResourceType.TOPIC:
                self._take_replicas(resource.name, image.configs)
            elif resource in own:
                self._take_rates(image.configs)

    def _take_replicas(self, topic: str, configs: ConfigsImage) -> None:
        for side, quota in self._sides.items():
            key = REPLICAS.format(side=side)
            text = configs.topic(topic).get(key, "")
            try:
                config_defs.TOPIC[key].parse(text)
            except InvalidValue as error:
                log.error("replication throttle ignored", topic=topic, reason=error)
                text = ""
            quota.throttle(topic, text)

    def _take_rates(self, configs: ConfigsImage) -> None:
        rated: dict[str, ReplicationQuota | MoveQuota] = {MOVES_RATE: self._moves}
        rated.update((RATE.format(side=side), quota) for side, quota in self._sides.items())
        for key, quota in rated.items():
            found = configs.broker_value([key], self._broker_id)
            before, quota.bound = quota.bound, None
            try:
                value = None if found is None else config_defs.BROKER[key].parse(found.value)
                assert value is None or isinstance(value, int), "a LONG"
                quota.bound = value
            except InvalidValue as error:
                log.error("replication throttle ignored", reason=error)
            if quota.bound != before:
                log.info("replication throttle changed", key=key, bytes_a_second=quota.bound)
