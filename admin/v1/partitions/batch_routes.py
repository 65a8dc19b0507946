"""A partition's log as its batches: the output of `kvorum dump-log` over the wire.

Fetch returns batches as they are in the leader's segments, without the segments' boundaries.
"""

import asyncio
from struct import error as StructError

from pydantic import BaseModel, Field

from kvorum.admin.http.operations import Call, NoBody, Operation
from kvorum.admin.http.parameters import INT64_MAX, PARTITION_INDEX, TOPIC_NAME, count, optional_number
from kvorum.client.partitions.offsets import topic_offsets
from kvorum.client.records.record_reader import request_of
from kvorum.client.values.offset import OffsetSpec
from kvorum.client.wire.cluster_client import refuse
from kvorum.protocol.batch_header import BatchHeader
from kvorum.protocol.control import CONTROL_KEY, MARKER_VALUE, ControlType
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.fetch import FetchResponse, PartitionData
from kvorum.protocol.messages.metadata import MetadataResponseTopic
from kvorum.protocol.records import batches, codec_of, crc_of, decode_records
from kvorum.runtime import blocking

BATCHES = count("batches", default=100, most=1_000)
BYTES_MAX = 16 * 1024 * 1024
"""Limit of one answer; above it `next` has the next position."""


OFFSET = optional_number("offset", "offset in the first batch (default: the log start)", 0, INT64_MAX)


class Batch(BaseModel):
    """Header of a record batch. Kafka's -1 for none is null."""

    base_offset: int
    last_offset: int
    records: int = Field(description="Present number of records; compaction removes records")
    leader_epoch: int
    producer_id: int | None
    producer_epoch: int | None
    base_sequence: int | None
    last_sequence: int | None
    transactional: bool
    control: str | None = Field(description="Type of a control batch", examples=["COMMIT", "ABORT"])
    coordinator_epoch: int | None = Field(description="Coordinator epoch of a transaction marker")
    delete_horizon_ms: int | None = Field(description="Time from which compaction may remove the batch's tombstones")
    timestamp_type: str = Field(examples=["CreateTime", "LogAppendTime"])
    max_timestamp_ms: int
    compression: str = Field(examples=["none", "zstd"])
    size_bytes: int
    crc: int
    valid: bool = Field(description="Whether the CRC is correct")


class BatchPage(BaseModel):
    """A page of the batches in a partition leader's log."""

    topic: str
    partition: int
    log_start_offset: int
    high_watermark: int
    last_stable_offset: int
    batches: list[Batch]
    next: int | None = Field(description="The `offset` of the next page; null at the end")


async def list_batches(call: Call[NoBody]) -> BatchPage:
    """List the batches of a partition from the one that contains an offset; by default from the first."""
    limit = BATCHES.of(call)
    topic = await call.cluster.topic(TOPIC_NAME.of(call))
    index = PARTITION_INDEX.of(call)
    topic.partitions = [row for row in topic.partitions if row.partition_index == index]
    if not topic.partitions:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic.name}-{index}")
    offset = OFFSET.of(call)
    if offset is None:
        offset = await first_offset(call, topic)
    found: list[Batch] = []
    size = 0
    while True:
        row = await fetch_log(call, topic, offset)
        data = b"" if row.records is None else bytes(memoryview(row.records))  # type: ignore[arg-type]  # decoded: a view
        read = await blocking.run(asyncio.get_running_loop(), batches_of, data)
        found += read
        size += len(data)
        if read:
            offset = read[-1].last_offset + 1
        if not read or len(found) >= limit or size >= BYTES_MAX:
            break
    kept = found[:limit]
    ended = len(kept) == len(found) and offset >= row.high_watermark
    return BatchPage(
        topic=topic.name or "",
        partition=index,
        log_start_offset=row.log_start_offset,
        high_watermark=row.high_watermark,
        last_stable_offset=row.last_stable_offset,
        batches=kept,
        next=None if ended or not kept else kept[-1].last_offset + 1,
    )


