"""The checksums of a partition over HTTP: GET /v1/topics/{topic}/partitions/{partition}/verify reads every replica.

Followers also serve a consumer's Fetch (KIP-392), up to their high watermark. Faults are reported as they
are found; the comparison is in replica_check.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Literal

import msgspec
from pydantic import BaseModel, Field

from kvorum.admin.http.operations import EVENT_STREAM, Call, NoBody, Operation, Stream
from kvorum.admin.http.parameters import INT64_MAX, PARTITION_INDEX, STREAM_SECONDS, TOPIC_NAME, number
from kvorum.admin.v1.records.message_routes import event
from kvorum.client.analysis.replica_check import Fault, Kind, ReplicaCheck, ReplicaState, parse_batches
from kvorum.client.reassignments.progress import DEBUGGING_REPLICA
from kvorum.client.records.record_reader import RETRY_PAUSE_SECONDS, TRIES_MAX, request_of
from kvorum.client.wire.cluster_client import EARLIEST, ClusterClient, ResourceType, Unreachable, refuse
from kvorum.network.addresses import Address
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.fetch import FetchResponse, PartitionData
from kvorum.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kvorum.protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic
from kvorum.runtime import blocking

FETCH_BYTES = 4 * 1024 * 1024
PROGRESS_MS = 1_000
FAULTS_REPORTED_MAX = 1_000
"""One by one; beyond that they are only counted."""


OFFSET = number("offset", "start offset (default: the start of each log)", 0, INT64_MAX, 0)


class VerifyProgress(BaseModel):
    """Progress of a verification: the data of a `progress` event."""

    offset: int = Field(description="All replicas were read up to this offset")
    end_offset: int
    bytes: int


class BatchFault(BaseModel):
    """A problem of a replica: the data of a `fault` event."""

    broker: int
    kind: Literal["damaged", "missing", "different", "surplus"]
    base_offset: int
    last_offset: int
    message: str


class ReplicaVerified(BaseModel):
    """Result of the verification of one replica."""

    broker: int
    leader: bool
    in_sync: bool
    error: str | None = Field(description="Why it was not read to the end")
    start_offset: int | None
    end_offset: int | None = Field(description="End of the verified range; of a follower: its high watermark")
    batches: int
    bytes: int
    damaged: int = Field(description="Batches with a wrong CRC")
    missing: int = Field(description="Batches of the reference that this replica lacks")
    different: int = Field(description="Batches that differ from the reference in size, end offset or CRC")
    surplus: int = Field(description="Batches that the reference lacks")


class PartitionVerified(BaseModel):
    """Result of a verification: the data of the `result` event."""

    topic: str
    partition: int
    sound: bool = Field(description="All replicas were read without a fault")
    stopped_by: Literal["end", "time"]
    compared: bool = Field(description="false: the topic is compacted, and each broker compacts independently")
    reference: int = Field(description="Replica used for the comparison: the leader, unless it was not readable")
    end_offset: int = Field(description="High watermark at the start")
    replicas: list[ReplicaVerified]


async def verify_partition(call: Call[NoBody]) -> Stream:
    """Read all batches of all replicas of a partition, check the CRCs and compare the replicas with the leader.

    Server-sent events: `progress` once per second, `fault` per problem, `result`, and `end` last.
    """
    seconds, offset = STREAM_SECONDS.of(call), OFFSET.of(call)
    index = PARTITION_INDEX.of(call)
    topic = await call.cluster.topic(TOPIC_NAME.of(call))
    row = next((each for each in topic.partitions if each.partition_index == index), None)
    if row is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic.name}-{index}")
    partition = row
    if partition.leader_id < 0:
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic.name}-{index} has no leader now")
    compacted = await is_compacted(call.cluster, topic.name or "")

    async def events() -> AsyncIterator[bytes]:
        cluster = call.cluster.another()
        try:
            reading = await PartitionVerification.begin(cluster, topic, partition, offset, compared=not compacted)
            deadline_ms = call.clock.monotonic_ms() + seconds * 1_000
            faults, reported_ms, stopped = 0, call.clock.monotonic_ms(), "end"
            yield event("progress", reading.progress())
            while reading.check.next():
                for fault in await reading.round():
                    faults += 1
                    if faults <= FAULTS_REPORTED_MAX:
                        yield event("fault", fault_of(fault).model_dump_json().encode())
                now_ms = call.clock.monotonic_ms()
                if now_ms >= deadline_ms:
                    stopped = "time"
                    break
                if now_ms - reported_ms >= PROGRESS_MS:
                    reported_ms = now_ms
                    yield event("progress", reading.progress())
            yield event("result", reading.result(stopped).model_dump_json().encode())
            yield event("end", msgspec.json.encode({"stopped_by": stopped}))
        finally:
            await cluster.close()

    return Stream(media=EVENT_STREAM, chunks=events())


async def is_compacted(cluster: ClusterClient, topic: str) -> bool:
    """Return whether each broker removes records of a topic's logs at its own time."""
    configs = await cluster.describe_configs(ResourceType.TOPIC, topic)
    policy = next((each.value or "" for each in configs if each.name == "cleanup.policy"), "")
    return "compact" in policy


