"""Transactional producers of three makes behind one face, raw requests to a coordinator, what a reader sees."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Protocol, TypeVar

from aiokafka.errors import KafkaError

from kvorum.client.transactions import Transactions
from kvorum.client.wire.cluster_client import ClusterClient, Unreachable
from kvorum.network.addresses import parse_bootstrap
from kvorum.network.channel import Channel
from kvorum.network.dial import ChannelError
from kvorum.protocol.messages.describe_producers import ProducerState
from kvorum.protocol.messages.describe_transactions import TransactionState
from kvorum.protocol.schema import Message
from kvorum.protocol.topic_partition import TopicPartition
from tests.cluster.clients import DEADLINE_SECONDS, eventually, read_all

T = TypeVar("T")
M = TypeVar("M", bound=Message)


class TransactionalClient(Protocol):
    """A transactional producer that has an id and epoch."""

    def begin(self) -> None: ...
    def send(self, topic: str, value: bytes, partition: int) -> None: ...
    def flush(self) -> None: ...
    def commit(self) -> None: ...
    def abort(self) -> None: ...
    def close(self) -> None: ...


class ByConfluent:
    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        from confluent_kafka import Producer

        self.producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "linger.ms": 2,
            }
        )
        self.producer.init_transactions(DEADLINE_SECONDS)

    def begin(self) -> None:
        self.producer.begin_transaction()

    def send(self, topic: str, value: bytes, partition: int) -> None:
        self.producer.produce(topic, value, value, partition=partition)
        self.producer.poll(0)

    def flush(self) -> None:
        assert self.producer.flush(DEADLINE_SECONDS) == 0

    def commit(self) -> None:
        self.producer.commit_transaction(DEADLINE_SECONDS)

    def abort(self) -> None:
        self.producer.abort_transaction(DEADLINE_SECONDS)

    def close(self) -> None:
        self.producer.purge()


class ByAiokafka:
    """Its coroutines run to their end here; between two calls it does nothing, heartbeats included."""

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        from aiokafka import AIOKafkaProducer

        self.runner = asyncio.Runner()
        self.futures: list[asyncio.Future[Any]] = []

        async def start() -> AIOKafkaProducer:
            producer = AIOKafkaProducer(
                bootstrap_servers=bootstrap, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
            )
            await producer.start()
            return producer

        self.producer = self.runner.run(start())

    def _run(self, work: Awaitable[T]) -> T:
        async def run() -> T:
            async with asyncio.timeout(DEADLINE_SECONDS):
                return await work

        return self.runner.run(run())

    def begin(self) -> None:
        self._run(self.producer.begin_transaction())

    def send(self, topic: str, value: bytes, partition: int) -> None:
        self.futures.append(self._run(self.producer.send(topic, value, value, partition=partition)))

    def flush(self) -> None:
        self._run(self.producer.flush())
        assert all(each.done() for each in self.futures)

    def commit(self) -> None:
        self._run(self.producer.commit_transaction())

    def abort(self) -> None:
        self._run(self.producer.abort_transaction())

    def close(self) -> None:
        """Close; what a producer that was fenced has still to say about it is nobody's concern."""
        with suppress(KafkaError):
            self._run(self.producer.stop())
        self.runner.close()


class ByKafkaPython:
    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        from kafka import KafkaProducer

        self.producer = KafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )
        self.producer.init_transactions()

    def begin(self) -> None:
        self.producer.begin_transaction()

    def send(self, topic: str, value: bytes, partition: int) -> None:
        self.producer.send(topic, value, value, partition=partition)

    def flush(self) -> None:
        self.producer.flush(DEADLINE_SECONDS)

    def commit(self) -> None:
        self.producer.commit_transaction()

    def abort(self) -> None:
        self.producer.abort_transaction()

    def close(self) -> None:
        self.producer.close(DEADLINE_SECONDS)


CLIENTS = {"confluent-kafka": ByConfluent, "aiokafka": ByAiokafka, "kafka-python": ByKafkaPython}


