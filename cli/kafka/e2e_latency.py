"""`kafka-e2e-latency`: one record after the other, from its send until it is read. Source: Kafka's EndToEndLatency.

The clients are librdkafka's, which returns records as they arrive: fetch.max.wait.ms=0, which Kafka's tool sets, has no
benefit.
"""

import time
from typing import Any, Final

import click

from kvorum.cli.completion import topic_names
from kvorum.cli.connection.client import client_of
from kvorum.cli.connection.librdkafka import ClientEvents, fetch_metadata
from kvorum.cli.kafka.common import Connection, OrderedCommand, connection_options
from kvorum.cli.kafka.e2e_latency_run import POLL_SECONDS, measure, result_lines
from kvorum.cli.output import fail, say

METADATA_SECONDS: Final = 30.0
AGAIN_SECONDS: Final = 0.1
PARTITIONS: Final = 1
REPLICAS: Final = 1
POSITIONAL: Final = (
    "--bootstrap-server",
    "--topic",
    "--num-records",
    "--producer-acks",
    "--record-size",
    "--command-config",
)
WARNING: Final = (
    "WARNING: Positional argument usage is deprecated and will be removed in Apache Kafka 5.0. Please use named "
    "arguments instead: --bootstrap-server, --topic, --num-records, --producer-acks, --record-size, --command-config"
)


class PositionalCommand(OrderedCommand):
    """A command whose options may be given as words in their order, as before Kafka 4.2."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Name such words."""
        if args and not any(word.startswith("--") for word in args):
            if len(args) not in (len(POSITIONAL) - 1, len(POSITIONAL)):
                raise click.UsageError(
                    f"Invalid number of arguments. Expected 5 or 6 positional arguments, but got {len(args)}. Usage: "
                    "bootstrap-server topic num-records producer-acks record-size [optional] command-config"
                )
            say(WARNING)
            args = [word for pair in zip(POSITIONAL, args, strict=False) for word in pair]
        return super().parse_args(ctx, args)


@click.command("kafka-e2e-latency", cls=PositionalCommand)
@click.option("--topic", required=True, shell_complete=topic_names)
@click.option("--num-records", type=int, required=True)
@click.option("--producer-acks", required=True, metavar="1|all")
@click.option("--record-size", type=int, required=True, help="Size of the value in bytes.")
@click.option("--record-key-size", type=int, default=0)
@click.option("--num-headers", type=int, default=0)
@click.option("--record-header-key-size", type=int, default=0)
@click.option("--record-header-size", type=int, default=0, help="-1: no value.")
@connection_options()
def e2e_latency(connection: Connection, topic: str, num_records: int, producer_acks: str, **sizes: int) -> None:
    """Send records one by one, read each, and print the latencies.

    \b
    kvorum kafka-e2e-latency --bootstrap-server localhost:9092 --topic orders --num-records 10000 \\
        --producer-acks all --record-size 100
    """
    from confluent_kafka import Consumer, Producer

    check(num_records, producer_acks, sizes)
    watch = ClientEvents()
    group = {"group.id": f"test-group-{time.time_ns() // 1_000_000}", "enable.auto.commit": False}
    typed = {**group, "auto.offset.reset": "latest"}
    consumer: Any = client_of(Consumer, connection.client_options({}, {}, typed), watch)
    producer: Any = client_of(Producer, connection.client_options({}, {}, {"linger.ms": 0, "acks": producer_acks}))
    try:
        begin(connection, consumer, topic, watch)
        latencies = measure(producer, consumer, topic, num_records, sizes)
    finally:
        consumer.close()
    for line in result_lines(latencies):
        say(line)


def check(num_records: int, acks: str, sizes: dict[str, int]) -> None:
    """Reject an invalid test, with Kafka's messages."""
    if acks not in ("1", "all"):
        raise click.UsageError(
            "Invalid value for --producer-acks. Latency testing requires synchronous acknowledgement. "
            "Please use '1' or 'all'."
        )
    if num_records <= 0:
        raise click.UsageError("Value for --num-records must be a positive integer.")
    for name, size in sizes.items():
        option = f"--{name.replace('_', '-')}"
        if name == "record_header_size" and size < -1:
            raise click.UsageError(f"Value for {option} must be a non-negative integer or -1 for null header value.")
        if name != "record_header_size" and size < 0:
            raise click.UsageError(f"Value for {option} must be a non-negative integer.")


def begin(connection: Connection, consumer: Any, topic: str, watch: ClientEvents) -> None:
    """Set the consumer to the end of the topic, which is created if missing."""
    from confluent_kafka import OFFSET_END, TopicPartition

    if topic not in fetch_metadata(consumer, watch).topics:
        say(
            f'Topic "{topic}" does not exist. '
            f"Will create topic with {PARTITIONS} partition(s) and replication factor = {REPLICAS}"
        )
        create(connection, topic)
    ends = []
    for partition in partitions_of(consumer, topic, watch):
        _, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=POLL_SECONDS)
        ends.append(TopicPartition(topic, partition, high if high >= 0 else OFFSET_END))
    consumer.assign(ends)


def partitions_of(consumer: Any, topic: str, watch: ClientEvents) -> list[int]:
    """Return a topic's partitions, once the broker's metadata has the topic, which may be new."""
    deadline = time.monotonic() + METADATA_SECONDS
    while True:
        found = fetch_metadata(consumer, watch, topic).topics[topic]
        if found.partitions:
            return sorted(found.partitions)
        if time.monotonic() >= deadline:
            fail(str(found.error or f"topic {topic} has no partitions"))
        consumer.poll(AGAIN_SECONDS)  # no partition is assigned yet: it only waits


def create(connection: Connection, topic: str) -> None:
    """Create the topic."""
    from kvorum.client.namespaces.topics import Topics

    connection.run(lambda cluster: Topics(cluster).create(topic, partitions=PARTITIONS, replication_factor=REPLICAS))
