"""Consumers that are kept between micro-batches: who gets them, and when they are closed."""

import threading

import pytest

from kvorum.pipelines.bridge.source import IDLE_CONSUMERS, ConsumerKey, ConsumerPool

DEADLINE_SECONDS = 30.0


class FakeConsumer:
    """Knows whether it was closed."""

    def __init__(self) -> None:
        self.closed = threading.Event()

    def close(self) -> None:
        assert not self.closed.is_set(), "closed twice"
        self.closed.set()


def key_at(position: int) -> ConsumerKey:
    return ConsumerKey((("group.id", "g"),), "t", 0, position)


def give(pool: ConsumerPool, position: int) -> FakeConsumer:
    consumer = FakeConsumer()
    pool.give(key_at(position), consumer)  # type: ignore[arg-type]  # a stand-in
    return consumer


def test_who_reads_on_gets_the_consumer_once() -> None:
    pool = ConsumerPool()
    consumer = give(pool, 7)
    assert pool.take(key_at(8)) is None
    assert pool.take(key_at(7)) is consumer
    assert pool.take(key_at(7)) is None and not consumer.closed.is_set()


def test_the_oldest_goes_when_there_are_too_many_and_one_a_place_is_kept() -> None:
    pool = ConsumerPool()
    consumers = [give(pool, position) for position in range(IDLE_CONSUMERS + 1)]
    assert [consumer.closed.is_set() for consumer in consumers] == [True] + [False] * IDLE_CONSUMERS
    again = give(pool, 1)
    assert consumers[1].closed.is_set() and pool.take(key_at(1)) is again


@pytest.mark.parametrize("count", [1, 3])
def test_what_nobody_comes_back_to_is_closed(count: int) -> None:
    pool = ConsumerPool(kept_seconds=0.01)
    consumers = [give(pool, position) for position in range(count)]
    assert all(consumer.closed.wait(DEADLINE_SECONDS) for consumer in consumers)
    assert pool.take(key_at(0)) is None
    later = give(pool, 9)
    assert later.closed.wait(DEADLINE_SECONDS), "there is a new timer after the last one was done"
