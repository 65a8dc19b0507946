"""Topics."""

import re
from collections.abc import Sequence

from kvorum.admin.http.access import HttpError
from kvorum.admin.http.operations import Call, NoBody, Reply
from kvorum.admin.http.parameters import flag
from kvorum.admin.v3.errors import PAYLOAD
from kvorum.admin.v3.links import CLUSTER, TOPIC, Links, cluster_of, links_of
from kvorum.admin.v3.path_parameters import TOPIC_NAME, get_operation, operation
from kvorum.admin.v3.requests import CreateTopicRequestData, UpdatePartitionCountRequestData
from kvorum.admin.v3.topic_models import TopicData, TopicDataList
from kvorum.client.namespaces.partitions import Partitions
from kvorum.client.namespaces.topics import Topics
from kvorum.client.values.topic import Topic

UNKNOWN = -1
"""Partitions or replication factor of a new topic that the cluster does not return."""
NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
AUTHORIZED = flag("include_authorized_operations", "true: include the caller's permissions")


def topic_data(
    links: Links,
    name: str,
    partitions: int | None,
    replication_factor: int | None,
    *,
    internal: bool = False,
    operations: Sequence[str] = (),
) -> TopicData:
    """Return a topic; `operations`: those that are permitted to the caller."""
    return TopicData(
        metadata=links.metadata(("topics", name), ("topic", name)),
        cluster_id=links.cluster_id,
        topic_name=name,
        is_internal=internal,
        replication_factor=UNKNOWN if replication_factor is None else replication_factor,
        partitions_count=UNKNOWN if partitions is None else partitions,
        partitions=links.relationship("topics", name, "partitions"),
        configs=links.relationship("topics", name, "configs"),
        partition_reassignments=links.relationship("topics", name, "partitions", "-", "reassignment"),
        authorized_operations=[*operations],
    )


def existing_topic_data(links: Links, topic: Topic) -> TopicData:
    """Return an existing topic; the replication factor is that of its first partition."""
    factor = len(topic.partitions[0].replicas) if topic.partitions else 0
    may = topic.authorized_operations or ()
    return topic_data(links, topic.name, len(topic.partitions), factor, internal=topic.is_internal, operations=may)


async def list_kafka_topics(call: Call[NoBody]) -> TopicDataList:
    """List all topics by name, including internal ones."""
    links, authorized = await links_of(call), AUTHORIZED.of(call)
    topics = Topics(call.cluster)
    rows = await topics.list(internal=True, reassignments=False, authorized_operations=authorized)
    return TopicDataList(metadata=links.collection("topics"), data=[existing_topic_data(links, row) for row in rows])


async def get_kafka_topic(call: Call[NoBody]) -> TopicData:
    """Return one topic."""
    links, authorized = await links_of(call), AUTHORIZED.of(call)
    return existing_topic_data(
        links, await Topics(call.cluster).get(TOPIC_NAME.of(call), authorized_operations=authorized)
    )


async def create_kafka_topic(call: Call[CreateTopicRequestData]) -> Reply:
    """Create a topic, or validate only: then 200 instead of 201."""
    links, body, only = await links_of(call), call.body, bool(call.body.validate_only)
    if NAME.fullmatch(body.topic_name) is None or body.topic_name in (".", ".."):
        raise HttpError(422, PAYLOAD, "Payload error. Invalid topic name.")
    given = body.replicas_assignments
    made = await Topics(call.cluster).create(
        body.topic_name,
        partitions=None if given else body.partitions_count,
        replication_factor=None if given else body.replication_factor,
        assignments=given,
        configs={each.name: each.value for each in body.configs or ()},
        validate_only=only,
    )
    data = topic_data(links, made.name, made.partition_count, made.replication_factor)
    headers = {"Location": data.metadata.self}
    return Reply(status=200 if only else 201, text=data.model_dump_json(), headers=headers)


async def update_partition_count_kafka_topic(call: Call[UpdatePartitionCountRequestData]) -> TopicData:
    """Increase the number of partitions."""
    links, name, count = await links_of(call), TOPIC_NAME.of(call), call.body.partitions_count
    await Partitions(call.cluster).add(name, count)
    return existing_topic_data(links, await Topics(call.cluster).get(name))


async def delete_kafka_topic(call: Call[NoBody]) -> None:
    """Delete a topic with its records."""
    await cluster_of(call)
    await Topics(call.cluster).delete(TOPIC_NAME.of(call))


OPERATIONS = [
    get_operation(f"{CLUSTER}/topics", "List topics", list_kafka_topics, TopicDataList, parameters=(AUTHORIZED,)),
    operation(
        method="POST",
        path=f"{CLUSTER}/topics",
        summary="Create a topic",
        handle=create_kafka_topic,
        body=CreateTopicRequestData,
        answer=TopicData,
        status=201,
        other_answers={200: TopicData},
    ),
    get_operation(TOPIC, "Get a topic", get_kafka_topic, TopicData, parameters=(AUTHORIZED,)),
    operation(
        method="PATCH",
        path=TOPIC,
        summary="Increase the number of partitions",
        handle=update_partition_count_kafka_topic,
        body=UpdatePartitionCountRequestData,
        answer=TopicData,
    ),
    operation(method="DELETE", path=TOPIC, summary="Delete a topic", handle=delete_kafka_topic, status=204),
]
