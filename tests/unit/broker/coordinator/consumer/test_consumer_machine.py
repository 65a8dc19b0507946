"""Clients that do as KIP-848 says, and a world that does not: no partition is ever two clients', and all are had.

Each run is a list of events between pauses: members come, die, leave, leave for a while and return; topics are made,
grow and go; appends are refused or not committed; another broker leads, with or without what was not committed. A
client takes its time to give partitions up, sends everything again when an answer is lost, and lets go of everything
when its session is over. Classic clients do the same in their protocol, eagerly, and the group changes its protocol
under them.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kvorum.broker.coordinator.group.consumer.embedded import (
    EmbeddedAssignment,
    Subscription,
    TopicPartitions,
    read_assignment,
)
from kvorum.broker.coordinator.group.consumer.settings import Bounded
from kvorum.broker.coordinator.group.replay import partitions_of
from kvorum.broker.coordinator.group.words import ConsumerGroup
from kvorum.protocol.codec import encoder
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.join_group import JoinGroupResponse
from kvorum.protocol.uuids import Uuid
from sim.loop import SimLoop
from tests.unit.broker.coordinator.consumer.consumer_kit import (
    SESSION_MS,
    Consumer,
    ConsumerWorld,
    consumer_settings,
    topic_id,
)
from tests.unit.broker.coordinator.group_kit import GROUP, Member

QUIET_SECONDS = 240
LOST = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND)
CLASSIC_LOST = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID)
Key = tuple[str, int]


@dataclass
class Actor:
    """One client process. `owned` is what it reads at this moment."""

    world: ConsumerWorld
    name: str
    instance_id: str | None = None
    topics: tuple[str, ...] = ("t",)
    regex: str | None = None
    owned: set[Key] = field(default_factory=set)
    task: "asyncio.Task[None] | None" = None
    lives: int = 0
    chance: random.Random = field(default_factory=lambda: random.Random(3))

    @property
    def is_alive(self) -> bool:
        return self.task is not None

    def start(self) -> None:
        self.lives += 1
        self.owned = set()
        self.begin()
        self.task = asyncio.ensure_future(self.live())

    async def stop(self) -> None:
        task, self.task = self.task, None
        assert task is not None
        task.cancel()
        await asyncio.wait([task])
        self.owned = set()

    def begin(self) -> None:
        """Make the member of this life."""
        raise NotImplementedError

    async def live(self) -> None:
        raise NotImplementedError

    async def leave(self, *, for_a_while: bool) -> None:
        raise NotImplementedError


@dataclass
class Modern(Actor):
    """A client of the consumer protocol."""

    member: Consumer = field(init=False)

    def begin(self) -> None:
        topics = None if self.regex else list(self.topics)
        name = f"{self.name}-{self.lives}"
        self.member = Consumer(self.world, name, topics=topics, regex=self.regex, instance_id=self.instance_id)

    async def live(self) -> None:
        says_all, heard_ms = True, 0
        while True:
            member, now_ms = self.member, self.world.partition.now_ms()
            if member.epoch and now_ms - heard_ms >= SESSION_MS - 1_000:
                self.abandon()
                says_all = True
            if not member.epoch:
                request = member.full({})
            else:
                has = {}
                for topic, number in self.owned:
                    has.setdefault(topic_id(topic), set()).add(number)
                request = member.full(has) if says_all else member.short(has)
            response = await member.send(request)
            if response.error_code in LOST:
                self.abandon()
                says_all = True
            elif response.error_code == ErrorCode.NONE:
                heard_ms, says_all = now_ms, False
                member.take(response)
                if response.assignment is not None:
                    await self.reconcile()
                    continue
            else:
                says_all = True
            await asyncio.sleep(2.0)

    def abandon(self) -> None:
        self.owned = set()
        self.member.epoch, self.member.assigned = 0, {}

    async def reconcile(self) -> None:
        """Give up at leisure what is not its own any more, then read what is."""
        target = {(self.world.names[each], number) for each, rows in self.member.assigned.items() for number in rows}
        if self.owned - target:
            await asyncio.sleep(self.chance.choice([0.0, 1.0, 4.0]))
        self.owned &= target
        self.owned |= target
        await asyncio.sleep(0.1)

    async def leave(self, *, for_a_while: bool) -> None:
        await self.member.leave(-2 if for_a_while and self.instance_id else -1)


def classic_subscription(topics: tuple[str, ...], owned: set[Key], generation: int) -> bytes:
    rows = [
        TopicPartitions(topic=topic, partitions=sorted(number for name, number in owned if name == topic))
        for topic in sorted({name for name, _ in owned})
    ]
    out = bytearray(b"\0\2")
    message = Subscription(topics=list(topics), owned_partitions=rows, generation_id=generation)
    encoder(Subscription, 2, False)(message, out, [])
    return bytes(out)


def classic_assignment(partitions: set[Key]) -> bytes:
    rows = [
        TopicPartitions(topic=topic, partitions=sorted(number for name, number in partitions if name == topic))
        for topic in sorted({name for name, _ in partitions})
    ]
    out = bytearray(b"\0\2")
    encoder(EmbeddedAssignment, 2, False)(EmbeddedAssignment(assigned_partitions=rows), out, [])
    return bytes(out)


@dataclass
class Classic(Actor):
    """A client of the classic protocol, eager: it reads nothing while it joins."""

    member: Member = field(init=False)

    def begin(self) -> None:
        self.member = Member(self.world, self.name, self.instance_id, rebalance_ms=20_000, session_ms=SESSION_MS)

    async def live(self) -> None:
        while True:
            try:
                if await self.join():
                    await self.beat()
                else:
                    await asyncio.sleep(0.3)
            finally:
                self.owned = set()

    async def join(self) -> bool:
        member = self.member
        member.protocols = [("range", classic_subscription(self.topics, self.owned, member.generation))]
        joined = await member.join()
        if joined.error_code:
            self.forget(joined.error_code)
            return False
        plan = self.plan(joined) if joined.leader == member.member_id and not joined.skip_assignment else None
        answer = await member.ask_sync(plan)
        if answer.error_code:
            self.forget(answer.error_code)
            return False
        rows = read_assignment(answer.assignment).assigned_partitions
        self.owned = {(row.topic, number) for row in rows for number in row.partitions}
        return True

    def plan(self, joined: JoinGroupResponse) -> dict[str, bytes]:
        ids = sorted(each.member_id for each in joined.members)
        all_of_them = sorted(self.world.partitions_of(self.topics))
        return {each: classic_assignment(set(all_of_them[index :: len(ids)])) for index, each in enumerate(ids)}

    def forget(self, code: int) -> None:
        if code in CLASSIC_LOST:
            self.member.member_id, self.member.generation = "", -1

    async def beat(self) -> None:
        heard_ms = self.world.partition.now_ms()
        while True:
            now_ms = self.world.partition.now_ms()
            code = await self.member.heartbeat()
            if code is ErrorCode.NONE:
                heard_ms = now_ms
            elif code is ErrorCode.REBALANCE_IN_PROGRESS or code in CLASSIC_LOST:
                self.forget(code)
                return
            elif now_ms - heard_ms >= SESSION_MS - 1_000:
                return
            await asyncio.sleep(2.0)

    async def leave(self, *, for_a_while: bool) -> None:
        await self.member.leave()


class StoryWorld(ConsumerWorld):
    """A world that knows the topics by their ids."""

    names: dict[Uuid, str]

    def partitions_of(self, topics: tuple[str, ...]) -> set[Key]:
        found = (self.image.topics.topic(name) for name in topics)
        return {(topic.name, number) for topic in found if topic is not None for number in topic.partitions}


class Story:
    """A world and its clients."""

    def __init__(self, actors: list[Actor], world: StoryWorld) -> None:
        self.world, self.actors = world, actors
        world.names = {topic_id(name): name for name in ("t", "u")}
        self.topics_made = 0
        world.make_topic("t", 4)
        world.make_topic("u", 3)

    async def happen(self, event: str, who: int) -> None:
        actor, log = self.actors[who % len(self.actors)], self.world.log
        match event:
            case "start" if not actor.is_alive and not self.has_twin(actor):
                actor.start()
            case "kill" if actor.is_alive:
                await actor.stop()
            case "restart" if actor.is_alive:
                await actor.stop()
                actor.start()
            case "leave" | "pause" if actor.is_alive:
                await actor.stop()
                try:
                    await actor.leave(for_a_while=event == "pause")
                except KafkaError:
                    return  # the member is gone either way; its session will tell
            case "topic":
                self.change_topic(who)
            case "refuse":
                log.refuse = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
            case "hold":
                log.commits_at_once = False
            case "heal":
                self.heal()
            case "fail over":
                await self.world.fail_over(loses_uncommitted=who % 2 == 0)

    def has_twin(self, actor: Actor) -> bool:
        """Return whether somebody lives under the same instance id: that is nobody's plan."""
        mine = actor.instance_id
        return mine is not None and any(each.is_alive and each.instance_id == mine for each in self.actors)

    def change_topic(self, who: int) -> None:
        name = f"t-{self.topics_made}"
        topic = self.world.image.topics.topic(name)
        if topic is None:
            self.topics_made += 1
            name = f"t-{self.topics_made}"
            self.world.names[topic_id(name)] = name
            self.world.make_topic(name, 2)
        elif who % 2:
            self.world.grow_topic(name, len(topic.partitions) + 2)
        else:
            self.world.delete_topic(name)

    def heal(self) -> None:
        log = self.world.log
        log.refuse, log.commits_at_once = None, True
        log.commit()

    def check(self) -> None:
        """No two read the same; and what the group knows of who has what is what its members say."""
        seen: dict[Key, str] = {}
        for actor in self.actors:
            for key in actor.owned:
                assert seen.setdefault(key, actor.name) == actor.name, f"{key}: {seen[key]} and {actor.name}"
        group = self.world.partition.state.groups.get(GROUP)
        if isinstance(group, ConsumerGroup):
            owners = {}
            for member in group.members.values():
                for partition in partitions_of(member):
                    assert owners.setdefault(partition, member.member_id) == member.member_id
            assert owners == dict(group.owners.items())

    async def end(self) -> None:
        """Leave the world in peace: the living are the group, and all is theirs."""
        self.heal()
        for _ in range(QUIET_SECONDS):
            await asyncio.sleep(1)
            self.check()
        alive = [actor for actor in self.actors if actor.is_alive]
        if alive:
            read: set[Key] = set().union(*(self.wanted(actor) for actor in alive))
            assert set().union(*(actor.owned for actor in alive)) == read
            for actor in alive:
                assert actor.owned <= self.wanted(actor)
        for actor in alive:
            await actor.stop()

    def wanted(self, actor: Actor) -> set[Key]:
        if actor.regex:
            return self.world.partitions_of(("t", f"t-{self.topics_made}"))
        return self.world.partitions_of(actor.topics)


