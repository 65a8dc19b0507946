"""Timers of classic groups: none is left by an unloaded group, a renewed session or a member without time to rejoin."""

import asyncio

import pytest

from kvorum.broker.coordinator.group.classic.group import ClassicGroup
from kvorum.broker.coordinator.group.classic.rebalance import Rebalances
from kvorum.broker.coordinator.group.classic.words import Change, ClassicState
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.sync_group import SyncGroupResponse
from tests.unit.broker.coordinator.conftest import Run
from tests.unit.broker.coordinator.group_kit import GROUP, NO_DELAY, REBALANCE_MS, SESSION_MS, Member, World, stable

OK = ErrorCode.NONE


def test_a_group_that_was_released_writes_nothing_more(run: Run) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        await world.lead()
        member = Member(world, "a")
        await member.join()
        world.log.commits_at_once = False
        world.log.refuse = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
        shard = world.partition.shard
        assigning: asyncio.Future[SyncGroupResponse] = member.ask_sync({member.member_id: b"x"})
        # In the same batch it is converted to the other protocol, which is not written, either.
        group = shard.drop_classic(GROUP, ErrorCode.REBALANCE_IN_PROGRESS)
        assert (await assigning).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        assert group is not None
        await asyncio.sleep(0.1)
        world.log.refuse, world.log.commits_at_once = None, True
        end = world.log.end
        await asyncio.sleep(2 * REBALANCE_MS / 1000)
        assert group.state is ClassicState.DEAD
        assert world.log.end == end, "a generation of a group that is no more would take the living one's place"

    run(scenario())


def test_a_static_member_that_dies_behind_a_slow_return_is_removed(run: Run) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        await world.lead()
        await stable(world, [Member(world, "a", instance_id="ia")])
        world.log.commits_at_once = False
        returning = Member(world, "a", instance_id="ia").ask_join()
        await asyncio.sleep(2 * SESSION_MS / 1000)  # its session ends while its join is parked: that is excused
        assert (await returning).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        world.log.commits_at_once = True
        world.log.commit()
        assert world.state_name == "Stable"
        await asyncio.sleep(2 * SESSION_MS / 1000)
        assert world.state_name == "Empty", "it was never heard of again"

    run(scenario())


def test_sessions_that_are_renewed_leave_no_timers_behind(run: Run) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        await world.lead()
        member = Member(world, "a", session_ms=1_800_000)
        await stable(world, [member])
        for _ in range(5_000):
            assert await member.heartbeat() is OK
        assert len(world.partition._timer) < 200, "each heartbeat has cancelled the timer before"

    run(scenario())


@pytest.mark.parametrize("rebalance_ms", [0, -1, 1, -(2**31)])
def test_static_members_without_time_to_rejoin_do_not_hold_the_loop(run: Run, rebalance_ms: int) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        await world.lead()
        static = Member(world, "a", instance_id="ia", rebalance_ms=rebalance_ms)
        other = Member(world, "b")
        await stable(world, [other, static])
        # Whoever has time goes: the rebalance finds nobody but the static member, which does not join again.
        completions = 0
        complete = Rebalances.complete

        def counted(self: Rebalances, group: ClassicGroup) -> Change:
            nonlocal completions
            completions += 1
            assert completions < 100, "the loop turns in place"
            return complete(self, group)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Rebalances, "complete", counted)
            await other.leave()
            await asyncio.sleep(2 * SESSION_MS / 1000)
        assert world.state_name == "Empty"

    run(scenario())
