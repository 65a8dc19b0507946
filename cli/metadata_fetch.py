"""The metadata log over the wire: of any broker by Fetch; of the active controller where it begins behind a snapshot.

The controller is found by DescribeQuorum, which names the voters' listeners, and gives its snapshot by FetchSnapshot
(KIP-630) and the log behind it by Fetch. It has to be reachable from here, as it is on the cluster's own machine.
"""

from collections.abc import Iterator, Sequence

from kvorum.admin.client import ClusterClient, refuse
from kvorum.cli.metadata_image import MetadataProblem, Raw, Source
from kvorum.network.addresses import Address
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kvorum.protocol.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RequestPartitionSnapshot,
    RequestSnapshotId,
    RequestTopicSnapshot,
)
from kvorum.protocol.records import batches
from kvorum.quorum.batches import METADATA_PARTITION, METADATA_TOPIC
from kvorum.quorum.raft.log import SnapshotId

FETCH_BYTES = 8 * 1024 * 1024
FETCH_VERSION_MAX = 12
"""Topics by name; ids come with 13."""
NOBODY = -1
"""The replica id of a client, and an epoch that is not checked."""


async def fetch_source(cluster: ClusterClient) -> Source:
    """Return all of the metadata log up to now. Raises MetadataProblem, KafkaError, Unreachable."""
    row = await fetch(cluster, 0, None)
    if row.error_code == ErrorCode.NONE and row.snapshot_id.end_offset < 0 and row.log_start_offset <= 0:
        return source_of((), b"", await log_from(cluster, 0, None))
    controller = await active_controller(cluster)
    named = (await fetch(cluster, 0, controller)).snapshot_id
    snapshot_id = SnapshotId(end_offset=named.end_offset, epoch=named.epoch)
    if snapshot_id.end_offset < 0:
        raise MetadataProblem("the active controller names no snapshot; name its folder with --dir")
    data = await fetch_snapshot(cluster, snapshot_id, controller)
    return source_of((snapshot_id,), data, await log_from(cluster, snapshot_id.end_offset, controller))


def source_of(snapshots: Sequence[SnapshotId], data: bytes, log: list[Raw]) -> Source:
    """Return what was fetched as a source."""

    def read_snapshot(_: SnapshotId) -> Iterator[bytes]:
        yield data

    return Source(snapshots=snapshots, read_snapshot=read_snapshot, read_batches=lambda _: iter(log))


async def active_controller(cluster: ClusterClient) -> Address:
    """Return where the active controller listens. Raises MetadataProblem if nobody says."""
    answer = await cluster.describe_quorum()
    leader_id = answer.topics[0].partitions[0].leader_id
    for node in answer.nodes:
        if node.node_id == leader_id and node.listeners:
            return node.listeners[0].host, node.listeners[0].port
    raise MetadataProblem("the log begins behind a snapshot, and nobody says where the active controller is: use --dir")


async def log_from(cluster: ClusterClient, start: int, address: Address | None) -> list[Raw]:
    """Return the batches from an offset up to the end. Raises KafkaError, Unreachable."""
    found: list[Raw] = []
    offset = start
    while True:
        row = await fetch(cluster, offset, address)
        refuse(row.error_code, f"{METADATA_TOPIC} from offset {offset}")
        data = memoryview(row.records) if isinstance(row.records, bytes | bytearray | memoryview) else memoryview(b"")
        before = offset
        for position, header in batches(data):
            found.append((data[position : position + header.size], header))
            offset = header.next_offset
        if offset == before:
            return found


async def fetch(cluster: ClusterClient, offset: int, address: Address | None) -> PartitionData:
    """Return what is told of one place in the log, without waiting. Raises KafkaError, Unreachable."""
    partition = FetchPartition(partition=METADATA_PARTITION, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
    topics = [FetchTopic(topic=METADATA_TOPIC, partitions=[partition])]
    request = FetchRequest(max_bytes=FETCH_BYTES, topics=topics)
    answer = await cluster.ask(request, FetchResponse, address, version_max=FETCH_VERSION_MAX)
    refuse(answer.error_code, METADATA_TOPIC)
    return answer.responses[0].partitions[0]


async def fetch_snapshot(cluster: ClusterClient, snapshot_id: SnapshotId, address: Address) -> bytes:
    """Return a snapshot's bytes, fetched in pieces. Raises KafkaError SNAPSHOT_NOT_FOUND, Unreachable."""
    data = b""
    while True:
        partition = RequestPartitionSnapshot(
            partition=METADATA_PARTITION,
            current_leader_epoch=NOBODY,
            snapshot_id=RequestSnapshotId(end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch),
            position=len(data),
        )
        topics = [RequestTopicSnapshot(name=METADATA_TOPIC, partitions=[partition])]
        request = FetchSnapshotRequest(replica_id=NOBODY, max_bytes=FETCH_BYTES, topics=topics)
        answer = await cluster.ask(request, FetchSnapshotResponse, address)
        refuse(answer.error_code, "the metadata snapshot")
        row = answer.topics[0].partitions[0]
        refuse(row.error_code, "the metadata snapshot")
        assert isinstance(row.unaligned_records, bytes | bytearray | memoryview), (
            "an answer holds its bytes in one piece"
        )
        data += bytes(row.unaligned_records)
        if len(data) >= row.size or not row.unaligned_records:
            return data