def play(actors_of: Callable[[StoryWorld], list[Actor]], steps: list[tuple[str, int, float]]) -> None:
    async def scenario() -> None:
        interval_ms = 1_000 if len(steps) % 2 else 0
        world = StoryWorld(settings=consumer_settings(assignment_interval_ms=Bounded(interval_ms, 0, 15_000)))
        story = Story(actors_of(world), world)
        await world.lead()
        for event, who, pause in steps:
            await story.happen(event, who)
            until = asyncio.get_running_loop().time() + pause
            while asyncio.get_running_loop().time() < until:
                await asyncio.sleep(0.2)
                story.check()
        await story.end()

    loop = SimLoop(random.Random(1))
    try:
        loop.run_until_complete(scenario())
    finally:
        loop.close()


def modern_actors(world: StoryWorld) -> list[Actor]:
    return [
        Modern(world, "s0", "i0"),
        Modern(world, "s1", "i1", topics=("t", "u")),
        Modern(world, "d0"),
        Modern(world, "d1", topics=("t", "t-1")),
        Modern(world, "r0", topics=(), regex="t.*"),
    ]


def mixed_actors(world: StoryWorld) -> list[Actor]:
    return [
        Classic(world, "c0", "i0", topics=("t", "u")),
        Modern(world, "s0", "i0", topics=("t", "u")),
        Modern(world, "d0", topics=("t", "u")),
        Classic(world, "c1", topics=("t", "u")),
        Classic(world, "c2", topics=("t", "u")),
    ]


