"""A read-process-write worker, a process of its own: copies `input` to `output`, exactly once.

    python -m tests.cluster.copier CLIENT BOOTSTRAP NUMBER COUNT

CLIENT is `confluent`: the workers share a group by subscribe, and a zombie is fenced by its group's generation
(KIP-447); or `aiokafka`, which tells no coordinator of its generation: there each worker has partitions, and a
transactional id, of its own. Now and then it aborts and reads again. It ends on what only another producer can go on
from, is killed -9 by its test, and is started again either way.
"""

import asyncio
import random
import sys
from typing import Any

INPUT, OUTPUT, GROUP = "input", "output", "copiers"
PARTITIONS = 6
BATCH = 100
ABORTED = 0.05
"""The share of transactions that the worker aborts by itself."""
SECONDS = 30.0


def by_confluent(bootstrap: str, number: int, count: int) -> None:
    from confluent_kafka import Consumer, KafkaException, Producer

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 6_000,
            "heartbeat.interval.ms": 1_000,
        }
    )
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": f"confluent-{number}",
            "transaction.timeout.ms": 20_000,
            "linger.ms": 2,
        }
    )
    producer.init_transactions(SECONDS)
    consumer.subscribe([INPUT])
    while True:
        messages = [each for each in consumer.consume(BATCH, 0.2) if each.error() is None]
        if not messages:
            continue
        producer.begin_transaction()
        try:
            for each in messages:
                producer.produce(OUTPUT, each.value(), each.key(), partition=each.partition())
            if random.random() < ABORTED:
                abort(producer, consumer)
                continue
            until_certain(
                producer.send_offsets_to_transaction, behind(messages), consumer.consumer_group_metadata(), SECONDS
            )
            until_certain(producer.commit_transaction, SECONDS)
        except KafkaException as error:
            print("aborts:", error, flush=True)
            if error.args[0].fatal():
                raise
            abort(producer, consumer)


def until_certain(attempt: Any, *given: Any) -> None:
    """Try again what may or may not have been done: the client knows how."""
    from confluent_kafka import KafkaException

    while True:
        try:
            attempt(*given)
            return
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


def abort(producer: Any, consumer: Any) -> None:
    """Abort, and go back to where the group is."""
    until_certain(producer.abort_transaction, SECONDS)
    for each in consumer.committed(consumer.assignment(), SECONDS):
        each.offset = max(0, each.offset)
        consumer.seek(each)


def behind(messages: list[Any]) -> list[Any]:
    """Return the offsets to go on from."""
    from confluent_kafka import TopicPartition

    last = {each.partition(): each.offset() for each in messages}
    return [TopicPartition(INPUT, partition, offset + 1) for partition, offset in last.items()]


async def by_aiokafka(bootstrap: str, number: int, count: int) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
    from aiokafka.structs import OffsetAndMetadata

    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, transactional_id=f"aiokafka-{number}", transaction_timeout_ms=20_000, linger_ms=2
    )
    await producer.start()  # whatever its predecessor left open is aborted by now
    mine = [TopicPartition(INPUT, each) for each in range(PARTITIONS) if each % count == number]
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, group_id=GROUP, isolation_level="read_committed", enable_auto_commit=False
    )
    await consumer.start()
    consumer.assign(mine)

    async def rewind() -> None:
        for each in mine:
            consumer.seek(each, await consumer.committed(each) or 0)

    await rewind()
    while True:
        found = await consumer.getmany(timeout_ms=200, max_records=BATCH)
        if not found:
            continue
        await producer.begin_transaction()
        for key, messages in found.items():
            for each in messages:
                await producer.send(OUTPUT, each.value, each.key, partition=key.partition)
        if random.random() < ABORTED:
            await producer.abort_transaction()
            await rewind()
            continue
        offsets = {key: OffsetAndMetadata(messages[-1].offset + 1, "") for key, messages in found.items()}
        await producer.send_offsets_to_transaction(offsets, GROUP)
        await producer.commit_transaction()  # what fails ends the process: the next one knows where to go on


def main() -> None:
    client, bootstrap, number, count = sys.argv[1:]
    if client == "confluent":
        by_confluent(bootstrap, int(number), int(count))
    else:
        asyncio.run(by_aiokafka(bootstrap, int(number), int(count)))


if __name__ == "__main__":
    main()
