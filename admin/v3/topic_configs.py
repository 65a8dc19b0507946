"""Configs of topics."""

from kvorum.admin.http.access import HttpError
from kvorum.admin.http.operations import Call, NoBody, Reply
from kvorum.admin.v3.config_kit import alter, changes_of, check_known, common, config_of, new_value, paths, removal
from kvorum.admin.v3.config_models import TopicConfigData, TopicConfigDataList
from kvorum.admin.v3.errors import code_of
from kvorum.admin.v3.links import CLUSTER, TOPIC, Links, cluster_of, links_of
from kvorum.admin.v3.path_parameters import TOPIC_NAME, get_operation, operation
from kvorum.admin.v3.requests import (
    AlterConfigBatchRequestData,
    AlterMultipleTopicsConfigsBatchRequestData,
    AlterMultipleTopicsConfigsBatchResponse,
    FailureEntry,
    UpdateConfigRequestData,
)
from kvorum.client.namespaces.configs import Configs
from kvorum.client.namespaces.topics import Topics
from kvorum.client.values.config import Config
from kvorum.client.wire.cluster_client import ResourceType
from kvorum.protocol.errors import ErrorCode, KafkaError

TOPICS_MAX = 1_000
"""Limit of topics in one response: some 25 kB each."""
TOPICS_AT_ONCE = 50
"""Topics in one request to the cluster."""


def topic_data(links: Links, topic: str, row: Config) -> TopicConfigData:
    """Return a topic's config."""
    return TopicConfigData(topic_name=topic, **common(links, row, ("topics", topic), ("topic", topic)))


async def list_kafka_topic_configs(call: Call[NoBody]) -> TopicConfigDataList:
    """List a topic's configs, including defaults."""
    links, topic = await links_of(call), TOPIC_NAME.of(call)
    rows = await Configs(call.cluster).describe(ResourceType.TOPIC, topic)
    return TopicConfigDataList(
        metadata=links.collection("topics", topic, "configs"), data=[topic_data(links, topic, row) for row in rows]
    )


async def list_kafka_all_topic_configs(call: Call[NoBody]) -> TopicConfigDataList:
    """List the configs of all topics, by topic and name."""
    links, configs = await links_of(call), Configs(call.cluster)
    names = [topic.name for topic in await Topics(call.cluster).list(internal=True, reassignments=False)]
    if len(names) > TOPICS_MAX:
        raise HttpError(
            413, "TOO_MANY_TOPICS", f"there are {len(names)} topics; the limit is {TOPICS_MAX}; request each topic"
        )
    rows = []
    for start in range(0, len(names), TOPICS_AT_ONCE):
        described = await configs.describe_many(ResourceType.TOPIC, names[start : start + TOPICS_AT_ONCE])
        for topic, found in described.items():
            if not isinstance(found, KafkaError):
                rows += [topic_data(links, topic, row) for row in found]
            elif found.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:  # deleted meanwhile
                raise found
    return TopicConfigDataList(metadata=links.collection("topics", "-", "configs"), data=rows)


async def list_kafka_default_topic_configs(call: Call[NoBody]) -> TopicConfigDataList:
    """List the configs that a topic would have by default, whether it exists or not."""
    links, topic = await links_of(call), TOPIC_NAME.of(call)
    rows = await Topics(call.cluster).default_configs()
    return TopicConfigDataList(
        metadata=links.collection("topics", topic, "default-configs"),
        data=[topic_data(links, topic, row) for row in rows],
    )


async def get_kafka_topic_config(call: Call[NoBody]) -> TopicConfigData:
    """Return one config of a topic."""
    links, topic = await links_of(call), TOPIC_NAME.of(call)
    return topic_data(links, topic, await config_of(call, ResourceType.TOPIC, topic))


async def update_kafka_topic_config(call: Call[UpdateConfigRequestData]) -> None:
    """Set one config of a topic."""
    await cluster_of(call)
    await alter(call, ResourceType.TOPIC, TOPIC_NAME.of(call), new_value(call))


async def delete_kafka_topic_config(call: Call[NoBody]) -> None:
    """Reset one config of a topic to its default."""
    await cluster_of(call)
    await alter(call, ResourceType.TOPIC, TOPIC_NAME.of(call), removal(call))


async def update_kafka_topic_config_batch(call: Call[AlterConfigBatchRequestData]) -> None:
    """Change several configs of a topic."""
    await cluster_of(call)
    only = bool(call.body.validate_only)
    await alter(call, ResourceType.TOPIC, TOPIC_NAME.of(call), changes_of(call.body.data), only=only)


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
    get_operation(
        f"{CLUSTER}/topics/-/configs", "List configs of all topics", list_kafka_all_topic_configs, TopicConfigDataList
    ),
    operation(
        method="POST",
        path=f"{CLUSTER}/topics/-/configs:alter",
        summary="Change configs of several topics",
        handle=update_kafka_topics_config_batch,
        body=AlterMultipleTopicsConfigsBatchRequestData,
        status=204,
        other_answers={207: AlterMultipleTopicsConfigsBatchResponse},
    ),
    get_operation(
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
