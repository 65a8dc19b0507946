"""Deadlines of members that must revoke partitions, and the partitions that they report."""

import asyncio
from dataclasses import replace

import pytest

from kvorum.broker.coordinator.group.classic.words import Client
from kvorum.broker.coordinator.group.consumer.heartbeat import Asker
from kvorum.broker.coordinator.group.consumer.settings import Bounded
from kvorum.broker.coordinator.group.coordinator import GroupCoordinator
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.consumer_group_heartbeat import RequestTopicPartitions
from tests.unit.broker.coordinator.conftest import Run
from tests.unit.broker.coordinator.consumer.consumer_kit import (
    INTERVAL_MS,
    REBALANCE_MS,
    Consumer,
    ConsumerWorld,
    consumer_settings,
    settled,
    topic_id,
)
from tests.unit.broker.coordinator.group_kit import OneHome

BEATS = REBALANCE_MS // INTERVAL_MS


async def rebalancing() -> tuple[ConsumerWorld, Consumer, Consumer]:
    """Two members, of which the first is to give partitions up and has been told so."""
    world = ConsumerWorld()
    world.make_topic("t", 6)
    await world.lead()
    first, second = Consumer(world, "a"), Consumer(world, "b")
    await first.join()
    await second.join()
    return world, first, second


@pytest.mark.parametrize("refused_with", [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.RECORD_LIST_TOO_LARGE])
def test_a_member_that_does_not_revoke_is_fenced_after_a_failed_write(run: Run, refused_with: ErrorCode) -> None:
    async def scenario() -> None:
        world, first, second = await rebalancing()
        everything = dict(first.assigned)
        await first.send(first.short(everything))
        for _ in range(BEATS - 1):
            await asyncio.sleep(INTERVAL_MS / 1000)
            await first.send(first.short(everything))
            await second.beat()
        world.log.refuse = KafkaError(refused_with, "for ten seconds")
        await asyncio.sleep(10)
        world.log.refuse = None
        await first.send(first.short(everything))
        await asyncio.sleep(1)
        assert set(world.group.members) == {"id-b"}, "tried again in half a second"
        await settled(second)
        assert second.numbers() == set(range(6))

    run(scenario())


def test_a_failed_leave_keeps_the_deadline(run: Run) -> None:
    async def scenario() -> None:
        world, first, second = await rebalancing()
        everything = dict(first.assigned)
        await first.send(first.short(everything))
        world.log.refuse = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, "once")
        assert (await first.leave()).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        world.log.refuse = None
        for _ in range(BEATS + 1):
            await first.send(first.short(everything))
            await second.beat()
            await asyncio.sleep(INTERVAL_MS / 1000)
        assert set(world.group.members) == {"id-b"}

    run(scenario())


def test_owned_partitions_count_in_any_row_order(run: Run) -> None:
    """A topic named twice: all of its partitions are the member's still."""

    async def scenario() -> None:
        _, first, second = await rebalancing()
        everything = sorted(first.numbers())
        await first.beat()
        request = first.short({})
        request.topic_partitions = [
            RequestTopicPartitions(topic_id=topic_id("t"), partitions=everything[3:]),
            RequestTopicPartitions(topic_id=topic_id("t"), partitions=everything[:3]),
        ]
        await first.send(request)
        await second.beat()
        assert second.numbers() == set(), "the first has not let go"

    run(scenario())


def test_a_group_does_not_wait_for_a_clock_that_was_set_back(run: Run) -> None:
    """By an hour; or another broker coordinates it, whose clock is late by that."""

    async def scenario() -> None:
        world = ConsumerWorld(settings=consumer_settings(assignment_interval_ms=Bounded(1_000, 0, 15_000)))
        world.make_topic("t", 2)
        world.make_topic("u", 2)
        await world.lead()
        first = Consumer(world, "a", topics=None, regex="t")
        await first.join()
        await asyncio.sleep(1)
        await first.join()
        assert first.numbers() == {0, 1}
        wall_ms = world.partition.wall_ms
        world.partition.wall_ms = lambda: wall_ms() - 3_600_000  # type: ignore[method-assign]
        second = Consumer(world, "b", topics=None, regex="u")
        await second.join()
        await asyncio.sleep(2)
        await settled(first, second)
        assert second.numbers("u") == {0, 1}

    run(scenario())


def test_an_inconsistent_request_is_invalid_for_every_group(run: Run) -> None:
    """As in Kafka, which looks at it before it looks for the group."""

    async def scenario() -> None:
        world = ConsumerWorld()
        door = GroupCoordinator(OneHome(world, refusal=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        asker = Asker(client=Client("c", "/10.0.0.1", 1), may_describe=lambda topic: True)
        good = Consumer(world, "a").full({})
        answer = await door.consumer_heartbeat(asker, good)
        assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        bad = replace(good, rebalance_timeout=-1)
        assert (await door.consumer_heartbeat(asker, bad)).error_code == ErrorCode.INVALID_REQUEST
        bad = replace(good, server_assignor="mine")
        assert (await door.consumer_heartbeat(asker, bad)).error_code == ErrorCode.UNSUPPORTED_ASSIGNOR

    run(scenario())
