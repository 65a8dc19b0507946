"""Groups with members that change their protocol, and members of both protocols in one group, request by request."""

import asyncio

import pytest

from kvorum.broker.coordinator.group.classic.words import ClassicState
from kvorum.broker.coordinator.group.consumer.settings import MigrationPolicy
from kvorum.protocol.codec import encoder
from kvorum.protocol.consumer_protocol import ConsumerAssignment, TopicPartitions, read_assignment
from kvorum.protocol.errors import ErrorCode, KafkaError
from tests.unit.broker.coordinator.conftest import Run
from tests.unit.broker.coordinator.consumer.consumer_kit import Consumer, ConsumerWorld, consumer_settings
from tests.unit.broker.coordinator.group_kit import GROUP, Member, subscription

RANGE = (("range", subscription("t")),)


async def world_of(**changes: object) -> ConsumerWorld:
    world = ConsumerWorld(settings=consumer_settings(**changes))
    world.make_topic("t", 4)
    await world.lead()
    return world


def reported(partitions: set[int], user_data: bytes | None = None) -> bytes:
    """What a leader assigns."""
    out = bytearray(b"\0\1")
    rows = [TopicPartitions(topic="t", partitions=sorted(partitions))]
    message = ConsumerAssignment(assigned_partitions=rows, user_data=user_data)
    encoder(ConsumerAssignment, 1, False)(message, out, [])
    return bytes(out)


def numbers(assignment: bytes) -> set[int]:
    return {each for row in read_assignment(assignment).assigned_partitions for each in row.partitions}


async def classic_group(world: ConsumerWorld, *names: str, user_data: bytes | None = None) -> list[Member]:
    """A stable classic group, each member with its share of four partitions."""
    members = [Member(world, name, protocols=RANGE) for name in names]
    joined = await asyncio.gather(*(each.join() for each in members))
    share = 4 // len(names)
    plan = {
        each.member_id: reported(set(range(index * share, (index + 1) * share)), user_data)
        for index, each in enumerate(members)
    }
    leader = joined[0].leader
    await asyncio.gather(*(each.ask_sync(plan if each.member_id == leader else None) for each in members))
    return members


async def rejoin(member: Member, *, having: set[int]) -> set[int]:
    """Join again and sync, as a member that is told to; return what it is assigned."""
    member.protocols = (("range", owning(having)),)
    answer = await member.join()
    assert (answer.error_code, answer.leader, answer.members) == (0, "", [])
    synced = await member.ask_sync()
    assert synced.error_code == ErrorCode.NONE
    return numbers(synced.assignment)


def owning(partitions: set[int]) -> bytes:
    """A subscription to t, version 1, of one who has these."""
    body = subscription("t")[2:]
    rows = b"".join(each.to_bytes(4, "big") for each in sorted(partitions))
    owned = b"\0\0\0\1\0\1t" + len(partitions).to_bytes(4, "big") + rows if partitions else b"\0\0\0\0"
    return b"\0\1" + body + owned


def test_a_member_of_the_consumer_protocol_upgrades_the_group(run: Run) -> None:
    async def scenario() -> None:
        world = await world_of()
        (old,) = await classic_group(world, "old")
        new = Consumer(world, "new")
        answer = await new.join()
        assert (answer.error_code, answer.member_epoch) == (0, 2)
        assert new.numbers() == set(), "the old one has them still"
        group = world.group
        assert group.members[old.member_id].classic is not None
        rows = {each.member_id: each.member_type for each in world.described().members}
        assert rows == {old.member_id: 0, "id-new": 1}
        assert await old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
        kept = await rejoin(old, having={0, 1, 2, 3})
        assert len(kept) == 2
        assert await old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS, "to say that it has let go"
        assert await rejoin(old, having=kept) == kept
        await new.beat()
        assert new.numbers() == {0, 1, 2, 3} - kept
        assert await old.heartbeat() is ErrorCode.NONE

    run(scenario())


def test_the_group_is_a_classic_one_again_when_the_last_of_the_new_has_left(run: Run) -> None:
    async def scenario() -> None:
        world = await world_of()
        (old,) = await classic_group(world, "old")
        new = Consumer(world, "new")
        await new.join()
        kept = await rejoin(old, having={0, 1, 2, 3})
        await rejoin(old, having=kept)
        assert (await new.leave()).error_code == ErrorCode.NONE
        group = world.partition.shard.classic_groups()[GROUP]
        assert (group.state, group.protocol_name, set(group.members)) == (
            ClassicState.PREPARING_REBALANCE,
            "range",
            {old.member_id},
        )
        assert numbers(world.generation_in_log().value.members[0].assignment) == kept
        assert await old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
        joined = await old.join()
        assert (joined.error_code, joined.leader) == (0, old.member_id)
        await world.fail_over()
        assert world.generation_in_log().value.members

    run(scenario())


def test_a_group_that_changed_its_protocol_unwritten_has_not(run: Run) -> None:
    async def scenario() -> None:
        world = await world_of()
        (old,) = await classic_group(world, "old")
        world.log.refuse = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
        assert (await Consumer(world, "new").join()).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        world.log.refuse = None
        assert await old.heartbeat() is ErrorCode.NONE, "its generation is what it was"
        await asyncio.sleep(11)
        assert not world.partition.shard.classic_groups()[GROUP].members, "and so is its session"

    run(scenario())


@pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.DOWNGRADE])
def test_a_group_with_members_stays_where_upgrades_are_off(run: Run, policy: MigrationPolicy) -> None:
    async def scenario() -> None:
        world = await world_of(migration_policy=policy)
        (old,) = await classic_group(world, "old")
        answer = await Consumer(world, "new").join()
        assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert answer.error_message is not None and "online upgrade is disabled" in answer.error_message
        assert await old.heartbeat() is ErrorCode.NONE

    run(scenario())


def test_a_group_with_an_assignor_of_its_own_is_not_upgraded(run: Run) -> None:
    async def scenario() -> None:
        world = await world_of()
        (old,) = await classic_group(world, "old", user_data=b"mine")
        answer = await Consumer(world, "new").join()
        assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert answer.error_message is not None and "custom assignor" in answer.error_message
        assert await old.heartbeat() is ErrorCode.NONE

    run(scenario())


def test_a_group_of_no_consumers_is_not_upgraded(run: Run) -> None:
    async def scenario() -> None:
        world = await world_of()
        worker = Member(world, "connect", protocols=(("v1", b"x"),), protocol_type="connect")
        await worker.join()
        answer = await Consumer(world, "new").join()
        assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND

    run(scenario())


def test_without_downgrades_classic_members_stay_in_a_consumer_group(run: Run) -> None:
    async def scenario() -> None:
        world = await world_of(migration_policy=MigrationPolicy.UPGRADE)
        (old,) = await classic_group(world, "old")
        new = Consumer(world, "new")
        await new.join()
        await new.leave()
        assert set(world.group.members) == {old.member_id}
        assert await old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
        assert await rejoin(old, having={0, 1, 2, 3}) == {0, 1, 2, 3}

    run(scenario())


def test_classic_members_join_a_consumer_group(run: Run) -> None:
    async def scenario() -> None:
        world = await world_of()
        new, old = Consumer(world, "new"), Member(world, "old", protocols=RANGE)
        await new.join()
        first = await old.ask_join()
        assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
        old.member_id = first.member_id
        assert await rejoin(old, having=set()) == set()
        await new.beat()
        await new.beat()
        assert await old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS, "what it is to have is free now"
        mine = await rejoin(old, having=set())
        assert mine | new.numbers() == {0, 1, 2, 3} and not mine & new.numbers()
        old.generation -= 1
        assert await old.heartbeat() is ErrorCode.ILLEGAL_GENERATION
        assert (await old.ask_sync()).error_code == ErrorCode.ILLEGAL_GENERATION
        stranger = Member(world, "stranger", member_id="id-new", generation=new.epoch)
        assert await stranger.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID, "that one speaks the other protocol"
        other = Member(world, "other", member_id="x", protocols=(("sticky", subscription("t")),))
        assert (await other.ask_join()).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        left = await old.leave()
        assert [row.error_code for row in left.members] == [ErrorCode.NONE]
        await new.beat()
        assert new.numbers() == {0, 1, 2, 3}

    run(scenario())


@pytest.mark.parametrize("is_silent_in", ["join", "sync"])
def test_a_classic_member_that_does_not_rejoin_in_time_is_fenced(run: Run, is_silent_in: str) -> None:
    """Its heartbeats alone do not keep it: it has one rebalance timeout to join, and to sync."""

    async def scenario() -> None:
        world = await world_of()
        new = Consumer(world, "new")
        old = Member(world, "old", protocols=RANGE, rebalance_ms=20_000, session_ms=30_000)
        await new.join()
        await old.join()
        if is_silent_in == "join":
            await old.ask_sync()
            await new.beat()
            await new.beat()
        for _ in range(7):
            await old.heartbeat()
            await new.beat()
            await asyncio.sleep(4)
        assert set(world.group.members) == {"id-new"}
        await new.beat()
        assert new.numbers() == {0, 1, 2, 3}

    run(scenario())


def test_a_static_member_that_returns_with_the_old_protocol_takes_the_group_with_it(run: Run) -> None:
    async def scenario() -> None:
        world = await world_of()
        new = Consumer(world, "new", instance_id="i")
        await new.join()
        await new.leave(-2)
        old = Member(world, "old", instance_id="i", protocols=RANGE)
        joined = await old.join()
        assert joined.error_code == ErrorCode.NONE
        group = world.partition.shard.classic_groups()[GROUP]
        assert (group.state, set(group.members)) == (ClassicState.STABLE, {old.member_id})
        assert numbers((await old.ask_sync()).assignment) == {0, 1, 2, 3}

    run(scenario())


def test_a_join_that_was_waited_for_before_the_group_was_classic_is_not_waited_for_after(run: Run) -> None:
    async def scenario() -> None:
        world = ConsumerWorld()
        world.make_topic("t", 4)
        await world.lead()
        old = Member(world, "old", protocols=RANGE, rebalance_ms=30_000, session_ms=10_000)
        await old.join()
        await old.ask_sync({old.member_id: reported({0, 1, 2, 3})})
        new = Consumer(world, "new")
        await new.join()
        assert await old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS, "30 seconds to join, from now on"
        await asyncio.sleep(5)
        await new.leave()
        assert (await old.join()).error_code == ErrorCode.NONE
        await old.ask_sync({old.member_id: reported({0, 1, 2, 3})})
        late = Consumer(world, "late")
        await late.join()
        for _ in range(10):
            assert await old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS, "27 of 30 seconds, in the end"
            await asyncio.sleep(3)
        assert await rejoin(old, having={0, 1, 2, 3}) == {0, 1}

    run(scenario())
