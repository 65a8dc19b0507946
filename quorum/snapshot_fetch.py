"""Client side of FetchSnapshot: piece by piece into a file, until the announced size is reached (KIP-630)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RequestPartitionSnapshot,
    RequestSnapshotId,
    RequestTopicSnapshot,
    ResponsePartitionSnapshot,
)
from kvorum.protocol.schema import Message
from kvorum.quorum.batches import METADATA_PARTITION, METADATA_TOPIC
from kvorum.quorum.raft.log import SnapshotId
from kvorum.quorum.snapshots import PartialSnapshot
from kvorum.runtime import blocking
from kvorum.runtime.config import Settings

SNAPSHOT_BYTES_MAX: Final = 4 * 1024**3
"""A metadata snapshot of millions of partitions is smaller; a larger size is invalid."""

Send = Callable[[Message, int], Awaitable[Message]]
"""Sends a request with a timeout in ms to the leader that named the snapshot."""


async def fetch_snapshot(
    send: Send,
    part: PartialSnapshot,
    snapshot_id: SnapshotId,
    *,
    settings: Settings,
    cluster_id: str,
    node_id: int,
    leader_epoch: int,
) -> None:
    """Fill `part` with a snapshot.

    Raises ChannelError, and KafkaError: SNAPSHOT_NOT_FOUND (a newer one took its place: fetch again), others as the
    controller answers. The received part is useless then.
    """
    loop = asyncio.get_running_loop()
    timeout_ms = settings.int("controller.quorum.fetch.timeout.ms")
    while True:
        request = _request(snapshot_id, part.size, settings, cluster_id, node_id, leader_epoch)
        answer = await send(request, timeout_ms)
        assert isinstance(answer, FetchSnapshotResponse)
        row = _row(answer, snapshot_id, part.size)
        data = memoryview(b"" if row.unaligned_records is None else _bytes(row.unaligned_records))
        if part.size + len(data) > row.size or (not data and part.size < row.size):
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{len(data)} bytes at {part.size} of {row.size}")
        await blocking.run(loop, part.append, data)
        if part.size == row.size:
            return


def _request(
    snapshot_id: SnapshotId, position: int, settings: Settings, cluster_id: str, node_id: int, leader_epoch: int
) -> FetchSnapshotRequest:
    partition = RequestPartitionSnapshot(
        partition=METADATA_PARTITION,
        current_leader_epoch=leader_epoch,
        snapshot_id=RequestSnapshotId(end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch),
        position=position,
    )
    return FetchSnapshotRequest(
        cluster_id=cluster_id,
        replica_id=node_id,
        max_bytes=settings.int("controller.quorum.fetch.snapshot.max.bytes"),
        topics=[RequestTopicSnapshot(name=METADATA_TOPIC, partitions=[partition])],
    )


def _row(answer: FetchSnapshotResponse, snapshot_id: SnapshotId, position: int) -> ResponsePartitionSnapshot:
    """Return the answer's one row, checked. Raises KafkaError."""
    if answer.error_code != ErrorCode.NONE:
        raise KafkaError(ErrorCode(answer.error_code), "the snapshot fetch was rejected")
    if len(answer.topics) != 1 or len(answer.topics[0].partitions) != 1:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the response to a snapshot fetch must have one partition")
    row = answer.topics[0].partitions[0]
    if row.error_code != ErrorCode.NONE:
        raise KafkaError(ErrorCode(row.error_code), "the snapshot fetch was rejected")
    requested = (snapshot_id.end_offset, snapshot_id.epoch, position)
    got = (row.snapshot_id.end_offset, row.snapshot_id.epoch, row.position)
    if got != requested or not 0 < row.size <= SNAPSHOT_BYTES_MAX:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"requested {requested}, got {got} of {row.size} bytes")
    return row


def _bytes(records: object) -> memoryview:
    assert isinstance(records, bytes | bytearray | memoryview), "a decoded answer holds its records in one piece"
    return memoryview(records)
