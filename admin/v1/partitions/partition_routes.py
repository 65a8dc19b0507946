"""Partitions, their replicas and the log directories of brokers over HTTP."""

import asyncio
from dataclasses import replace

from pydantic import BaseModel

from kvorum.admin.http.operations import INT64_MAX, BadInput, Call, NoBody, NotInBody, Operation, Role, Rows, number_of
from kvorum.admin.http.paging import ROWS, behind, following
from kvorum.admin.v1.cluster.cluster_routes import broker_id
from kvorum.admin.v1.models import INT32_MAX, Partition
from kvorum.admin.v1.partitions.partition_models import (
    DeleteBefore,
    DeletedBefore,
    DirPartition,
    LogDir,
    PartitionDetail,
    Replica,
)
from kvorum.admin.v1.topics.topic_routes import partitions_with_offsets
from kvorum.client.partitions import delete_records as deleted_records
from kvorum.client.partitions.log_dirs import log_dirs_at
from kvorum.client.partitions.offsets import topic_offsets
from kvorum.client.wire.cluster_client import LATEST, READ_COMMITTED, ClusterClient, Unreachable, code_of
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.describe_log_dirs import DescribableLogDirTopic
from kvorum.protocol.messages.metadata import MetadataResponseTopic
from kvorum.protocol.topic_partition import TopicPartition


async def get_partition(call: Call[NoBody]) -> PartitionDetail:
    """Describe a partition: leader, epoch, ISR, ELR, offsets, and each replica with its size and lag."""
    topic = await call.cluster.topic(call.path["topic"])
    index = number_of("partition", call.path["partition"], 0, INT32_MAX)
    topic.partitions = [row for row in topic.partitions if row.partition_index == index]
    if not topic.partitions:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic.name}-{index}")
    (found,) = await partitions_with_offsets(call, topic)
    stable = await topic_offsets(call.cluster, topic, LATEST, READ_COMMITTED)
    return PartitionDetail(
        **found.model_dump(),
        topic=topic.name or "",
        last_stable_offset=stable[index],
        details=await replicas_of(call.cluster, topic, index),
    )


async def replicas_of(cluster: ClusterClient, topic: MetadataResponseTopic, index: int) -> list[Replica]:
    """Return the replicas of the topic's one partition in the response, each with its broker's data."""
    row = topic.partitions[0]
    brokers = {each.broker_id: (each.host, each.port) for each in (await cluster.describe_cluster()).brokers}
    wanted = [DescribableLogDirTopic(topic=topic.name or "", partitions=[index])]

    async def of(broker: int) -> Replica:
        place = None
        if broker in brokers:
            try:
                dirs = await log_dirs_at(cluster, brokers[broker], wanted, timeout_ms=cluster.part_ms)
                place = next(
                    ((d, p) for d in dirs for t in d.topics for p in t.partitions if not p.is_future_key), None
                )
            except Unreachable:
                place = None  # the rest is returned nevertheless
        return Replica(
            broker=broker,
            leader=broker == row.leader_id,
            in_sync=broker in row.isr_nodes,
            offline=broker in row.offline_replicas,
            log_dir=None if place is None else place[0].log_dir,
            size_bytes=None if place is None else place[1].partition_size,
            offset_lag=None if place is None else place[1].offset_lag,
        )

    return list(await asyncio.gather(*(of(broker) for broker in row.replica_nodes)))


async def list_partitions(call: Call[NoBody]) -> Rows:
    """List a topic's partitions, in pages."""
    limit, after = ROWS.of(call), call.optional_number("after", 0, INT32_MAX)
    topic = await call.cluster.topic(call.path["topic"])
    rows = sorted(topic.partitions, key=lambda row: row.partition_index)
    page, more = behind(rows, lambda row: row.partition_index, after, limit)
    found = list[BaseModel](await partitions_with_offsets(call, replace(topic, partitions=page)))
    return Rows(rows=found, following=following(call, str(page[-1].partition_index)) if more else None)


