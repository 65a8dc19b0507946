"""Writes records from HTTP to partition leaders: encoding, partitioning, batches, and results.

Each partition's records go in one batch, once. Records without acknowledgement are reported and not retried: a
repetition may write them twice, as there is no producer id.
"""

import asyncio
import base64
import binascii
import json
from collections.abc import Sequence
from random import Random
from typing import Any, Final

from kvorum.admin.http.operations import BadInput
from kvorum.admin.v1.records.message_models import NewHeader, NewRecord, ProduceBody, Written
from kvorum.client.records import serdes
from kvorum.client.records.partitioner import partition_of
from kvorum.client.wire.cluster_client import ClusterClient, Unreachable, code_of
from kvorum.protocol.compression import Codec
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.metadata import MetadataResponseTopic
from kvorum.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kvorum.protocol.records import Record, build_batch

ALL: Final = -1
UNREACHABLE: Final = "CLUSTER_UNREACHABLE"


def bytes_of(value: Any, form: str | None, field: str) -> bytes | None:
    """Return the bytes to write for a value of JSON. Raises BadInput naming the field."""
    if value is None:
        return None
    if form == "json" or (form is None and not isinstance(value, str)):
        return as_json(value, field)
    if form in serdes.TYPES:
        return typed(form, value, field)
    if not isinstance(value, str):
        raise BadInput(field, f"a value in {form} must be a string")
    try:
        if form == "hex":
            return bytes.fromhex(value)
        if form == "base64":
            return base64.b64decode(value, validate=True)
        return value.encode()
    except (ValueError, binascii.Error) as error:
        raise BadInput(field, f"not a {form or 'string'}: {error}") from error


def typed(form: str, value: Any, field: str) -> bytes:
    """Return a number or a UUID as Kafka's serializers write it. Raises BadInput for invalid ones."""
    try:
        return serdes.write(form, value)
    except ValueError as error:
        raise BadInput(field, str(error)) from error


def as_json(value: Any, field: str) -> bytes:
    """Return a value as JSON. Raises BadInput for a number that JSON has not."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except ValueError as error:
        raise BadInput(field, f"not JSON: {error}") from error


def header_of(header: NewHeader, field: str) -> tuple[str, bytes | None]:
    """Return a header as records have it. Raises BadInput."""
    try:
        header.key.encode()
    except UnicodeEncodeError as error:
        raise BadInput(f"{field}.key", f"not a string: {error}") from error
    return header.key, bytes_of(header.value, header.format, f"{field}.value")


def record_of(new: NewRecord, field: str, now_ms: int) -> Record:
    """Return a record as batches have it. Raises BadInput."""
    return Record(
        key=bytes_of(new.key, new.key_format, f"{field}.key"),
        value=bytes_of(new.value, new.value_format, f"{field}.value"),
        timestamp=now_ms if new.timestamp_ms is None else new.timestamp_ms,
        headers=tuple(header_of(each, f"{field}.headers.{index}") for index, each in enumerate(new.headers)),
    )


def placed(body: ProduceBody, count: int, now_ms: int, chance: Random) -> list[tuple[int, Record]]:
    """Return (partition, record) for each; those without key and partition go to one that chance chooses.

    Raises BadInput for a partition that is not among `count`, or bytes that cannot be read.
    """
    anywhere = chance.randrange(count)
    found = []
    for index, new in enumerate(body.records):
        field = f"records.{index}"
        record = record_of(new, field, now_ms)
        if new.partition is not None:
            if new.partition >= count:
                raise BadInput(f"{field}.partition", f"the topic has partitions 0 to {count - 1}")
            partition = new.partition
        else:
            partition = anywhere if record.key is None else partition_of(record.key, count)
        found.append((partition, record))
    return found


async def produce(
    cluster: ClusterClient,
    topic: MetadataResponseTopic,
    rows: Sequence[tuple[int, Record]],
    *,
    acks: int = ALL,
    codec: Codec = Codec.NONE,
) -> list[Written]:
    """Write the records; a row for each, in their order."""
    by_partition: dict[int, list[int]] = {}
    for index, (partition, _) in enumerate(rows):
        by_partition.setdefault(partition, []).append(index)
    leaders = {row.partition_index: row.leader_id for row in topic.partitions}
    brokers = {each.node_id: (each.host, each.port) for each in (await cluster.metadata([])).brokers}

    async def write(partition: int, indexes: Sequence[int]) -> dict[int, Written]:
        records = [rows[index][1] for index in indexes]
        address = brokers.get(leaders.get(partition, -1))
        if address is None:
            text = f"{topic.name}-{partition} has no leader"
            results = [failed(partition, each, ErrorCode.LEADER_NOT_AVAILABLE.name, text) for each in records]
        else:
            data = PartitionProduceData(index=partition, records=build_batch(records, codec=codec))
            wanted = TopicProduceData(name=topic.name or "", topic_id=topic.topic_id, partition_data=[data])
            request = ProduceRequest(acks=acks, timeout=cluster.wait_ms, topic_data=[wanted])
            try:
                answer = await cluster.ask(request, ProduceResponse, address)
                results = outcome(partition, records, answer.responses[0].partition_responses[0])
            except Unreachable as error:
                results = [failed(partition, each, UNREACHABLE, str(error)) for each in records]
        return dict(zip(indexes, results, strict=True))

    # All at once: one that waits for its followers is no reason for the others to wait.
    parts = await asyncio.gather(*(write(*each) for each in by_partition.items()))
    written = {index: row for part in parts for index, row in part.items()}
    return [written[index] for index in range(len(rows))]


def failed(partition: int, record: Record, error: str, message: str | None) -> Written:
    """Return the row of a record that was not acknowledged."""
    return Written(partition=partition, offset=None, timestamp_ms=record.timestamp, error=error, message=message)


def outcome(partition: int, records: Sequence[Record], row: PartitionProduceResponse) -> list[Written]:
    """Return the rows of one batch: all written, or none and for some of them why (KIP-467)."""
    if row.error_code == ErrorCode.NONE:
        return [
            Written(
                partition=partition,
                offset=row.base_offset + index,
                timestamp_ms=record.timestamp if row.log_append_time < 0 else row.log_append_time,
                error=None,
                message=None,
            )
            for index, record in enumerate(records)
        ]
    reasons = {each.batch_index: each.batch_index_error_message for each in row.record_errors}
    name = code_of(row.error_code).name
    return [
        failed(partition, each, name, reasons.get(index) or row.error_message) for index, each in enumerate(records)
    ]
