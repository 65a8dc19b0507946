"""The three topics of the manager: read as a whole at its start, written by it alone.

All writes are transactions of one transactional id, PREFIX-manager. `fence` fences earlier managers, so that they
cannot write any more, and completes or aborts their last transaction. A `read` after it returns the whole state.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # it means to export it

from kvorum.pipelines.bridge.lookup import create_topics
from kvorum.pipelines.connect.errors import Fenced, Unavailable
from kvorum.pipelines.connect.state import Record, Topic, parse

T = TypeVar("T")
PARTITIONS: Final = {Topic.CONFIGS: 1, Topic.OFFSETS: 25, Topic.STATUS: 5}
"""As many as Connect creates."""
REPLICAS: Final = 3
REQUEST_SECONDS: Final = 30.0
TRANSACTION_MS: Final = 30_000
READ_SECONDS: Final = 120.0
RECORDS_MAX: Final = 1_000_000
"""More records in the topics are not the state of connectors."""
BATCH: Final = 500
FENCES: Final = frozenset({KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED})

log = logging.getLogger("kvorum.pipelines.connect.store")


@dataclass(slots=True)
class Store:
    """The topics PREFIX-configs, PREFIX-offsets and PREFIX-status. Blocking calls run in one thread, in their order."""

    client: dict[str, str]
    """Settings of the Kafka clients."""
    prefix: str
    _producer: Any = None
    _thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "connect-store"))

    async def prepare(self) -> str:
        """Create missing topics, and return the cluster's id. Raises Unavailable."""
        return await self._do(self._prepare)

    async def read(self) -> list[Record]:
        """Return all committed records. Raises Unavailable."""
        return await self._do(self._read)

    async def fence(self) -> None:
        """Fence earlier writers. Raises Unavailable."""
        await self._do(self._fence)

    async def append(self, found: Sequence[Record]) -> None:
        """Write records, all or none. Raises Fenced, and Unavailable if the outcome is not known."""
        if found:
            await self._do(lambda: self._append(found))

    async def _do(self, operation: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, operation)
        except KafkaException as error:
            kafka_error = error.args[0]
            raise (Fenced if kafka_error.code() in FENCES else Unavailable)(str(kafka_error)) from error
        except TimeoutError as error:
            raise Unavailable("no response from the cluster in time") from error

    def _name(self, topic: Topic) -> str:
        return f"{self.prefix}-{topic}"

    def _prepare(self) -> str:
        admin = AdminClient(dict(self.client))
        found = admin.list_topics(timeout=REQUEST_SECONDS)
        replicas = min(REPLICAS, len(found.brokers))
        missing = [
            NewTopic(self._name(topic), count, replicas, config={"cleanup.policy": "compact"})
            for topic, count in PARTITIONS.items()
            if self._name(topic) not in found.topics
        ]
        create_topics(admin, missing)
        if missing:
            log.info("topics created prefix=%s replicas=%d", self.prefix, replicas)
        return str(found.cluster_id or "")

    def _fence(self) -> None:
        settings = {"transaction.timeout.ms": TRANSACTION_MS, "partitioner": "murmur2_random", "linger.ms": 0}
        producer = Producer({**self.client, "transactional.id": f"{self.prefix}-manager", **settings})
        producer.init_transactions(REQUEST_SECONDS)
        self._producer = producer

    def _read(self) -> list[Record]:
        settings = {
            "group.id": f"{self.prefix}-reader",  # required by librdkafka; the group is never joined
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
        with contextlib.closing(Consumer({**self.client, **settings})) as consumer:
            return self._read_with(consumer)

    def _read_with(self, consumer: Any) -> list[Record]:
        by_name = {self._name(topic): topic for topic in Topic}
        unread = set[tuple[str, int]]()
        for name in by_name:
            found = consumer.list_topics(name, timeout=REQUEST_SECONDS).topics[name]
            if found.error is not None or not found.partitions:
                # Without this check a missing topic would be an empty state: all connectors deleted.
                raise KafkaException(found.error or KafkaError(KafkaError._UNKNOWN_TOPIC, f"{name} has no partitions"))
            unread |= {(name, number) for number in found.partitions}
        consumer.assign([TopicPartition(name, number, 0) for name, number in sorted(unread)])
        records, deadline = list[Record](), time.monotonic() + READ_SECONDS
        while unread:
            if time.monotonic() > deadline or len(records) > RECORDS_MAX:
                reason = f"{len(unread)} partitions were not read to the end"
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, reason))
            for message in consumer.consume(BATCH, 1.0):
                error = message.error()
                if error is None:
                    record = parse(by_name[message.topic()], message.key(), message.value())
                    records += [record] if record is not None else []
                elif error.code() == KafkaError._PARTITION_EOF:
                    unread.discard((message.topic(), message.partition()))
                elif error.fatal() or not error.retriable():
                    log.warning("state not readable error=%s", error)
        return records

    def _append(self, found: Sequence[Record]) -> None:
        producer = self._producer
        if producer is None:
            raise KafkaException(KafkaError(KafkaError._STATE, "the outcome of the last write is not known"))
        producer.begin_transaction()
        try:
            for record in found:
                producer.produce(self._name(record.topic), key=record.key.encode(), value=record.value_bytes())
            producer.commit_transaction(REQUEST_SECONDS)
        except BaseException:
            self._producer = None  # `fence` completes or aborts the transaction
            raise
