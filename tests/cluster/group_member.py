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
from dataclasses import asdict, dataclass
from typing import Any

POLL_SECONDS = 0.2


@dataclass(slots=True, kw_only=True)
class Options:
    """How a member takes part. Times in ms."""

    client: str
    bootstrap: str
    group: str
    topic: str
    strategy: str = "range"
    instance: str | None = None
    session_ms: int = 6_000
    heartbeat_ms: int = 500

    def to_json(self) -> str:
        return json.dumps(asdict(self))


class Told:
    """What was written already."""

    def __init__(self) -> None:
        self.assigned: list[int] | None = None
        self.stopping = False
        signal.signal(signal.SIGTERM, self._stop)

    def _stop(self, number: int, frame: object) -> None:
        self.stopping = True

    def assignment(self, partitions: set[int]) -> None:
        now = sorted(partitions)
        if now != self.assigned:
            self.assigned = now
            tell(assigned=now)


def tell(**event: Any) -> None:
    """Write one line."""
    print(json.dumps(event), flush=True)


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

    Otherwise it joins again as soon as it knows them; and 3.0.12 never looks at the answer to such a join if the poll
    in which it began was over before it came.
    """
    while topic not in consumer.topics():
        pass


def by_kafka_python(options: Options) -> None:
    from kafka import ConsumerRebalanceListener, KafkaConsumer
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.errors import KafkaError

    class Listener(ConsumerRebalanceListener):
        def on_partitions_assigned(self, assigned: Any) -> None:
            tell_rebalance("given", assigned)

        def on_partitions_revoked(self, revoked: Any) -> None:
            tell_rebalance("revoked", revoked)

    assert options.strategy == "range"
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
    reported = Told()
    while not reported.stopping:
        found = consumer.poll(timeout_ms=int(POLL_SECONDS * 1000), max_records=50)
        reported.assignment({each.partition for each in consumer.assignment()})
        for records in found.values():
            for each in records:
                tell(record=[each.partition, each.offset, each.value.decode()])
        if found:
            try:
                consumer.commit()
            except KafkaError:
                continue
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