EVENTS = ["start"] * 6 + ["kill", "restart", "restart", "leave", "leave", "pause", "topic", "topic"]
EVENTS += ["refuse", "hold", "heal", "heal", "fail over"]
STEPS = st.lists(
    st.tuples(st.sampled_from(EVENTS), st.integers(0, 4), st.sampled_from([0.0, 0.001, 0.3, 2.0, 6.0, 25.0])),
    min_size=3,
    max_size=25,
)


LEAVE_IS_NOT_WRITTEN = [("start", 0, 0.3), ("start", 1, 0.3), ("refuse", 0, 0.0), ("leave", 0, 0.0)]
DOWNGRADE_WHILE_ANOTHER_WAITS = [
    ("start", 1, 2.0),
    ("refuse", 0, 0.0),
    ("leave", 1, 0.0),
    ("start", 0, 0.0),
    ("start", 3, 0.001),
]


@settings(max_examples=60, deadline=None)
@example(LEAVE_IS_NOT_WRITTEN)
@given(STEPS)
def test_no_partition_is_ever_twos_and_in_the_end_all_are_ones(steps: list[tuple[str, int, float]]) -> None:
    play(modern_actors, steps)


@settings(max_examples=40, deadline=None)
@example(DOWNGRADE_WHILE_ANOTHER_WAITS)
@given(STEPS)
def test_members_of_both_protocols_converge(steps: list[tuple[str, int, float]]) -> None:
    play(mixed_actors, steps)
