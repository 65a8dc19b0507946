"""The classic protocol: joins, assignments, deaths and returns, as members see them in virtual time."""

import asyncio
from dataclasses import replace

import pytest

from kvorum.broker.coordinator.group.classic.joining import new_id
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.join_group import JoinGroupResponse
from tests.unit.broker.coordinator.conftest import Run
from tests.unit.broker.coordinator.group_kit import (
    NO_DELAY,
    REBALANCE_MS,
    SESSION_MS,
    SETTINGS,
    Member,
    World,
    assigned,
    stable,
    subscription,
)

OK = ErrorCode.NONE


def now_ms() -> int:
    return round(asyncio.get_running_loop().time() * 1000)


async def gathered(world: World, count: int, **options: object) -> list[Member]:
    """Return members of a stable group."""
    members = [Member(world, f"m{index}", **options) for index in range(count)]  # type: ignore[arg-type]
    await stable(world, members)
    return members


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_members_that_join_together_are_one_generation(run: Run, count: int) -> None:
    async def scenario() -> None:
        world = World()
        await world.lead()
        began_ms = now_ms()
        members = [Member(world, f"m{index}") for index in range(count)]
        joined = await asyncio.gather(*(each.join() for each in members))
        assert {each.generation_id for each in joined} == {1}
        assert len({each.leader for each in joined}) == 1 and len({each.member_id for each in joined}) == count
        assert sorted(len(each.members) for each in joined) == [0] * (count - 1) + [count], "the leader knows all"
        assert {each.protocol_name for each in joined} == {"range"}
        # Who came while it waited prolongs the wait, once.
        assert now_ms() - began_ms in range(3_000, 6_100)
        assert world.state_name == "CompletingRebalance"
        await assigned(members, joined)
        assert world.state_name == "Stable"
        assert [await each.heartbeat() for each in members] == [OK] * count
        assert world.generation_in_log().value.generation == 1

    run(scenario())


def test_the_first_rebalance_waits_for_joins_up_to_one_rebalance_timeout(run: Run) -> None:
    async def scenario() -> None:
        world = World()
        await world.lead()
        began_ms = now_ms()
        members = [Member(world, f"m{index}", rebalance_ms=10_000) for index in range(9)]
        joins = []
        for member in members:
            joins.append(asyncio.ensure_future(member.join()))
            await asyncio.sleep(1)
        await asyncio.sleep(0.5)
        assert not joins[0].done()
        joined = await asyncio.gather(*joins)
        assert {each.generation_id for each in joined} == {1}
        assert now_ms() - began_ms == 10_000

    run(scenario())


def test_a_new_member_is_given_its_id_first_but_for_old_clients_and_static_members(run: Run) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        await world.lead()
        first = await Member(world, "new").ask_join()
        assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED and first.member_id.startswith("new-")
        assert len(first.member_id) == len("new-") + 36
        old = await Member(world, "old", version=3).ask_join()
        # The pending member is waited for until its session ends.
        assert old.error_code == OK and old.member_id.startswith("old-")

    run(scenario())


def test_a_pending_member_that_never_joins_is_waited_for_until_its_session_ends(run: Run) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        await world.lead()
        (member,) = await gathered(world, 1)
        await Member(world, "shy", session_ms=7_000).ask_join()
        began_ms = now_ms()
        member.protocols = (("range", subscription("t", "u")),)
        again = await member.join()
        assert again.generation_id == 2 and now_ms() - began_ms == 7_000

    run(scenario())


def test_a_member_id_has_javas_form() -> None:
    import random
    import uuid

    made = new_id("app", random.Random(3))
    parsed = uuid.UUID(made.removeprefix("app-"))
    assert parsed.version == 4 and parsed.variant == uuid.RFC_4122 and made == f"app-{parsed}"


def test_a_third_member_has_the_others_join_again(run: Run) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        await world.lead()
        members = await gathered(world, 2)
        late = Member(world, "late")
        joining = asyncio.ensure_future(late.join())
        await asyncio.sleep(1)
        assert world.state_name == "PreparingRebalance"
        assert [await each.heartbeat() for each in members] == [ErrorCode.REBALANCE_IN_PROGRESS] * 2
        joined = await asyncio.gather(joining, *(each.join() for each in members))
        assert {each.generation_id for each in joined} == {2}
        await assigned([late, *members], joined)

    run(scenario())


