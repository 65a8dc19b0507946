"""The answer to DescribeConfigs, of brokers and controllers alike, for their own process and the metadata.

Source: Kafka's ConfigHelper, which both BrokerServer and ControllerServer have.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from kvorum.network.authorizer import CLUSTER_NAME, ResourceType
from kvorum.protocol.broker_loggers import levels_by_name
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kvorum.protocol.topic_names import check_topic_name
from kvorum.quorum.configs.entries import (
    ConfigEntry,
    TopicEntries,
    broker_entries,
    client_metrics_entries,
    cluster_default_entries,
    group_entries,
    kept_entries,
)
from kvorum.quorum.configs.layers import ConfigLayers
from kvorum.quorum.image.configs import CLUSTER_DEFAULT, ConfigsImage
from kvorum.quorum.image.configs import ResourceType as ConfigResourceType
from kvorum.runtime import logs
from kvorum.runtime.config import ConfigSource
from kvorum.runtime.config_defs import KEPT_IN_METADATA

Row: TypeAlias = DescribeConfigsResourceResult


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedNode:
    """The responding node and its configs."""

    node_id: int
    layers: ConfigLayers
    """Its own configuration."""
    configs: ConfigsImage
    """Dynamic configs of the metadata, for all resources."""
    has_topic: Callable[[str], bool]
    may: Callable[[ResourceType, str], bool]
    """Return whether the client may describe the configs of this resource."""


def described(request: DescribeConfigsRequest, node: DescribedNode) -> list[DescribeConfigsResult]:
    """Describe each resource on its own: its configs, or the error that Kafka answers."""
    results: list[DescribeConfigsResult] = []
    topics = TopicEntries(node.layers)
    for resource in request.resources:
        result = DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
        try:
            if resource.resource_type == ConfigResourceType.BROKER_LOGGER:
                result.configs = list(_loggers(resource, node))
            else:
                entries = _chosen(_entries(resource, node, topics), resource.configuration_keys)
                result.configs = [_row(request, each) for each in entries]
        except KafkaError as error:
            result.error_code = error.code
            result.error_message = error.message
        results.append(result)
    return results


def _entries(resource: DescribeConfigsResource, node: DescribedNode, topics: TopicEntries) -> Iterable[ConfigEntry]:
    """Return all configs of a resource. Raises KafkaError with the code Kafka answers."""
    name = resource.resource_name
    match resource.resource_type:
        case ConfigResourceType.TOPIC:
            _authorize(node, ResourceType.TOPIC, name)
            check_topic_name(name)
            if not node.has_topic(name):
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return topics.of(node.configs.topic(name))
        case ConfigResourceType.BROKER:
            _authorize(node, ResourceType.CLUSTER, CLUSTER_NAME)
            return _of_broker(name, node, resource.configuration_keys or ())
        case ConfigResourceType.GROUP:
            _authorize(node, ResourceType.GROUP, name)
            if not name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
            return group_entries(node.layers, node.configs.of(ConfigResourceType.GROUP, name))
        case ConfigResourceType.CLIENT_METRICS:
            _authorize(node, ResourceType.CLUSTER, CLUSTER_NAME)
            if not name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
            return client_metrics_entries(node.configs.of(ConfigResourceType.CLIENT_METRICS, name))
        case unknown:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {unknown}")


def _loggers(resource: DescribeConfigsResource, node: DescribedNode) -> Iterator[Row]:
    """Yield this process's loggers with their levels; Kafka leaves all else at its defaults. Raises KafkaError."""
    name, keys = resource.resource_name, resource.configuration_keys
    _authorize(node, ResourceType.CLUSTER, CLUSTER_NAME)
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    _require_own_id(name, node, "")
    for logger, level in levels_by_name(logs.get_level(), logs.get_levels()).items():
        if not keys or logger in keys:
            yield Row(name=logger, value=level, config_source=ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG)


def _authorize(node: DescribedNode, resource_type: ResourceType, name: str) -> None:
    """Raise KafkaError with the resource's code if the client may not describe its configs."""
    if node.may(resource_type, name):
        return
    if resource_type is ResourceType.TOPIC:
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if resource_type is ResourceType.GROUP:
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def _of_broker(name: str, node: DescribedNode, keys: Collection[str]) -> Iterable[ConfigEntry]:
    """Return this node's configs, or (empty name) those set for all.

    Raises KafkaError for another node.

    If only keys that exist in the metadata are requested, another broker's are returned too: it may be down.
    """
    if name == CLUSTER_DEFAULT:
        return cluster_default_entries(node.configs.of(ConfigResourceType.BROKER, CLUSTER_DEFAULT))
    if keys and KEPT_IN_METADATA.issuperset(keys):
        return kept_entries(node.configs.of(ConfigResourceType.BROKER, name))
    _require_own_id(name, node, " or empty string")
    return broker_entries(node.layers)


def _require_own_id(name: str, node: DescribedNode, alternative: str) -> None:
    """Raise KafkaError INVALID_REQUEST unless the resource's name is this node's id."""
    if not (name.isascii() and name.removeprefix("-").isdigit()):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    if int(name) != node.node_id:
        expected = f"{node.node_id}{alternative}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {expected}, but received {name}")


def _chosen(entries: Iterable[ConfigEntry], keys: list[str] | None) -> Iterable[ConfigEntry]:
    """Return the requested entries: null or none means all."""
    if not keys:
        return entries
    wanted = set(keys)
    return (each for each in entries if each.name in wanted)


def _row(request: DescribeConfigsRequest, entry: ConfigEntry) -> Row:
    """Return one config as the request has it."""
    synonyms = entry.synonyms if request.include_synonyms else ()
    return Row(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=[DescribeConfigsSynonym(name=each.name, value=each.value, source=each.source) for each in synonyms],
        config_type=entry.type,
        documentation=entry.documentation if request.include_documentation else None,
    )