def fault_of(fault: Fault) -> BatchFault:
    """Return a fault for HTTP."""
    return BatchFault(
        broker=fault.broker,
        kind=fault.kind.value,
        base_offset=fault.base_offset,
        last_offset=fault.last_offset,
        message=fault.message,
    )


class PartitionVerification:
    """Reads the replicas of one partition in step with each other. Owned by one task."""

    def __init__(
        self, cluster: ClusterClient, topic: MetadataResponseTopic, row: MetadataResponsePartition, check: ReplicaCheck
    ) -> None:
        """Start at the offsets of the check's replicas."""
        self.check = check
        self.end = 0
        self._cluster = cluster
        self._topic = topic
        self._row = row
        self._addresses: dict[int, Address] = {}
        self._misses: dict[int, int] = {}

    @classmethod
    async def begin(
        cls,
        cluster: ClusterClient,
        topic: MetadataResponseTopic,
        row: MetadataResponsePartition,
        offset: int,
        *,
        compared: bool,
    ) -> "PartitionVerification":
        """Query every replica's log start, and the leader's end of the read. Raises KafkaError, Unreachable."""
        brokers = sorted(row.replica_nodes, key=lambda broker: broker != row.leader_id)
        states = [ReplicaState(broker=broker, begin=0, next_offset=0) for broker in brokers]
        reading = cls(cluster, topic, row, ReplicaCheck(states, compared))
        reading._addresses = {
            each.broker_id: (each.host, each.port) for each in (await cluster.describe_cluster()).brokers
        }
        for state in states:
            await reading._find_begin(state, offset)
        leader = states[0]
        if leader.error is not None:
            message = f"the leader, broker {leader.broker}, cannot be read: {leader.error}"
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, message)
        reading.end = (await reading._fetch(leader)).high_watermark
        for state in states:
            state.is_finished = state.is_finished or state.next_offset >= reading.end
        return reading

    async def _find_begin(self, state: ReplicaState, offset: int) -> None:
        """Query a broker's log start, and read on from there, or from an offset after it."""
        try:
            state.begin = await self._earliest(state.broker)
            state.next_offset = max(state.begin, offset, state.next_offset)
        except (KafkaError, Unreachable) as error:
            self._give_up(state, error)

    def _give_up(self, state: ReplicaState, error: KafkaError | Unreachable) -> None:
        """Exclude an unreadable replica; the result has the reason."""
        state.error = error.code.name if isinstance(error, KafkaError) else str(error)
        state.is_finished = True

    async def _earliest(self, broker: int) -> int:
        row = ListOffsetsPartition(partition_index=self._row.partition_index, timestamp=EARLIEST)
        topic = ListOffsetsTopic(name=self._topic.name or "", partitions=[row])
        request = ListOffsetsRequest(replica_id=DEBUGGING_REPLICA, topics=[topic], timeout=self._cluster.wait_ms)
        found = (await self._cluster.ask(request, ListOffsetsResponse, self._address(broker))).topics[0].partitions[0]
        refuse(found.error_code, f"broker {broker} does not return its offsets")
        return found.offset

    def _address(self, broker: int) -> Address:
        if broker not in self._addresses:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker} does not exist")
        return self._addresses[broker]

    async def _fetch(self, state: ReplicaState) -> PartitionData:
        """Return a broker's records from the next offset of its replica on. Raises KafkaError, Unreachable."""
        request = request_of(self._topic, {self._row.partition_index: state.next_offset}, 0, 0)
        request.topics[0].partitions[0].partition_max_bytes = FETCH_BYTES
        answer = await self._cluster.ask(request, FetchResponse, self._address(state.broker))
        refuse(answer.error_code, f"fetch of {self._topic.name}")
        return answer.responses[0].partitions[0]

    async def round(self) -> list[Fault]:
        """Continue with the replicas that lag most, and compare the common range; return faults."""
        found = await asyncio.gather(*(self._read(state) for state in self.check.next()))
        return [*(fault for faults in found for fault in faults), *self.check.settle()]

    async def _read(self, state: ReplicaState) -> list[Fault]:
        try:
            row = await self._fetch(state)
            if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                await self._find_begin(state, 0)  # retention removed records of the range
                row = await self._fetch(state)
            refuse(row.error_code, f"broker {state.broker}")
            data = b"" if row.records is None else bytes(memoryview(row.records))  # type: ignore[arg-type]  # decoded: a view
            seen = await blocking.run(asyncio.get_running_loop(), parse_batches, data)
        except (KafkaError, Unreachable) as error:
            self._give_up(state, error)
            return []
        before = state.next_offset
        state.begin = max(state.begin, row.log_start_offset)
        faults = self.check.take(state, seen)
        state.is_finished = state.next_offset >= min(self.end, row.high_watermark)
        if state.next_offset == before and not state.is_finished:
            await self._wait_for_broker(state)
        return faults

    async def _wait_for_broker(self, state: ReplicaState) -> None:
        """Wait for a broker that brings nothing though it has something, as one throttled; give it up in the end."""
        self._misses[state.broker] = self._misses.get(state.broker, 0) + 1
        if self._misses[state.broker] >= TRIES_MAX:
            self._give_up(state, KafkaError(ErrorCode.REQUEST_TIMED_OUT, "it returned no records"))
            return
        await asyncio.sleep(RETRY_PAUSE_SECONDS)

    def progress(self) -> bytes:
        """Return the progress."""
        states = self.check.replicas
        least = min((each.next_offset for each in states if not each.is_finished), default=self.end)
        size = sum(each.size for each in states)
        return VerifyProgress(offset=least, end_offset=self.end, bytes=size).model_dump_json().encode()

    def result(self, stopped: str) -> PartitionVerified:
        """Return all that was found."""
        states = self.check.replicas
        reference = next((each.broker for each in states if each.error is None), states[0].broker)
        sound = stopped == "end" and not any(each.error or each.faults for each in states)
        return PartitionVerified(
            topic=self._topic.name or "",
            partition=self._row.partition_index,
            sound=sound,
            stopped_by="end" if stopped == "end" else "time",
            compared=self.check.compared,
            reference=reference,
            end_offset=self.end,
            replicas=[self._result(each) for each in sorted(states, key=lambda each: each.broker)],
        )

    def _result(self, state: ReplicaState) -> ReplicaVerified:
        unread = state.error is not None and not state.batches
        counts = {kind.value: state.faults.get(kind, 0) for kind in Kind}
        return ReplicaVerified(
            broker=state.broker,
            leader=state.broker == self._row.leader_id,
            in_sync=state.broker in self._row.isr_nodes,
            error=state.error,
            start_offset=None if unread else state.begin,
            end_offset=None if unread else state.next_offset,
            batches=state.batches,
            bytes=state.size,
            **counts,
        )


OPERATIONS = [
    Operation.get(
        "/v1/topics/{topic}/partitions/{partition}/verify",
        "Verify the replicas of a partition",
        verify_partition,
        PartitionVerified,
        media=(EVENT_STREAM,),
        events={"progress": VerifyProgress, "fault": BatchFault},
        parameters=(TOPIC_NAME, PARTITION_INDEX, OFFSET, STREAM_SECONDS),
    )
]
