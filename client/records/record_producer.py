"""Writes records to partition leaders: batches and results.

Each partition's records go in one batch, once. Records without acknowledgement are reported and not retried: a
repetition may write them twice, as there is no producer id.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from kvorum.client.values.record import RecordMetadata
from kvorum.client.wire.cluster_client import ClusterClient, Unreachable, code_of
from kvorum.protocol.compression import Codec
from kvorum.protocol.errors import ErrorCode, KafkaError, KafkaException
from kvorum.protocol.messages.metadata import MetadataResponseTopic
from kvorum.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kvorum.protocol.records import Record, build_batch
from kvorum.protocol.topic_partition import TopicPartition

ALL: Final = -1
"""acks=all: the leader responds after all in-sync replicas have the records."""


async def produce(
    client: ClusterClient,
    topic: MetadataResponseTopic,
    rows: Sequence[tuple[int, Record]],
    *,
    acks: int = ALL,
    codec: Codec = Codec.NONE,
) -> list[RecordMetadata]:
    """Write (partition, record) rows; returns a result for each, in their order."""
    by_partition: dict[int, list[int]] = {}
    for index, (partition, _) in enumerate(rows):
        by_partition.setdefault(partition, []).append(index)
    leaders = {row.partition_index: row.leader_id for row in topic.partitions}
    brokers = {each.node_id: (each.host, each.port) for each in (await client.metadata([])).brokers}

    async def write(number: int, indexes: Sequence[int]) -> dict[int, RecordMetadata]:
        records = [rows[index][1] for index in indexes]
        partition = TopicPartition(topic.name or "", number)
        address = brokers.get(leaders.get(number, -1))
        if address is None:
            error = KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader")
            results = [failure(partition, each, error) for each in records]
        else:
            data = PartitionProduceData(index=number, records=build_batch(records, codec=codec))
            wanted = TopicProduceData(name=partition.topic, topic_id=topic.topic_id, partition_data=[data])
            request = ProduceRequest(acks=acks, timeout=client.wait_ms, topic_data=[wanted])
            try:
                answer = await client.ask(request, ProduceResponse, address)
                results = batch_results(partition, records, answer.responses[0].partition_responses[0])
            except Unreachable as error:
                results = [failure(partition, each, error) for each in records]
        return dict(zip(indexes, results, strict=True))

    # All at once: one that waits for its followers is no reason for the others to wait.
    parts = await asyncio.gather(*(write(*each) for each in by_partition.items()))
    written = {index: row for part in parts for index, row in part.items()}
    return [written[index] for index in range(len(rows))]


def failure(partition: TopicPartition, record: Record, error: KafkaException) -> RecordMetadata:
    """Return the result of a record that was not acknowledged."""
    return RecordMetadata(
        topic=partition.topic,
        partition=partition.partition,
        offset=None,
        timestamp_ms=record.timestamp,
        error=error,
    )


def batch_results(
    partition: TopicPartition, records: Sequence[Record], row: PartitionProduceResponse
) -> list[RecordMetadata]:
    """Return the results of one batch: all written, or none, with the reasons of some of them (KIP-467)."""
    if row.error_code == ErrorCode.NONE:
        return [
            RecordMetadata(
                topic=partition.topic,
                partition=partition.partition,
                offset=row.base_offset + index,
                timestamp_ms=record.timestamp if row.log_append_time < 0 else row.log_append_time,
            )
            for index, record in enumerate(records)
        ]
    reasons = {each.batch_index: each.batch_index_error_message for each in row.record_errors}
    code = code_of(row.error_code)
    return [
        failure(partition, each, KafkaError(code, reasons.get(index) or row.error_message or ""))
        for index, each in enumerate(records)
    ]
