"""Who creates partitions or joins the cluster is answered when the brokers that are alive have published that."""

import asyncio
from typing import Any

import pytest

from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kvorum.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kvorum.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from kvorum.protocol.uuids import METADATA_TOPIC_ID, Uuid
from kvorum.quorum.services import ALIVE_MS
from tests.unit.quorum.runtime.runtime_kit import World, names

BROKERS = (11, 12)


@pytest.fixture
def epochs(world: World) -> dict[int, int]:
    """Two brokers, unfenced, that have published all there is."""
    return joined(world)


def joined(world: World) -> dict[int, int]:
    world.elect()
    epochs = world.run(world.join(*BROKERS))
    for broker_id in BROKERS:
        fetch(world, broker_id)
    return epochs


def fetch(world: World, broker_id: int) -> None:
    """Fetch from the end of what is committed, which says that the broker has published all below."""
    partition = FetchPartition(
        fetch_offset=world.server.store.end_offset, replica_directory_id=Uuid(bytes([broker_id]) * 16)
    )
    topic = FetchTopic(topic_id=METADATA_TOPIC_ID, topic="__cluster_metadata", partitions=[partition])
    request = FetchRequest(replica_state=ReplicaState(replica_id=broker_id), max_wait=0, topics=[topic])
    world.run(world.ask(request))


def requested(world: World, request: Any) -> "asyncio.Task[Any]":
    """Send a request whose answer may take its time."""
    task = world.loop.create_task(world.ask(request))
    world.advance(5)
    return task


def creation(timeout: int = 60_000, validate_only: bool = False) -> CreateTopicsRequest:
    topic = CreatableTopic(name="orders", num_partitions=1, replication_factor=2)
    return CreateTopicsRequest(topics=[topic], timeout=timeout, validate_only=validate_only)


def test_a_new_topic_is_answered_when_all_brokers_have_published_it(world: World, epochs: dict[int, int]) -> None:
    answer = requested(world, creation())
    assert names(world.image) == ["orders"], "it is committed"
    for broker_id in BROKERS:
        assert not answer.done()
        fetch(world, broker_id)
    assert world.run(answer).topics[0].error_code == ErrorCode.NONE


def test_so_are_new_partitions(world: World, epochs: dict[int, int]) -> None:
    created = requested(world, creation())
    for broker_id in BROKERS:
        fetch(world, broker_id)
    world.run(created)
    topic = CreatePartitionsTopic(name="orders", count=3, assignments=None)
    answer = requested(world, CreatePartitionsRequest(topics=[topic], timeout=60_000))
    assert len(world.image.topics.topic("orders").partitions) == 3 and not answer.done()
    for broker_id in BROKERS:
        fetch(world, broker_id)
    assert world.run(answer).results[0].error_code == ErrorCode.NONE


def test_a_broker_is_informed_that_it_is_unfenced_when_the_others_list_it(world: World, epochs: dict[int, int]) -> None:
    epoch = world.run(world.register(13)).broker_epoch
    for broker_id in BROKERS:
        fetch(world, broker_id)
    answer = world.loop.create_task(world.beat(13, epoch))
    world.advance(5)
    assert world.image.cluster.is_active(13)
    for broker_id in BROKERS:
        assert not answer.done()
        fetch(world, broker_id)
    assert not world.run(answer).is_fenced
    assert not world.run(world.beat(13, epoch)).is_fenced, "a heartbeat that changes nothing waits for nobody"


def test_a_broker_is_waited_for_until_the_limit(world: World, epochs: dict[int, int]) -> None:
    answer = requested(world, creation())
    fetch(world, 11)
    world.advance(900)
    assert not answer.done()
    world.advance(200)
    assert answer.done() and answer.result().topics[0].error_code == ErrorCode.NONE


def test_a_broker_without_heartbeats_is_waited_for_no_longer() -> None:
    world = World(kvorum_metadata_read_your_writes_max_ms=60_000)
    epochs = joined(world)
    answer = requested(world, creation())
    fetch(world, 11)
    world.advance(ALIVE_MS - 500)
    world.run(world.beat(12, epochs[12], current_metadata_offset=0))
    world.advance(ALIVE_MS - 500)
    assert not answer.done(), "12 sends heartbeats"
    world.advance(1_000)
    assert answer.done() and answer.result().topics[0].error_code == ErrorCode.NONE
    world.end()


def test_a_limit_of_0_turns_the_wait_off() -> None:
    world = World(kvorum_metadata_read_your_writes_max_ms=0)
    joined(world)
    assert requested(world, creation()).result().topics[0].error_code == ErrorCode.NONE
    world.end()


@pytest.mark.parametrize("request_", [creation(timeout=0), creation(validate_only=True)])
def test_nothing_is_waited_for_without_a_timeout_or_a_change(
    world: World, epochs: dict[int, int], request_: CreateTopicsRequest
) -> None:
    assert requested(world, request_).done()


def test_a_refused_topic_is_answered_at_once(world: World, epochs: dict[int, int]) -> None:
    request = creation()
    request.topics[0].replication_factor = 5
    answer = requested(world, request)
    assert answer.done() and answer.result().topics[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_the_wait_ends_with_the_term(world: World, epochs: dict[int, int]) -> None:
    answer = requested(world, creation())
    assert not answer.done()
    world.act(world.log.elect)
    world.advance(300)
    assert answer.done()
