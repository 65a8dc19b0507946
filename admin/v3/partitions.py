"""Partitions, their offsets, replicas and reassignments."""

from kvorum.admin.http.operations import BadInput, Call, NoBody, Operation, number_of
from kvorum.admin.v1.models import INT32_MAX
from kvorum.admin.v3.links import CLUSTER, PARTITION, TOPIC, Links, links_of, not_found
from kvorum.admin.v3.models import (
    PartitionData,
    PartitionDataList,
    PartitionWithOffsetsData,
    ReassignmentData,
    ReassignmentDataList,
    ReplicaData,
    ReplicaDataList,
)
from kvorum.client.partitions.offsets import Spec, known_offsets
from kvorum.client.reassignments.reassignments import Reassignments, UnderWay
from kvorum.protocol.messages.metadata import MetadataResponsePartition
from kvorum.protocol.topic_partition import TopicPartition

BOTH = "earliest_and_latest"


def partition_data(links: Links, topic: str, row: MetadataResponsePartition) -> PartitionData:
    """Return one partition."""
    me = ("topics", topic, "partitions", row.partition_index)
    return PartitionData(
        metadata=links.metadata(me, ("topic", topic), ("partition", row.partition_index)),
        cluster_id=links.cluster_id,
        topic_name=topic,
        partition_id=row.partition_index,
        leader=links.related(*me, "replicas", row.leader_id) if row.leader_id >= 0 else None,
        replicas=links.related(*me, "replicas"),
        reassignment=links.related(*me, "reassignment"),
    )


def replica_data(links: Links, topic: str, row: MetadataResponsePartition, broker: int) -> ReplicaData:
    """Return a partition's replica on a broker."""
    names = ("topic", topic), ("partition", row.partition_index), ("replica", broker)
    return ReplicaData(
        metadata=links.metadata(("topics", topic, "partitions", row.partition_index, "replicas", broker), *names),
        cluster_id=links.cluster_id,
        topic_name=topic,
        partition_id=row.partition_index,
        broker_id=broker,
        is_leader=broker == row.leader_id,
        is_in_sync=broker in row.isr_nodes,
        broker=links.related("brokers", broker),
    )


async def partition_of(call: Call[NoBody]) -> tuple[str, MetadataResponsePartition]:
    """Return the topic's name and the partition that the path names. Raises KafkaError, BadInput, Refused."""
    index = number_of("partition_id", call.path["partition_id"], 0, INT32_MAX)
    topic = await call.cluster.topic(call.path["topic_name"])
    for row in topic.partitions:
        if row.partition_index == index:
            return topic.name or "", row
    raise not_found()


async def list_kafka_partitions(call: Call[NoBody]) -> PartitionDataList:
    """List a topic's partitions."""
    links = await links_of(call)
    topic = await call.cluster.topic(call.path["topic_name"])
    name, rows = topic.name or "", sorted(topic.partitions, key=lambda row: row.partition_index)
    return PartitionDataList(
        metadata=links.collection("topics", name, "partitions"),
        data=[partition_data(links, name, row) for row in rows],
    )


async def get_kafka_partition(call: Call[NoBody]) -> PartitionData:
    """Return one partition."""
    links = await links_of(call)
    return partition_data(links, *await partition_of(call))


async def list_kafka_partition_offsets(call: Call[NoBody]) -> PartitionWithOffsetsData:
    """Return the first and last offset of a partition."""
    links = await links_of(call)
    wanted = call.query.get("offset_type", BOTH)
    if wanted != BOTH:
        raise BadInput("offset_type", f"{wanted} is invalid")
    topic, row = await partition_of(call)
    place = TopicPartition(topic, row.partition_index)
    earliest = await known_offsets(call.cluster, [place], Spec.EARLIEST)
    latest = await known_offsets(call.cluster, [place], Spec.LATEST)
    names = ("topic", topic), ("partition", row.partition_index), ("offset_type", BOTH)
    return PartitionWithOffsetsData(
        metadata=links.metadata(("topics", topic, "partitions", row.partition_index, "offset"), *names),
        cluster_id=links.cluster_id,
        topic_name=topic,
        partition_id=row.partition_index,
        earliest_offset=earliest[place],
        latest_offset=latest[place],
    )


