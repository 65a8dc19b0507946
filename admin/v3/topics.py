"""Topics."""

import re

from kvorum.admin.http.access import Refused
from kvorum.admin.http.operations import Call, NoBody, Operation, Reply
from kvorum.admin.v3.errors import PAYLOAD
from kvorum.admin.v3.links import CLUSTER, TOPIC, Links, cluster_of, links_of
from kvorum.admin.v3.models import TopicData, TopicDataList
from kvorum.admin.v3.requests import CreateTopicRequestData, UpdatePartitionCountRequestData
from kvorum.client.wire.cluster_client import ClusterClient, refuse
from kvorum.network.authorizer import Operation as AclOperation
from kvorum.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
)
from kvorum.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

UNSET = -1
"""Partitions or replication factor left to the cluster's defaults (KIP-464)."""
NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
AUTHORIZED = "include_authorized_operations"


def topic_data(
    links: Links, name: str, partitions: int, replication_factor: int, internal: bool, operations: int | None = None
) -> TopicData:
    """Return a topic; `operations` has a bit per permitted operation of the caller (KIP-430)."""
    may = [each.name for each in AclOperation if operations is not None and operations >> each & 1]
    return TopicData(
        metadata=links.metadata(("topics", name), ("topic", name)),
        cluster_id=links.cluster_id,
        topic_name=name,
        is_internal=internal,
        replication_factor=replication_factor,
        partitions_count=partitions,
        partitions=links.related("topics", name, "partitions"),
        configs=links.related("topics", name, "configs"),
        partition_reassignments=links.related("topics", name, "partitions", "-", "reassignment"),
        authorized_operations=may,
    )


def found_data(links: Links, topic: MetadataResponseTopic, authorized: bool = False) -> TopicData:
    """Return a topic from its metadata; the replication factor is that of its first partition."""
    rows = sorted(topic.partitions, key=lambda row: row.partition_index)
    factor = len(rows[0].replica_nodes) if rows else 0
    may = topic.topic_authorized_operations if authorized else None
    return topic_data(links, topic.name or "", len(rows), factor, topic.is_internal, may)


async def topics_of(cluster: ClusterClient, names: list[str] | None, authorized: bool) -> list[MetadataResponseTopic]:
    """Return topics (all, when None), with the caller's permitted operations if requested."""
    wanted = None if names is None else [MetadataRequestTopic(name=name) for name in names]
    request = MetadataRequest(
        topics=wanted, allow_auto_topic_creation=False, include_topic_authorized_operations=authorized
    )
    return (await cluster.ask(request, MetadataResponse)).topics


async def list_kafka_topics(call: Call[NoBody]) -> TopicDataList:
    """List all topics by name, including internal ones."""
    links, authorized = await links_of(call), call.flag(AUTHORIZED)
    rows = sorted(await topics_of(call.cluster, None, authorized), key=lambda topic: topic.name or "")
    return TopicDataList(metadata=links.collection("topics"), data=[found_data(links, row, authorized) for row in rows])


async def get_kafka_topic(call: Call[NoBody]) -> TopicData:
    """Return one topic."""
    links, authorized = await links_of(call), call.flag(AUTHORIZED)
    (found,) = await topics_of(call.cluster, [call.path["topic_name"]], authorized)
    refuse(found.error_code, call.path["topic_name"])
    return found_data(links, found, authorized)


async def create_kafka_topic(call: Call[CreateTopicRequestData]) -> Reply:
    """Create a topic, or validate only: then 200 instead of 201."""
    links, body, only = await links_of(call), call.body, bool(call.body.validate_only)
    if NAME.fullmatch(body.topic_name) is None or body.topic_name in (".", ".."):
        raise Refused(422, PAYLOAD, "Payload error. Invalid topic name.")
    answer = await call.cluster.create_topic(creatable(body), validate_only=only)
    made = answer.topics[0]
    data = topic_data(links, body.topic_name, made.num_partitions, made.replication_factor, internal=False)
    headers = {"Location": data.metadata.self}
    return Reply(status=200 if only else 201, text=data.model_dump_json(), headers=headers)


def creatable(body: CreateTopicRequestData) -> CreatableTopic:
    """Return the topic in the request's format."""
    given = body.replicas_assignments or {}
    factor = UNSET if given or body.replication_factor is None else body.replication_factor
    return CreatableTopic(
        name=body.topic_name,
        num_partitions=UNSET if given or body.partitions_count is None else body.partitions_count,
        replication_factor=factor,
        assignments=[CreatableReplicaAssignment(partition_index=each, broker_ids=ids) for each, ids in given.items()],
        configs=[CreatableTopicConfig(name=each.name, value=each.value) for each in body.configs or ()],
    )


async def update_partition_count_kafka_topic(call: Call[UpdatePartitionCountRequestData]) -> TopicData:
    """Increase the number of partitions."""
    links, name, count = await links_of(call), call.path["topic_name"], call.body.partitions_count
    await call.cluster.create_partitions(name, count)
    return found_data(links, await call.cluster.topic(name))


async def delete_kafka_topic(call: Call[NoBody]) -> None:
    """Delete a topic with its records."""
    await cluster_of(call)
    await call.cluster.delete_topic(call.path["topic_name"])


FLAG = {AUTHORIZED: "true: include the caller's permissions"}
OPERATIONS = [
    Operation.get(f"{CLUSTER}/topics", "List topics", list_kafka_topics, TopicDataList, query=FLAG),
    Operation(
        method="POST",
        path=f"{CLUSTER}/topics",
        summary="Create a topic",
        handle=create_kafka_topic,
        body=CreateTopicRequestData,
        answer=TopicData,
        status=201,
        also={200: TopicData},
    ),
    Operation.get(TOPIC, "Get a topic", get_kafka_topic, TopicData, query=FLAG),
    Operation(
        method="PATCH",
        path=TOPIC,
        summary="Increase the number of partitions",
        handle=update_partition_count_kafka_topic,
        body=UpdatePartitionCountRequestData,
        answer=TopicData,
    ),
    Operation(method="DELETE", path=TOPIC, summary="Delete a topic", handle=delete_kafka_topic, status=204),
]
