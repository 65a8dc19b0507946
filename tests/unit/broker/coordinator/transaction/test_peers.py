"""Requests to brokers: a connection for each under way, kept; none to this broker; given up when a broker is fenced."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from kvorum.broker.coordinator.transaction.peers import Peers
from kvorum.broker.coordinator.transaction.places import Places
from kvorum.network.dial import ConnectionLost, RequestTimedOut
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from kvorum.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from kvorum.protocol.schema import Message
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.protocol.uuids import Uuid
from kvorum.quorum import records
from kvorum.quorum.image import MetadataDelta, MetadataImage

HERE, OTHER = 1, 2


class Connection:
    """A channel that answers when the test lets it."""

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.requested: list[Message] = []
        self.answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.closed = False

    async def ask(self, request: Message, response: type[Message], *, timeout_ms: int) -> Message:
        self.requested.append(request)
        assert timeout_ms == 30_000
        await asyncio.shield(self.answer)
        self.answer = asyncio.get_running_loop().create_future()
        return response()

    async def close(self) -> None:
        self.closed = True
        if self.requested and not self.answer.done():
            self.answer.add_done_callback(asyncio.Future.exception)
            self.answer.set_exception(ConnectionLost("closed", maybe_sent=True))


class Local:
    """This broker."""

    def __init__(self) -> None:
        self.requested: list[Message] = []

    async def write_txn_markers(self, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        self.requested.append(request)
        return WriteTxnMarkersResponse()

    async def add_partitions_to_txn(self, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
        self.requested.append(request)
        return AddPartitionsToTxnResponse()


class World:
    def __init__(self) -> None:
        self.opened: list[Connection] = []
        self.local = Local()
        self.peers = Peers(HERE, self.open, self.local, lambda: 30_000)

    def open(self, broker_id: int) -> Any:
        self.opened.append(Connection(broker_id))
        return self.opened[-1]

    def ask(self, broker_id: int = OTHER) -> "asyncio.Task[WriteTxnMarkersResponse]":
        return asyncio.get_running_loop().create_task(self.peers.write_txn_markers(broker_id, WriteTxnMarkersRequest()))

    def fence(self, broker_id: int) -> None:
        image = image_of(broker(OTHER), broker(3))
        delta = MetadataDelta(image)
        delta.replay(broker(broker_id, fenced=True))
        manifest: Any = None
        self.peers.on_metadata_update(delta, delta.apply(2, 1), manifest)


def broker(broker_id: int, fenced: bool = False) -> records.RegisterBroker:
    return records.RegisterBroker(
        broker_id=broker_id, broker_epoch=0, incarnation_id=Uuid(b"\x01" * 16), endpoints=(), rack=None, fenced=fenced
    )


def image_of(*made: Any) -> MetadataImage:
    delta = MetadataDelta(MetadataImage())
    for record in made:
        delta.replay(record)
    return delta.apply(1, 1)


def reported(story: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        world = World()
        await story(world)
        await world.peers.close()
        assert all(each.closed for each in world.opened)

    asyncio.run(run())


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_this_broker_is_queried_without_a_connection() -> None:
    async def story(world: World) -> None:
        await world.peers.write_txn_markers(HERE, WriteTxnMarkersRequest())
        await world.peers.add_partitions_to_txn(HERE, AddPartitionsToTxnRequest())
        assert len(world.local.requested) == 2 and world.opened == []

    reported(story)


def test_requests_under_way_do_not_wait_for_each_other_and_connections_are_kept() -> None:
    async def story(world: World) -> None:
        slow, quick = world.ask(), world.ask()
        await turns()
        assert len(world.opened) == 2
        world.opened[1].answer.set_result(None)
        await quick
        third = world.ask()
        await turns()
        assert [len(each.requested) for each in world.opened] == [1, 2], "the connection that is free"
        for each in world.opened:
            each.answer.set_result(None)
        await asyncio.gather(slow, third)

    reported(story)


@pytest.mark.parametrize("error", [ConnectionLost("lost", maybe_sent=True), RequestTimedOut("late", maybe_sent=True)])
def test_no_answer_is_an_error_that_callers_know(error: Exception) -> None:
    async def story(world: World) -> None:
        requested = world.ask()
        await turns()
        world.opened[0].answer.set_exception(error)
        with pytest.raises(KafkaError) as caught:
            await requested
        assert caught.value.code is ErrorCode.NETWORK_EXCEPTION

    reported(story)


def test_a_broker_that_is_fenced_is_waited_for_no_longer() -> None:
    """Its connections are new ones when it is back."""

    async def story(world: World) -> None:
        requested, of_another = world.ask(), world.ask(3)
        await turns()
        world.fence(OTHER)
        with pytest.raises(KafkaError):
            await requested
        assert [each.closed for each in world.opened] == [True, False]
        again = world.ask()
        await turns()
        assert len(world.opened) == 3
        for each in world.opened[1:]:
            each.answer.set_result(None)
        await asyncio.gather(again, of_another)

    reported(story)


def test_leaders_and_coordinators_are_those_of_the_newest_metadata() -> None:
    def partitions(topic_id: Uuid, *leaders: int) -> list[Any]:
        return [
            records.Partition(
                topic_id=topic_id, partition_id=index, replicas=(1, 2), isr=(1, 2), leader=leader, leader_epoch=0
            )
            for index, leader in enumerate(leaders)
        ]

    image = MetadataImage()
    places = Places(lambda: image)
    assert places.leader_of(TopicPartition("a", 0)) is None
    assert places.coordinator_of("t") is None
    a, state = Uuid(b"\x02" * 16), Uuid(b"\x03" * 16)
    image = image_of(
        records.Topic(name="a", topic_id=a),
        *partitions(a, 2, -1),
        records.Topic(name="__transaction_state", topic_id=state),
        *partitions(state, 1, 2, -1),
    )
    assert [places.leader_of(TopicPartition("a", index)) for index in range(3)] == [2, -1, None]
    # "t".hashCode() is 116, "u" 117, "v" 118.
    assert [places.coordinator_of(name) for name in "tuv"] == [None, 1, 2]
    image = replace(image, topics=MetadataImage().topics)
    assert places.coordinator_of("u") is None
