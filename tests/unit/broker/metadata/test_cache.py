"""Questions to the newest image: who leads, who lives, what is offline."""

import random
from typing import Any

import pytest

from kvorum.broker.metadata.cache import MetadataCache, Node
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.uuids import METADATA_TOPIC_ID, ZERO_UUID, Uuid
from kvorum.quorum import records
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.quorum.image.partition import LOST_DIRECTORY, UNASSIGNED_DIRECTORY

A_ID = Uuid(b"\x0a" * 16)
ONLINE, OTHER = Uuid(b"\x31" * 16), Uuid(b"\x32" * 16)


def a_broker(broker_id: int, **more: Any) -> records.RegisterBroker:
    endpoint = records.Endpoint("PLAINTEXT", f"host-{broker_id}", 9000 + broker_id)
    values = {"fenced": False, "log_dirs": (ONLINE,), **more}
    return records.RegisterBroker(
        broker_id=broker_id,
        broker_epoch=0,
        incarnation_id=Uuid(bytes([broker_id]) * 16),
        endpoints=(endpoint,),
        **values,
    )


def a_cache(*made: Any, active: int | None = None) -> MetadataCache:
    delta = MetadataDelta(MetadataImage())
    for record in made:
        delta.replay(record)
    cache = MetadataCache(1, lambda: active, random.Random(1))
    cache.image = delta.apply(5, 1)
    return cache


def a_topic(leader: int = 1, directories: tuple[Uuid, ...] = ()) -> list[Any]:
    partition = records.Partition(
        topic_id=A_ID, partition_id=0, replicas=(1, 2), isr=(1,), leader=leader, leader_epoch=7, directories=directories
    )
    return [records.Topic(name="a", topic_id=A_ID), partition]


def test_names_and_ids_lead_to_each_other_and_nowhere_else() -> None:
    cache = a_cache(a_broker(1), *a_topic())
    assert (cache.topic_id("a"), cache.topic_name(A_ID), cache.contains("a")) == (A_ID, "a", True)
    assert (cache.topic_id("b"), cache.topic_name(OTHER), cache.contains("b")) == (ZERO_UUID, None, False)
    assert cache.topic_name(cache.topic_id("__cluster_metadata")) == "__cluster_metadata"
    assert cache.topic_id("__cluster_metadata") == METADATA_TOPIC_ID
    assert cache.topic_names() == ["a"]


def test_leaders_are_returned_even_if_they_are_fenced() -> None:
    cache = a_cache(a_broker(1), *a_topic(leader=2))
    assert cache.leader_and_epoch("a", 0) == (2, 7)
    assert cache.leader_and_epoch("a", 1) == (-1, -1)
    assert cache.node(2, "PLAINTEXT") is None
    assert cache.node(1, "PLAINTEXT") == Node(1, "host-1", 9001, None)


def test_brokers_are_known_by_their_state() -> None:
    cache = a_cache(a_broker(1), a_broker(2, fenced=True), a_broker(3, in_controlled_shutdown=True))
    assert [cache.broker_epoch(each) for each in (1, 2, 3, 4)] == [0, None, 0, None]
    assert [cache.is_fenced(each) for each in (1, 2, 3, 4)] == [False, True, False, True]
    assert [cache.is_shutting_down(each) for each in (1, 2, 3, 4)] == [False, False, True, False]


@pytest.mark.parametrize(
    ("directory", "offline"),
    [(ONLINE, []), (UNASSIGNED_DIRECTORY, []), (OTHER, [2]), (LOST_DIRECTORY, [2])],
)
def test_a_replica_is_offline_where_its_log_directory_is(directory: Uuid, offline: list[int]) -> None:
    cache = a_cache(a_broker(1), a_broker(2), *a_topic(directories=(ONLINE, directory)))
    topic = cache.topic("a")
    assert topic is not None
    (view,) = cache.partition_views(topic, "PLAINTEXT", unavailable_endpoints=False, unavailable_listeners=True)
    assert (view.error, view.offline_replicas, view.leader_id) == (ErrorCode.NONE, offline, 1)


def test_the_controller_of_clients_is_the_active_ones_broker_else_this_one_else_a_random_live_one() -> None:
    others = [a_broker(each) for each in range(2, 9)]
    assert a_cache(a_broker(1), *others, active=3).controller_id() == 3
    assert {a_cache(a_broker(1), *others, active=3000).controller_id() for _ in range(50)} == {1}
    fenced = a_cache(a_broker(1, fenced=True), *others, active=3000)
    assert len({fenced.controller_id() for _ in range(50)} - {1}) > 1
