"""At most once, at least once, exactly once: three loops that read `orders` and write `invoices`. See docs/delivery.md.

python delivery.py at-most-once|at-least-once|exactly-once BOOTSTRAP GROUP
"""

import sys
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

SOURCE, TARGET = "orders", "invoices"


def invoice(order: bytes) -> bytes:
    """Do the work: whatever a record has to become."""
    return b"invoice for " + order


def consumer_of(bootstrap: str, group: str) -> Consumer:
    """Return a consumer that commits nothing by itself."""
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
    """Commit first, then work: what dies between the two is not done again."""
    consumer = consumer_of(bootstrap, group)
    producer = Producer({"bootstrap.servers": bootstrap})
    while True:
        for message in read(consumer):
            consumer.commit(message, asynchronous=False)
            producer.produce(TARGET, invoice(message.value()), message.key())
            producer.flush()


def at_least_once(bootstrap: str, group: str) -> None:
    """Work first, then commit: what dies between the two is done again."""
    consumer = consumer_of(bootstrap, group)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    while True:
        for message in read(consumer):
            producer.produce(TARGET, invoice(message.value()), message.key())
            producer.flush()
            consumer.commit(message, asynchronous=False)


def exactly_once(bootstrap: str, group: str) -> None:
    """Work and commit in one transaction: both are done or neither is; readers of read_committed see what is done."""
    consumer = consumer_of(bootstrap, group)
    # The id stays the same over restarts: a new process fences, and aborts, what its predecessor left.
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
            # With the group's metadata: a member that lost its partitions meanwhile is refused (KIP-447).
            producer.send_offsets_to_transaction(behind(messages), consumer.consumer_group_metadata())
            producer.commit_transaction()
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise  # fenced, or nobody knows: the next process goes on from what was committed
            producer.abort_transaction()
            for partition in consumer.committed(consumer.assignment()):
                partition.offset = max(0, partition.offset)
                consumer.seek(partition)  # the records are still to be done


def read(consumer: Consumer) -> list[Any]:
    """Return what there is, without errors that pass by themselves."""
    return [each for each in consumer.consume(100, 0.5) if each.error() is None]


def behind(messages: list[Any]) -> list[TopicPartition]:
    """Return the offsets to go on from."""
    last = {(each.topic(), each.partition()): each.offset() for each in messages}
    return [TopicPartition(topic, partition, offset + 1) for (topic, partition), offset in last.items()]


LOOPS = {"at-most-once": at_most_once, "at-least-once": at_least_once, "exactly-once": exactly_once}

if __name__ == "__main__":
    LOOPS[sys.argv[1]](sys.argv[2], sys.argv[3])
