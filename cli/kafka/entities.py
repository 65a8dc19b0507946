"""Entities with kafka-configs' names, and how they are described and altered.

Resources (topics, brokers, broker-loggers, groups, client-metrics) have configs; users, clients and ips have quotas.
Source: Kafka's ConfigCommand.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kvorum.cli.kafka.entity_options import EntityError
from kvorum.client.namespaces.configs import Configs
from kvorum.client.namespaces.groups import Groups
from kvorum.client.namespaces.metadata import Metadata
from kvorum.client.namespaces.quotas import Quotas
from kvorum.client.namespaces.topics import Topics
from kvorum.client.values.config import Config
from kvorum.client.values.quota import CLIENT_ID, IP, USER, Quota
from kvorum.client.wire.cluster_client import ClusterClient, ResourceType
from kvorum.protocol.errors import ErrorCode, KafkaError

RESOURCES: Mapping[str, ResourceType] = {
    "topics": ResourceType.TOPIC,
    "brokers": ResourceType.BROKER,
    "broker-loggers": ResourceType.BROKER_LOGGER,
    "groups": ResourceType.GROUP,
    "client-metrics": ResourceType.CLIENT_METRICS,
}
QUOTA_ENTITIES: Mapping[str, str] = {"users": USER, "clients": CLIENT_ID, "ips": IP}
OWN_SOURCE = {
    "topics": "DYNAMIC_TOPIC_CONFIG",
    "brokers": "DYNAMIC_BROKER_CONFIG",
    "client-metrics": "CLIENT_METRICS_CONFIG",
    "groups": "GROUP_CONFIG",
}
"""Source of the configs that are set on a resource; of a logger all count."""
DEFAULT_BROKER_SOURCE = "DYNAMIC_DEFAULT_BROKER_CONFIG"


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Configs to set, and configs to delete."""

    values: dict[str, str] = field(default_factory=dict)
    deleted: Sequence[str] = ()

    def of_quotas(self) -> dict[str, float]:
        """Return the values as numbers. Raises EntityError."""
        found = {}
        for name, value in self.values.items():
            try:
                found[name] = float(value)
            except ValueError:
                raise EntityError(f"Cannot parse quota configuration value for {name}: {value}") from None
        return found


async def entity_names(cluster: ClusterClient, kind: str) -> Sequence[str]:
    """Return all names of a type of resource; "" is the default of all brokers.

    Controllers list themselves only, as in Kafka: of them, other types are UNSUPPORTED_VERSION.
    """
    match kind:
        case "topics":
            return [topic.name for topic in await Topics(cluster).list(internal=True, reassignments=False)]
        case "brokers" | "broker-loggers":
            ids = [str(broker.id) for broker in (await Metadata(cluster).cluster(fenced=False)).brokers]
            return [*ids, ""] if kind == "brokers" else ids
        case "groups":
            listed = {each.group_id for each in await Groups(cluster).list()}
            return sorted(listed.union(await Configs(cluster).list(ResourceType.GROUP)))
        case _:
            return await Configs(cluster).list(ResourceType.CLIENT_METRICS)


async def is_listed(cluster: ClusterClient, kind: str, name: str) -> bool:
    """Return whether an entity of this name exists, if listed: controllers list none of these."""
    if kind == "brokers" and not name:
        return True
    try:
        return name in await entity_names(cluster, kind)
    except KafkaError as error:
        if error.code is not ErrorCode.UNSUPPORTED_VERSION:
            raise
        return True


async def resource_configs(cluster: ClusterClient, kind: str, name: str, *, everything: bool) -> Sequence[Config]:
    """Return the configs of one resource: those set on it, or all with their sources. Raises KafkaError."""
    found = await Configs(cluster).describe(RESOURCES[kind], name)
    own = DEFAULT_BROKER_SOURCE if (kind, name) == ("brokers", "") else OWN_SOURCE.get(kind)
    return [config for config in found if everything or own is None or config.source == own]


async def alter_resource(cluster: ClusterClient, kind: str, name: str, changes: Changes) -> None:
    """Change configs of a resource. Raises KafkaError, EntityError (no such logger), Unreachable."""
    if kind == "broker-loggers":
        loggers = {config.name for config in await resource_configs(cluster, kind, name, everything=True)}
        unknown = [each for each in (*changes.values, *changes.deleted) if each not in loggers]
        if unknown:
            raise EntityError(f"Invalid broker logger(s): {','.join(unknown)}")
    if changes.values or changes.deleted:  # kafka-client-metrics may have no change
        await Configs(cluster).alter(RESOURCES[kind], name, set=changes.values, delete=changes.deleted)


async def entity_quotas(cluster: ClusterClient, entity: Mapping[str, str | None]) -> Sequence[Quota]:
    """Return the quotas of {users: name, clients: name} or the like; "" is the default, None any name."""
    return await Quotas(cluster).list({QUOTA_ENTITIES[kind]: name for kind, name in entity.items()})


async def alter_entity_quotas(cluster: ClusterClient, entity: Mapping[str, str], changes: Changes) -> None:
    """Change the quotas of {users: name, clients: name} or the like; "" is the default. Raises EntityError."""
    values = changes.of_quotas()
    if changes.deleted:
        keys = {key for each in await entity_quotas(cluster, entity) for key in each.values}
        absent = [key for key in changes.deleted if key not in keys]
        if absent:
            raise EntityError(f"Invalid config(s): {','.join(absent)}")
    named = {QUOTA_ENTITIES[kind]: name or None for kind, name in entity.items()}
    await Quotas(cluster).alter(named, values, remove=changes.deleted)
