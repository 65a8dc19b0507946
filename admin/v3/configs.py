"""Configs of topics, of one broker, and of all brokers together (the dynamic defaults, KIP-226)."""

import asyncio
from collections.abc import Sequence
from typing import Any

from kvorum.admin.access import Refused
from kvorum.admin.client import ClusterClient, ConfigChange, ConfigOperation, ResourceType, refuse
from kvorum.admin.models import INT32_MAX
from kvorum.admin.operations import Call, NoBody, Operation, Reply, number_of
from kvorum.admin.topic_configs import Source, source_name
from kvorum.admin.v3.errors import code_of
from kvorum.admin.v3.links import BROKER, CLUSTER, TOPIC, Links, cluster_of, links_of, not_found
from kvorum.admin.v3.models import (
    BrokerConfigData,
    BrokerConfigDataList,
    ClusterConfigData,
    ClusterConfigDataList,
    ConfigSynonymData,
    TopicConfigData,
    TopicConfigDataList,
)
from kvorum.admin.v3.requests import (
    AlterConfigBatchRequestData,
    AlterEntry,
    AlterMultipleTopicsConfigsBatchRequestData,
    AlterMultipleTopicsConfigsBatchResponse,
    FailureEntry,
    UpdateConfigRequestData,
)
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.create_topics import CreatableTopic
from kvorum.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsSynonym,
)

TOPICS_MAX = 1_000
"""Whose configs one answer holds: some 25 kB each."""
TOPICS_AT_ONCE = 50
"""In one request to the cluster."""
ALL_BROKERS = ""

Rows = Sequence[DescribeConfigsResourceResult]


def common(links: Links, row: DescribeConfigsResourceResult, parts: Sequence[str | int], *names: Any) -> dict[str, Any]:
    """Return what configs of all kinds have; the parts of the path and the names are those of what it belongs to."""
    kind = "broker-config" if parts == ("broker-configs",) else "config"
    inside = () if kind == "broker-config" else ("configs",)
    return {
        "metadata": links.metadata((*parts, *inside, row.name), *names, (kind, row.name)),
        "cluster_id": links.cluster_id,
        "name": row.name,
        "value": None if row.is_sensitive else row.value,
        "is_default": row.config_source == Source.DEFAULT_CONFIG,
        "is_read_only": row.read_only,
        "is_sensitive": row.is_sensitive,
        "source": source_name(row.config_source),
        "synonyms": [
            ConfigSynonymData(
                name=each.name, value=None if row.is_sensitive else each.value, source=source_name(each.source)
            )
            for each in row.synonyms
        ],
    }


def topic_rows(links: Links, topic: str, rows: Rows) -> list[TopicConfigData]:
    """Return a topic's configs, by name."""
    return [
        TopicConfigData(topic_name=topic, **common(links, row, ("topics", topic), ("topic", topic)))
        for row in sorted(rows, key=lambda row: row.name)
    ]


def broker_rows(links: Links, broker: int, rows: Rows) -> list[BrokerConfigData]:
    """Return a broker's configs, by name."""
    return [
        BrokerConfigData(broker_id=broker, **common(links, row, ("brokers", broker), ("broker", broker)))
        for row in sorted(rows, key=lambda row: row.name)
    ]


def cluster_rows(links: Links, rows: Rows) -> list[ClusterConfigData]:
    """Return the configs of all brokers, by name."""
    return [
        ClusterConfigData(**common(links, row, ("broker-configs",))) for row in sorted(rows, key=lambda row: row.name)
    ]


def one(rows: Rows, name: str) -> list[DescribeConfigsResourceResult]:
    """Return the one config of a name. Raises Refused."""
    found = [row for row in rows if row.name == name]
    if not found:
        raise not_found()
    return found


async def check_known(call: Call[Any], kind: ResourceType, resource: str, names: Sequence[str]) -> None:
    """Refuse configs that the resource has not. Raises Refused, KafkaError."""
    known = {row.name for row in await call.cluster.describe_configs(kind, resource)}
    for name in names:
        if name not in known:
            cluster = call.path["cluster_id"]
            raise not_found(f"Config {name} cannot be found for {kind.name} {resource} in cluster {cluster}.")


def changes_of(entries: Sequence[AlterEntry]) -> list[ConfigChange]:
    """Return the changes of a body."""
    return [
        ConfigChange(name=each.name, operation=ConfigOperation.DELETE)
        if each.operation == "DELETE"
        else ConfigChange(name=each.name, value=each.value)
        for each in entries
    ]


