"""Requests with invalid fields in random order: each is answered, no handler fails or hangs."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace

import pytest

from kvorum.broker.coordinator.group.classic.words import Client
from kvorum.broker.coordinator.group.coordinator import GroupCoordinator
from kvorum.broker.coordinator.runtime.phase import Phase
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.heartbeat import HeartbeatRequest
from kvorum.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kvorum.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kvorum.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kvorum.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from sim.loop import SimLoop
from tests.unit.broker.coordinator.group_kit import GROUP, NO_DELAY, SETTINGS, OneHome, Partition, World, subscription

INT32 = (-(2**31), -1, 0, 1, 6_000, 60_000, 2**31 - 1)
INT64 = (-(2**63), -1, 0, 42, 2**63 - 1)
PAUSES_S = (0, 0.01, 0.5, 3, 12, 70)


class Home(OneHome):
    """A runtime that refuses while it loads."""

    def active_partition(self, index: int) -> Partition:
        partition = super().active_partition(index)
        partition.require_active()
        return partition

    def all_active(self) -> Iterator[Partition]:
        return (each for each in (self.world.partition,) if each.phase is Phase.ACTIVE)


@dataclass
class Nonsense:
    """Requests drawn from what others were answered, and from the ends of each field."""

    world: World
    rng: random.Random
    ids: list[str] = field(default_factory=lambda: ["", "nobody"])
    generations: list[int] = field(default_factory=lambda: [-1, 0, 1])

    def __post_init__(self) -> None:
        self.door = GroupCoordinator(Home(self.world))

    def identity(self) -> dict[str, str | None]:
        return {
            "member_id": self.rng.choice([*self.ids[-6:], ""]),
            "group_instance_id": self.rng.choice([None, None, "i1", "i2", ""]),
        }

    def generation(self) -> int:
        return self.rng.choice(self.generations[-3:])

    async def join(self) -> None:
        rng = self.rng
        names = rng.choices(["range", "rr", "", "x"], k=rng.choice([0, 1, 1, 2, 3]))
        data = rng.choice([b"", b"\0", subscription("t"), subscription("t", "u")])
        request = JoinGroupRequest(
            group_id=rng.choice([GROUP, GROUP, GROUP, "", "g2"]),
            session_timeout=rng.choice([6_000, 10_000, 1_800_000, rng.choice(INT32)]),
            rebalance_timeout=rng.choice(INT32),
            protocol_type=rng.choice(["consumer", "consumer", "consumer", "", "connect"]),
            protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name in names],
            **self.identity(),  # type: ignore[arg-type]
        )
        answer = await self.door.join(Client("c", "/h", rng.randrange(5, 10)), request)
        if answer.member_id:
            self.ids.append(answer.member_id)
            self.generations.append(answer.generation_id)

    async def sync(self) -> None:
        rows = [SyncGroupRequestAssignment(member_id=each, assignment=b"x") for each in self.ids[-3:]]
        await self.door.sync(
            SyncGroupRequest(
                group_id=GROUP,
                generation_id=self.generation(),
                assignments=rows,
                **self.identity(),  # type: ignore[arg-type]
            )
        )

    async def heartbeat(self) -> None:
        await self.door.heartbeat(
            HeartbeatRequest(group_id=GROUP, generation_id=self.generation(), **self.identity())  # type: ignore[arg-type]
        )

    async def leave(self) -> None:
        rows = [MemberIdentity(**self.identity()) for _ in range(self.rng.randrange(4))]  # type: ignore[arg-type]
        await self.door.leave(Client("c", "/h", 5), LeaveGroupRequest(group_id=GROUP, members=rows))

    async def commit(self) -> None:
        row = OffsetCommitRequestPartition(
            partition_index=self.rng.choice(INT32),
            committed_offset=self.rng.choice(INT64),
            committed_leader_epoch=self.rng.choice(INT32),
            committed_metadata=self.rng.choice([None, "", "m" * 5_000]),
        )
        request = OffsetCommitRequest(
            group_id=self.rng.choice([GROUP, "g2", ""]),
            generation_id_or_member_epoch=self.generation(),
            retention_time=self.rng.choice(INT64),
            topics=[OffsetCommitRequestTopic(name="t", partitions=[row])],
            **self.identity(),  # type: ignore[arg-type]
        )
        await self.door.commit(Client("c", "/h", self.rng.randrange(2, 10)), request)

    async def delete(self) -> None:
        await self.door.delete_groups([self.rng.choice([GROUP, "g2", ""])])

    async def refuse(self) -> None:
        self.world.log.refuse = self.rng.choice([None, None, KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)])

    async def stall(self) -> None:
        log = self.world.log
        log.commits_at_once = not log.commits_at_once
        if log.commits_at_once:
            log.commit()

    @property
    def kinds(self) -> list[Callable[[], Awaitable[None]]]:
        often = [self.join] * 8 + [self.sync] * 4 + [self.heartbeat] * 2
        return [*often, self.leave, self.commit, self.delete, self.refuse, self.stall]


@pytest.mark.parametrize("seed", range(20))
def test_every_client_request_gets_a_response(seed: int) -> None:
    async def scenario() -> None:
        rng = random.Random(seed)
        settings = replace(rng.choice([NO_DELAY, SETTINGS]), group_size_max=rng.choice([2, 3, 2**31 - 1]))
        world = World(settings=settings)
        await world.lead()
        nonsense = Nonsense(world, rng)
        requested = []
        for _ in range(120):
            requested.append(asyncio.ensure_future(rng.choice(nonsense.kinds)()))
            if rng.random() < 0.6:
                await asyncio.sleep(rng.choice(PAUSES_S))
        await asyncio.sleep(1)
        world.log.refuse, world.log.commits_at_once = None, True
        world.log.commit()
        await asyncio.wait_for(asyncio.gather(*requested), timeout=4_000)

    loop = SimLoop(random.Random(seed))
    try:
        loop.run_until_complete(scenario())
        assert not loop.errors
    finally:
        loop.close()