async def list_log_dirs(call: Call[NoBody]) -> list[BaseModel]:
    """List a broker's log directories with their replicas, the largest first.

    Each directory has a page of replicas and their number; `next` continues in that directory.
    """
    limit, topic, directory = ROWS.of(call), call.query.get("topic"), call.query.get("log_dir")
    after = replica_after(call)
    if after is not None and directory is None:
        raise BadInput("after", "it belongs to one log directory: give it in log_dir")
    address = await call.cluster.broker_address(broker_id(call))
    found: list[BaseModel] = []
    for each in await log_dirs_at(call.cluster, address):
        if directory not in (None, each.log_dir):
            continue
        rows = [
            DirPartition(
                topic=found_topic.name,
                partition=row.partition_index,
                size_bytes=row.partition_size,
                offset_lag=row.offset_lag,
                future=row.is_future_key,
            )
            for found_topic in each.topics
            for row in found_topic.partitions
            if topic in (None, found_topic.name)
        ]
        page, more = behind(sorted(rows, key=replica_key), replica_key, after, limit)
        found.append(
            LogDir(
                log_dir=each.log_dir,
                error=code_of(each.error_code).name if each.error_code else None,
                size_bytes=sum(row.size_bytes for row in rows),
                total_bytes=each.total_bytes if each.total_bytes >= 0 else None,
                usable_bytes=each.usable_bytes if each.usable_bytes >= 0 else None,
                replicas=len(rows),
                partitions=page,
                next=replica_text(page[-1]) if more else None,
            )
        )
    return found


def replica_key(row: DirPartition) -> tuple[int, str, int, bool]:
    """Return where a replica is in the order: the largest first."""
    return -row.size_bytes, row.topic, row.partition, row.future


def replica_text(row: DirPartition) -> str:
    """Return what `replica_after` reads."""
    return f"{row.size_bytes}:{row.topic}:{row.partition}:{int(row.future)}"


def replica_after(call: Call[NoBody]) -> tuple[int, str, int, bool] | None:
    """Return the key that the page begins behind, None from the first on. Raises BadInput."""
    if "after" not in call.query:
        return None
    parts = call.query["after"].split(":")
    if len(parts) != 4:
        raise BadInput("after", "expected `next` of the previous page")
    size, partition = (number_of("after", parts[0], 0, INT64_MAX), number_of("after", parts[2], 0, INT32_MAX))
    return -size, parts[1], partition, parts[3] == "1"


async def delete_records(call: Call[DeleteBefore]) -> list[BaseModel]:
    """Delete records before an offset, in each named partition. This cannot be undone."""
    topic = await call.cluster.topic(call.path["topic"])
    known = {row.partition_index for row in topic.partitions}
    for partition in call.body.partitions:
        if partition not in known:
            raise NotInBody("partitions", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic.name}-{partition}")
    wanted = {TopicPartition(topic.name or "", partition): offset for partition, offset in call.body.partitions.items()}
    return [
        DeletedBefore(
            partition=place.partition,
            low_watermark=None if each.error else each.low_watermark,
            error=each.error.name if each.error else None,
        )
        for place, each in sorted((await deleted_records.delete_records(call.cluster, wanted)).items())
    ]


OPERATIONS = [
    Operation.get(
        "/v1/topics/{topic}/partitions",
        "List a topic's partitions",
        list_partitions,
        Partition,
        many=True,
        query={"after": "start after this partition", **ROWS.documentation},
    ),
    Operation.get("/v1/topics/{topic}/partitions/{partition}", "Describe a partition", get_partition, PartitionDetail),
    Operation(
        method="POST",
        path="/v1/topics/{topic}/records/delete",
        summary="Delete records before an offset",
        handle=delete_records,
        body=DeleteBefore,
        answer=DeletedBefore,
        many=True,
        role=Role.ADMIN,
    ),
    Operation.get(
        "/v1/brokers/{broker}/log-dirs",
        "List a broker's log directories",
        list_log_dirs,
        LogDir,
        many=True,
        query={
            "topic": "only replicas of this topic",
            "log_dir": "only this directory",
            "after": "with log_dir: the `next` of the previous page",
            **ROWS.documentation,
        },
    ),
]