async def alter(
    call: Call[Any], kind: ResourceType, resource: str, changes: Sequence[ConfigChange], *, only: bool = False
) -> None:
    """Change configs that the resource has. Raises Refused, KafkaError."""
    await check_known(call, kind, resource, [change.name for change in changes])
    await call.cluster.alter_configs(kind, resource, changes, validate_only=only)


def removal(call: Call[NoBody]) -> list[ConfigChange]:
    """Return the change that sets the config of the path back."""
    return [ConfigChange(name=call.path["name"], operation=ConfigOperation.DELETE)]


def new_value(call: Call[UpdateConfigRequestData]) -> list[ConfigChange]:
    """Return the change that sets the config of the path."""
    return [ConfigChange(name=call.path["name"], value=call.body.value)]


# Of topics


async def list_kafka_topic_configs(call: Call[NoBody]) -> TopicConfigDataList:
    """List a topic's configs, the defaults too."""
    links, topic = await links_of(call), call.path["topic_name"]
    rows = await call.cluster.describe_configs(ResourceType.TOPIC, topic)
    return TopicConfigDataList(
        metadata=links.collection("topics", topic, "configs"), data=topic_rows(links, topic, rows)
    )


async def list_kafka_all_topic_configs(call: Call[NoBody]) -> TopicConfigDataList:
    """List the configs of all topics, by topic and name."""
    links = await links_of(call)
    names = sorted(topic.name or "" for topic in (await call.cluster.metadata()).topics)
    if len(names) > TOPICS_MAX:
        raise Refused(413, "TOO_MANY_TOPICS", f"there are {len(names)} topics, and {TOPICS_MAX} fit; ask for each")
    rows = []
    for start in range(0, len(names), TOPICS_AT_ONCE):
        for topic, configs in await described(call.cluster, names[start : start + TOPICS_AT_ONCE]):
            rows += topic_rows(links, topic, configs)
    return TopicConfigDataList(metadata=links.collection("topics", "-", "configs"), data=rows)


async def described(cluster: ClusterClient, names: Sequence[str]) -> list[tuple[str, Rows]]:
    """Return the configs of some topics; those that were deleted meanwhile are left out. Raises KafkaError."""
    resources = [
        DescribeConfigsResource(resource_type=ResourceType.TOPIC, resource_name=name, configuration_keys=None)
        for name in names
    ]
    request = DescribeConfigsRequest(resources=resources, include_synonyms=True)
    answer = await cluster.ask(request, DescribeConfigsResponse)
    found: list[tuple[str, Rows]] = []
    for each in answer.results:
        if each.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            refuse(each.error_code, each.error_message)
            found.append((each.resource_name, each.configs))
    return found


async def list_kafka_default_topic_configs(call: Call[NoBody]) -> TopicConfigDataList:
    """List the configs that a topic would have if nothing were set on it, whether it is there or not."""
    links, topic = await links_of(call), call.path["topic_name"]
    rows = await of_new_topic(call.cluster)
    return TopicConfigDataList(
        metadata=links.collection("topics", topic, "default-configs"), data=topic_rows(links, topic, rows)
    )


async def of_new_topic(cluster: ClusterClient) -> list[DescribeConfigsResourceResult]:
    """Return what the cluster would give a new topic (KIP-525). Raises KafkaError.

    It is asked for one that nobody has, and that is not created: of a topic that is there the cluster does not tell
    what a config would be that was set on it.
    """
    name = f"defaults-{cluster.chance.getrandbits(64):016x}"
    wanted = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)
    answer = await cluster.create_topic(wanted, validate_only=True)
    return [
        DescribeConfigsResourceResult(
            name=row.name,
            value=row.value,
            read_only=row.read_only,
            config_source=row.config_source,
            is_sensitive=row.is_sensitive,
            synonyms=[DescribeConfigsSynonym(name=row.name, value=row.value, source=row.config_source)],
        )
        for row in answer.topics[0].configs or ()
    ]


async def get_kafka_topic_config(call: Call[NoBody]) -> TopicConfigData:
    """Return one config of a topic."""
    links, topic = await links_of(call), call.path["topic_name"]
    rows = await call.cluster.describe_configs(ResourceType.TOPIC, topic)
    return topic_rows(links, topic, one(rows, call.path["name"]))[0]


