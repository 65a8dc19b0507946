"""Configs of topics."""

from collections.abc import Sequence

from kvorum.admin.http.access import Refused
from kvorum.admin.http.operations import Call, NoBody, Operation, Reply
from kvorum.admin.v3.config_kit import (
    Rows,
    alter,
    changes_of,
    check_known,
    common,
    new_value,
    one,
    paths,
    removal,
)
from kvorum.admin.v3.errors import code_of
from kvorum.admin.v3.links import CLUSTER, TOPIC, Links, cluster_of, links_of
from kvorum.admin.v3.models import (
    TopicConfigData,
    TopicConfigDataList,
)
from kvorum.admin.v3.requests import (
    AlterConfigBatchRequestData,
    AlterMultipleTopicsConfigsBatchRequestData,
    AlterMultipleTopicsConfigsBatchResponse,
    FailureEntry,
    UpdateConfigRequestData,
)
from kvorum.client.wire.cluster_client import ClusterClient, ResourceType, refuse
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
"""Limit of topics in one response: some 25 kB each."""
TOPICS_AT_ONCE = 50
"""In one request to the cluster."""


def topic_rows(links: Links, topic: str, rows: Rows) -> list[TopicConfigData]:
    """Return a topic's configs, by name."""
    return [
        TopicConfigData(topic_name=topic, **common(links, row, ("topics", topic), ("topic", topic)))
        for row in sorted(rows, key=lambda row: row.name)
    ]


async def list_kafka_topic_configs(call: Call[NoBody]) -> TopicConfigDataList:
    """List a topic's configs, including defaults."""
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
        raise Refused(
            413, "TOO_MANY_TOPICS", f"there are {len(names)} topics; the limit is {TOPICS_MAX}; request each topic"
        )
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
    """List the configs that a topic would have by default, whether it exists or not."""
    links, topic = await links_of(call), call.path["topic_name"]
    rows = await of_new_topic(call.cluster)
    return TopicConfigDataList(
        metadata=links.collection("topics", topic, "default-configs"), data=topic_rows(links, topic, rows)
    )


async def of_new_topic(cluster: ClusterClient) -> list[DescribeConfigsResourceResult]:
    """Return the configs that the cluster would give a new topic (KIP-525).

    Raises KafkaError.

    The request is for a topic that does not exist, and that is not created: for an existing topic the cluster does not
    return the value below a config that is set on it.
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
    """Reset one config of a topic to its default."""
    await cluster_of(call)
    await alter(call, ResourceType.TOPIC, call.path["topic_name"], removal(call))


async def update_kafka_topic_config_batch(call: Call[AlterConfigBatchRequestData]) -> None:
    """Change several configs of a topic."""
    await cluster_of(call)
    only = bool(call.body.validate_only)
    await alter(call, ResourceType.TOPIC, call.path["topic_name"], changes_of(call.body.data), only=only)


async def update_kafka_topics_config_batch(call: Call[AlterMultipleTopicsConfigsBatchRequestData]) -> Reply | None:
    """Change configs of several topics. The response names the rejected ones; the others are changed."""
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


OPERATIONS = [
    Operation.get(
        f"{CLUSTER}/topics/-/configs", "List configs of all topics", list_kafka_all_topic_configs, TopicConfigDataList
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
    Operation.get(
        f"{TOPIC}/default-configs",
        "List a topic's default configs",
        list_kafka_default_topic_configs,
        TopicConfigDataList,
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
]
