"""Config entities with kafka-configs' names, and how they are described and altered.

Resources (topics, brokers, broker-loggers, groups, client-metrics) have configs, by DescribeConfigs; users, clients and
ips have quotas, by DescribeClientQuotas. Source: Kafka's ConfigCommand.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kvorum.client.groups.groups import Groups
from kvorum.client.quotas import CLIENT_ID, IP, USER, alter_quotas, describe_quotas
from kvorum.client.wire.cluster_client import ClusterClient, ConfigChange, ConfigOperation, ResourceType, refuse
from kvorum.protocol.messages.describe_configs import DescribeConfigsResourceResult
from kvorum.protocol.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse

RESOURCES: Mapping[str, ResourceType] = {
    "topics": ResourceType.TOPIC,
    "brokers": ResourceType.BROKER,
    "broker-loggers": ResourceType.BROKER_LOGGER,
    "groups": ResourceType.GROUP,
    "client-metrics": ResourceType.CLIENT_METRICS,
}
QUOTA_ENTITIES: Mapping[str, str] = {"users": USER, "clients": CLIENT_ID, "ips": IP}
ENTITY_TYPES = (*RESOURCES, *QUOTA_ENTITIES)
WITH_DEFAULT = ("brokers", "users", "clients", "ips")
SOURCES = {
    0: "UNKNOWN",
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "DYNAMIC_CLIENT_METRICS_CONFIG",
    8: "DYNAMIC_GROUP_CONFIG",
}
OWN_SOURCE = {"topics": 1, "client-metrics": 7, "groups": 8}
"""The source of the resource's own configs; a broker's is 2, the default's 3, and all loggers count."""
COMMA = re.compile(r",(?=[^\]]*(?:\[|$))")
EQUALS = re.compile(r"\s*=\s*(?=[^\]]*(?:\[|$))")
KEY = re.compile(r"[$a-zA-Z0-9._-]*")
"""A logger's name may have a dollar sign: it is a class within another."""
SCRAM = re.compile(r"SCRAM-SHA-\d+")


class EntityError(ValueError):
    """An invalid entity or change, with the reason."""