def test_a_slow_joiner_is_dropped_when_the_rebalance_timeout_has_passed(run: Run) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        await world.lead()
        slow, prompt = await gathered(world, 2, session_ms=1_000_000, rebalance_ms=20_000)
        late = Member(world, "late", rebalance_ms=20_000)
        began_ms = now_ms()
        joined = await asyncio.gather(late.join(), prompt.join())
        assert now_ms() - began_ms == 20_000
        assert {each.generation_id for each in joined} == {2}
        assert joined[0].leader in (late.member_id, prompt.member_id), "the leader was dropped"
        assert await slow.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
        assert (await slow.ask_join()).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    run(scenario())


def test_when_the_leader_dies_another_leads(run: Run) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        await world.lead()
        leader, *others = await gathered(world, 3)
        began_ms = now_ms()
        while await others[0].heartbeat() is OK:
            await others[1].heartbeat()
            await asyncio.sleep(1)
        assert now_ms() - began_ms in range(SESSION_MS, SESSION_MS + 1_001)
        joined = await asyncio.gather(*(each.join() for each in others))
        assert {each.generation_id for each in joined} == {2} and joined[0].leader == others[0].member_id
        await assigned(others, joined)
        assert await leader.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID

    run(scenario())


def test_a_leaving_member_is_removed_at_once_and_the_last_one_leaves_an_empty_generation(run: Run) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        await world.lead()
        one, two, three = await gathered(world, 3)
        answer = await one.leave(two, Member(world, "stranger", member_id="nobody"))
        assert [row.error_code for row in answer.members] == [0, 0, ErrorCode.UNKNOWN_MEMBER_ID]
        assert await three.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
        assert (await three.join()).generation_id == 2
        await three.leave()
        assert world.state_name == "Empty"
        value = world.generation_in_log().value
        assert (value.generation, value.members, value.protocol, value.leader) == (3, [], None, None)
        assert value.protocol_type == "consumer"

    run(scenario())


def test_an_old_leave_group_has_its_error_at_the_top(run: Run) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        await world.lead()
        (member,) = await gathered(world, 1, version=2)
        assert (await member.leave()).error_code == OK
        assert (await member.leave()).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    run(scenario())


# --- protocols and refusals -------------------------------------------------------------------------------------------


def test_the_protocol_most_members_like_best_of_those_all_speak_is_chosen(run: Run) -> None:
    async def scenario() -> None:
        world = World()
        await world.lead()
        data = subscription("t")
        tastes = [("sticky", "range", "own"), ("range", "sticky"), ("sticky", "range")]
        members = [
            Member(world, f"m{index}", protocols=[(name, data) for name in taste]) for index, taste in enumerate(tastes)
        ]
        joined = await asyncio.gather(*(each.join() for each in members))
        assert {each.protocol_name for each in joined} == {"sticky"}

    run(scenario())


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"protocols": (("other", b""),)}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"session_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"member_id": "unheard-of"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "x", "instance_id": "unheard-of"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "x", "instance_id": "i0"}, ErrorCode.FENCED_INSTANCE_ID),
    ],
)
def test_a_join_is_refused(run: Run, change: dict[str, object], code: ErrorCode) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        await world.lead()
        await gathered(world, 1, instance_id="i0")
        assert (await replace(Member(world, "x"), **change).ask_join()).error_code == code  # type: ignore[arg-type]
        assert world.state_name == "Stable"

    run(scenario())


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"generation": 5}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "x"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "x", "instance_id": "i0"}, ErrorCode.FENCED_INSTANCE_ID),
    ],
)
def test_a_member_with_a_wrong_epoch_gets_an_error(run: Run, change: dict[str, object], code: ErrorCode) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        await world.lead()
        member = Member(world, "m", instance_id="i0")
        await stable(world, [member])
        wrong = replace(member, **({"instance_id": None} | change))  # type: ignore[arg-type]
        assert await wrong.heartbeat() is code
        assert (await wrong.ask_sync()).error_code == code
        with pytest.raises(KafkaError) as error:
            await wrong.commit(4)
        assert error.value.code is code

    run(scenario())


def test_a_group_takes_no_more_members_than_its_limit(run: Run) -> None:
    async def scenario() -> None:
        world = World(settings=replace(SETTINGS, group_size_max=2))
        await world.lead()
        members = [Member(world, f"m{index}") for index in range(3)]
        joined = await asyncio.gather(*(each.join() for each in members))
        codes = [each.error_code for each in joined]
        assert sorted(codes) == [0, 0, ErrorCode.GROUP_MAX_SIZE_REACHED]
        accepted = [member for member, code in zip(members, codes, strict=True) if not code]
        await assigned(accepted, [each for each in joined if not each.error_code])
        assert (await Member(world, "more").join()).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED

    run(scenario())


