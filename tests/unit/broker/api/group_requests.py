"""A broker whose group coordinator lives on a model log, in virtual time; requests are coded both ways."""

import random
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from kvorum.broker.coordinator.group.coordinator import GroupCoordinator
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kvorum.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kvorum.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kvorum.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from sim.loop import SimLoop
from tests.unit.broker.api.api_kit import OTHER_ID, TOPIC_ID, Rules, a_broker, asking, three_brokers, topic
from tests.unit.broker.coordinator.group_kit import NO_DELAY, OneHome, World, subscription

GROUP = "orders"


@dataclass
class Groups:
    """Topics `t` and `other`, of two partitions and one, and a group coordinator."""

    rules: Rules = field(default_factory=Rules)
    world: World = field(default_factory=lambda: World(settings=NO_DELAY))

    def __post_init__(self) -> None:
        self.homes = OneHome(self.world)
        led = ((1,), (1,), 1)
        made = [*three_brokers(), *topic("t", TOPIC_ID, led, led), *topic("other", OTHER_ID, led)]
        self.broker = a_broker(*made, groups=GroupCoordinator(self.homes), authorizer=self.rules)

    async def ask(self, request: Any, version: int) -> Any:
        return await asking(self.broker, request, version, client_id="app", client_address="10.0.0.1")

    async def join(self, version: int, member_id: str = "", **values: Any) -> JoinGroupResponse:
        """Join as a client of this version does: once more with the id it is given."""
        request = a_join(version, member_id, **values)
        answer = await self.ask(request, version)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            request.member_id = answer.member_id
            answer = await self.ask(request, version)
        return answer

    async def a_member(self) -> tuple[str, int]:
        """Have one member in a stable group, subscribed to `t`; return its id and generation."""
        joined = await self.join(9)
        assert joined.error_code == 0
        assert (await self.ask(a_sync(joined), 5)).error_code == 0
        return joined.member_id, joined.generation_id


def running(work: Coroutine[Any, Any, None]) -> None:
    """Run in virtual time."""
    loop = SimLoop(random.Random(1))
    try:
        loop.run_until_complete(work)
    finally:
        loop.close()


def a_join(version: int, member_id: str = "", **values: Any) -> JoinGroupRequest:
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription("t"))],
    )
    if version >= 1:
        request.rebalance_timeout = 60_000
    for name, value in values.items():
        setattr(request, name, value)
    return request


def a_sync(joined: JoinGroupResponse, assignment: bytes = b"mine") -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=GROUP,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=assignment)],
    )


def a_commit(
    version: int, *rows: tuple[str, int, int], member_id: str = "", generation: int = -1
) -> OffsetCommitRequest:
    """Commit (topic, partition, offset)s."""
    request = OffsetCommitRequest(group_id=GROUP, member_id=member_id, generation_id_or_member_epoch=generation)
    for name, index, offset in rows:
        row = OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="m")
        requested = OffsetCommitRequestTopic(partitions=[row])
        if version >= 10:
            requested.topic_id = {"t": TOPIC_ID, "other": OTHER_ID}.get(name, requested.topic_id)
        else:
            requested.name = name
        request.topics.append(requested)
    return request


def codes_of(answer: Any) -> list[tuple[Any, int, int]]:
    """Return (topic or its id, partition, error) of a commit's answer."""
    return [
        (topic.name or topic.topic_id, row.partition_index, row.error_code)
        for topic in answer.topics
        for row in topic.partitions
    ]


def a_fetch(version: int, *names: str, require_stable: bool = False) -> OffsetFetchRequest:
    """Fetch partitions 0 and 1 of topics, or all there is."""
    if version < 8:
        topics = [OffsetFetchRequestTopic(name=name, partition_indexes=[0, 1]) for name in names]
        return OffsetFetchRequest(
            group_id=GROUP, topics=topics or None, require_stable=require_stable if version >= 7 else False
        )
    rows = []
    for name in names:
        requested = OffsetFetchRequestTopics(partition_indexes=[0, 1])
        if version >= 10:
            requested.topic_id = {"t": TOPIC_ID, "other": OTHER_ID}.get(name, requested.topic_id)
        else:
            requested.name = name
        rows.append(requested)
    return OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=rows or None)], require_stable=require_stable
    )


def offsets_of(answer: Any, version: int) -> list[tuple[Any, int, int, int]]:
    """Return (topic or its id, partition, offset, error) of a fetch's answer."""
    topics = answer.groups[0].topics if version >= 8 else answer.topics
    return [
        (getattr(topic, "name", "") or topic.topic_id, row.partition_index, row.committed_offset, row.error_code)
        for topic in topics
        for row in topic.partitions
    ]
