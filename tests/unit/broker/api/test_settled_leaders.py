"""Metadata that would name a broker which has just died: it waits for the election, for a moment, and for no longer.

In virtual time, on a real PeerWatch; who answers is as a test says.
"""

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

import msgspec
import pytest

from kvorum.broker.metadata.peer_watch import LATER_PROBE_GAP_MS, PROBE_GAP_MS, WAITING_MAX, PeerWatch
from kvorum.network.addresses import Address
from kvorum.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from kvorum.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kvorum.quorum import records
from kvorum.quorum.image import MetadataDelta
from sim.loop import SimLoop
from tests.unit.broker.api.api_kit import TOPIC_ID, a_broker, asking, register, topic

HOLD_MS = 500
LINGER_MS = 2_000
METADATA = MetadataRequest(topics=[MetadataRequestTopic(name="orders")])
DESCRIBE = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="orders")], response_partition_limit=10)
FENCE_2 = records.BrokerRegistrationChange(broker_id=2, broker_epoch=0, fenced=True)
UNFENCE_2 = records.BrokerRegistrationChange(broker_id=2, broker_epoch=0, fenced=False)
FENCE_ALL = [records.BrokerRegistrationChange(broker_id=each, broker_epoch=0, fenced=True) for each in (1, 2, 3)]
ELECT_1 = records.PartitionChange(topic_id=TOPIC_ID, partition_id=0, leader=1, isr=(1, 3))


class World:
    """Broker 1 of three, and what it sees of the others."""

    def __init__(self, hold_ms: int = HOLD_MS, linger_ms: int = LINGER_MS) -> None:
        self.alive = False
        """Whether 2 answers at its own address."""
        self.requested = 0
        self.loop = SimLoop(random.Random(1))
        made = [register(each) for each in (1, 2, 3)]
        made += topic("orders", TOPIC_ID, ((2, 1, 3), (2, 1, 3), 2), ((3, 1, 2), (3, 1, 2), 3))
        self.broker = a_broker(*made)
        self.watch = self.broker.peers = PeerWatch(
            self.broker.metadata,
            hold_ms=hold_ms,
            linger_ms=linger_ms,
            address_of=lambda broker_id: ("host", 9000 + broker_id),
            answers=self.answers,
        )

    async def answers(self, address: Address) -> bool:
        assert address == ("host", 9002)
        self.requested += 1
        await asyncio.sleep(0.001)
        return self.alive

    def run(self, story: Coroutine[Any, Any, None]) -> None:
        self.loop.run_until_complete(story)
        self.loop.run_until_complete(self.watch.close())
        assert self.loop.errors == []

    def publish(self, *made: Any) -> None:
        """Take metadata over, as the publisher does."""
        delta = MetadataDelta(self.broker.metadata.image)
        for record in made:
            delta.replay(record)
        self.broker.metadata.image = delta.apply(delta.image.offset + 1, 1)
        self.watch.image_changed(delta)
        self.watch.metadata_moved()

    def ask(self, request: Any = METADATA, version: int = 12) -> "asyncio.Task[Any]":
        return self.loop.create_task(asking(self.broker, request, version))

    async def is_answered(self, *requested: "asyncio.Task[Any]", after_ms: float = 5) -> bool:
        """Wait so long, and tell whether all of these have their answers."""
        await asyncio.sleep(after_ms / 1000)
        return all(each.done() for each in requested)


def leaders(requested: "asyncio.Task[Any]") -> list[int]:
    return [each.leader_id for each in requested.result().topics[0].partitions]


def listed(requested: "asyncio.Task[Any]") -> list[int]:
    return [each.node_id for each in requested.result().brokers]