async def list_kafka_replicas(call: Call[NoBody]) -> ReplicaDataList:
    """List a partition's replicas, the preferred leader first."""
    links = await links_of(call)
    topic, row = await partition_of(call)
    return ReplicaDataList(
        metadata=links.collection("topics", topic, "partitions", row.partition_index, "replicas"),
        data=[replica_data(links, topic, row, broker) for broker in row.replica_nodes],
    )


async def get_kafka_replica(call: Call[NoBody]) -> ReplicaData:
    """Return a partition's replica on one broker."""
    links = await links_of(call)
    broker = number_of("broker_id", call.path["broker_id"], 0, INT32_MAX)
    topic, row = await partition_of(call)
    if broker not in row.replica_nodes:
        raise not_found()
    return replica_data(links, topic, row, broker)


def reassignment_data(links: Links, place: tuple[str, int], moving: UnderWay) -> ReassignmentData:
    """Return the fields of a reassignment of a partition."""
    topic, partition = place
    me = ("topics", topic, "partitions", partition)
    names = ("topic", topic), ("partition", partition), ("reassignment", None)
    return ReassignmentData(
        metadata=links.metadata((*me, "reassignment"), *names),
        cluster_id=links.cluster_id,
        topic_name=topic,
        partition_id=partition,
        adding_replicas=moving.adding,
        removing_replicas=moving.removing,
        replicas=links.related(*me, "replicas"),
    )


async def reassignments(call: Call[NoBody], links: Links, topic: str | None) -> list[ReassignmentData]:
    """Return current reassignments, of one topic or of all."""
    found = await Reassignments(call.cluster).under_way()
    return [reassignment_data(links, place, moving) for place, moving in found.items() if topic in (None, place.topic)]


async def list_kafka_reassignments(call: Call[NoBody]) -> ReassignmentDataList:
    """List current reassignments."""
    links = await links_of(call)
    parts = ("topics", "-", "partitions", "-", "reassignment")
    return ReassignmentDataList(metadata=links.collection(*parts), data=await reassignments(call, links, None))


async def list_kafka_topic_reassignments(call: Call[NoBody]) -> ReassignmentDataList:
    """List current reassignments of a topic."""
    links, topic = await links_of(call), call.path["topic_name"]
    parts = ("topics", topic, "partitions", "-", "reassignment")
    return ReassignmentDataList(metadata=links.collection(*parts), data=await reassignments(call, links, topic))


async def get_kafka_reassignment(call: Call[NoBody]) -> ReassignmentData:
    """Return a partition's reassignment; 404 if there is none."""
    links, topic = await links_of(call), call.path["topic_name"]
    partition = number_of("partition_id", call.path["partition_id"], 0, INT32_MAX)
    for row in await reassignments(call, links, topic):
        if row.partition_id == partition:
            return row
    raise not_found()


OPERATIONS = [
    Operation.get(
        f"{CLUSTER}/topics/-/partitions/-/reassignment",
        "List reassignments",
        list_kafka_reassignments,
        ReassignmentDataList,
    ),
    Operation.get(
        f"{TOPIC}/partitions/-/reassignment",
        "List a topic's reassignments",
        list_kafka_topic_reassignments,
        ReassignmentDataList,
    ),
    Operation.get(
        f"{PARTITION}/reassignment", "Get a partition's reassignment", get_kafka_reassignment, ReassignmentData
    ),
    Operation.get(f"{TOPIC}/partitions", "List a topic's partitions", list_kafka_partitions, PartitionDataList),
    Operation.get(PARTITION, "Get a partition", get_kafka_partition, PartitionData),
    Operation.get(
        f"{PARTITION}/offset",
        "Get a partition's first and last offset",
        list_kafka_partition_offsets,
        PartitionWithOffsetsData,
        query={"offset_type": f"{BOTH} (the only value)"},
    ),
    Operation.get(f"{PARTITION}/replicas", "List a partition's replicas", list_kafka_replicas, ReplicaDataList),
    Operation.get(f"{PARTITION}/replicas/{{broker_id}}", "Get a replica", get_kafka_replica, ReplicaData),
]