class ConfigRow(NamedTuple):
    """A config of something. `source` is by name; `synonyms` are SOURCE:name=value, the one in force first."""

    name: str
    value: str | None
    source: str
    read_only: bool
    sensitive: bool
    synonyms: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Configs to set, and configs to delete."""

    values: dict[str, str] = field(default_factory=dict)
    deleted: Sequence[str] = ()

    def of_configs(self) -> list[ConfigChange]:
        """Return them as a request for configs takes them."""
        found = [ConfigChange(name=name, value=value) for name, value in self.values.items()]
        return found + [ConfigChange(name=name, operation=ConfigOperation.DELETE) for name in self.deleted]

    def of_quotas(self) -> dict[str, float]:
        """Return the values as numbers. Raises EntityError."""
        found = {}
        for name, value in self.values.items():
            if SCRAM.fullmatch(name):
                raise EntityError(f"{name}: credentials are not supported yet")
            try:
                found[name] = float(value)
            except ValueError:
                raise EntityError(f"Cannot parse quota configuration value for {name}: {value}") from None
        return found


def check_entity(kind: str, name: str | None) -> None:
    """Raise EntityError for a name that nothing of its type can have."""
    if kind in ("brokers", "broker-loggers") and name and not name.isdecimal():
        raise EntityError(f"The entity name for {kind} must be a valid integer broker id, but it is: {name}")
    if name == "" and kind not in WITH_DEFAULT:
        raise EntityError(f"{kind} have no default")


def parse_additions(text: str) -> dict[str, str]:
    """Read k1=v1,k2=[v1,v2],k3= as --add-config takes them: brackets keep commas together. Raises EntityError."""
    found: dict[str, str] = {}
    parts = COMMA.split(text)
    while len(parts) > 1 and not parts[-1]:
        parts.pop()  # a comma at the end is dropped, as by Java's split
    for part in parts:
        pair = EQUALS.split(part)
        if len(pair) != 2:
            raise EntityError(
                "Invalid entity config: all configs to be added must be in the format "
                '"key=val" or  "key=[val1,val2]" to group values which contain commas.'
            )
        found[pair[0].strip()] = pair[1].replace("[", "").replace("]", "").strip()
    check_keys(found)
    return found


def check_keys(values: Mapping[str, str]) -> None:
    """Raise EntityError for a key that no config has."""
    for key in values:
        if not KEY.fullmatch(key):
            raise EntityError(f"Invalid character found for config key: {key}")


async def entity_names(cluster: ClusterClient, kind: str) -> list[str]:
    """Return all there are of a type of resource; "" is the default of all brokers.

    Controllers list themselves alone, as in Kafka: of them, other types are UNSUPPORTED_VERSION.
    """
    match kind:
        case "topics":
            return sorted(topic.name or "" for topic in (await cluster.metadata()).topics)
        case "brokers" | "broker-loggers":
            ids = [str(node.broker_id) for node in (await cluster.describe_cluster(fenced=False)).brokers]
            return [*sorted(ids, key=int), *([""] if kind == "brokers" else [])]
        case "groups":
            listed = {each.group_id for each in await Groups(cluster).listed()}
            return sorted(listed | set(await config_resources(cluster, ResourceType.GROUP)))
        case _:
            return await config_resources(cluster, ResourceType.CLIENT_METRICS)


async def config_resources(cluster: ClusterClient, kind: ResourceType) -> list[str]:
    """Return the resources of a type with own configs (KIP-1142)."""
    answer = await cluster.ask(ListConfigResourcesRequest(resource_types=[kind]), ListConfigResourcesResponse)
    refuse(answer.error_code, f"list the {kind.name} resources")
    return sorted(each.resource_name for each in answer.config_resources)


async def resource_configs(cluster: ClusterClient, kind: str, name: str, *, everything: bool) -> list[ConfigRow]:
    """Return the configs of one resource: those set on it, or all with where they come from. Raises KafkaError."""
    found = await cluster.describe_configs(RESOURCES[kind], name)
    own = (2 if name else 3) if kind == "brokers" else OWN_SOURCE.get(kind)
    return [
        config_row(config)
        for config in sorted(found, key=lambda config: config.name)
        if everything or own is None or config.config_source == own
    ]


def config_row(config: DescribeConfigsResourceResult) -> ConfigRow:
    """Return a config's row; a secret has no value."""
    return ConfigRow(
        name=config.name,
        value=config.value,
        source=source_name(config.config_source),
        read_only=config.read_only,
        sensitive=config.is_sensitive,
        synonyms=[
            f"{source_name(each.source)}:{each.name}={'null' if each.value is None else each.value}"
            for each in config.synonyms
        ],
    )


def source_name(number: int) -> str:
    """Return a source's name; a newer one's number."""
    return SOURCES.get(number, str(number))


async def alter_resource(
    cluster: ClusterClient, kind: str, name: str, changes: Changes, *, validate_only: bool = False
) -> None:
    """Change configs of a resource. Raises KafkaError, EntityError (no such logger), Unreachable."""
    if kind == "broker-loggers":
        there = {row.name for row in await resource_configs(cluster, kind, name, everything=True)}
        unknown = [each for each in (*changes.values, *changes.deleted) if each not in there]
        if unknown:
            raise EntityError(f"Invalid broker logger(s): {','.join(unknown)}")
    await cluster.alter_configs(RESOURCES[kind], name, changes.of_configs(), validate_only=validate_only)


async def alter_entity_quotas(
    cluster: ClusterClient, entity: Mapping[str, str], changes: Changes, *, validate_only: bool = False
) -> None:
    """Change the quotas of {users: name, clients: name} or the like; "" is the default. Raises EntityError."""
    wanted = {QUOTA_ENTITIES[kind]: name for kind, name in entity.items()}
    values = changes.of_quotas()
    if changes.deleted:
        there = {key for each in await describe_quotas(cluster, wanted) for key in each.values}
        absent = [key for key in changes.deleted if key not in there]
        if absent:
            raise EntityError(f"Invalid config(s): {','.join(absent)}")
    named = {kind: name or None for kind, name in wanted.items()}
    await alter_quotas(cluster, named, values, changes.deleted, validate_only=validate_only)
