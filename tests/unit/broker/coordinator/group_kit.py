"""A group coordinator on a model log, and members that speak the classic protocol to it, in virtual time."""

import asyncio
import random
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from kvorum.broker.coordinator.group import offsets
from kvorum.broker.coordinator.group.classic.words import Client
from kvorum.broker.coordinator.group.counts import GroupCounts
from kvorum.broker.coordinator.group.settings import GroupSettings
from kvorum.broker.coordinator.group.shard import GroupShard
from kvorum.broker.coordinator.group.words import ClassicGeneration, GroupsState
from kvorum.broker.coordinator.runtime.partition import CoordinatorPartition
from kvorum.broker.coordinator.runtime.words import NO_PRODUCER, Producer
from kvorum.protocol.compression import Codec
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.heartbeat import HeartbeatRequest
from kvorum.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kvorum.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kvorum.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kvorum.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
)
from kvorum.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from kvorum.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from kvorum.protocol.records import batches
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.protocol.uuids import ZERO_UUID, Uuid
from kvorum.quorum.image import MetadataImage
from tests.unit.broker.coordinator.runtime_kit import KEY, LoopClock, ModelLog, fault

R = TypeVar("R")

GROUP = "orders"
SETTINGS = GroupSettings(initial_rebalance_delay_ms=3_000)
NO_DELAY = replace(SETTINGS, initial_rebalance_delay_ms=0)
SESSION_MS = 10_000
REBALANCE_MS = 60_000
Partition = CoordinatorPartition[GroupsState, GroupShard]


def subscription(*topics: str) -> bytes:
    """Return a consumer's subscription, version 0."""
    rows = b"".join(struct.pack(">h", len(each)) + each.encode() for each in topics)
    return struct.pack(">hi", 0, len(topics)) + rows + struct.pack(">i", -1)


def once(answer: "asyncio.Future[R]") -> Callable[[R], None]:
    """Return what the group answers with, once; who has been told otherwise meanwhile stays with that."""
    called: list[R] = []

    def reported(response: R) -> None:
        assert not called, "a request is answered once"
        called.append(response)
        if not answer.done():
            answer.set_result(response)

    return reported


def refuse(written: "asyncio.Future[None]", answer: "asyncio.Future[R]", response: Callable[[ErrorCode], R]) -> None:
    """Answer what could not be written, as a handler does."""
    error = written.exception()
    if error is not None and not answer.done():
        assert isinstance(error, KafkaError)
        answer.set_result(response(error.code))


@dataclass
class World:
    """One log and whoever leads it. `commits_at_once` is the log's."""

    settings: GroupSettings = SETTINGS
    log: ModelLog = field(default_factory=lambda: ModelLog(commits_at_once=True))
    seed: int = 7
    counts: GroupCounts = field(default_factory=GroupCounts)
    image: MetadataImage = field(default_factory=MetadataImage)

    async def lead(self) -> Partition:
        """Lead in the log's epoch: what led before is forgotten, as by another broker."""
        made: Partition = CoordinatorPartition(
            KEY,
            self.log,
            lambda: GroupShard(self.settings, random.Random(self.seed), self.counts),
            LoopClock(),
            image=lambda: self.image,
            codec=Codec.NONE,
            write_timeout_ms=5_000,
            on_fault=fault,
        )
        self.log.on_moved = made.high_watermark_moved
        made.lead(self.log.epoch)
        await asyncio.sleep(0.01)
        made.require_active()
        self.partition = made
        return made

    async def fail_over(self, *, loses_uncommitted: bool = False) -> Partition:
        """Have another broker lead, with all that was written, or with what was committed."""
        log = self.log
        log.epoch += 1
        self.partition.resign(log.epoch)
        while loses_uncommitted and log.end > log.watermark:
            ((_, header),) = batches(memoryview(log.data.pop()))
            log.end = header.base_offset
        log.watermark = log.end
        self.seed += 1
        return await self.lead()

    @property
    def state_name(self) -> str:
        (row,) = self.partition.shard.describe(self.partition.state, [GROUP], 6)
        return row.group_state

    def generation_in_log(self) -> ClassicGeneration:
        found = self.partition.committed_state.groups[GROUP]
        assert isinstance(found, ClassicGeneration)
        return found


@dataclass
class OneHome:
    """A runtime with one partition, or the reason there is none."""

    world: World
    refusal: ErrorCode | None = None
    is_there: bool = True
    is_loading: bool = False

    def partition_of(self, key: str) -> TopicPartition:
        if not self.is_there:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return KEY

    def active_partition(self, index: int) -> Partition:
        assert index == KEY.partition
        if self.refusal is not None:
            raise KafkaError(self.refusal)
        return self.world.partition

    def all_active(self) -> Iterator[Partition]:
        if self.refusal is None:
            yield self.world.partition


