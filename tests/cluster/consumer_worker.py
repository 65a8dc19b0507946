"""A consumer in a process of its own: tells in lines of JSON what it is assigned, what it reads, what it commits.

    python consumer_worker.py CONFIG TOPIC...      CONFIG: JSON of confluent-kafka's; a topic with ^ first is a pattern

Ends at SIGTERM as a good client does: commits, leaves, tells so.
"""

import json
import signal
import sys
import threading
from typing import Any

from confluent_kafka import Consumer, TopicPartition

OUT = threading.Lock()


def tell(event: str, **facts: Any) -> None:
    with OUT:
        print(json.dumps({"event": event, **facts}), flush=True)


def rows(partitions: list[TopicPartition]) -> list[list[Any]]:
    return sorted([each.topic, each.partition] for each in partitions)


def main() -> None:
    config, *topics = sys.argv[1:]
    consumer = Consumer(json.loads(config))
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stopping.set())

    def assigned(it: Consumer, partitions: list[TopicPartition]) -> None:
        tell("assigned", partitions=rows(partitions))

    def revoked(it: Consumer, partitions: list[TopicPartition]) -> None:
        tell("revoked", partitions=rows(partitions))

    def lost(it: Consumer, partitions: list[TopicPartition]) -> None:
        tell("lost", partitions=rows(partitions))

    consumer.subscribe(topics, on_assign=assigned, on_revoke=revoked, on_lost=lost)
    tell("subscribed")
    while not stopping.is_set():
        message = consumer.poll(0.1)
        if message is None:
            continue
        if message.error():
            tell("error", error=str(message.error()))
            continue
        value = (message.value() or b"").decode()
        tell("read", topic=message.topic(), partition=message.partition(), offset=message.offset(), value=value)
    consumer.close()
    tell("closed")


if __name__ == "__main__":
    main()
