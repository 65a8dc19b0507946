"""Records into topics and back, by a client that has nothing to do with Spark."""

import time
from collections.abc import Sequence

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition

Pair = tuple[str | None, str | bytes | None]


def produce(bootstrap: str, topic: str, *records: Pair, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for key, value in records:
        producer.produce(topic, value, key, partition)
    assert producer.flush(30) == 0


def consume(bootstrap: str, topic: str, count: int, timeout: float = 180.0) -> list[Message]:
    """Return a topic's records, those of ended transactions only; at least so many, and what comes right after."""
    options = {"bootstrap.servers": bootstrap, "group.id": "test", "isolation.level": "read_committed"}
    consumer = Consumer({**options, "enable.auto.commit": False})
    try:
        there = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in there])
        found: list[Message] = []
        until = time.monotonic() + timeout
        while time.monotonic() < until:
            message = consumer.poll(1.0 if len(found) >= count else 0.2)
            if message is not None and message.error() is None:
                found.append(message)
            elif message is None and len(found) >= count:
                break
        return found
    finally:
        consumer.close()


def values(messages: Sequence[Message]) -> list[str]:
    return sorted((message.value() or b"").decode() for message in messages)