@dataclass
class Member:
    """A member as a client plays it: it remembers its id and generation."""

    world: World
    name: str
    instance_id: str | None = None
    version: int = 9
    protocols: Sequence[tuple[str, bytes]] = (("range", subscription("t")),)
    session_ms: int = SESSION_MS
    rebalance_ms: int = REBALANCE_MS
    member_id: str = ""
    generation: int = -1
    protocol_type: str = "consumer"

    @property
    def client(self) -> Client:
        return Client(self.name, "/10.0.0.1", self.version)

    def ask_join(self) -> "asyncio.Future[JoinGroupResponse]":
        """Send one JoinGroup."""
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout=self.session_ms,
            rebalance_timeout=self.rebalance_ms,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=self.protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in self.protocols],
            reason="test",
        )
        answer: asyncio.Future[JoinGroupResponse] = asyncio.get_running_loop().create_future()
        partition, reported = self.world.partition, once(answer)
        written = partition.write(
            "join", lambda state, now: partition.shard.join(state, self.client, request, reported)
        )
        written.add_done_callback(lambda done: refuse(done, answer, lambda code: JoinGroupResponse(error_code=code)))
        return answer

    async def join(self) -> JoinGroupResponse:
        """Join as a client does: once more with the id it is given."""
        response = await self.ask_join()
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            response = await self.ask_join()
        if response.error_code == ErrorCode.NONE:
            self.member_id, self.generation = response.member_id, response.generation_id
        return response

    def ask_sync(self, assignments: Mapping[str, bytes] | None = None) -> "asyncio.Future[SyncGroupResponse]":
        """Send one SyncGroup; a leader's has the assignments."""
        rows = [
            SyncGroupRequestAssignment(member_id=each, assignment=data) for each, data in (assignments or {}).items()
        ]
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            assignments=rows,
        )
        answer: asyncio.Future[SyncGroupResponse] = asyncio.get_running_loop().create_future()
        partition, reported = self.world.partition, once(answer)
        written = partition.write("sync", lambda state, now: partition.shard.sync(state, request, reported))
        written.add_done_callback(lambda done: refuse(done, answer, lambda code: SyncGroupResponse(error_code=code)))
        return answer

    async def heartbeat(self) -> ErrorCode:
        """Send one Heartbeat and return its error."""
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        partition = self.world.partition
        try:
            answer = await partition.write("heartbeat", lambda state, now: partition.shard.heartbeat(state, request))
        except KafkaError as error:
            return error.code
        return ErrorCode(answer.error_code)

    async def leave(self, *others: "Member") -> LeaveGroupResponse:
        """Leave, with others, if any."""
        members = [
            MemberIdentity(member_id=each.member_id, group_instance_id=each.instance_id) for each in (self, *others)
        ]
        request = LeaveGroupRequest(group_id=GROUP, members=members, member_id=self.member_id)
        partition = self.world.partition
        return await partition.write("leave", lambda state, now: partition.shard.leave(state, self.client, request))

    def commit(self, offset: int, metadata: str = "", topic: str = "t") -> "asyncio.Future[OffsetCommitResponse]":
        """Commit an offset of partition 0."""
        return commit(
            self.world.partition,
            offset,
            metadata=metadata,
            topic=topic,
            member_id=self.member_id,
            generation=self.generation,
            instance_id=self.instance_id,
        )


def commit(
    partition: Partition,
    offset: int,
    *,
    metadata: str | None = "",
    topic: str = "t",
    index: int = 0,
    member_id: str = "",
    generation: int = -1,
    instance_id: str | None = None,
    version: int = 9,
    retention_ms: int = -1,
    group_id: str = GROUP,
    topic_id: Uuid = ZERO_UUID,
) -> "asyncio.Future[OffsetCommitResponse]":
    row = OffsetCommitRequestPartition(
        partition_index=index, committed_offset=offset, committed_leader_epoch=3, committed_metadata=metadata
    )
    request = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=instance_id,
        retention_time=retention_ms,
        topics=[OffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=[row])],
    )
    client = Client("admin", "/10.0.0.9", version)
    return partition.write("commit", lambda state, now: partition.shard.commit(state, client, request))


def commit_in_transaction(
    partition: Partition, producer: Producer, offset: int, *, member_id: str = "", generation: int = -1
) -> "asyncio.Future[TxnOffsetCommitResponse]":
    assert producer != NO_PRODUCER
    row = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    request = TxnOffsetCommitRequest(
        transactional_id="tx",
        group_id=GROUP,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        generation_id=generation,
        member_id=member_id,
        topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[row])],
    )
    client = Client("app", "/10.0.0.9", 5)
    return partition.write(
        "txn", lambda state, now: partition.shard.commit_transactional(state, client, request), producer
    )


def fetch_request(topic: str = "t", index: int = 0, topic_id: Uuid = ZERO_UUID) -> OffsetFetchRequestGroup:
    rows = [OffsetFetchRequestTopics(name=topic, topic_id=topic_id, partition_indexes=[index])]
    return OffsetFetchRequestGroup(group_id=GROUP, topics=rows)


def fetched(partition: Partition, request: OffsetFetchRequestGroup | None = None) -> list[tuple[str, int, int]]:
    """Return (topic, partition, offset) as a fetch of the committed state finds them."""
    answer = offsets.fetch(partition.committed_state, request or fetch_request(), require_stable=False)
    return rows_of(answer)


def rows_of(answer: OffsetFetchResponseGroup) -> list[tuple[str, int, int]]:
    return [
        (topic.name, row.partition_index, row.committed_offset) for topic in answer.topics for row in topic.partitions
    ]


async def stable(world: World, members: Sequence[Member]) -> None:
    """Have these join and be assigned; the log must commit at once."""
    joined = await asyncio.gather(*(member.join() for member in members))
    assert [each.error_code for each in joined] == [0] * len(members)
    await assigned(members, joined)


async def assigned(members: Sequence[Member], joined: Sequence[JoinGroupResponse]) -> None:
    """Have the leader assign to each member its own name, and all be told."""
    (leader,) = {each.leader for each in joined}
    plan = {each.member_id: each.name.encode() for each in members}
    requested = [each.ask_sync(plan if each.member_id == leader else None) for each in members]
    answers = await asyncio.gather(*requested)
    assert [each.assignment for each in answers] == [each.name.encode() for each in members]
