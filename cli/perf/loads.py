"""Loads of `kvorum bench`: produce, consume, and end-to-end latency."""

import os
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as Partition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

PARTITIONS, REPLICAS_MAX = 6, 3
LATENCY_PARTITION = 0
LATENCY_RECORDS = 2_000
STAGE_SECONDS = 15.0
"""Time limit of each of the three: with a cluster's start they stay under a minute."""
REACH_SECONDS, ANSWER_SECONDS = 10.0, 30.0
AT_ONCE = 1_000
"""Records between two checks of the clock."""
QUEUED_MAX = 100_000
CONSUMED_AT_ONCE = 5_000
LETTERS = bytes(65 + number % 26 for number in range(256))

Row = dict[str, object]


class LoadError(Exception):
    """The cluster failed, with the reason."""


class Unreachable(LoadError):
    """No broker answers."""


@dataclass(slots=True)
class Reports:
    """Delivery reports: how many records were acknowledged, and the first that was not."""

    acknowledged: int = 0
    error: str | None = None

    def take(self, error: KafkaError | None, message: Message) -> None:
        """Record one."""
        if error is None:
            self.acknowledged += 1
        elif self.error is None:
            self.error = str(error)


@dataclass(slots=True, kw_only=True)
class Timed:
    """A stage: its number of records and seconds, and the seconds of single ones."""

    what: str
    records: int
    seconds: float
    size: int
    single: list[float] = field(default_factory=list)


def run(bootstrap: str, records: int, size: int) -> list[Row]:
    """Go through the stages on a topic made for it; return a row each. Raises LoadError."""
    try:
        with topic_on(bootstrap) as topic:
            produced = produce(bootstrap, topic, records, size)
            consumed = consume(bootstrap, topic, produced.records, size)
            return [row_of(each) for each in (produced, consumed, latency(bootstrap, topic, size))]
    except KafkaException as error:
        raise LoadError(str(error.args[0].str())) from error


def row_of(timed: Timed) -> Row:
    """Return a stage's row: rates of consecutive records, quantiles of single records."""
    ranked = sorted(timed.single)
    rates = not ranked and timed.seconds > 0
    return {
        "what": timed.what,
        "records": timed.records,
        "seconds": round(timed.seconds, 2),
        "records_per_second": round(timed.records / timed.seconds) if rates else None,
        "mib_per_second": round(timed.records * timed.size / timed.seconds / 2**20, 1) if rates else None,
        "p50_ms": milliseconds(ranked, 0.5),
        "p99_ms": milliseconds(ranked, 0.99),
        "max_ms": milliseconds(ranked, 1.0),
    }


def milliseconds(ranked: Sequence[float], share: float) -> float | None:
    """Return the quantile of sorted seconds, in milliseconds."""
    return round(ranked[min(len(ranked) - 1, int(len(ranked) * share))] * 1000, 2) if ranked else None


@contextmanager
def topic_on(bootstrap: str) -> Iterator[str]:
    """A new topic on up to three brokers, deleted afterwards. Raises LoadError."""
    admin, name = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}), f"kvorum-bench-{uuid.uuid4().hex[:12]}"
    try:
        brokers = len(admin.list_topics(timeout=REACH_SECONDS).brokers)
    except KafkaException as error:
        raise Unreachable(str(error.args[0].str())) from error
    wanted = NewTopic(name, PARTITIONS, min(REPLICAS_MAX, brokers))
    try:
        admin.create_topics([wanted], operation_timeout=ANSWER_SECONDS)[name].result(ANSWER_SECONDS)
    except KafkaException as error:
        raise LoadError(f"topic {name} was not created: {error.args[0].str()}") from error
    try:
        yield name
    finally:
        try:
            admin.delete_topics([name], operation_timeout=ANSWER_SECONDS)[name].result(ANSWER_SECONDS)
        except KafkaException as error:
            raise LoadError(f"topic {name} was not deleted: {error.args[0].str()}") from error


def produce(bootstrap: str, topic: str, records: int, size: int) -> Timed:
    """Produce this number with acks=all, or as many as the time permits. Raises LoadError."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "linger.ms": 5,
            "batch.size": 262_144,
            "queue.buffering.max.messages": QUEUED_MAX,
            "log_level": 0,
        }
    )
    producer.list_topics(topic, timeout=ANSWER_SECONDS)
    value, sent, failures = os.urandom(size).translate(LETTERS), 0, Reports()
    began = time.perf_counter()
    while sent < records and time.perf_counter() - began < STAGE_SECONDS:
        for _ in range(min(AT_ONCE, records - sent)):
            send(producer, topic, value, failures.take)
            sent += 1
        producer.poll(0)
    left = producer.flush(ANSWER_SECONDS)
    elapsed = time.perf_counter() - began
    if left or failures.error:
        raise LoadError(f"{sent - failures.acknowledged} of {sent} records were not acknowledged: {failures.error}")
    return Timed(what="produce", records=sent, seconds=elapsed, size=size)


def send(producer: Producer, topic: str, value: bytes, done: Callable[[KafkaError | None, Message], None]) -> None:
    """Hand a record to the client, waiting for room."""
    while True:
        try:
            producer.produce(topic, value, on_delivery=done)
        except BufferError:
            producer.poll(0.01)
        else:
            return


def consume(bootstrap: str, topic: str, records: int, size: int) -> Timed:
    """Consume from the beginning, as many as there are or the time allows. Raises LoadError."""
    consumer = consumer_of(bootstrap)
    count, began = 0, time.perf_counter()
    consumer.assign([Partition(topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
    while count < records and time.perf_counter() - began < STAGE_SECONDS:
        for message in consumer.consume(min(CONSUMED_AT_ONCE, records - count), 0.1):
            check(message)
            count += 1
    elapsed = time.perf_counter() - began
    consumer.close()
    if not count:
        raise LoadError(f"no record was received from {topic} in {STAGE_SECONDS:.0f} s")
    return Timed(what="consume", records=count, seconds=elapsed, size=size)


def consumer_of(bootstrap: str) -> Consumer:
    """Return a consumer that is assigned its partitions."""
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "kvorum-bench",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "log_level": 0,
        }
    )


def check(message: Message) -> None:
    """Reject an error message. Raises LoadError."""
    error = message.error()
    if error is not None:
        raise LoadError(f"consuming failed: {error.str()}")


def latency(bootstrap: str, topic: str, size: int) -> Timed:
    """Send one record after the other, each when the previous one was read. Raises LoadError."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0, "log_level": 0})
    consumer, reports = consumer_of(bootstrap), Reports()
    end = consumer.get_watermark_offsets(Partition(topic, LATENCY_PARTITION), timeout=ANSWER_SECONDS)[1]
    consumer.assign([Partition(topic, LATENCY_PARTITION, end)])
    value, single = os.urandom(size).translate(LETTERS), list[float]()
    began = time.perf_counter()
    while len(single) < LATENCY_RECORDS and time.perf_counter() - began < STAGE_SECONDS:
        sent = time.perf_counter()
        producer.produce(topic, value, partition=LATENCY_PARTITION, on_delivery=reports.take)
        message = consumer.poll(ANSWER_SECONDS)
        producer.poll(0)
        if message is None:
            raise LoadError(f"a record was not received within {ANSWER_SECONDS:.0f} s: {reports.error or 'no error'}")
        check(message)
        single.append(time.perf_counter() - sent)
    elapsed = time.perf_counter() - began
    producer.flush(ANSWER_SECONDS)
    consumer.close()
    return Timed(what="latency", records=len(single), seconds=elapsed, size=size, single=single)
