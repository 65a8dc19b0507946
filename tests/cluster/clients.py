"""What the cluster tests do with unmodified clients, and conditions with a deadline."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

T = TypeVar("T")
DEADLINE_SECONDS = 60.0


def eventually(check: Callable[[], T | None], what: str | Callable[[], str], seconds: float = DEADLINE_SECONDS) -> T:
    """Return the first true answer of `check`; fail when there is none before the deadline."""
    deadline = time.monotonic() + seconds
    while True:
        found = check()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:.0f} s: {what() if callable(what) else what}")
        time.sleep(0.05)


def create_topic(
    bootstrap: str,
    name: str,
    partitions: int,
    replicas: int,
    client: Mapping[str, Any] = MappingProxyType({}),
    **configs: str,
) -> None:
    """Create a topic and wait until every partition has a leader; `client` are more properties of the client."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **client})
    config = {key.replace("_", "."): value for key, value in configs.items()}
    topic = NewTopic(name, num_partitions=partitions, replication_factor=replicas, config=config)
    admin.create_topics([topic], operation_timeout=30)[name].result(30)
    eventually(lambda: all_led(admin, name, partitions), f"leaders of {name}")


def all_led(admin: AdminClient, name: str, partitions: int) -> bool:
    found = admin.list_topics(name, timeout=30).topics[name].partitions
    return len(found) == partitions and all(each.leader >= 0 for each in found.values())


def leader_of(bootstrap: str, name: str, partition: int) -> int:
    """Return the leader's id as a living broker tells it, -1 if there is none."""
    return int(told_of(bootstrap, name, partition).leader)


def isr_of(bootstrap: str, name: str, partition: int) -> list[int]:
    """Return the in-sync replicas."""
    return sorted(told_of(bootstrap, name, partition).isrs)


def told_of(bootstrap: str, name: str, partition: int) -> Any:
    """Return a partition as a living broker tells it: one that has not heard of a new topic yet is asked again."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    return eventually(
        lambda: admin.list_topics(name, timeout=30).topics[name].partitions.get(partition), f"{name}-{partition}"
    )


@dataclass(slots=True)
class Sent:
    """What a producer was told: {value: (partition, offset)} of what was acknowledged, and what was not."""

    acked: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    failed: list[tuple[bytes, str]] = field(default_factory=list)


class Sender:
    """An idempotent producer with acks=all that remembers what it was told of each record."""

    def __init__(self, bootstrap: str, topic: str, **options: Any) -> None:
        self.topic = topic
        self.sent = Sent()
        self._count = 0
        config = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 2}
        self._producer = Producer(config | {"message.timeout.ms": 120_000} | options)

    def send(self, count: int, partitions: int = 1, first: int | None = None) -> None:
        """Queue so many records, in turn to each partition; they are numbered on, or anew from `first`."""
        start = self._count if first is None else first
        for number in range(start, start + count):
            value = b"%08d" % number
            self._producer.produce(self.topic, value, value, partition=number % partitions, on_delivery=self._delivered)
            self._count += 1
            self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        if error is None:
            self.sent.acked[message.value()] = (message.partition(), message.offset())
        else:
            self.sent.failed.append((message.value(), str(error)))

    def flush(self, seconds: float = 120.0) -> None:
        """Wait for every answer."""
        left = self._producer.flush(seconds)
        assert left == 0, f"{left} records were neither acknowledged nor refused in {seconds} s"

    def flush_acked(self, count: int) -> None:
        """Wait for every answer: all is acknowledged, and it is so many records since the beginning."""
        self.flush()
        assert not self.sent.failed, self.sent.failed[:3]
        assert len(self.sent.acked) == self._count == count


def send_one(bootstrap: str, topic: str, timeout_ms: int = 15_000, **options: object) -> str | None:
    """Send one record with acks=all; return None, or the error's name."""
    errors: list[str | None] = []
    producer = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": timeout_ms, "acks": "all", **options})
    producer.produce(topic, b"x", on_delivery=lambda error, _: errors.append(error.name() if error else None))
    producer.flush(timeout_ms / 1000 + 10)
    return errors[0]


def read_all(bootstrap: str, topic: str, partitions: int, **options: Any) -> dict[int, list[Any]]:
    """Return every record of each partition up to its end, in the order in which they came."""
    config = {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False}
    consumer = Consumer(config | {"enable.partition.eof": True, "auto.offset.reset": "error"} | options)
    found: dict[int, list[Any]] = {partition: [] for partition in range(partitions)}
    left = set(found)
    deadline = time.monotonic() + 2 * DEADLINE_SECONDS
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in found])
        while left:
            assert time.monotonic() < deadline, f"no end of partitions {left}"
            message = consumer.poll(1.0)
            if message is None:
                continue
            error = message.error()
            if error is None:
                found[message.partition()].append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard(message.partition())
            elif not error.retriable() and error.code() not in TRANSIENT:
                raise AssertionError(str(error))
    finally:
        consumer.close()
    return found


TRANSIENT = {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN}


def assert_all_there_once_in_order(records: dict[int, list[Any]], acked: dict[bytes, tuple[int, int | None]]) -> None:
    """Every acknowledged record is at the acknowledged offset, once, and values rise with offsets.

    The offset is None where librdkafka had no response to a batch, and then an acknowledgement of a later batch of the
    same producer: the sequence numbers prove that the earlier batch was written (rd_kafka_dr_implicit_ack).
    """
    at = {}
    for partition, messages in records.items():
        values = [message.value() for message in messages]
        assert len(set(values)) == len(values), f"duplicates in partition {partition}: {duplicates(values)}"
        assert values == sorted(values), f"partition {partition} is out of order"
        at |= {message.value(): (partition, message.offset()) for message in messages}
    missing = [value for value in acked if value not in at]
    assert not missing, f"{len(missing)} of {len(acked)} acknowledged records are lost: {missing[:5]}"
    moved = {
        value: (place, at[value])
        for value, place in acked.items()
        if place[0] != at[value][0] or place[1] not in (None, at[value][1])
    }
    assert not moved, f"acknowledged elsewhere than they are: {list(moved.items())[:5]}"


def duplicates(values: Iterable[bytes]) -> list[bytes]:
    seen: set[bytes] = set()
    return [value for value in values if value in seen or seen.add(value)][:5]  # type: ignore[func-returns-value]