async def update_kafka_topic_config(call: Call[UpdateConfigRequestData]) -> None:
    """Set one config of a topic."""
    await cluster_of(call)
    await alter(call, ResourceType.TOPIC, call.path["topic_name"], new_value(call))


async def delete_kafka_topic_config(call: Call[NoBody]) -> None:
    """Set one config of a topic back to its default."""
    await cluster_of(call)
    await alter(call, ResourceType.TOPIC, call.path["topic_name"], removal(call))


async def update_kafka_topic_config_batch(call: Call[AlterConfigBatchRequestData]) -> None:
    """Change configs of a topic together."""
    await cluster_of(call)
    only = bool(call.body.validate_only)
    await alter(call, ResourceType.TOPIC, call.path["topic_name"], changes_of(call.body.data), only=only)


async def update_kafka_topics_config_batch(call: Call[AlterMultipleTopicsConfigsBatchRequestData]) -> Reply | None:
    """Change configs of several topics. Where some are refused, the answer names them, and the others are changed."""
    await cluster_of(call)
    wanted = {entry.topic_name: changes_of(entry.configs) for entry in call.body.data}
    for topic, changes in wanted.items():
        await check_known(call, ResourceType.TOPIC, topic, [change.name for change in changes])
    failures = []
    for topic, changes in wanted.items():
        try:
            await call.cluster.alter_configs(
                ResourceType.TOPIC, topic, changes, validate_only=bool(call.body.validate_only)
            )
        except KafkaError as error:
            code = code_of(error.code.name, 422).error_code
            failures.append(FailureEntry(topic_name=topic, error_code=code, message=error.message or error.code.name))
    if not failures:
        return None
    return Reply(status=207, text=AlterMultipleTopicsConfigsBatchResponse(failures=failures).model_dump_json())


# Of brokers


def broker_id(call: Call[Any]) -> int:
    """Read the broker's id in the path. Raises BadInput."""
    return number_of("broker_id", call.path["broker_id"], 0, INT32_MAX)


async def list_kafka_broker_configs(call: Call[NoBody]) -> BrokerConfigDataList:
    """List a broker's configs, the defaults too."""
    links, broker = await links_of(call), broker_id(call)
    rows = await call.cluster.describe_configs(ResourceType.BROKER, str(broker))
    return BrokerConfigDataList(
        metadata=links.collection("brokers", broker, "configs"), data=broker_rows(links, broker, rows)
    )


async def list_kafka_all_broker_configs(call: Call[NoBody]) -> BrokerConfigDataList:
    """List the configs of all brokers, by broker and name."""
    found = await cluster_of(call)
    links = Links(call.base_url, found.cluster_id)
    brokers = sorted(broker.broker_id for broker in found.brokers)
    told = await asyncio.gather(*(call.cluster.describe_configs(ResourceType.BROKER, str(each)) for each in brokers))
    rows = [row for broker, configs in zip(brokers, told, strict=True) for row in broker_rows(links, broker, configs)]
    return BrokerConfigDataList(metadata=links.collection("brokers", "-", "configs"), data=rows)


async def get_kafka_broker_config(call: Call[NoBody]) -> BrokerConfigData:
    """Return one config of a broker."""
    links, broker = await links_of(call), broker_id(call)
    rows = await call.cluster.describe_configs(ResourceType.BROKER, str(broker))
    return broker_rows(links, broker, one(rows, call.path["name"]))[0]


async def update_kafka_broker_config(call: Call[UpdateConfigRequestData]) -> None:
    """Set one config of a broker."""
    await cluster_of(call)
    await alter(call, ResourceType.BROKER, str(broker_id(call)), new_value(call))


async def delete_kafka_broker_config(call: Call[NoBody]) -> None:
    """Set one config of a broker back."""
    await cluster_of(call)
    await alter(call, ResourceType.BROKER, str(broker_id(call)), removal(call))


async def update_kafka_broker_config_batch(call: Call[AlterConfigBatchRequestData]) -> None:
    """Change configs of a broker together."""
    await cluster_of(call)
    only = bool(call.body.validate_only)
    await alter(call, ResourceType.BROKER, str(broker_id(call)), changes_of(call.body.data), only=only)


# Of all brokers


async def list_kafka_cluster_configs(call: Call[NoBody]) -> ClusterConfigDataList:
    """List what was set for all brokers while they ran."""
    links = await links_of(call)
    rows = await call.cluster.describe_configs(ResourceType.BROKER, ALL_BROKERS)
    return ClusterConfigDataList(metadata=links.collection("broker-configs"), data=cluster_rows(links, rows))


