"""A consumer of confluent-kafka: reads a given number of records from a topic's beginning.

    python -m bench.clients.reader BOOTSTRAP TOPIC PARTITIONS RECORDS

Prints `ready` when it reads each partition, `done BYTES` when it has all records.
"""

import sys

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from bench.child import follow_parent

AT_ONCE = 5_000
READY_SECONDS = 0.5


def main() -> None:
    """Read."""
    follow_parent()
    bootstrap, topic, partitions, records = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
    count = size = 0
    consumer.consume(1, READY_SECONDS)  # there is nothing yet, but it is connected, and its fetches are on their way
    print("ready", flush=True)
    while count < records:
        for message in consumer.consume(AT_ONCE, 0.05):
            if message.error() is None:
                count += 1
                size += len(message)
    print(f"done {size}", flush=True)
    consumer.close()


if __name__ == "__main__":
    main()
