"""The metadata log over the wire: of any broker by Fetch; of the active controller where it begins behind a snapshot.

The controller is found by DescribeQuorum, which names the voters' listeners, and gives its snapshot by FetchSnapshot
(KIP-630) and the log behind it by Fetch. It has to be reachable from here, as it is on the cluster's own machine.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field

from kvorum.client.metadata_log.metadata_image import LogSizeError, MetadataProblem, Raw, Source
from kvorum.client.wire.cluster_client import ClusterClient, refuse
from kvorum.network.addresses import Address
from kvorum.protocol.errors import ErrorCode, KafkaError
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
from kvorum.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kvorum.protocol.records import batches
from kvorum.quorum.batches import METADATA_PARTITION, METADATA_TOPIC
from kvorum.quorum.raft.log import SnapshotId

FETCH_BYTES = 8 * 1024 * 1024
FETCH_VERSION_MAX = 12
"""Topics by name; ids come with 13."""
TRIES_MAX = 50
AGAIN_SECONDS = 0.1
"""Pause between retries while a broker's copy is trimmed, for some 5 s."""
NOBODY = -1
"""The replica id of a client, and an epoch that is not checked."""
NOT_SERVED = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_REQUEST)
"""Responses of Apache Kafka's brokers and controllers to a client that reads the metadata log."""


@dataclass(slots=True)
class FetchResult:
    """The fetched part of the metadata log: the snapshot before it, if any, and the batches since."""

    snapshot_id: SnapshotId | None = None
    snapshot: bytes = b""
    log: list[Raw] = field(default_factory=list)

    @property
    def first(self) -> int:
        """The first offset behind whose record the metadata are known; -1 of an empty log."""
        if self.snapshot_id is not None:
            return self.snapshot_id.end_offset - 1
        return self.log[0][1].base_offset if self.log else -1

    @property
    def end(self) -> int:
        """The next offset of the log."""
        if self.log:
            return self.log[-1][1].next_offset
        return 0 if self.snapshot_id is None else self.snapshot_id.end_offset

    @property
    def size(self) -> int:
        """Bytes in all."""
        return len(self.snapshot) + sum(len(data) for data, _ in self.log)

    def source(self) -> Source:
        """Return it as a source with a fixed end."""
        log = tuple(self.log)

        def read_snapshot(_: SnapshotId) -> Iterator[bytes]:
            yield self.snapshot

        snapshots = () if self.snapshot_id is None else (self.snapshot_id,)
        return Source(snapshots=snapshots, read_snapshot=read_snapshot, read_batches=lambda _: iter(log))


async def offset_of_log(cluster: ClusterClient, time: int) -> int:
    """Return where the metadata log of a broker ends (LATEST), or begins (EARLIEST). Raises KafkaError."""
    row = ListOffsetsPartition(partition_index=METADATA_PARTITION, timestamp=time)
    topic = ListOffsetsTopic(name=METADATA_TOPIC, partitions=[row])
    request = ListOffsetsRequest(replica_id=NOBODY, topics=[topic], timeout=cluster.wait_ms)
    for tries in range(TRIES_MAX):
        if tries:
            await asyncio.sleep(AGAIN_SECONDS)
        found = (await cluster.ask(request, ListOffsetsResponse)).topics[0].partitions[0]
        if found.error_code != ErrorCode.OFFSET_NOT_AVAILABLE:
            break
    refuse_reading(found.error_code, METADATA_TOPIC)
    return found.offset


async def fetch_source(cluster: ClusterClient) -> Source:
    """Return all of the metadata log up to now. Raises MetadataProblem, KafkaError, Unreachable."""
    return (await fetch_log(cluster)).source()


