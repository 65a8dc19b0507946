"""The three topics: read as a whole by who begins to lead, written by him alone from then on.

The leader's writes are transactions of one transactional id: who begins to lead fences whoever led before, so that a
manager that has slept through its dismissal cannot write any more. Then it reads what is there, committed, to the end:
nothing can come after that but its own.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # it means to export it

from kvorum.pipelines.connect.errors import Fenced, Unavailable
from kvorum.pipelines.connect.records import Record, Topic, parse

T = TypeVar("T")
PARTITIONS: Final = {Topic.CONFIGS: 1, Topic.OFFSETS: 25, Topic.STATUS: 5}
"""As many as Connect makes."""
REPLICAS: Final = 3
REQUEST_SECONDS: Final = 30.0
TRANSACTION_MS: Final = 30_000
LOAD_SECONDS: Final = 120.0
RECORDS_MAX: Final = 1_000_000
"""More than that in the topics is no state of connectors."""
BATCH: Final = 500
FENCES: Final = frozenset({KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED})

log = logging.getLogger("kvorum.pipelines.connect.store")


class Store(Protocol):
    """Where the state is kept."""

    async def prepare(self) -> str:
        """Make the topics if they are not there, and return the cluster's id. Raises Unavailable."""
        ...

    async def load(self) -> list[Record]:
        """Fence earlier writers, and return the state. Raises Unavailable."""
        ...

    async def append(self, found: Sequence[Record]) -> None:
        """Write records, all or none. Raises Fenced, Unavailable."""
        ...

    async def close(self) -> None:
        """Give the connections back."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The topics' names."""

    configs: str = "connect-configs"
    offsets: str = "connect-offsets"
    status: str = "connect-status"

    def of(self, topic: Topic) -> str:
        """Return a topic's name."""
        return {Topic.CONFIGS: self.configs, Topic.OFFSETS: self.offsets, Topic.STATUS: self.status}[topic]


class KafkaStore:
    """The topics of a cluster. What blocks runs in a thread of its own, one thing at a time."""

    def __init__(self, client: dict[str, str], group: str, names: Names) -> None:
        """Take the client's settings (bootstrap.servers, security), the managers' group and the topics' names."""
        self._client = client
        self._group = group
        self._names = names
        self._producer: Any = None
        self._thread = ThreadPoolExecutor(1, "connect-store")

    async def prepare(self) -> str:
        """Make the topics if they are not there."""
        return await self._do(self._prepare)

    async def load(self) -> list[Record]:
        """Fence, then read to the end."""
        return await self._do(self._load)

    async def append(self, found: Sequence[Record]) -> None:
        """Write records in one transaction."""
        if found:
            await self._do(lambda: self._append(found))

    async def close(self) -> None:
        """Let the producer go; what was not committed is aborted when its time is over."""
        self._producer = None
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _do(self, what: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, what)
        except KafkaException as error:
            kafka_error = error.args[0]
            if kafka_error.code() in FENCES:
                raise Fenced(str(kafka_error)) from error
            raise Unavailable(str(kafka_error)) from error
        except TimeoutError as error:
            raise Unavailable("no response from the cluster in time") from error

    def _prepare(self) -> str:
        admin = AdminClient(dict(self._client))
        there = admin.list_topics(timeout=REQUEST_SECONDS)
        replicas = min(REPLICAS, len(there.brokers))
        config = {"cleanup.policy": "compact"}
        missing = [
            NewTopic(self._names.of(topic), count, replicas, config=config)
            for topic, count in PARTITIONS.items()
            if self._names.of(topic) not in there.topics
        ]
        for name, future in (admin.create_topics(missing) if missing else {}).items():
            try:
                future.result(REQUEST_SECONDS)
                log.info("topic created name=%s replicas=%d", name, replicas)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
        return str(there.cluster_id or "")

    def _load(self) -> list[Record]:
        self._producer = Producer(
            {
                **self._client,
                "transactional.id": f"connect-cluster-{self._group}",
                "transaction.timeout.ms": TRANSACTION_MS,
                "partitioner": "murmur2_random",
                "linger.ms": 0,
            }
        )
        self._producer.init_transactions(REQUEST_SECONDS)
        consumer = Consumer(
            {
                **self._client,
                "group.id": f"{self._group}-reader",  # never joined: librdkafka asks for one
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )
        try:
            return self._read(consumer)
        finally:
            consumer.close()

    def _read(self, consumer: Any) -> list[Record]:
        by_name = {self._names.of(topic): topic for topic in Topic}
        open_ends = set[tuple[str, int]]()
        for name in by_name:
            told = consumer.list_topics(name, timeout=REQUEST_SECONDS).topics[name]
            if told.error is not None or not told.partitions:
                # An empty state would be believed: every connector deleted.
                raise KafkaException(told.error or KafkaError(KafkaError._UNKNOWN_TOPIC, f"{name} has no partitions"))
            open_ends |= {(name, number) for number in told.partitions}
        consumer.assign([TopicPartition(name, number, 0) for name, number in sorted(open_ends)])
        found, deadline = list[Record](), time.monotonic() + LOAD_SECONDS
        while open_ends:
            if time.monotonic() > deadline or len(found) > RECORDS_MAX:
                what = f"{len(open_ends)} partitions were not read to the end"
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, what))
            for message in consumer.consume(BATCH, 1.0):
                error = message.error()
                if error is None:
                    record = parse(by_name[message.topic()], message.key(), message.value())
                    found += [record] if record is not None else []
                elif error.code() == KafkaError._PARTITION_EOF:
                    open_ends.discard((message.topic(), message.partition()))
                elif error.fatal() or not error.retriable():
                    log.warning("state not readable error=%s", error)
        return found

    def _append(self, found: Sequence[Record]) -> None:
        producer = self._producer
        if producer is None:
            raise KafkaException(KafkaError(KafkaError._STATE, "this manager does not lead"))
        producer.begin_transaction()
        try:
            for record in found:
                producer.produce(self._names.of(record.topic), key=record.key_bytes(), value=record.value_bytes())
            producer.commit_transaction(REQUEST_SECONDS)
        except BaseException:
            # Whether it is in is not known: who leads begins anew, and init_transactions decides it.
            self._producer = None
            raise