async def first_offset(call: Call[NoBody], topic: MetadataResponseTopic) -> int:
    """Return where the log of the one partition begins. Raises KafkaError LEADER_NOT_AVAILABLE."""
    (offset,) = (await topic_offsets(call.cluster, topic, OffsetSpec.EARLIEST)).values()
    if offset is None:
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"the leader of {place(topic)} does not respond")
    return offset


async def fetch_log(call: Call[NoBody], topic: MetadataResponseTopic, offset: int) -> PartitionData:
    """Return the leader's log from the batch that contains an offset. Raises KafkaError, Unreachable."""
    (partition,) = topic.partitions
    brokers = {each.node_id: (each.host, each.port) for each in (await call.cluster.metadata([])).brokers}
    if partition.leader_id not in brokers:
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{place(topic)} has no leader now")
    request = request_of(topic, {partition.partition_index: offset}, 0, 0)
    answer = await call.cluster.ask(request, FetchResponse, brokers[partition.leader_id])
    refuse(answer.error_code, f"fetch of {place(topic)}")
    row = answer.responses[0].partitions[0]
    refuse(row.error_code, f"{place(topic)} at offset {offset}")
    return row


def place(topic: MetadataResponseTopic) -> str:
    """Return the one partition's name."""
    return f"{topic.name}-{topic.partitions[0].partition_index}"


def batches_of(data: bytes) -> list[Batch]:
    """Return each whole batch of a piece of log."""
    with memoryview(data) as view:
        return [batch_row(view, position, header) for position, header in batches(view)]


def batch_row(view: memoryview, position: int, header: BatchHeader) -> Batch:
    """Return a batch for HTTP."""
    valid = crc_of(view, position, header.size) == header.crc
    control, coordinator_epoch = control_of(view, position) if header.is_control and valid else (None, None)
    return Batch(
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        records=header.records_count,
        leader_epoch=header.partition_leader_epoch,
        producer_id=none_if_negative(header.producer_id),
        producer_epoch=none_if_negative(header.producer_epoch),
        base_sequence=none_if_negative(header.base_sequence),
        last_sequence=none_if_negative(header.last_sequence),
        transactional=header.is_transactional,
        control=control,
        coordinator_epoch=coordinator_epoch,
        delete_horizon_ms=header.delete_horizon_ms,
        timestamp_type="LogAppendTime" if header.is_log_append_time else "CreateTime",
        max_timestamp_ms=header.max_timestamp,
        compression=codec_name(header),
        size_bytes=header.size,
        crc=header.crc,
        valid=valid,
    )


def codec_name(header: BatchHeader) -> str:
    """Return the codec name of a batch, also of an unknown codec."""
    try:
        return codec_of(header).name.lower()
    except KafkaError:
        return f"unknown ({header.codec_id})"


def none_if_negative(number: int) -> int | None:
    """Return a number of a header, None for Kafka's -1."""
    return None if number < 0 else number


def control_of(view: memoryview, position: int) -> tuple[str, int | None]:
    """Return the type of a control batch, and of a transaction's marker its coordinator's epoch."""
    try:
        record = decode_records(view, position)[0]
        kind = CONTROL_KEY.unpack_from(record.key or b"")[1]
        if kind in ControlType.__members__.values():
            return ControlType(kind).name, MARKER_VALUE.unpack_from(record.value or b"")[1]
    except (StructError, KafkaError, IndexError):
        return "UNREADABLE", None
    return f"TYPE_{kind}", None


OPERATIONS = [
    Operation.get(
        "/v1/topics/{topic}/partitions/{partition}/batches",
        "List the batches of a partition",
        list_batches,
        BatchPage,
        parameters=(TOPIC_NAME, PARTITION_INDEX, OFFSET, BATCHES),
        large=True,
    )
]
