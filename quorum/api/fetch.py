"""Fetch (1): v4-v18, of the metadata log (`__cluster_metadata-0`) only, from the active controller only (KIP-595).

v12: flexible, last fetched epoch, diverging epoch, snapshot id. v13: topic ids. v15: replica state. v16: endpoints.
v17: directory id. v18: the follower's high watermark, not needed here: only committed batches are served, so a copy is
never truncated. Nothing is served before the term's first entry is applied, nor when a majority is unreachable.
Sessions are not kept: every fetch is a full one. Order: authorise, cluster id, the one partition, epoch, leadership,
position in the log (snapshot, diverging epoch), wait for a commit, respond.
"""

import asyncio
from typing import Final

from kvorum.network.authorizer import Operation
from kvorum.network.context import RequestContext
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    SnapshotId,
)
from kvorum.protocol.uuids import METADATA_TOPIC_ID
from kvorum.quorum.batches import METADATA_PARTITION, METADATA_TOPIC
from kvorum.quorum.services import ControllerServices

WAIT_MS_MAX: Final = 30_000
"""However long a client would wait: a fetch holds a place in its connection's queue."""
FETCH_BYTES_MAX: Final = 8 * 1024 * 1024
"""One answer; a batch is at most so large, so there is always room for one."""
TOPIC_IDS_VERSION: Final = 13
FIRST_SHORT_VERSION: Final = 12
"""First version with the last fetched epoch."""


async def handle(ctx: RequestContext, request: FetchRequest, services: ControllerServices) -> FetchResponse:
    """Return committed batches after the fetch offset, as soon as there are any."""
    services.authorize_cluster(ctx, Operation.CLUSTER_ACTION)
    if request.cluster_id is not None and request.cluster_id != services.cluster_id:
        return FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    requested = _only_partition(ctx, request)
    replica_id = request.replica_state.replica_id if request.replica_state.replica_id >= 0 else request.replica_id
    if replica_id >= 0:
        services.fencing.connections.note(ctx.connection_id, replica_id)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + min(max(request.max_wait, 0), WAIT_MS_MAX) / 1000
    while True:
        error = refusal(services, requested.current_leader_epoch)
        if error is not ErrorCode.NONE:
            return _answer(ctx, services, PartitionData(error_code=error, high_watermark=-1))
        found = _look(ctx, services, request, requested)
        if replica_id >= 0:
            _note_observer(services, replica_id, requested)
        if found is not None:
            return _answer(ctx, services, found)
        left = deadline - loop.time()
        if left <= 0 or request.min_bytes <= 0:
            return _answer(ctx, services, _nothing(services))
        changed = services.store.changed()
        try:
            await asyncio.wait((changed,), timeout=left)
        finally:
            changed.cancel()


def _only_partition(ctx: RequestContext, request: FetchRequest) -> FetchPartition:
    """Return the request's one partition. Raises KafkaError INVALID_REQUEST for any other."""
    topic = request.topics[0] if len(request.topics) == 1 else None
    if topic is None or len(topic.partitions) != 1 or topic.partitions[0].partition != METADATA_PARTITION:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a controller serves the metadata partition only")
    known = (
        topic.topic_id == METADATA_TOPIC_ID if ctx.api_version >= TOPIC_IDS_VERSION else (topic.topic == METADATA_TOPIC)
    )
    if not known:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a controller serves the metadata partition only")
    return topic.partitions[0]


def refusal(services: ControllerServices, epoch: int) -> ErrorCode:
    """Return the error of a request that is not served (validateLeaderOnlyRequest); an epoch of -1 is not checked."""
    leader_id, current = services.leader_and_epoch()
    if 0 <= epoch < current:
        return ErrorCode.FENCED_LEADER_EPOCH
    if epoch > current:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    if leader_id != services.node_id or not services.is_serving():
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.NONE


def _look(
    ctx: RequestContext, services: ControllerServices, request: FetchRequest, requested: FetchPartition
) -> PartitionData | None:
    """Return the present answer for this offset, None to wait."""
    store = services.store
    if requested.fetch_offset < store.log_start_offset:
        return _below_start(ctx, services)
    if ctx.api_version >= FIRST_SHORT_VERSION and requested.last_fetched_epoch >= 0:
        epoch, end_offset = store.end_offset_for_epoch(requested.last_fetched_epoch)
        at_snapshot = requested.fetch_offset == store.log_start_offset
        if not at_snapshot and (epoch != requested.last_fetched_epoch or end_offset < requested.fetch_offset):
            data = _nothing(services)
            data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=max(end_offset, store.log_start_offset))
            return data
    if requested.fetch_offset > store.end_offset:
        return PartitionData(error_code=ErrorCode.OFFSET_OUT_OF_RANGE, high_watermark=-1)
    if requested.fetch_offset == store.end_offset:
        return None
    bytes_max = min(request.max_bytes, requested.partition_max_bytes or request.max_bytes, FETCH_BYTES_MAX)
    data = _nothing(services)
    data.records = store.read(requested.fetch_offset, bytes_max).parts
    return data


def _below_start(ctx: RequestContext, services: ControllerServices) -> PartitionData:
    """Return the id of the snapshot that replaces the trimmed part of the log."""
    snapshot = services.metadata_log.latest_snapshot()
    if snapshot is None or ctx.api_version < FIRST_SHORT_VERSION:
        return PartitionData(error_code=ErrorCode.OFFSET_OUT_OF_RANGE, high_watermark=-1)
    try:
        data = _nothing(services)
        snapshot_id = snapshot.snapshot_id
        data.snapshot_id = SnapshotId(end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch)
        return data
    finally:
        snapshot.close()


def _nothing(services: ControllerServices) -> PartitionData:
    """Return a row without records."""
    store = services.store
    return PartitionData(
        high_watermark=store.end_offset,
        last_stable_offset=store.end_offset,
        log_start_offset=store.log_start_offset,
        records=b"",
    )


def _note_observer(services: ControllerServices, replica_id: int, requested: FetchPartition) -> None:
    services.observers.note(
        replica_id,
        requested.replica_directory_id,
        requested.fetch_offset,
        services.store.end_offset,
        services.clock.wall_ms(),
    )


def _answer(ctx: RequestContext, services: ControllerServices, data: PartitionData) -> FetchResponse:
    leader_id, epoch = services.leader_and_epoch()
    data.partition_index = METADATA_PARTITION
    data.current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=epoch)
    leader = services.voter_addresses(ctx.listener).get(leader_id)
    topic_id = METADATA_TOPIC_ID
    return FetchResponse(
        responses=[FetchableTopicResponse(topic=METADATA_TOPIC, topic_id=topic_id, partitions=[data])],
        node_endpoints=[] if leader is None else [NodeEndpoint(node_id=leader_id, host=leader[0], port=leader[1])],
    )