@pytest.mark.parametrize("request_", [METADATA, DESCRIBE], ids=["Metadata", "DescribeTopicPartitions"])
def test_an_answer_waits_for_the_new_leader_and_names_it(request_: Any) -> None:
    world = World()

    async def story() -> None:
        version = 12 if request_ is METADATA else 0
        world.watch.connection_lost(2)
        requested = world.ask(request_, version)
        assert not await world.is_answered(requested, after_ms=100)
        world.publish(FENCE_2, ELECT_1)
        assert await world.is_answered(requested)
        assert leaders(requested) == [1, 3]

    world.run(story())


def test_a_request_at_the_time_of_the_close_also_waits() -> None:
    """The request was read first, and the loop tells of the lost connection a round later."""
    world = World()

    async def story() -> None:
        requested = world.ask()
        world.loop.call_soon(world.watch.connection_lost, 2)
        assert not await world.is_answered(requested)
        world.publish(FENCE_2, ELECT_1)
        assert await world.is_answered(requested)
        assert leaders(requested) == [1, 3]

    world.run(story())


def test_responses_without_a_suspected_broker_do_not_wait() -> None:
    world = World()

    async def story() -> None:
        assert await world.is_answered(world.ask())
        world.watch.connection_lost(2)
        assert await world.is_answered(world.ask(MetadataRequest(topics=[])))

    world.run(story())


def test_a_broker_that_answers_is_named_again_at_once() -> None:
    world = World()

    async def story() -> None:
        world.watch.connection_lost(2)
        requested = world.ask()
        assert not await world.is_answered(requested, after_ms=100)
        world.alive = True
        assert await world.is_answered(requested, after_ms=PROBE_GAP_MS + 5)
        assert leaders(requested) == [2, 3]
        world.alive = False
        world.watch.connection_lost(2)
        assert not await world.is_answered(world.ask())  # it has answered: the next death is another one

    world.run(story())


def test_a_request_waits_at_most_once_for_the_hold_time() -> None:
    world = World()

    async def story() -> None:
        world.watch.connection_lost(2)
        early = world.ask()
        assert not await world.is_answered(early, after_ms=HOLD_MS - 50)
        late = world.ask()
        assert await world.is_answered(early, late, after_ms=60)
        assert leaders(early) == leaders(late) == [2, 3]
        world.watch.connection_lost(2)
        assert await world.is_answered(world.ask())
        world.alive = True
        await asyncio.sleep(2 * LATER_PROBE_GAP_MS / 1000)
        requested = world.requested
        world.alive = False
        world.watch.connection_lost(2)
        assert not await world.is_answered(world.ask())
        assert world.requested == requested + 1

    world.run(story())


def test_a_new_incarnation_ends_the_suspicion() -> None:
    world = World()

    async def story() -> None:
        world.watch.connection_lost(2)
        requested = world.ask()
        assert not await world.is_answered(requested)
        again = msgspec.structs.replace(register(2), broker_epoch=101)
        world.publish(again)
        assert await world.is_answered(requested)
        assert leaders(requested) == [2, 3]

    world.run(story())


def test_a_client_that_left_waits_for_nothing() -> None:
    world = World()

    async def story() -> None:
        world.watch.connection_lost(2)
        requested = world.ask()
        assert not await world.is_answered(requested)
        requested.cancel()
        assert await world.is_answered(requested)
        assert not world.watch._waiting

    world.run(story())


def test_one_more_than_may_wait_is_answered_at_once() -> None:
    world = World()

    async def story() -> None:
        world.watch.connection_lost(2)
        waiting = [world.ask() for _ in range(WAITING_MAX)]
        assert not await world.is_answered(waiting[-1], after_ms=20)
        one_more = world.ask()
        assert await world.is_answered(one_more)
        assert leaders(one_more) == [2, 3]
        assert not any(each.done() for each in waiting)
        world.publish(FENCE_2, ELECT_1)
        assert await world.is_answered(*waiting, after_ms=50)

    world.run(story())


