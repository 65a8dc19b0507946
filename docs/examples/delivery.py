"""At most once, at least once, exactly once: three loops that read `orders` and write `invoices`. See docs/delivery.md.

python delivery.py at-most-once|at-least-once|exactly-once BOOTSTRAP GROUP
"""

import sys
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

SOURCE, TARGET = "orders", "invoices"


def invoice(order: bytes) -> bytes:
    """Process one record."""
    return b"invoice for " + order


def consumer_of(bootstrap: str, group: str) -> Consumer:
    """Return a consumer without auto-commit."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([SOURCE])
    return consumer


def at_most_once(bootstrap: str, group: str) -> None:
    """Commit, then process: after a crash in between, the record is not processed."""
    consumer = consumer_of(bootstrap, group)
    producer = Producer({"bootstrap.servers": bootstrap})
    while True:
        for message in read(consumer):
            consumer.commit(message, asynchronous=False)
            producer.produce(TARGET, invoice(message.value()), message.key())
            producer.flush()


def at_least_once(bootstrap: str, group: str) -> None:
    """Process, then commit: after a crash in between, the record is processed again."""
    consumer = consumer_of(bootstrap, group)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    while True:
        for message in read(consumer):
            producer.produce(TARGET, invoice(message.value()), message.key())
            producer.flush()
            consumer.commit(message, asynchronous=False)


def exactly_once(bootstrap: str, group: str) -> None:
    """Process and commit in one transaction: atomic for consumers with read_committed."""
    consumer = consumer_of(bootstrap, group)
    # The id is the same after a restart: a new process fences the old one and aborts its open transaction.
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{group}-1"})
    producer.init_transactions()
    while True:
        messages = read(consumer)
        if not messages:
            continue
        producer.begin_transaction()
        try:
            for message in messages:
                producer.produce(TARGET, invoice(message.value()), message.key())
            # With the group's metadata, so that a member that lost its partitions is rejected (KIP-447).
            producer.send_offsets_to_transaction(behind(messages), consumer.consumer_group_metadata())
            producer.commit_transaction()
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise  # fenced, or the result is unknown: a new process continues at the committed offsets
            producer.abort_transaction()
            for partition in consumer.committed(consumer.assignment()):
                partition.offset = max(0, partition.offset)
                consumer.seek(partition)  # process the records again


def read(consumer: Consumer) -> list[Any]:
    """Return available records; temporary errors are ignored."""
    return [each for each in consumer.consume(100, 0.5) if each.error() is None]


def behind(messages: list[Any]) -> list[TopicPartition]:
    """Return the next offset of each partition."""
    last = {(each.topic(), each.partition()): each.offset() for each in messages}
    return [TopicPartition(topic, partition, offset + 1) for (topic, partition), offset in last.items()]


LOOPS = {"at-most-once": at_most_once, "at-least-once": at_least_once, "exactly-once": exactly_once}

if __name__ == "__main__":
    LOOPS[sys.argv[1]](sys.argv[2], sys.argv[3])
