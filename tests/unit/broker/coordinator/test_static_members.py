"""Static members (KIP-345): they come back under a new member id, and nobody else has to join again for that."""

import asyncio
from dataclasses import replace

import pytest

from kvorum.protocol.errors import ErrorCode, KafkaError
from tests.unit.broker.coordinator.conftest import Run
from tests.unit.broker.coordinator.group_kit import NO_DELAY, Member, World, stable, subscription

OK = ErrorCode.NONE


def test_a_returning_static_member_gets_its_assignment_without_a_rebalance(run: Run) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        await world.lead()
        leader, follower = Member(world, "a", instance_id="ia"), Member(world, "b", instance_id="ib")
        await stable(world, [leader, follower])
        back = Member(world, "b", instance_id="ib")
        joined = await back.join()
        assert joined.generation_id == 1 and joined.member_id != follower.member_id and not joined.skip_assignment
        assert (await back.ask_sync()).assignment == b"b"
        assert await leader.heartbeat() is OK and await back.heartbeat() is OK
        assert await follower.heartbeat() is ErrorCode.FENCED_INSTANCE_ID
        rows = {row.group_instance_id: row for row in world.generation_in_log().value.members}
        assert rows["ib"].member_id == back.member_id and rows["ib"].assignment == b"b"

    run(scenario())


@pytest.mark.parametrize(("version", "skips"), [(9, True), (8, False)])
def test_a_returning_static_leader_does_not_reassign(run: Run, version: int, skips: bool) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        await world.lead()
        leader = Member(world, "a", instance_id="ia", version=version)
        await stable(world, [leader])
        back = Member(world, "a", instance_id="ia", version=version)
        joined = await back.join()
        assert joined.skip_assignment is skips
        assert (joined.leader == back.member_id) is skips, "an older one takes itself for a follower"
        assert len(joined.members) == int(skips)
        assert (await back.ask_sync()).assignment == b"a"

    run(scenario())


def test_a_static_member_that_speaks_another_protocol_now_has_all_join_again(run: Run) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        await world.lead()
        both = (("range", subscription("t")), ("sticky", subscription("t")))
        one = Member(world, "a", instance_id="ia", protocols=both)
        two = Member(world, "b", instance_id="ib", protocols=both)
        await stable(world, [one, two])
        back = Member(world, "b", instance_id="ib", protocols=both[1:])
        joining = back.ask_join()
        await asyncio.sleep(0.1)
        assert await one.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
        assert (await one.join()).protocol_name == "sticky" and (await joining).generation_id == 2

    run(scenario())


def test_the_former_self_of_a_static_member_is_fenced_while_it_waits(run: Run) -> None:
    async def scenario() -> None:
        world = World()
        await world.lead()
        first = Member(world, "a", instance_id="ia").ask_join()
        second = Member(world, "a", instance_id="ia").ask_join()
        assert (await first).error_code == ErrorCode.FENCED_INSTANCE_ID
        joined = await second
        assert joined.error_code == OK and joined.generation_id == 1 and joined.leader == joined.member_id

    run(scenario())


def test_an_administrator_removes_a_static_member_by_its_instance_id(run: Run) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        await world.lead()
        await stable(world, [Member(world, "m", instance_id="ia")])
        admin = Member(world, "admin", instance_id="ia")
        assert [row.error_code for row in (await admin.leave()).members] == [0]
        assert world.state_name == "Empty"

    run(scenario())


def test_a_static_return_that_cannot_be_written_leaves_the_former_member(run: Run) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        await world.lead()
        member = Member(world, "a", instance_id="ia")
        await stable(world, [member])
        world.log.refuse = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
        refused = await Member(world, "a", instance_id="ia").ask_join()
        assert refused.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE and refused.member_id == ""
        assert await member.heartbeat() is OK
        world.log.refuse = None
        assert (await Member(world, "a", instance_id="ia").join()).error_code == OK

    run(scenario())


def test_a_static_member_that_returns_before_its_assignment_causes_a_rebalance(run: Run) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        await world.lead()
        one, two = Member(world, "a", instance_id="ia"), Member(world, "b", instance_id="ib")
        joined = await asyncio.gather(one.join(), two.join())
        leader, follower = sorted((one, two), key=lambda each: each.member_id != joined[0].leader)
        waiting = follower.ask_sync()
        back = replace(follower, member_id="")
        joining = back.ask_join()
        assert (await waiting).error_code == ErrorCode.FENCED_INSTANCE_ID
        assert await leader.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
        assert (await leader.join()).generation_id == (await joining).generation_id == 2

    run(scenario())


def test_a_static_member_that_does_not_join_in_time_stays(run: Run) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        await world.lead()
        away = Member(world, "a", instance_id="ia", session_ms=1_000_000, rebalance_ms=20_000)
        here = Member(world, "b", session_ms=1_000_000, rebalance_ms=20_000)
        await stable(world, [away, here])
        here.protocols = (("range", subscription("u")),)
        joined = await here.join()
        assert joined.generation_id == 2 and joined.leader == here.member_id
        assert {each.member_id for each in joined.members} == {away.member_id, here.member_id}

    run(scenario())
