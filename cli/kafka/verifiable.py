"""`kafka-verifiable-producer` and `kafka-verifiable-consumer`, with Kafka's options."""

from typing import Any

import click

from kvorum.cli.connection.client import client_of, read_properties
from kvorum.cli.kafka.common import Connection, Files, connection_options
from kvorum.cli.kafka.verifiable_consumer import ConsumerOptions, consumer_properties, run_consumer
from kvorum.cli.kafka.verifiable_producer import Load, producer_properties, run_producer

ASSIGNORS = {
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": "cooperative-sticky",
}


@click.command("kafka-verifiable-producer")
@click.option("--topic", required=True)
@click.option("--max-messages", type=int, default=-1)
@click.option("--throughput", type=int, default=-1)
@click.option("--acks", type=click.Choice(["0", "1", "-1"]), default="-1")
@click.option("--producer.config", "producer_config", type=Files, hidden=True)
@click.option("--message-create-time", "create_time", type=int, default=-1)
@click.option("--value-prefix", type=int)
@click.option("--repeating-keys", type=click.IntRange(1))
@connection_options()
def producer(connection: Connection, acks: str, producer_config: str | None, create_time: int, **load: Any) -> None:
    """Produce 0, 1, 2, ... and print an event for each acknowledgement.

    \b
    kvorum kafka-verifiable-producer --bootstrap-server localhost:9092 --topic orders --max-messages 1000
    """
    from confluent_kafka import Producer

    options = connection.client_options(producer_properties(acks), read_properties(producer_config))
    client: Any = client_of(Producer, options)
    run_producer(client, Load(**load, create_time=None if create_time < 0 else create_time))


@click.command("kafka-verifiable-consumer")
@click.option("--topic", required=True)
@click.option("--group-id", required=True)
@click.option("--group-protocol", type=click.Choice(["classic", "consumer"], case_sensitive=False), default="classic")
@click.option("--group-remote-assignor", help="Remote assignor, with the consumer protocol.")
@click.option("--group-instance-id")
@click.option("--max-messages", type=int, default=-1)
@click.option("--session-timeout", type=click.IntRange(1), help="Session timeout in ms, with the classic protocol.")
@click.option("--verbose", is_flag=True)
@click.option("--enable-autocommit", is_flag=True)
@click.option("--reset-policy", type=click.Choice(["earliest", "latest", "none"]), default="earliest")
@click.option("--assignment-strategy", help="Class name of a Kafka assignor; with the classic protocol.")
@click.option("--consumer.config", "consumer_config", type=Files, hidden=True)
@connection_options()
def consumer(
    connection: Connection,
    topic: str,
    group_id: str,
    group_protocol: str,
    group_remote_assignor: str | None,
    group_instance_id: str | None,
    max_messages: int,
    session_timeout: int | None,
    verbose: bool,
    enable_autocommit: bool,
    reset_policy: str,
    assignment_strategy: str | None,
    consumer_config: str | None,
) -> None:
    """Consume in a group and print each event as JSON.

    \b
    kvorum kafka-verifiable-consumer --bootstrap-server localhost:9092 --topic orders --group-id payments
    """
    from confluent_kafka import Consumer

    own = consumer_properties(group_id, group_protocol.lower(), reset_policy, enable_autocommit, group_instance_id)
    if session_timeout is not None:
        own["session.timeout.ms"] = session_timeout
    if group_remote_assignor is not None:
        own["group.remote.assignor"] = group_remote_assignor
    if assignment_strategy is not None:
        if assignment_strategy not in ASSIGNORS:
            raise click.UsageError(f"--assignment-strategy must be one of {', '.join(ASSIGNORS)}")
        own["partition.assignment.strategy"] = ASSIGNORS[assignment_strategy]
    client = client_of(Consumer, connection.client_options(own, read_properties(consumer_config)))
    reading = ConsumerOptions(topic=topic, max_messages=max_messages, auto_commit=enable_autocommit, verbose=verbose)
    run_consumer(client, reading)
