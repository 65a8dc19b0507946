"""Reads topics as a consumer without a group: Fetch to the leaders, a few partitions at a time.

Each request names the partitions of one leader. While it waits it blocks all other requests of its connection, so a
waiting read uses a separate client (ClusterClient.another).
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Final, NamedTuple

from kvorum.client.metadata_log.secret_configs import visible_metadata
from kvorum.client.partitions.offsets import topic_offsets
from kvorum.client.records.visible_records import VisibleRecords, visible
from kvorum.client.wire.cluster_client import (
    EARLIEST,
    LATEST,
    METADATA_TOPIC,
    ClusterClient,
    IsolationLevel,
    Unreachable,
    refuse,
)
from kvorum.network.addresses import Address
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from kvorum.protocol.messages.metadata import MetadataResponseTopic
from kvorum.runtime import blocking

FETCH_BYTES: Final = 4 * 1024 * 1024
PARTITION_BYTES: Final = 512 * 1024
"""Size limits of a response, and of one partition in it; a larger batch is returned alone and complete."""
ANSWER_BYTES: Final = 64 * 1024 * 1024
"""Decompressed bytes of one answer; above it the other partitions are left for the next. Some MB may become GB else."""
SESSIONLESS: Final = -1
TRIES_MAX: Final = 20
RETRY_PAUSE_SECONDS: Final = 0.25
"""A leader that moves is looked for again for some 5 s."""
MOVED: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)


class FetchPiece(NamedTuple):
    """One partition in a Fetch response: `size` bytes over the wire, or decompressed if that is more."""

    records: VisibleRecords
    size: int
    log_start_offset: int


class LeaderResponse(NamedTuple):
    """One leader's response: {partition: records}, finished partitions, and whether its leadership changed."""

    pieces: dict[int, FetchPiece]
    read: set[int]
    has_moved: bool = False