def values(bootstrap: str, topic: str, partitions: int, isolation: str = "read_committed") -> list[bytes]:
    """Return what a reader sees of a topic up to its end, sorted."""
    found = read_all(bootstrap, topic, partitions, **{"isolation.level": isolation})
    return sorted(message.value() for messages in found.values() for message in messages)


@contextmanager
def on_cluster(bootstrap: str) -> Iterator["Asker"]:
    """Give what asks a cluster."""
    asker = Asker(bootstrap)
    try:
        yield asker
    finally:
        asker.close()


class Asker:
    """Raw requests, and what tools ask."""

    def __init__(self, bootstrap: str) -> None:
        self._runner = asyncio.Runner()
        self.cluster = ClusterClient(parse_bootstrap(bootstrap), client_id="test", chance=random.Random(1))
        self.tools = Transactions(self.cluster)

    def run(self, work: Awaitable[T]) -> T:
        async def run() -> T:
            return await work

        return self._runner.run(run())

    def close(self) -> None:
        self.run(self.cluster.close())
        self._runner.close()

    def ask(self, broker_id: int, request: Message, response: type[M], version: int) -> M:
        """Ask one broker in one version."""

        host, port = self.requested(lambda: self.cluster.broker_address(broker_id))

        async def ask() -> M:
            channel = Channel(host, port, client_id="test", chance=random.Random(1))
            try:
                return await channel.ask(request, response, version=version)
            finally:
                await channel.close()

        return self.run(ask())

    def requested(self, question: Callable[[], Awaitable[T]]) -> T:
        """Ask again when a broker died over the question."""

        def answer() -> list[T]:
            try:
                return [self.run(question())]
            except (Unreachable, ChannelError):
                return []

        return eventually(answer, "an answer")[0]

    def live_brokers(self) -> list[int]:
        """Return the brokers that are not fenced."""
        return sorted(
            each.broker_id for each in self.requested(lambda: self.cluster.describe_cluster(fenced=False)).brokers
        )

    def described(self, transactional_id: str) -> tuple[int, TransactionState]:
        """Return an id's coordinator and what that knows."""
        return self.requested(lambda: self.tools.describe(transactional_id))

    def state(self, transactional_id: str) -> str:
        """Return a transactional id's state."""
        return self.described(transactional_id)[1].transaction_state

    def coordinator(self, transactional_id: str) -> int:
        """Return who coordinates an id that is known."""
        return self.described(transactional_id)[0]

    def producers(self, topic: str, partition: int) -> list[ProducerState]:
        """Return the producers of a partition."""
        return self.requested(lambda: self.tools.producers(TopicPartition(topic, partition)))

    def wait_for_state(self, transactional_id: str, *states: str) -> None:
        """Wait until an id is in one of these states."""
        eventually(lambda: self.state(transactional_id) in states, lambda: self.state(transactional_id))

    def is_settled(self, topic: str, partitions: int) -> bool:
        """Whether no transaction is open on a topic."""
        return not any(
            each.current_txn_start_offset >= 0
            for partition in range(partitions)
            for each in self.producers(topic, partition)
        )


def ends(bootstrap: str, topic: str, isolation: str, *partitions: int) -> Mapping[int, int]:
    """Return each (named) partition's end as a reader of this isolation level is told it: high watermark or LSO."""
    from confluent_kafka import IsolationLevel, TopicPartition
    from confluent_kafka.admin import AdminClient, OffsetSpec

    admin = AdminClient({"bootstrap.servers": bootstrap})
    count = len(admin.list_topics(topic, timeout=30).topics[topic].partitions)
    level = IsolationLevel.READ_COMMITTED if isolation == "read_committed" else IsolationLevel.READ_UNCOMMITTED
    requested = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in partitions or range(count)}
    answers = admin.list_offsets(requested, isolation_level=level, request_timeout=30)
    return {key.partition: future.result(30).offset for key, future in answers.items()}
