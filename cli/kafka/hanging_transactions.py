"""The find-hanging and abort actions of `kafka-transactions`."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import click

from kvorum.cli.kafka.common import Connection
from kvorum.cli.kafka.tables import pretty_table

if TYPE_CHECKING:
    from kvorum.client.wire.cluster_client import ClusterClient

F = TypeVar("F", bound=Callable[..., object])
MINUTE_MS = 60_000
HANGING_HEADERS = (
    *("Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch", "StartOffset", "LastTimestamp"),
    "Duration(min)",
)


def partition_options(command: F) -> F:
    """Add --topic and --partition, both required."""
    command = click.option("--partition", type=click.IntRange(0), required=True)(command)
    return click.option("--topic", required=True)(command)


@click.command("find-hanging")
@click.option("--broker-id", type=int)
@click.option("--max-transaction-timeout", type=click.IntRange(0), default=15, help="Minutes.")
@click.option("--topic")
@click.option("--partition", type=click.IntRange(0))
@click.pass_obj
def find_hanging(
    connection: Connection,
    broker_id: int | None,
    max_transaction_timeout: int,
    topic: str | None,
    partition: int | None,
) -> None:
    """Find hanging transactions.

    \b
    kvorum kafka-transactions --bootstrap-server localhost:9092 find-hanging --topic orders
    """
    from kvorum.client.namespaces.transactions import Transactions

    if topic is None and broker_id is None:
        raise click.UsageError("The `find-hanging` command requires either --topic or --broker-id to limit the search")
    if partition is not None and topic is None:
        raise click.UsageError("The --partition argument requires --topic to be provided")
    now_ms = time.time_ns() // 1_000_000
    found = connection.run(
        lambda cluster: Transactions(cluster).find_hanging(
            topic, partition, broker_id=broker_id, open_for_ms=max_transaction_timeout * MINUTE_MS, now_ms=now_ms
        )
    )
    rows: list[list[object]] = []
    for each in found:
        producer = each.producer
        epochs = [producer.producer_id, producer.producer_epoch, producer.coordinator_epoch]
        minutes = (now_ms - producer.last_timestamp_ms) // MINUTE_MS
        rows.append([each.topic, each.partition, *epochs, each.start_offset, producer.last_timestamp_ms, minutes])
    pretty_table(HANGING_HEADERS, rows)


@click.command()
@partition_options
@click.option("--start-offset", type=click.IntRange(0))
@click.option("--producer-id", type=click.IntRange(0))
@click.option("--producer-epoch", type=click.IntRange(0))
@click.option("--coordinator-epoch", type=click.IntRange(-1))
@click.pass_obj
def abort(
    connection: Connection,
    topic: str,
    partition: int,
    start_offset: int | None,
    producer_id: int | None,
    producer_epoch: int | None,
    coordinator_epoch: int | None,
) -> None:
    """Abort a hanging transaction on one partition.

    \b
    kvorum kafka-transactions --bootstrap-server localhost:9092 abort --topic orders --partition 0 --start-offset 1200
    """
    if start_offset is None and (producer_id is None or producer_epoch is None or coordinator_epoch is None):
        raise click.UsageError(
            "The transaction to abort must be identified either with --start-offset or with --producer-id, "
            "--producer-epoch, and --coordinator-epoch"
        )

    async def work(cluster: "ClusterClient") -> None:
        from kvorum.client.namespaces.transactions import Transactions
        from kvorum.protocol.topic_partition import TopicPartition

        found = TopicPartition(topic, partition)
        if start_offset is not None:
            await Transactions(cluster).abort(found, start_offset)
        else:
            assert producer_id is not None and producer_epoch is not None and coordinator_epoch is not None
            await Transactions(cluster).abort_producer(found, producer_id, producer_epoch, coordinator_epoch)

    connection.run(work)
