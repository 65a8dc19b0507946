"""What the tests of the bridge produce and read with plain clients."""

from collections.abc import Iterable
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

READ_SECONDS = 60.0


def produce(bootstrap: str, topic: str, rows: Iterable[dict[str, Any]]) -> None:
    """Produce rows ({value, key, partition, timestamp, headers}) and wait for their acknowledgement."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
    for row in rows:
        while True:
            try:
                producer.produce(topic, **row)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(READ_SECONDS) == 0


def numbered(count: int, start: int = 0) -> list[dict[str, Any]]:
    """Return rows whose keys and values are numbers."""
    return [{"key": b"k%d" % (n % 97), "value": b"%d" % n} for n in range(start, start + count)]


def read_all(bootstrap: str, topic: str, isolation: str = "read_committed") -> list[Message]:
    """Return all records of a topic, by partition and offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reads-all",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "fetch.wait.max.ms": 50,
        }
    )
    partitions = sorted(consumer.list_topics(topic, timeout=READ_SECONDS).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    found: list[Message] = []
    ended: set[int] = set()
    while len(ended) < len(partitions):
        message = consumer.poll(READ_SECONDS)
        assert message is not None, f"{topic} does not end"
        error = message.error()
        if error is None:
            found.append(message)
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error
            ended.add(message.partition() or 0)
    consumer.close()
    return sorted(found, key=lambda message: (message.partition(), message.offset()))


def values(messages: Iterable[Message]) -> list[bytes | None]:
    """Return their values, sorted."""
    return sorted((message.value() for message in messages), key=lambda value: value or b"")
