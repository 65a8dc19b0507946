"""FetchSnapshot (59): v0-v1, of the metadata log, from the active controller only (KIP-630).

v1: directory id, node endpoints. The content is the Raft snapshot's: a checkpoint in Kafka's form. The last requested
snapshot stays open, since each opening verifies the whole file. Order: authorise, cluster id, the one partition, epoch,
leadership, snapshot known, position, read, answer.
"""

import asyncio

from kvorum.network.authorizer import Operation
from kvorum.network.context import RequestContext
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    RequestPartitionSnapshot,
    ResponsePartitionSnapshot,
    ResponseSnapshotId,
    ResponseTopicSnapshot,
)
from kvorum.quorum.api.fetch import FETCH_BYTES_MAX, refusal
from kvorum.quorum.batches import METADATA_PARTITION, METADATA_TOPIC
from kvorum.quorum.raft.log import MetadataLog, SnapshotId, SnapshotView
from kvorum.quorum.services import ControllerServices
from kvorum.runtime import blocking


class OpenSnapshot:
    """The snapshot that followers are reading, if any."""

    __slots__ = ("_log", "_view")

    def __init__(self, metadata_log: MetadataLog) -> None:
        """Start with none open."""
        self._log = metadata_log
        self._view: SnapshotView | None = None

    def get(self, snapshot_id: SnapshotId) -> SnapshotView | None:
        """Return this snapshot, if it is the open one or the newest."""
        if self._view is not None and self._view.snapshot_id == snapshot_id:
            return self._view
        newest = self._log.latest_snapshot()
        if newest is None or newest.snapshot_id != snapshot_id:
            if newest is not None:
                newest.close()
            return None
        self.close()
        self._view = newest
        return newest

    def close(self) -> None:
        """Close the file. Idempotent."""
        view, self._view = self._view, None
        if view is not None:
            view.close()


async def handle(
    ctx: RequestContext, request: FetchSnapshotRequest, services: ControllerServices, opened: OpenSnapshot
) -> FetchSnapshotResponse:
    """Answer with a piece of a snapshot."""
    services.authorize_cluster(ctx, Operation.CLUSTER_ACTION)
    if request.cluster_id is not None and request.cluster_id != services.cluster_id:
        return FetchSnapshotResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    topic = request.topics[0] if len(request.topics) == 1 else None
    if topic is None or topic.name != METADATA_TOPIC or len(topic.partitions) != 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a controller serves the metadata partition only")
    requested = topic.partitions[0]
    row = ResponsePartitionSnapshot(
        index=requested.partition,
        snapshot_id=ResponseSnapshotId(end_offset=requested.snapshot_id.end_offset, epoch=requested.snapshot_id.epoch),
        position=requested.position,
        unaligned_records=b"",
    )
    try:
        await _fill(row, requested, min(request.max_bytes, FETCH_BYTES_MAX), services, opened)
    except KafkaError as error:
        row.error_code = error.code
    leader_id, epoch = services.leader_and_epoch()
    row.current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=epoch)
    leader = services.voter_addresses(ctx.listener).get(leader_id)
    return FetchSnapshotResponse(
        topics=[ResponseTopicSnapshot(name=METADATA_TOPIC, partitions=[row])],
        node_endpoints=[] if leader is None else [NodeEndpoint(node_id=leader_id, host=leader[0], port=leader[1])],
    )


async def _fill(
    row: ResponsePartitionSnapshot,
    requested: RequestPartitionSnapshot,
    bytes_max: int,
    services: ControllerServices,
    opened: OpenSnapshot,
) -> None:
    """Read the piece into the row. Raises KafkaError."""
    if requested.partition != METADATA_PARTITION:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    code = refusal(services, requested.current_leader_epoch)
    if code is not ErrorCode.NONE:
        raise KafkaError(code)
    snapshot_id = SnapshotId(end_offset=requested.snapshot_id.end_offset, epoch=requested.snapshot_id.epoch)
    view = opened.get(snapshot_id)
    if view is None:
        raise KafkaError(ErrorCode.SNAPSHOT_NOT_FOUND)
    if not 0 <= requested.position < view.size:
        raise KafkaError(ErrorCode.POSITION_OUT_OF_RANGE)
    row.size = view.size
    row.unaligned_records = await blocking.run(
        asyncio.get_running_loop(), view.read, requested.position, max(1, bytes_max)
    )
