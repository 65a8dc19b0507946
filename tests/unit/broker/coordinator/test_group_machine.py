"""Members that behave as clients do, and a world that does not: whatever happens, the group comes together afterwards.

Each run is a list of events between pauses: members come, die, leave, return with their instance id; appends are
refused or not committed; another broker leads, with or without what was not committed. Meanwhile: nobody is answered
twice (group_kit.once), counts are right, and of one generation no two members are assigned the same.
"""

import asyncio
import random
from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from kvorum.broker.coordinator.group.classic.words import ClassicState
from kvorum.protocol.errors import ErrorCode, KafkaError
from sim.loop import SimLoop
from tests.unit.broker.coordinator.group_kit import SETTINGS, Member, World, subscription

NEVER_MS = 10**12
NO_EXPIRY = replace(SETTINGS, initial_rebalance_delay_ms=500, offsets_retention_check_interval_ms=NEVER_MS)
LOST = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID)
PARTITIONS = 12
QUIET_SECONDS = 120


@dataclass
class Actor:
    """One client process."""

    world: World
    name: str
    owned: dict[tuple[int, str], bytes]
    """By generation and who: what was assigned."""
    instance_id: str | None = None
    version: int = 9
    member: Member = field(init=False)
    assignment: bytes = b""
    task: "asyncio.Task[None] | None" = None

    def start(self) -> None:
        protocols = [("range", subscription("t")), ("sticky", b"")]
        self.member = Member(
            self.world, self.name, self.instance_id, version=self.version, rebalance_ms=20_000, protocols=protocols
        )
        self.assignment = b""
        self.task = asyncio.ensure_future(self._live())

    @property
    def is_alive(self) -> bool:
        return self.task is not None

    async def stop(self) -> None:
        task, self.task = self.task, None
        assert task is not None
        task.cancel()
        await asyncio.wait([task])

    async def _live(self) -> None:
        while True:
            if not await self._join():
                await asyncio.sleep(0.25)
                continue
            await self._beat()

    async def _beat(self) -> None:
        """Send heartbeats until one is answered with an error."""
        while True:
            code = await self.member.heartbeat()
            if code in LOST:
                self.member.member_id, self.member.generation = "", -1
            if code is not ErrorCode.NONE:
                return
            await asyncio.sleep(3)

    async def _join(self) -> bool:
        joined = await self.member.join()
        if joined.error_code:
            if joined.error_code in LOST:
                self.member.member_id = ""
            return False
        plan = None
        if joined.leader == self.member.member_id and not joined.skip_assignment:
            ids = [each.member_id for each in joined.members]
            plan = {each: bytes(range(index, PARTITIONS, len(ids))) for index, each in enumerate(ids)}
        answer = await self.member.ask_sync(plan)
        if answer.error_code:
            if answer.error_code in LOST:
                self.member.member_id = ""
            return False
        self.assignment = answer.assignment
        key = joined.generation_id, self.instance_id or self.member.member_id
        assert self.owned.setdefault(key, answer.assignment) == answer.assignment
        return True


class Story:
    """A world and its clients."""

    def __init__(self) -> None:
        self.world = World(settings=NO_EXPIRY)
        self.owned: dict[tuple[int, str], bytes] = {}
        static = [Actor(self.world, f"s{n}", self.owned, f"i{n}", 9 - n) for n in range(2)]
        self.actors = static + [
            Actor(self.world, f"d{n}", self.owned, None, version) for n, version in enumerate((9, 3, 4))
        ]

    async def happen(self, event: str, who: int) -> None:
        actor, log = self.actors[who], self.world.log
        match event:
            case "start" if not actor.is_alive:
                actor.start()
            case "kill" if actor.is_alive:
                await actor.stop()
            case "restart" if actor.is_alive:
                await actor.stop()
                actor.start()
            case "leave" if actor.is_alive:
                await actor.stop()
                await asyncio.wait([asyncio.ensure_future(swallow(actor.member))])
            case "refuse":
                log.refuse = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
            case "hold":
                log.commits_at_once = False
            case "heal":
                await self.heal()
            case "fail over":
                await self.world.fail_over(loses_uncommitted=who % 2 == 0)

    async def heal(self) -> None:
        log = self.world.log
        log.refuse, log.commits_at_once = None, True
        log.commit()

    def check(self) -> None:
        for group in self.world.partition.shard.classic_groups().values():
            group.check()
            parked = [each for each in group.members.values() if each.awaiting_join is not None]
            assert len(parked) == group.awaiting_join_count
            assert not group.pending_joins & set(group.members)
            assert set(group.static_members.values()) == {m.member_id for m in group.members.values() if m.is_static}
        assigned: dict[int, bytes] = {}
        for (generation, _), partitions in self.owned.items():
            before = assigned.setdefault(generation, b"")
            assert not set(before) & set(partitions), "two members own the same"
            assigned[generation] = before + partitions

    async def end(self) -> None:
        """Leave the world in peace: the living are the group, and all is theirs."""
        await self.heal()
        await asyncio.sleep(QUIET_SECONDS)
        self.check()
        alive = [actor for actor in self.actors if actor.is_alive]
        group = self.world.partition.shard.classic_groups().get("orders")
        if not alive:
            assert group is None or group.state is ClassicState.EMPTY
            return
        assert group is not None and group.state is ClassicState.STABLE
        assert set(group.members) == {actor.member.member_id for actor in alive}
        assert {actor.member.generation for actor in alive} == {group.generation}
        assert sorted(b"".join(actor.assignment for actor in alive)) == list(range(PARTITIONS))
        for actor in alive:
            await actor.stop()


async def swallow(member: Member) -> None:
    try:
        await member.leave()
    except KafkaError:
        return  # the member is gone either way; its session will tell


EVENTS = ["start"] * 5 + ["kill", "restart", "restart", "leave", "refuse", "hold", "heal", "heal", "fail over"]
STEPS = st.lists(
    st.tuples(st.sampled_from(EVENTS), st.integers(0, 4), st.sampled_from([0.0, 0.001, 0.3, 2.0, 11.0, 25.0])),
    min_size=3,
    max_size=25,
)


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_after_any_history_the_group_has_exactly_the_live_members(steps: list[tuple[str, int, float]]) -> None:
    async def scenario() -> None:
        story = Story()
        await story.world.lead()
        for event, who, pause in steps:
            await story.happen(event, who)
            await asyncio.sleep(pause)
            story.check()
        await story.end()

    loop = SimLoop(random.Random(1))
    try:
        loop.run_until_complete(scenario())
    finally:
        loop.close()
