"""What the tests of the mirror write and read: plain clients, none of the mirror's own code."""

import random
import time
from collections.abc import Iterable

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

Seen = tuple[bytes | None, bytes | None, tuple[int, int], tuple[tuple[str, bytes | None], ...]]
BASE_MS = 1_700_000_000_000


def produce(bootstrap: str, topic: str, partitions: int, count: int, *, start: int = 0, seed: int = 1) -> None:
    """Write records of all kinds: null keys, tombstones, headers with repeats and nulls, times that go back."""
    chance = random.Random(f"{topic} {seed}")
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 20})
    for number in range(start, start + count):
        key = None if number % 7 == 0 else b"key-%d" % (number % 50)
        value = None if number % 11 == 0 else b"%d " % number + chance.randbytes(chance.randrange(60))
        headers: list[tuple[str, bytes | None]] = []
        if number % 3 == 0:
            headers = [("h", b"%d" % number), ("h", None), ("", b"\x00\xff")]
        timestamp = BASE_MS + number * 1000 - chance.randrange(5000)
        while True:
            try:
                producer.produce(topic, value, key, partition=number % partitions, timestamp=timestamp, headers=headers)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(60) == 0


def produce_transactions(bootstrap: str, topic: str, count: int) -> None:
    """Write transactions of three records, every third of which is aborted, into partition 0."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"tx-{topic}"})
    producer.init_transactions(60)
    for number in range(count):
        producer.begin_transaction()
        for each in range(3):
            producer.produce(topic, b"tx %d %d" % (number, each), b"tx", partition=0, timestamp=BASE_MS + number)
        producer.flush(30)
        (producer.abort_transaction if number % 3 == 2 else producer.commit_transaction)(60)


Place = tuple[str, int]


def everything(bootstrap: str, starts: Iterable[tuple[str, int, int]]) -> dict[Place, list[tuple[int, Seen]]]:
    """Return (offset, record) of all committed records of partitions, each from an offset on, read by one consumer."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "looks", "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "enable.partition.eof": True, "auto.offset.reset": "earliest"})
    assigned = [TopicPartition(*each) for each in starts]
    consumer.assign(assigned)
    found: dict[Place, list[tuple[int, Seen]]] = {(part.topic, part.partition): [] for part in assigned}
    open_ends = set(found)
    try:
        while open_ends:
            for message in consumer.consume(1000, 0.2):
                error, place = message.error(), (message.topic(), message.partition())
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    open_ends.discard(place)  # type: ignore[arg-type]
                    continue
                offset = message.offset()
                assert offset is not None
                found[place].append((offset, record(message)))  # type: ignore[index]
        return found
    finally:
        consumer.close()


def record(message: object) -> Seen:
    """Return everything of a record but its offset."""
    m: object = message
    return (m.key(), m.value(), m.timestamp(), tuple(m.headers() or ()))  # type: ignore[attr-defined]


def records(bootstrap: str, topic: str, partition: int, start: int = 0) -> list[Seen]:
    """Return the committed records of a partition."""
    return [each for _, each in everything(bootstrap, [(topic, partition, start)])[topic, partition]]


def commit(bootstrap: str, group: str, offsets: dict[tuple[str, int], int]) -> None:
    """Commit a group's offsets without a member; again while the coordinator is not there yet."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    parts = [TopicPartition(topic, number, offset) for (topic, number), offset in offsets.items()]
    deadline = time.monotonic() + 60
    while True:
        request = [ConsumerGroupTopicPartitions(group, parts)]
        (future,) = admin.alter_consumer_group_offsets(request).values()
        errors = [part.error for part in future.result(60).topic_partitions if part.error is not None]
        if not errors:
            return
        assert time.monotonic() < deadline, errors


def committed(bootstrap: str, group: str) -> dict[tuple[str, int], int]:
    """Return a group's offsets."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(60)
    return {(part.topic, part.partition): part.offset for part in found.topic_partitions if part.offset >= 0}


def goes_on(bootstrap: str, group: str, topics: Iterable[str]) -> dict[tuple[str, int], list[Seen]]:
    """Return what a member of the group gets from where the group stands, to the ends; it never starts anew."""
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "auto.offset.reset": "error", "enable.partition.eof": True})
    consumer.subscribe(list(topics))
    found: dict[tuple[str, int], list[Seen]] = {}
    ended: set[tuple[str, int]] = set()
    try:
        while not ended or ended < {(p.topic, p.partition) for p in consumer.assignment()}:
            for message in consumer.consume(1000, 0.2):
                place = (message.topic(), message.partition())
                error = message.error()
                if error is None:
                    found.setdefault(place, []).append(record(message))  # type: ignore[arg-type]
                else:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    ended.add(place)  # type: ignore[arg-type]
        return found
    finally:
        consumer.close()
