"""Partitions, their replicas and the log directories of brokers over HTTP."""

import asyncio
from contextlib import suppress
from dataclasses import replace

from pydantic import BaseModel

from kvorum.admin.http.commands import Command
from kvorum.admin.http.operations import Call, NoBody, NotInBody, Operation, Role, Rows
from kvorum.admin.http.paging import behind, next_query
from kvorum.admin.http.parameters import (
    BROKER_ID,
    INT64_MAX,
    PARTITION_INDEX,
    ROWS,
    TOPIC_NAME,
    BadInput,
    number_of,
    optional_number,
    optional_text,
)
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
from kvorum.admin.v1.topics.topic_routes import partition_row
from kvorum.client.partitions import delete_records as deleted_records
from kvorum.client.partitions.log_dirs import log_dirs_at
from kvorum.client.partitions.offsets import topic_offsets
from kvorum.client.partitions.topic_partitions import topic_partitions
from kvorum.client.values import log_dir
from kvorum.client.wire.cluster_client import LATEST, ClusterClient, IsolationLevel, Unreachable
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.describe_log_dirs import DescribableLogDirTopic
from kvorum.protocol.messages.metadata import MetadataResponseTopic
from kvorum.protocol.topic_partition import TopicPartition

AFTER = optional_number("after", "start after this partition", 0, INT32_MAX)
TOPIC = optional_text("topic", "only replicas of this topic")
LOG_DIR = optional_text("log_dir", "only this directory")
AFTER_REPLICA = optional_text("after", "with log_dir: the `next` of the previous page")


async def get_partition(call: Call[NoBody]) -> PartitionDetail:
    """Describe a partition: leader, epoch, ISR, ELR, offsets, and each replica with its size and lag."""
    topic = await call.cluster.topic(TOPIC_NAME.of(call))
    index = PARTITION_INDEX.of(call)
    topic.partitions = [row for row in topic.partitions if row.partition_index == index]
    if not topic.partitions:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic.name}-{index}")
    (found,) = await topic_partitions(call.cluster, topic)
    stable = await topic_offsets(call.cluster, topic, LATEST, IsolationLevel.READ_COMMITTED)
    return PartitionDetail(
        **partition_row(found).model_dump(),
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
        directories: list[log_dir.LogDir] = []
        if broker in brokers:
            with suppress(Unreachable):  # the rest is returned nevertheless
                directories = await log_dirs_at(cluster, broker, brokers[broker], wanted, timeout_ms=cluster.part_ms)
        path, found = next(
            ((each.path, replica) for each in directories for replica in each.replicas if not replica.is_future),
            (None, None),
        )
        return Replica(
            broker=broker,
            leader=broker == row.leader_id,
            in_sync=broker in row.isr_nodes,
            offline=broker in row.offline_replicas,
            log_dir=path,
            size_bytes=None if found is None else found.size_bytes,
            offset_lag=None if found is None else found.offset_lag,
        )

    return list(await asyncio.gather(*(of(broker) for broker in row.replica_nodes)))


async def list_partitions(call: Call[NoBody]) -> Rows:
    """List a topic's partitions, in pages."""
    limit, after = ROWS.of(call), AFTER.of(call)
    topic = await call.cluster.topic(TOPIC_NAME.of(call))
    rows = sorted(topic.partitions, key=lambda row: row.partition_index)
    page, more = behind(rows, lambda row: row.partition_index, after, limit)
    found: list[BaseModel] = [
        partition_row(each) for each in await topic_partitions(call.cluster, replace(topic, partitions=page))
    ]
    return Rows(rows=found, next_query=next_query(call, str(page[-1].partition_index)) if more else None)


async def list_log_dirs(call: Call[NoBody]) -> list[BaseModel]:
    """List a broker's log directories with their replicas, the largest first.

    Each directory has a page of replicas and their number; `next` continues in that directory.
    """
    limit, topic, directory = ROWS.of(call), TOPIC.of(call), LOG_DIR.of(call)
    after = replica_after(call)
    if after is not None and directory is None:
        raise BadInput("after", "it belongs to one log directory: give it in log_dir")
    broker = broker_id(call)
    found: list[BaseModel] = []
    for each in await log_dirs_at(call.cluster, broker, await call.cluster.broker_address(broker)):
        if directory not in (None, each.path):
            continue
        rows = [
            DirPartition(
                topic=row.topic,
                partition=row.partition,
                size_bytes=row.size_bytes,
                offset_lag=row.offset_lag,
                future=row.is_future,
            )
            for row in each.replicas
            if topic in (None, row.topic)
        ]
        page, more = behind(sorted(rows, key=replica_key), replica_key, after, limit)
        found.append(
            LogDir(
                log_dir=each.path,
                error=None if each.error is None else each.error.name,
                size_bytes=sum(row.size_bytes for row in rows),
                total_bytes=each.total_bytes,
                usable_bytes=each.usable_bytes,
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
    text = AFTER_REPLICA.of(call)
    if text is None:
        return None
    parts = text.split(":")
    if len(parts) != 4:
        raise BadInput("after", "expected `next` of the previous page")
    size, partition = (number_of("after", parts[0], 0, INT64_MAX), number_of("after", parts[2], 0, INT32_MAX))
    return -size, parts[1], partition, parts[3] == "1"


async def delete_records(call: Call[DeleteBefore]) -> list[BaseModel]:
    """Delete records before an offset, in each named partition. This cannot be undone."""
    topic = await call.cluster.topic(TOPIC_NAME.of(call))
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
        parameters=(TOPIC_NAME, AFTER, ROWS),
        command=Command(
            name="partitions list",
            examples=("orders",),
            columns=("partition", "leader", "leader_epoch", "replicas", "isr", "earliest_offset", "latest_offset"),
        ),
    ),
    Operation.get(
        "/v1/topics/{topic}/partitions/{partition}",
        "Describe a partition",
        get_partition,
        PartitionDetail,
        parameters=(TOPIC_NAME, PARTITION_INDEX),
        command=Command(name="partitions describe", examples=("orders 0",)),
    ),
    Operation(
        method="POST",
        path="/v1/topics/{topic}/records/delete",
        summary="Delete records before an offset",
        handle=delete_records,
        body=DeleteBefore,
        answer=DeletedBefore,
        many=True,
        role=Role.ADMIN,
        parameters=(TOPIC_NAME,),
        command=Command(
            name="partitions delete-records",
            examples=("orders 0=1200 1=-1",),
            arguments=("topic", "partitions"),
            columns=("partition", "low_watermark", "error"),
        ),
    ),
    Operation.get(
        "/v1/brokers/{broker}/log-dirs",
        "List a broker's log directories",
        list_log_dirs,
        LogDir,
        many=True,
        parameters=(BROKER_ID, TOPIC, LOG_DIR, AFTER_REPLICA, ROWS),
        command=Command(
            name="log-dirs list",
            examples=("1", "1 --topic orders -o json"),
            text="List the log directories of a broker with their replicas, the largest first.",
        ),
    ),
]