def test_a_join_again_with_nothing_new_is_answered_from_the_current_generation(run: Run) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        await world.lead()
        members = await gathered(world, 2)
        leader_id = world.generation_in_log().value.leader
        leader, follower = sorted(members, key=lambda each: each.member_id != leader_id)
        same = await follower.join()
        assert (same.generation_id, same.members, world.state_name) == (1, [], "Stable")
        parked = leader.ask_join()
        await asyncio.sleep(0)
        assert world.state_name == "PreparingRebalance", "topics may have changed"
        await follower.join()
        again = await leader.ask_join()
        assert (await parked).generation_id == again.generation_id == 2 and len(again.members) == 2

    run(scenario())


# --- assignments ------------------------------------------------------------------------------------------------------


def test_assignments_are_reported_when_they_are_committed_and_not_before(run: Run) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        await world.lead()
        members = [Member(world, "a"), Member(world, "b")]
        joined = await asyncio.gather(*(each.join() for each in members))
        world.log.commits_at_once = False
        leader, follower = sorted(members, key=lambda each: each.member_id != joined[0].leader)
        waiting = follower.ask_sync()
        requested = leader.ask_sync({each.member_id: each.name.encode() for each in members})
        await asyncio.sleep(1)
        assert not waiting.done() and not requested.done() and world.state_name == "CompletingRebalance"
        with pytest.raises(KafkaError) as error:
            await follower.commit(1)
        assert error.value.code is ErrorCode.REBALANCE_IN_PROGRESS
        world.log.commit()
        assert ((await waiting).assignment, (await requested).assignment) == (
            follower.name.encode(),
            leader.name.encode(),
        )

    run(scenario())


def test_assignments_that_cannot_be_written_have_all_join_again(run: Run) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        await world.lead()
        members = [Member(world, "a"), Member(world, "b")]
        joined = await asyncio.gather(*(each.join() for each in members))
        world.log.refuse = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
        requested = [each.ask_sync({joined[0].leader: b"x"}) for each in members]
        assert {(await each).error_code for each in requested} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
        assert world.state_name == "PreparingRebalance"
        world.log.refuse = None
        joined = await asyncio.gather(*(each.join() for each in members))
        assert {each.generation_id for each in joined} == {2}
        await assigned(members, joined)

    run(scenario())


def test_a_rebalance_overtakes_assignments_that_are_being_written(run: Run) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        await world.lead()
        member = Member(world, "a", protocol_type="other")
        await member.join()
        world.log.commits_at_once = False
        requested = member.ask_sync({member.member_id: b"old"})
        await asyncio.sleep(0.1)
        late = Member(world, "b", instance_id="ib", protocol_type="other").ask_join()
        assert (await requested).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        world.log.commit()
        await asyncio.sleep(0.1)
        assert world.state_name == "PreparingRebalance"
        world.log.commits_at_once = True
        assert (await member.join()).generation_id == 2 and (await late).generation_id == 2

    run(scenario())


def test_a_member_without_a_sync_is_removed(run: Run) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        await world.lead()
        options = {"session_ms": 1_000_000}
        members = [Member(world, name, **options) for name in "ab"]  # type: ignore[arg-type]
        joined = await asyncio.gather(*(each.join() for each in members))
        leader, silent = sorted(members, key=lambda each: each.member_id != joined[0].leader)
        await leader.ask_sync({leader.member_id: b"all"})
        assert world.state_name == "Stable"
        await asyncio.sleep(REBALANCE_MS / 1000 + 0.1)
        assert await leader.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
        assert await silent.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
        assert (await leader.join()).generation_id == 2

    run(scenario())


def test_a_new_group_that_cannot_be_written_does_not_exist(run: Run) -> None:
    async def scenario() -> None:
        world = World()
        await world.lead()
        world.log.refuse = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
        refused: JoinGroupResponse = await Member(world, "a", version=3).ask_join()
        assert refused.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert world.state_name == "Dead" and not world.partition.shard.classic_groups()
        world.log.refuse = None
        assert (await Member(world, "a", version=3).ask_join()).generation_id == 1

    run(scenario())


def test_a_parked_join_outlasts_the_members_session(run: Run) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        await world.lead()
        early, busy = await gathered(world, 2)
        busy.session_ms = 50_000
        joining = [early.ask_join(), busy.ask_join()]
        await asyncio.gather(*joining)
        early.protocols = (("range", subscription("u")),)
        parked, again = early.ask_join(), early.ask_join()
        await asyncio.sleep(3 * SESSION_MS / 1000)
        assert not again.done()
        await busy.join()
        assert (await again).error_code == OK
        assert (await parked).error_code == ErrorCode.REBALANCE_IN_PROGRESS, "the second took its place"

    run(scenario())
