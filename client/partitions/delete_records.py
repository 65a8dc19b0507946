"""Deletes the records of partitions below an offset, on their leaders.

Source: Kafka's Admin.deleteRecords (DeleteRecordsHandler).
"""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from kvorum.client.partitions.offsets import leaders_of
from kvorum.client.wire.cluster_client import ClusterClient, Unreachable, code_of
from kvorum.network.addresses import Address
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from kvorum.protocol.topic_partition import TopicPartition, by_topic

HIGH_WATERMARK = -1
"""As an offset: all that is committed."""


class DeletionResult(NamedTuple):
    """Result for a partition: its new start, or the error."""

    low_watermark: int = -1
    error: ErrorCode = ErrorCode.NONE


async def delete_records(
    cluster: ClusterClient, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, DeletionResult]:
    """Delete the records below each offset; return the result per partition. Raises Unreachable.

    Not retried: the errors are in the answer, and a repetition is harmless.
    """
    leaders = await leaders_of(cluster, sorted({place.topic for place in offsets}))
    found: dict[TopicPartition, DeletionResult] = {}
    groups: dict[Address, list[TopicPartition]] = {}
    for place in offsets:
        address = leaders.addresses.get(leaders.of.get(place, -1))
        if place not in leaders.of:
            found[place] = DeletionResult(error=leaders.errors.get(place.topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        elif address is None:
            found[place] = DeletionResult(error=ErrorCode.LEADER_NOT_AVAILABLE)
        else:
            groups.setdefault(address, []).append(place)
    answers = await asyncio.gather(
        *(_of_leader(cluster, address, {place: offsets[place] for place in led}) for address, led in groups.items())
    )
    for answer in answers:
        found |= answer
    return {place: found[place] for place in offsets}


async def _of_leader(
    cluster: ClusterClient, address: Address, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, DeletionResult]:
    topics = [
        DeleteRecordsTopic(
            name=name,
            partitions=[
                DeleteRecordsPartition(partition_index=i, offset=offsets[TopicPartition(name, i)]) for i in indexes
            ],
        )
        for name, indexes in by_topic(offsets).items()
    ]
    try:
        answer = await cluster.ask(
            DeleteRecordsRequest(topics=topics, timeout=cluster.wait_ms), DeleteRecordsResponse, address
        )
    except Unreachable:
        return dict.fromkeys(offsets, DeletionResult(error=ErrorCode.LEADER_NOT_AVAILABLE))
    return {
        TopicPartition(topic.name, row.partition_index): DeletionResult(row.low_watermark, code_of(row.error_code))
        for topic in answer.topics
        for row in topic.partitions
    }
