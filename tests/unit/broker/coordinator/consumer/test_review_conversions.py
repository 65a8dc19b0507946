"""Deadlines of a group that was of the other protocol for a while are over with it."""

import asyncio

from kvorum.protocol.errors import ErrorCode
from tests.unit.broker.coordinator.conftest import Run
from tests.unit.broker.coordinator.consumer.consumer_kit import Consumer, ConsumerWorld
from tests.unit.broker.coordinator.consumer.test_conversions import RANGE, rejoin, told
from tests.unit.broker.coordinator.group_kit import Member


def test_a_join_that_was_waited_for_before_the_group_was_classic_is_not_waited_for_after(run: Run) -> None:
    async def scenario() -> None:
        world = ConsumerWorld()
        world.make_topic("t", 4)
        await world.lead()
        old = Member(world, "old", protocols=RANGE, rebalance_ms=30_000, session_ms=10_000)
        await old.join()
        await old.ask_sync({old.member_id: told({0, 1, 2, 3})})
        new = Consumer(world, "new")
        await new.join()
        assert await old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS, "30 seconds to join, from now on"
        await asyncio.sleep(5)
        await new.leave()
        assert (await old.join()).error_code == ErrorCode.NONE
        await old.ask_sync({old.member_id: told({0, 1, 2, 3})})
        late = Consumer(world, "late")
        await late.join()
        for _ in range(10):
            assert await old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS, "27 of 30 seconds, in the end"
            await asyncio.sleep(3)
        assert await rejoin(old, having={0, 1, 2, 3}) == {0, 1}

    run(scenario())
