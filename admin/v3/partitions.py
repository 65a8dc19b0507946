"""Partitions, their offsets, replicas and reassignments."""

from kvorum.admin.http.operations import Call, NoBody
from kvorum.admin.http.parameters import BadInput, text
from kvorum.admin.v3.links import PARTITION, TOPIC, Links, links_of, not_found
from kvorum.admin.v3.path_parameters import BROKER_ID, PARTITION_ID, TOPIC_NAME, get_operation
from kvorum.admin.v3.topic_models import (
    PartitionData,
    PartitionDataList,
    PartitionWithOffsetsData,
    ReplicaData,
    ReplicaDataList,
)
from kvorum.client.namespaces.topics import Topics
from kvorum.client.partitions.offsets import fetch_offsets
from kvorum.client.values.offset import OffsetSpec
from kvorum.client.values.partition import Partition
from kvorum.protocol.topic_partition import TopicPartition

BOTH = "earliest_and_latest"
OFFSET_TYPE = text("offset_type", f"{BOTH} (the only value)", BOTH, enum=[BOTH])


def partition_data(links: Links, row: Partition) -> PartitionData:
    """Return one partition."""
    me = ("topics", row.topic, "partitions", row.partition)
    return PartitionData(
        metadata=links.metadata(me, ("topic", row.topic), ("partition", row.partition)),
        cluster_id=links.cluster_id,
        topic_name=row.topic,
        partition_id=row.partition,
        leader=links.relationship(*me, "replicas", row.leader) if row.leader is not None else None,
        replicas=links.relationship(*me, "replicas"),
        reassignment=links.relationship(*me, "reassignment"),
    )


def replica_data(links: Links, row: Partition, broker: int) -> ReplicaData:
    """Return a partition's replica on a broker."""
    names = ("topic", row.topic), ("partition", row.partition), ("replica", broker)
    return ReplicaData(
        metadata=links.metadata(("topics", row.topic, "partitions", row.partition, "replicas", broker), *names),
        cluster_id=links.cluster_id,
        topic_name=row.topic,
        partition_id=row.partition,
        broker_id=broker,
        is_leader=broker == row.leader,
        is_in_sync=broker in row.isr,
        broker=links.relationship("brokers", broker),
    )


async def partition_of(call: Call[NoBody]) -> Partition:
    """Return the partition that the path names. Raises KafkaError, BadInput, HttpError."""
    index = PARTITION_ID.of(call)
    for row in (await Topics(call.cluster).get(TOPIC_NAME.of(call))).partitions:
        if row.partition == index:
            return row
    raise not_found()


async def list_kafka_partitions(call: Call[NoBody]) -> PartitionDataList:
    """List a topic's partitions."""
    links = await links_of(call)
    topic = await Topics(call.cluster).get(TOPIC_NAME.of(call))
    return PartitionDataList(
        metadata=links.collection("topics", topic.name, "partitions"),
        data=[partition_data(links, row) for row in topic.partitions],
    )


async def get_kafka_partition(call: Call[NoBody]) -> PartitionData:
    """Return one partition."""
    links = await links_of(call)
    return partition_data(links, await partition_of(call))


async def list_kafka_partition_offsets(call: Call[NoBody]) -> PartitionWithOffsetsData:
    """Return the first and last offset of a partition."""
    links = await links_of(call)
    wanted = OFFSET_TYPE.of(call)
    if wanted != BOTH:
        raise BadInput("offset_type", f"{wanted} is invalid")
    row = await partition_of(call)
    place = TopicPartition(row.topic, row.partition)
    earliest = await fetch_offsets(call.cluster, [place], OffsetSpec.EARLIEST)
    latest = await fetch_offsets(call.cluster, [place], OffsetSpec.LATEST)
    names = ("topic", row.topic), ("partition", row.partition), ("offset_type", BOTH)
    return PartitionWithOffsetsData(
        metadata=links.metadata(("topics", row.topic, "partitions", row.partition, "offset"), *names),
        cluster_id=links.cluster_id,
        topic_name=row.topic,
        partition_id=row.partition,
        earliest_offset=earliest[place],
        latest_offset=latest[place],
    )


async def list_kafka_replicas(call: Call[NoBody]) -> ReplicaDataList:
    """List a partition's replicas, the preferred leader first."""
    links = await links_of(call)
    row = await partition_of(call)
    return ReplicaDataList(
        metadata=links.collection("topics", row.topic, "partitions", row.partition, "replicas"),
        data=[replica_data(links, row, broker) for broker in row.replicas],
    )


async def get_kafka_replica(call: Call[NoBody]) -> ReplicaData:
    """Return a partition's replica on one broker."""
    links = await links_of(call)
    broker = BROKER_ID.of(call)
    row = await partition_of(call)
    if broker not in row.replicas:
        raise not_found()
    return replica_data(links, row, broker)


OPERATIONS = [
    get_operation(f"{TOPIC}/partitions", "List a topic's partitions", list_kafka_partitions, PartitionDataList),
    get_operation(PARTITION, "Get a partition", get_kafka_partition, PartitionData),
    get_operation(
        f"{PARTITION}/offset",
        "Get a partition's first and last offset",
        list_kafka_partition_offsets,
        PartitionWithOffsetsData,
        parameters=(OFFSET_TYPE,),
    ),
    get_operation(f"{PARTITION}/replicas", "List a partition's replicas", list_kafka_replicas, ReplicaDataList),
    get_operation(f"{PARTITION}/replicas/{{broker_id}}", "Get a replica", get_kafka_replica, ReplicaData),
]