def test_nothing_waits_when_it_is_turned_off() -> None:
    world = World(hold_ms=0)

    async def story() -> None:
        world.watch.connection_lost(2)
        assert await world.is_answered(world.ask())
        assert world.requested == 0

    world.run(story())


def test_the_end_of_the_broker_releases_all_waiters() -> None:
    world = World()

    async def story() -> None:
        world.watch.connection_lost(2)
        requested = world.ask()
        assert not await world.is_answered(requested)
        await world.watch.close()
        assert await world.is_answered(requested)

    world.run(story())


def test_a_fenced_broker_stays_in_the_list_for_a_while_and_leads_nothing() -> None:
    world = World()

    async def story() -> None:
        world.publish(FENCE_2, ELECT_1)
        at_once = world.ask()
        assert await world.is_answered(at_once)
        assert (leaders(at_once), listed(at_once)) == ([1, 3], [1, 2, 3])
        assert at_once.result().topics[0].partitions[0].offline_replicas == [2]
        later = world.ask()
        assert await world.is_answered(later, after_ms=LINGER_MS - 20)
        assert listed(later) == [1, 2, 3]
        last = world.ask() if await world.is_answered(after_ms=20) else None
        assert last is not None and await world.is_answered(last)
        assert listed(last) == [1, 3]

    world.run(story())


def test_a_broker_that_registers_again_is_listed_when_it_is_unfenced() -> None:
    world = World()

    async def story() -> None:
        world.publish(FENCE_2, ELECT_1)
        again = msgspec.structs.replace(register(2, fenced=True), broker_epoch=101)
        world.publish(again)
        fenced = world.ask()
        assert await world.is_answered(fenced)
        assert listed(fenced) == [1, 3]
        world.publish(records.BrokerRegistrationChange(broker_id=2, broker_epoch=101, fenced=False))
        unfenced = world.ask()
        assert await world.is_answered(unfenced)
        assert listed(unfenced) == [1, 2, 3]

    world.run(story())


def test_a_fenced_broker_goes_at_once_when_lingering_is_turned_off() -> None:
    world = World(linger_ms=0)

    async def story() -> None:
        world.publish(FENCE_2, ELECT_1)
        requested = world.ask()
        assert await world.is_answered(requested)
        assert listed(requested) == [1, 3]
        world.publish(UNFENCE_2)
        requested = world.ask()
        assert await world.is_answered(requested)
        assert listed(requested) == [1, 2, 3]

    world.run(story())


def test_without_live_brokers_a_response_waits_for_the_first_one() -> None:
    """As with a cluster that starts: the listeners are open, and nobody is unfenced yet."""
    world = World(linger_ms=0)

    async def story() -> None:
        world.publish(*FENCE_ALL)
        requested, more = world.ask(), world.ask(DESCRIBE, 0)
        assert not await world.is_answered(requested, after_ms=HOLD_MS - 50)
        assert not more.done()
        world.publish(UNFENCE_2)
        assert await world.is_answered(requested, more)
        assert listed(requested) == [2] and requested.result().controller_id == 2

    world.run(story())


def test_without_live_brokers_requests_wait_for_the_hold_time_up_to_a_bound() -> None:
    world = World(linger_ms=0)

    async def story() -> None:
        world.publish(*FENCE_ALL)
        requested = [world.ask() for _ in range(WAITING_MAX)]
        assert not await world.is_answered(requested[0])
        assert await world.is_answered(world.ask())
        requested[0].cancel()
        assert not any(each.done() for each in requested[1:])
        assert await world.is_answered(*requested, after_ms=HOLD_MS)
        assert listed(requested[1]) == [] and requested[1].result().controller_id == -1

    world.run(story())


def test_a_broker_that_ends_lets_them_go() -> None:
    world = World(linger_ms=0)

    async def story() -> None:
        world.publish(*FENCE_ALL)
        requested = world.ask()
        assert not await world.is_answered(requested)
        await world.watch.close()
        assert await world.is_answered(requested)

    world.run(story())