async def fetch_log(cluster: ClusterClient, bytes_max: int | None = None) -> FetchResult:
    """Return all of the metadata log up to now. Raises MetadataProblem, LogSizeError, KafkaError, Unreachable."""
    row = await fetch(cluster, 0, None)
    if row.error_code == ErrorCode.NONE and row.snapshot_id.end_offset < 0 and row.log_start_offset <= 0:
        return FetchResult(log=await log_from(cluster, 0, None, bytes_max))
    controller = await active_controller(cluster)
    named = (await fetch(cluster, 0, controller)).snapshot_id
    snapshot_id = SnapshotId(end_offset=named.end_offset, epoch=named.epoch)
    if snapshot_id.end_offset < 0:
        raise MetadataProblem("the active controller returned no snapshot; give its directory with --dir")
    data = await fetch_snapshot(cluster, snapshot_id, controller, bytes_max)
    left = None if bytes_max is None else bytes_max - len(data)
    return FetchResult(snapshot_id, data, await log_from(cluster, snapshot_id.end_offset, controller, left))


async def active_controller(cluster: ClusterClient) -> Address:
    """Return the active controller's address. Raises MetadataProblem if it is unknown."""
    answer = await cluster.describe_quorum()
    leader_id = answer.topics[0].partitions[0].leader_id
    for node in answer.nodes:
        if node.node_id == leader_id and node.listeners:
            return node.listeners[0].host, node.listeners[0].port
    raise MetadataProblem(
        "the log starts at a snapshot, and the address of the active controller is unknown: use --dir"
    )


async def log_from(
    cluster: ClusterClient, start: int, address: Address | None, bytes_max: int | None = None
) -> list[Raw]:
    """Return the batches from an offset up to the end. Raises LogSizeError, KafkaError, Unreachable."""
    found: list[Raw] = []
    offset, size = start, 0
    while True:
        row = await fetch(cluster, offset, address)
        refuse(row.error_code, f"{METADATA_TOPIC} from offset {offset}")
        data = memoryview(row.records) if isinstance(row.records, bytes | bytearray | memoryview) else memoryview(b"")
        before = offset
        for position, header in batches(data):
            found.append((data[position : position + header.size], header))
            offset = header.next_offset
        size += len(data)
        check_size(size, bytes_max)
        if offset == before:
            return found


async def fetch(cluster: ClusterClient, offset: int, address: Address | None) -> PartitionData:
    """Return the response for one offset of the log, without waiting. Raises KafkaError, Unreachable.

    UNSUPPORTED_VERSION: the node does not serve the log.
    """
    partition = FetchPartition(partition=METADATA_PARTITION, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
    topics = [FetchTopic(topic=METADATA_TOPIC, partitions=[partition])]
    request = FetchRequest(max_bytes=FETCH_BYTES, topics=topics)
    for tries in range(TRIES_MAX):
        if tries:
            await asyncio.sleep(AGAIN_SECONDS)
        answer = await cluster.ask(request, FetchResponse, address, version_max=FETCH_VERSION_MAX)
        refuse_reading(answer.error_code, METADATA_TOPIC)
        row = answer.responses[0].partitions[0]
        if row.error_code != ErrorCode.OFFSET_NOT_AVAILABLE:
            break
    if row.error_code in NOT_SERVED:
        refuse_reading(row.error_code, METADATA_TOPIC)
    return row


def refuse_reading(code: int, message: str) -> None:
    """Raise KafkaError for an error code that is one; UNSUPPORTED_VERSION: the node is Apache Kafka's."""
    if code in NOT_SERVED:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"the cluster does not serve {METADATA_TOPIC} to clients")
    refuse(code, message)


def check_size(size: int, bytes_max: int | None) -> None:
    """Enforce a limit. Raises LogSizeError."""
    if bytes_max is not None and size > bytes_max:
        raise LogSizeError(f"the metadata log is larger than {bytes_max} bytes; read its files with --dir")


async def fetch_snapshot(
    cluster: ClusterClient, snapshot_id: SnapshotId, address: Address, bytes_max: int | None = None
) -> bytes:
    """Return a snapshot's bytes, fetched in pieces. Raises KafkaError SNAPSHOT_NOT_FOUND, LogSizeError, Unreachable."""
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
        check_size(row.size, bytes_max)
        if len(data) >= row.size or not row.unaligned_records:
            return data
