"""The mirror's own conversations with the two clusters: reading a small topic, writing control records, asking."""

import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # documented, not in __all__

from kvorum.pipelines.bridge import client
from kvorum.pipelines.bridge.lookup import Lookup, retried

REQUEST_SECONDS: Final = 30.0
POLL_SECONDS: Final = 0.1
SILENCE_SECONDS: Final = 60.0
"""Without a record and without the partition's end for so long, a read is given up."""

MESSAGES_MAX: Final = 5000


class Superseded(Exception):
    """Another run of the same mirror has begun: this one must not write another word."""


class Control(NamedTuple):
    """A control record."""

    topic: str
    key: bytes
    value: bytes | None


class ControlWriter:
    """Writes control records in transactions. The newest writer of a name is the only one that can.

    So what an older run has in its head (an end of the target that it read before it stood still) is never written
    after a newer run has begun to write records.
    """

    def __init__(self, settings: client.Settings, name: str) -> None:
        """Fence all older writers of this name, and end what they left open."""
        own = {"transactional.id": f"kvorum-mirror-{name}", "acks": "all", "linger.ms": "5"}
        self._producer = Producer({**client.for_producer(settings), **own})
        retried(lambda: self._producer.init_transactions(REQUEST_SECONDS))

    def write(self, records: Sequence[Control]) -> None:
        """Write records, all or none.

        Raises: Superseded; KafkaException for what does not pass.
        """
        if not records:
            return
        try:
            self._producer.begin_transaction()
            for record in records:
                self._producer.produce(record.topic, record.value, record.key)
            retried(lambda: self._producer.commit_transaction(REQUEST_SECONDS))
        except KafkaException as error:
            cause = client.error_of(error)
            if cause.code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH):
                raise Superseded(f"fenced by another run of this mirror: {cause.str()}") from error
            if cause.txn_requires_abort():
                self._producer.abort_transaction(REQUEST_SECONDS)
            raise

    def close(self) -> None:
        """Let go of the connections."""
        self._producer.flush(1.0)


def consumer(settings: client.Settings, group: str) -> Consumer:
    """Return a consumer that sees committed records, and commits nothing."""
    return Consumer(client.for_consumer({**settings, "isolation.level": "read_committed"}, group))


def read_range(reader: Consumer, topic: str, partition: int, start: int, end: int) -> Generator[Message, None, int]:
    """Yield the visible records from one offset up to another, as far as they exist.

    Returns the offset up to which the range was read: `end`, or less where an open transaction or the log's end stops
    the read. Raises: KafkaException, among others where the log's start has moved beyond `start`; TimeoutError.
    """
    if start >= end:
        return end
    reader.assign([confluent_kafka.TopicPartition(topic, partition, start)])
    quiet_since = time.monotonic()
    try:
        while True:
            messages = reader.consume(MESSAGES_MAX, POLL_SECONDS)
            for message in messages:
                error, offset = message.error(), message.offset()
                if error is not None:
                    if error.code() == KafkaError._PARTITION_EOF:
                        return start if offset is None else min(offset, end)
                    if client.is_passing(error):
                        continue
                    raise KafkaException(error)
                if offset is None or offset >= end:
                    return end
                quiet_since = time.monotonic()
                yield message
            if time.monotonic() - quiet_since > SILENCE_SECONDS:
                raise TimeoutError(f"{topic}-{partition} returned no record of offsets {start} to {end}")
    finally:
        reader.unassign()


def read_topic(settings: client.Settings, topic: str) -> Iterator[Message]:
    """Yield all committed records of a small topic."""
    lookup = Lookup(settings)
    places = lookup.of_topic(topic)
    reader = consumer(settings, "kvorum-mirror-reader")
    try:
        for place in places:
            low, high = retried(
                lambda place=place: reader.get_watermark_offsets(  # type: ignore[misc]
                    confluent_kafka.TopicPartition(topic, place.partition), timeout=REQUEST_SECONDS
                )
            )
            yield from read_range(reader, topic, place.partition, low, high)
    finally:
        reader.close()


def create_topics(admin: AdminClient, topics: Sequence[NewTopic]) -> None:
    """Create topics; those that are there are left as they are."""
    if not topics:
        return
    for future in admin.create_topics(list(topics), operation_timeout=REQUEST_SECONDS).values():
        try:
            future.result(REQUEST_SECONDS * 2)
        except KafkaException as error:
            if client.error_of(error).code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise


def compacted(name: str, replication_factor: int | None) -> NewTopic:
    """Return a control topic: one partition, compacted."""
    config: Mapping[str, str] = {"cleanup.policy": "compact"}
    return NewTopic(name, 1, -1 if replication_factor is None else replication_factor, config=dict(config))