class Reader:
    """Reads one topic. Owned by one task."""

    def __init__(self, cluster: ClusterClient, topic: str, isolation: int = IsolationLevel.READ_UNCOMMITTED) -> None:
        """Read this topic; leaders are looked up on demand, and again when they move."""
        self.cluster = cluster
        self.topic = topic
        self.isolation = isolation
        self._topic_metadata: MetadataResponseTopic | None = None
        self._leaders: dict[int, Address] = {}
        self._misses = 0
        self._round = 0
        self._read_in: dict[int, int] = {}
        """{partition: the round it was last read in}.

        An answer may have no room for all, or for a large batch after another's: the partition that was read longest
        ago comes first in the next request.
        """

    async def partitions(self, requested: Sequence[int] | None) -> list[int]:
        """Return the partitions to read: the requested ones, or all. Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION."""
        known = sorted(row.partition_index for row in (await self.cluster.topic(self.topic)).partitions)
        for each in requested or ():
            if each not in known:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self.topic}-{each}")
        return known if requested is None else list(requested)

    async def ends(self, partitions: Sequence[int]) -> tuple[dict[int, int], dict[int, int]]:
        """Return ({partition: first offset}, {partition: offset behind the last record that may be read}).

        Raises KafkaError LEADER_NOT_AVAILABLE for a partition whose leader does not answer.
        """
        return await self._offsets(partitions, EARLIEST), await self._offsets(partitions, LATEST)

    async def at_time(self, partitions: Sequence[int], time_ms: int) -> dict[int, int]:
        """Return {partition: the first offset that is not older}, -1 without one. Raises as `ends`."""
        return await self._offsets(partitions, time_ms)

    async def _offsets(self, partitions: Sequence[int], timestamp: int) -> dict[int, int]:
        offsets = await topic_offsets(self.cluster, await self.cluster.topic(self.topic), timestamp, self.isolation)
        found = {}
        for each in partitions:
            offset = offsets.get(each)
            if offset is None:
                text = f"{self.topic}-{each} does not return its offsets"
                raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, text)
            found[each] = offset
        return found

    async def read(
        self, offsets: Mapping[int, int], wait_ms: int = 0, ends: Mapping[int, int] | None = None
    ) -> AsyncIterator[tuple[int, FetchPiece]]:
        """Yield (partition, records from its offset on) as its leader answers; nothing of one without records.

        One request per leader, which may wait for records. A partition whose log begins later now is read from there; a
        moved leader is looked up again in the next rounds. `ends` has the readable end of each: without records below
        that, the piece is empty and leads there. Raises KafkaError.
        """
        topic, by_leader = await self._route(offsets)
        asking = [
            asyncio.ensure_future(self._ask(address, topic, {each: offsets[each] for each in indexes}, wait_ms, ends))
            for address, indexes in by_leader.items()
        ]
        moved = sum(map(len, by_leader.values())) < len(offsets)
        has_pieces = False
        self._round += 1
        try:
            for coming in asyncio.as_completed(asking):
                answer = await coming
                moved |= answer.has_moved
                self._read_in.update(dict.fromkeys(answer.read, self._round))
                for partition, piece in answer.pieces.items():
                    has_pieces = True
                    yield partition, piece
        finally:
            for each in asking:
                each.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
        self._misses = self._misses + 1 if moved and not has_pieces else 0
        if moved:
            self._topic_metadata = None
            if self._misses >= TRIES_MAX:
                text = f"{self.topic}: no leader with all of {sorted(offsets)}"
                raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, text)
            await asyncio.sleep(RETRY_PAUSE_SECONDS)

    async def _route(self, offsets: Mapping[int, int]) -> tuple[MetadataResponseTopic, dict[Address, list[int]]]:
        """Return the topic, and the partitions of each leader, in the order of reading.

        Those without a leader are left out.
        """
        topic = self._topic_metadata
        if topic is None:
            topic = self._topic_metadata = await self.cluster.topic(self.topic)
            brokers = {each.node_id: (each.host, each.port) for each in (await self.cluster.metadata([])).brokers}
            self._leaders = {
                row.partition_index: brokers[row.leader_id] for row in topic.partitions if row.leader_id in brokers
            }
        by_leader: dict[Address, list[int]] = {}
        for partition in sorted(offsets, key=lambda each: (self._read_in.get(each, 0), each)):
            address = self._leaders.get(partition)
            if address is not None:
                by_leader.setdefault(address, []).append(partition)
        return topic, by_leader

    async def _ask(
        self,
        address: Address,
        topic: MetadataResponseTopic,
        offsets: Mapping[int, int],
        wait_ms: int,
        ends: Mapping[int, int] | None,
    ) -> LeaderResponse:
        """Return one leader's records of these partitions, read in this order."""
        found = LeaderResponse({}, set())
        try:
            answer = await self.cluster.ask(request_of(topic, offsets, wait_ms, self.isolation), FetchResponse, address)
        except Unreachable:
            return found._replace(has_moved=True)  # its successor is looked for
        refuse(answer.error_code, f"fetch of {self.topic}")
        rows = {row.partition_index: row for each in answer.responses for row in each.partitions}
        size = 0
        for partition, offset in offsets.items():
            row = rows.get(partition)
            if row is None:
                continue  # over its quota, a client is answered without any
            if row.error_code in MOVED:
                found = found._replace(has_moved=True)
            elif row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                found.pieces[partition] = await self._out_of_range(partition, offsets)
            elif row.error_code:
                refuse(row.error_code, f"{self.topic}-{partition}")
            elif row.records and size < ANSWER_BYTES:
                look = visible_metadata if self.topic == METADATA_TOPIC else visible
                piece = found.pieces[partition] = await decode_piece(row, offset, self.isolation, look)
                found.read.add(partition)
                size += piece.size
            elif size:
                continue  # no space left, here or in the response, or a batch is too large to be second
            elif ends is not None and self._readable(row) < ends[partition]:
                # a leader that does not know everything yet that the last one returned
                found = found._replace(has_moved=True)
            else:
                found.read.add(partition)
                if ends is not None:
                    found.pieces[partition] = FetchPiece(
                        VisibleRecords([], ends[partition], 0), 0, row.log_start_offset
                    )
        return found

    def _readable(self, row: PartitionData) -> int:
        """Return the offset behind the last record of a partition that may be read now."""
        return row.last_stable_offset if self.isolation == IsolationLevel.READ_COMMITTED else row.high_watermark

    async def _out_of_range(self, partition: int, offsets: Mapping[int, int]) -> FetchPiece:
        """Return an empty piece that leads into the log. Raises KafkaError OFFSET_OUT_OF_RANGE behind its end."""
        earliest = (await self._offsets([partition], EARLIEST))[partition]
        if offsets[partition] >= earliest:
            text = f"{self.topic}-{partition} has no offset {offsets[partition]}"
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, text)
        return FetchPiece(VisibleRecords([], earliest, 0), 0, earliest)


async def decode_piece(
    row: PartitionData, from_offset: int, isolation: int, look: Callable[..., VisibleRecords] = visible
) -> FetchPiece:
    """Return the decoded records of a partition, decoded outside the loop.

    Raises KafkaError for records that are damaged.
    """
    data = b"" if row.records is None else bytes(memoryview(row.records))  # type: ignore[arg-type]  # decoded: a view
    aborted = row.aborted_transactions or [] if isolation == IsolationLevel.READ_COMMITTED else None
    seen = await blocking.run(asyncio.get_running_loop(), look, data, from_offset, aborted)
    return FetchPiece(seen, max(len(data), seen.size), row.log_start_offset)


def request_of(topic: MetadataResponseTopic, offsets: Mapping[int, int], wait_ms: int, isolation: int) -> FetchRequest:
    """Return the request for these partitions, without a session; a leader reads them in this order."""
    partitions = [
        FetchPartition(partition=each, fetch_offset=offset, partition_max_bytes=PARTITION_BYTES)
        for each, offset in offsets.items()
    ]
    wanted = FetchTopic(topic=topic.name or "", topic_id=topic.topic_id, partitions=partitions)
    return FetchRequest(
        replica_id=-1,
        max_wait=wait_ms,
        min_bytes=1 if wait_ms else 0,
        max_bytes=FETCH_BYTES,
        isolation_level=isolation,
        session_epoch=SESSIONLESS,
        topics=[wanted],
    )
