"""DescribeConfigs (32): v1-v4.

v1: sources and synonyms (KIP-226). v3: types and documentation (KIP-569).
Topics, brokers (any broker answers the cluster-wide dynamic configs under the empty name, only the broker itself
its own, but for kvorum.broker.state alone, which may be asked of a broker that is down), groups (those of consumer
groups, whether there is such a group or not), this process's loggers (KIP-412), subscriptions to clients' metrics
(KIP-714).
Order: authorise each resource, then answer it.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import TypeAlias

from kvorum.broker.metadata.auto_topic_creation import topic_name_problem
from kvorum.broker.metadata.config_entries import (
    ConfigEntry,
    TopicEntries,
    broker_entries,
    client_metrics_entries,
    cluster_default_entries,
    group_entries,
    kept_entries,
)
from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.authorizer import CLUSTER_NAME, Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.broker_loggers import levels_by_name
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kvorum.quorum.image.configs import CLUSTER_DEFAULT
from kvorum.quorum.image.configs import ResourceType as ConfigResourceType
from kvorum.runtime import logs
from kvorum.runtime.config import ConfigSource
from kvorum.runtime.config_defs import KEPT_IN_METADATA

LoggerRow: TypeAlias = DescribeConfigsResourceResult


def handle(ctx: RequestContext, request: DescribeConfigsRequest, broker: Broker) -> DescribeConfigsResponse:
    """Describe each resource on its own."""
    results: list[DescribeConfigsResult] = []
    topics = TopicEntries(broker.configs)
    for resource in request.resources:
        result = DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
        try:
            if resource.resource_type == ConfigResourceType.BROKER_LOGGER:
                result.configs = list(loggers_of(ctx, resource, broker))
            else:
                entries = chosen(entries_of(ctx, resource, broker, topics), resource.configuration_keys)
                result.configs = [described(ctx, request, each) for each in entries]
        except KafkaError as error:
            result.error_code = error.code
            result.error_message = error.message
        results.append(result)
    return DescribeConfigsResponse(throttle_time=broker.throttle(ctx), results=results)


def entries_of(
    ctx: RequestContext, resource: DescribeConfigsResource, broker: Broker, topics: TopicEntries
) -> Iterable[ConfigEntry]:
    """Return all configs of a resource. Raises KafkaError with the code Kafka answers."""
    name = resource.resource_name
    match resource.resource_type:
        case ConfigResourceType.TOPIC:
            authorize(ctx, broker, ResourceType.TOPIC, name)
            return entries_of_topic(name, broker, topics)
        case ConfigResourceType.BROKER:
            authorize(ctx, broker, ResourceType.CLUSTER, CLUSTER_NAME)
            return entries_of_broker(name, broker, resource.configuration_keys or ())
        case ConfigResourceType.GROUP:
            authorize(ctx, broker, ResourceType.GROUP, name)
            if not name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
            return group_entries(broker.configs, broker.metadata.image.configs.of(ConfigResourceType.GROUP, name))
        case ConfigResourceType.CLIENT_METRICS:
            authorize(ctx, broker, ResourceType.CLUSTER, CLUSTER_NAME)
            if not name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
            return client_metrics_entries(broker.metadata.image.configs.of(ConfigResourceType.CLIENT_METRICS, name))
        case unknown:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {unknown}")


def loggers_of(ctx: RequestContext, resource: DescribeConfigsResource, broker: Broker) -> Iterator[LoggerRow]:
    """Yield this process's loggers with their levels; Kafka leaves all else at its defaults. Raises KafkaError."""
    name, keys = resource.resource_name, resource.configuration_keys
    authorize(ctx, broker, ResourceType.CLUSTER, CLUSTER_NAME)
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    require_own_id(name, broker, "")
    for logger, level in levels_by_name(logs.get_level(), logs.get_levels()).items():
        if not keys or logger in keys:
            yield LoggerRow(name=logger, value=level, config_source=ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG)


def authorize(ctx: RequestContext, broker: Broker, resource_type: ResourceType, name: str) -> None:
    """Raise KafkaError with the resource's code if the client may not describe its configs."""
    if broker.authorizer.authorize(ctx, Operation.DESCRIBE_CONFIGS, resource_type, name):
        return
    if resource_type is ResourceType.TOPIC:
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if resource_type is ResourceType.GROUP:
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def entries_of_topic(name: str, broker: Broker, topics: TopicEntries) -> Iterable[ConfigEntry]:
    """Return a topic's configs. Raises KafkaError if there is no such topic, or cannot be."""
    problem = topic_name_problem(name)
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    if not broker.metadata.contains(name):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return topics.of(broker.configs.topic_overrides(name))


def entries_of_broker(name: str, broker: Broker, keys: Collection[str]) -> Iterable[ConfigEntry]:
    """Return this broker's configs, or (empty name) what is set for all. Raises KafkaError for another broker.

    Where nothing is asked for but what the metadata alone know, another broker's is answered: it may be down.
    """
    if name == CLUSTER_DEFAULT:
        return cluster_default_entries(broker.configs)
    if keys and KEPT_IN_METADATA.issuperset(keys):
        return kept_entries(broker.metadata.image.configs.of(ConfigResourceType.BROKER, name))
    require_own_id(name, broker, " or empty string")
    return broker_entries(broker.configs)


def require_own_id(name: str, broker: Broker, alternative: str) -> None:
    """Raise KafkaError INVALID_REQUEST unless the resource's name is this broker's id."""
    if not (name.isascii() and name.removeprefix("-").isdigit()):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    if int(name) != broker.broker_id:
        expected = f"{broker.broker_id}{alternative}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {expected}, but received {name}")


def chosen(entries: Iterable[ConfigEntry], keys: list[str] | None) -> Iterable[ConfigEntry]:
    """Return the entries that were asked for: null or none means all."""
    if not keys:
        return entries
    wanted = set(keys)
    return (each for each in entries if each.name in wanted)


def described(
    ctx: RequestContext, request: DescribeConfigsRequest, entry: ConfigEntry
) -> DescribeConfigsResourceResult:
    """Return one config as the version has it."""
    synonyms = entry.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=[DescribeConfigsSynonym(name=each.name, value=each.value, source=each.source) for each in synonyms],
        config_type=entry.type,
        documentation=entry.documentation if request.include_documentation else None,
    )


HANDLER = BrokerApi(ApiKey.DESCRIBE_CONFIGS, handle)
