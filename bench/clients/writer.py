"""A producer of confluent-kafka.

    python -m bench.clients.writer BOOTSTRAP TOPIC[,TOPIC...] RECORDS SIZE [RATE [KEYS]] [PROPERTY=VALUE ...]

Prints `ready`, waits for a line, produces RECORDS records with acks=all, to the topics in turn, at RATE per second
(0: without a limit), with KEYS keys in turn (0: none), and prints `done SECONDS` when all are acknowledged.
"""

import os
import sys
import time

from confluent_kafka import Producer

from bench.child import follow_parent

TIMEOUT_SECONDS = 600.0
VALUES = 1_000
"""Different values, used in turn: random letters, as those of Kafka's own tool."""
AT_ONCE = 100
"""Number of records between two reads of the clock."""


def values_of(size: int) -> list[bytes]:
    """Return random letters."""
    letters = bytes(65 + number % 26 for number in range(256))
    return [os.urandom(size).translate(letters) for _ in range(VALUES)]


def main() -> None:
    """Produce."""
    follow_parent()
    bootstrap, topics, records, size = sys.argv[1], sys.argv[2].split(","), int(sys.argv[3]), int(sys.argv[4])
    rate, keys, *_ = [int(each) for each in sys.argv[5:] if "=" not in each] + [0, 0]
    properties = dict(each.split("=", 1) for each in sys.argv[5:] if "=" in each)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "linger.ms": 5,
            "batch.size": 262_144,
            "queue.buffering.max.messages": 100_000,
            "log_level": 0,
            **properties,
        }
    )
    for topic in topics:
        producer.list_topics(topic, timeout=TIMEOUT_SECONDS)
    values = values_of(size)
    print("ready", flush=True)
    sys.stdin.readline()
    began = time.perf_counter()
    for number in range(records):
        key = b"key-%d" % (number % keys) if keys else None
        while True:
            try:
                producer.produce(topics[number % len(topics)], values[number % VALUES], key)
                break
            except BufferError:
                producer.poll(0.01)
        if rate and number % AT_ONCE == 0:
            producer.poll(max(0.0, number / rate - (time.perf_counter() - began)))
    producer.flush(TIMEOUT_SECONDS)
    print(f"done {time.perf_counter() - began}", flush=True)


if __name__ == "__main__":
    main()
