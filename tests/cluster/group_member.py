"""A member of a classic group in a process of its own, so that it can die; of any of three clients.

Run: python -m tests.cluster.group_member JSON, with the keys of Options. It writes a JSON line for each thing it
learns: {"assigned": [partitions]} whenever that has changed, {"given": [partitions]} and {"revoked": [partitions]} for
each call of its rebalance listener, {"record": [partition, offset, value]}, {"committed": {partition: offset}} behind
each commit that succeeded, {"left": true} at the end. SIGTERM: commit and leave in order.
"""

import asyncio
import json
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

SESSION_MS = 120_000
"""Longer than a test waits: the session of a busy member, or of one that starts again, does not end."""
SHORT_SESSION_MS = 6_000
"""For a member that is killed and not started again."""
POLL_SECONDS = 0.2
LONG_POLL_MS = 3_600_000
"""Longer than any test."""


@dataclass(slots=True, kw_only=True)
class Options:
    """How a member takes part. Times in ms."""

    client: str
    bootstrap: str
    group: str
    topic: str
    strategy: str = "range"
    instance: str | None = None
    session_ms: int = SESSION_MS
    heartbeat_ms: int = 500

    def to_json(self) -> str:
        return json.dumps(asdict(self))


class PollStopped(BaseException):
    """SIGTERM arrived during a long poll."""


class Told:
    """What was written already."""

    def __init__(self) -> None:
        self.assigned: list[int] | None = None
        self.stopping = False
        self.is_in_long_poll = False
        signal.signal(signal.SIGTERM, self._stop)

    def _stop(self, number: int, frame: object) -> None:
        self.stopping = True
        if self.is_in_long_poll:
            raise PollStopped

    def begin_long_poll(self) -> bool:
        """Return whether to poll; SIGTERM ends the poll until `is_in_long_poll` is reset."""
        self.is_in_long_poll = True
        return not self.stopping

    def assignment(self, partitions: set[int]) -> None:
        now = sorted(partitions)
        if now != self.assigned:
            self.assigned = now
            tell(assigned=now)


def tell(**event: Any) -> None:
    """Write one line at once: kafka-python calls its listener in another thread."""
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def tell_rebalance(word: str, partitions: Iterable[Any]) -> None:
    """Write what a rebalance listener was called with."""
    tell(**{word: sorted(each.partition for each in partitions)})


def by_confluent(options: Options) -> None:
    from confluent_kafka import Consumer, KafkaException

    consumer = Consumer(
        ({} if options.instance is None else {"group.instance.id": options.instance})
        | {
            "bootstrap.servers": options.bootstrap,
            "group.id": options.group,
            "partition.assignment.strategy": options.strategy,
            "session.timeout.ms": options.session_ms,
            "heartbeat.interval.ms": options.heartbeat_ms,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    reported = Told()
    consumer.subscribe(
        [options.topic],
        on_assign=lambda _, partitions: tell_rebalance("given", partitions),
        on_revoke=lambda _, partitions: tell_rebalance("revoked", partitions),
    )
    while not reported.stopping:
        message = consumer.poll(POLL_SECONDS)
        reported.assignment({each.partition for each in consumer.assignment()})
        if message is None or message.error() is not None:
            continue
        tell(record=[message.partition(), message.offset(), message.value().decode()])
        try:
            (row,) = consumer.commit(message, asynchronous=False)
        except KafkaException:
            continue  # a rebalance took the partition away, or the coordinator moves: whoever has it now reads it again
        tell(committed={row.partition: row.offset})
    consumer.close()


def know_topic(consumer: Any, topic: str) -> None:
    """Have kafka-python know the partitions of a topic it has subscribed to before it joins.

    Otherwise it joins again as soon as it knows them.
    """
    while topic not in consumer.topics():
        pass


def by_kafka_python(options: Options) -> None:
    """Poll until records arrive.

    A poll of 3.0.12 that times out leaves its join running. If the join completes before the next poll begins, that
    poll discards the result and joins again (BaseCoordinator.join_group_async). The second join of a leader is a
    rebalance of the group. On a busy machine, polls of 0.2 s did so many times in a row.
    """
    from kafka import ConsumerRebalanceListener, KafkaConsumer
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.errors import KafkaError

    class Listener(ConsumerRebalanceListener):
        def on_partitions_assigned(self, assigned: Any) -> None:
            tell_rebalance("given", assigned)
            reported.assignment({each.partition for each in assigned})

        def on_partitions_revoked(self, revoked: Any) -> None:
            tell_rebalance("revoked", revoked)

    assert options.strategy == "range"
    reported = Told()
    consumer = KafkaConsumer(
        bootstrap_servers=options.bootstrap,
        group_id=options.group,
        partition_assignment_strategy=(RangePartitionAssignor,),
        session_timeout_ms=options.session_ms,
        heartbeat_interval_ms=options.heartbeat_ms,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        group_instance_id=options.instance,
    )
    consumer.subscribe([options.topic], listener=Listener())
    know_topic(consumer, options.topic)
    with suppress(PollStopped):
        while reported.begin_long_poll():
            found = consumer.poll(timeout_ms=LONG_POLL_MS, max_records=50)
            reported.is_in_long_poll = False
            for records in found.values():
                for each in records:
                    tell(record=[each.partition, each.offset, each.value.decode()])
            with suppress(KafkaError):
                consumer.commit()
                tell(committed={key.partition: records[-1].offset + 1 for key, records in found.items()})
    consumer.close()


def by_aiokafka(options: Options) -> None:
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.errors import KafkaError

    class Listener(ConsumerRebalanceListener):
        def on_partitions_assigned(self, assigned: Any) -> None:
            tell_rebalance("given", assigned)

        def on_partitions_revoked(self, revoked: Any) -> None:
            tell_rebalance("revoked", revoked)

    assert options.strategy == "range"

    async def run() -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=options.bootstrap,
            group_id=options.group,
            partition_assignment_strategy=(RangePartitionAssignor,),
            session_timeout_ms=options.session_ms,
            heartbeat_interval_ms=options.heartbeat_ms,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            group_instance_id=options.instance,
        )
        reported = Told()
        consumer.subscribe([options.topic], listener=Listener())
        await consumer.start()
        while not reported.stopping:
            found = await consumer.getmany(timeout_ms=int(POLL_SECONDS * 1000), max_records=50)
            reported.assignment({each.partition for each in consumer.assignment()})
            for records in found.values():
                for each in records:
                    tell(record=[each.partition, each.offset, each.value.decode()])
            if found:
                try:
                    await consumer.commit()
                except KafkaError:
                    continue
                tell(committed={key.partition: records[-1].offset + 1 for key, records in found.items()})
        await consumer.stop()

    asyncio.run(run())


CLIENTS = {"confluent": by_confluent, "kafka-python": by_kafka_python, "aiokafka": by_aiokafka}


if __name__ == "__main__":
    given = Options(**json.loads(sys.argv[1]))
    CLIENTS[given.client](given)
    tell(left=True)