async def get_kafka_cluster_config(call: Call[NoBody]) -> ClusterConfigData:
    """Return one config that was set for all brokers."""
    links = await links_of(call)
    rows = await call.cluster.describe_configs(ResourceType.BROKER, ALL_BROKERS)
    return cluster_rows(links, one(rows, call.path["name"]))[0]


async def update_kafka_cluster_config(call: Call[UpdateConfigRequestData]) -> None:
    """Set one config for all brokers."""
    await cluster_of(call)
    await call.cluster.alter_configs(ResourceType.BROKER, ALL_BROKERS, new_value(call))


async def delete_kafka_cluster_config(call: Call[NoBody]) -> None:
    """Set one config of all brokers back; 404 where it is not set."""
    await cluster_of(call)
    await alter(call, ResourceType.BROKER, ALL_BROKERS, removal(call))


async def update_kafka_cluster_configs(call: Call[AlterConfigBatchRequestData]) -> None:
    """Change configs of all brokers together."""
    await cluster_of(call)
    changes, only = changes_of(call.body.data), bool(call.body.validate_only)
    await call.cluster.alter_configs(ResourceType.BROKER, ALL_BROKERS, changes, validate_only=only)


def paths(path: str, listed: type, single: type, handles: Sequence[Any], whose: str) -> list[Operation]:
    """Return what every kind of resource has: list, alter, get, set and delete, in this order of the handlers."""
    get_all, batch, get, update, delete = handles
    config = f"{path}/{{name}}"
    body = UpdateConfigRequestData
    return [
        Operation(method="GET", path=path, summary=f"List configs of {whose}", handle=get_all, answer=listed),
        Operation(
            method="POST",
            path=f"{path}:alter",
            summary=f"Change configs of {whose}",
            handle=batch,
            body=AlterConfigBatchRequestData,
            status=204,
        ),
        Operation(method="GET", path=config, summary=f"Get a config of {whose}", handle=get, answer=single),
        Operation(method="PUT", path=config, summary=f"Set a config of {whose}", handle=update, body=body, status=204),
        Operation(method="DELETE", path=config, summary=f"Reset a config of {whose}", handle=delete, status=204),
    ]


OPERATIONS = [
    Operation(
        method="GET",
        path=f"{CLUSTER}/topics/-/configs",
        summary="List configs of all topics",
        handle=list_kafka_all_topic_configs,
        answer=TopicConfigDataList,
    ),
    Operation(
        method="POST",
        path=f"{CLUSTER}/topics/-/configs:alter",
        summary="Change configs of several topics",
        handle=update_kafka_topics_config_batch,
        body=AlterMultipleTopicsConfigsBatchRequestData,
        status=204,
        also={207: AlterMultipleTopicsConfigsBatchResponse},
    ),
    Operation(
        method="GET",
        path=f"{CLUSTER}/brokers/-/configs",
        summary="List configs of every broker",
        handle=list_kafka_all_broker_configs,
        answer=BrokerConfigDataList,
    ),
    Operation(
        method="GET",
        path=f"{TOPIC}/default-configs",
        summary="List what a topic's configs would be by default",
        handle=list_kafka_default_topic_configs,
        answer=TopicConfigDataList,
    ),
    *paths(
        f"{TOPIC}/configs",
        TopicConfigDataList,
        TopicConfigData,
        (
            list_kafka_topic_configs,
            update_kafka_topic_config_batch,
            get_kafka_topic_config,
            update_kafka_topic_config,
            delete_kafka_topic_config,
        ),
        "a topic",
    ),
    *paths(
        f"{BROKER}/configs",
        BrokerConfigDataList,
        BrokerConfigData,
        (
            list_kafka_broker_configs,
            update_kafka_broker_config_batch,
            get_kafka_broker_config,
            update_kafka_broker_config,
            delete_kafka_broker_config,
        ),
        "a broker",
    ),
    *paths(
        f"{CLUSTER}/broker-configs",
        ClusterConfigDataList,
        ClusterConfigData,
        (
            list_kafka_cluster_configs,
            update_kafka_cluster_configs,
            get_kafka_cluster_config,
            update_kafka_cluster_config,
            delete_kafka_cluster_config,
        ),
        "all brokers",
    ),
]
