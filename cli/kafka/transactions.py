"""`kafka-transactions`. Source: Kafka's TransactionsCommand."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import click

from kvorum.cli.kafka.common import Connection, connected, pretty_table
from kvorum.cli.kafka.scripts import KAFKA_VERSION
from kvorum.cli.transactions.commands import MINUTE_MS, partition_options, wall_ms

if TYPE_CHECKING:
    from kvorum.client.transactions import Listed, OpenTransaction, Transactions
    from kvorum.client.wire.cluster_client import ClusterClient
    from kvorum.protocol.messages.describe_producers import ProducerState
    from kvorum.protocol.messages.describe_transactions import TransactionState

T = TypeVar("T")
NONE = "None"
LIST_HEADERS = ("TransactionalId", "Coordinator", "ProducerId", "TransactionState")
DESCRIBE_HEADERS = (
    *("CoordinatorId", "TransactionalId", "ProducerId", "ProducerEpoch", "TransactionState", "TransactionTimeoutMs"),
    *("CurrentTransactionStartTimeMs", "TransactionDurationMs", "TopicPartitions"),
)
PRODUCER_HEADERS = (
    *("ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch", "LastSequence", "LastTimestamp"),
    "CurrentTransactionStartOffset",
)
HANGING_HEADERS = (
    *("Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch", "StartOffset", "LastTimestamp"),
    "Duration(min)",
)


def run(connection: Connection, work: Callable[["Transactions"], Awaitable[T]]) -> T:
    """Run `work` on a cluster's transactions."""

    async def with_client(cluster: "ClusterClient") -> T:
        from kvorum.client.transactions import Transactions

        return await work(Transactions(cluster))

    return connection.run(with_client)


@click.group("kafka-transactions")
@click.version_option(
    *(None, "-v", "--version"),
    package_name="kvorum",
    message=f"{KAFKA_VERSION} (Kvorum:%(version)s)",  # Kafka has its commit there
    help="Version of Kafka's tools.",
)
@connected()
def transactions(connection: Connection) -> None:
    """Look at transactions, find hanging ones and end them; the cluster is named before the action.

    \b
    kvorum kafka-transactions --bootstrap-server localhost:9092 list
    kvorum kafka-transactions --bootstrap-server localhost:9092 find-hanging --broker-id 1
    """
    click.get_current_context().obj = connection


@transactions.command("list")
@click.option(
    "--duration-filter", type=int, default=-1, help="Only transactions that are open for longer than this many ms."
)
@click.option("--transactional-id-pattern", help="Only ids that match (RE2).")
@click.pass_obj
def list_(connection: Connection, duration_filter: int, transactional_id_pattern: str | None) -> None:
    """List transactional ids.

    \b
    kvorum kafka-transactions --bootstrap-server localhost:9092 list --duration-filter 60000
    """

    async def work(found: "Transactions") -> "list[Listed]":
        from kvorum.client.transactions import Filters

        return await found.listed(Filters(duration_ms=duration_filter, pattern=transactional_id_pattern))

    rows = [
        [each.transactional_id, each.coordinator_id, each.producer_id, each.state] for each in run(connection, work)
    ]
    pretty_table(LIST_HEADERS, rows)


@transactions.command()
@click.option("--transactional-id", required=True)
@click.pass_obj
def describe(connection: Connection, transactional_id: str) -> None:
    """Print what an id's coordinator knows of it.

    \b
    kvorum kafka-transactions --bootstrap-server localhost:9092 describe --transactional-id orders-1
    """

    async def work(found: "Transactions") -> "tuple[int, TransactionState]":
        return await found.describe(transactional_id)

    coordinator_id, row = run(connection, work)
    start = row.transaction_start_time if row.transaction_start_time >= 0 else None
    places = ",".join(f"{topic.topic}-{index}" for topic in row.topics for index in topic.partitions)
    cells = [coordinator_id, transactional_id, row.producer_id, row.producer_epoch, row.transaction_state]
    times = [NONE if start is None else start, NONE if start is None else wall_ms() - start]
    pretty_table(DESCRIBE_HEADERS, [[*cells, row.transaction_timeout, *times, places]])


@transactions.command("describe-producers")
@click.option("--broker-id", type=int, help="Query this replica instead of the leader.")
@partition_options
@click.pass_obj
def describe_producers(connection: Connection, broker_id: int | None, topic: str, partition: int) -> None:
    """Print the producers that a partition has state of.

    \b
    kvorum kafka-transactions --bootstrap-server localhost:9092 describe-producers --topic orders --partition 0
    """

    async def work(found: "Transactions") -> "list[ProducerState]":
        from kvorum.protocol.topic_partition import TopicPartition

        return await found.producers(TopicPartition(topic, partition), broker_id)

    rows: list[list[object]] = []
    for each in run(connection, work):
        start: object = each.current_txn_start_offset if each.current_txn_start_offset >= 0 else NONE
        cells = [each.producer_id, each.producer_epoch, each.coordinator_epoch, each.last_sequence, each.last_timestamp]
        rows.append([*cells, start])
    pretty_table(PRODUCER_HEADERS, rows)


@transactions.command("find-hanging")
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
    if topic is None and broker_id is None:
        raise click.UsageError("The `find-hanging` command requires either --topic or --broker-id to limit the search")
    if partition is not None and topic is None:
        raise click.UsageError("The --partition argument requires --topic to be provided")
    now_ms = wall_ms()

    async def work(found: "Transactions") -> "list[OpenTransaction]":
        places = await found.places(topic, partition, broker_id)
        timeout_ms = max_transaction_timeout * MINUTE_MS
        return await found.hanging(places, timeout_ms=timeout_ms, now_ms=now_ms, broker_id=broker_id)

    rows: list[list[object]] = []
    for place, producer in run(connection, work):
        epochs = [producer.producer_id, producer.producer_epoch, producer.coordinator_epoch]
        minutes = (now_ms - producer.last_timestamp) // MINUTE_MS
        rows.append([*place, *epochs, producer.current_txn_start_offset, producer.last_timestamp, minutes])
    pretty_table(HANGING_HEADERS, rows)


@transactions.command()
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

    async def work(found: "Transactions") -> None:
        from kvorum.protocol.topic_partition import TopicPartition

        place = TopicPartition(topic, partition)
        epochs = (producer_id, producer_epoch, coordinator_epoch)
        if start_offset is not None:
            state = await found.open_at(place, start_offset)
            epochs = (state.producer_id, state.producer_epoch, state.coordinator_epoch)
        assert epochs[0] is not None and epochs[1] is not None and epochs[2] is not None
        await found.abort(place, epochs[0], epochs[1], epochs[2])

    run(connection, work)


@transactions.command("forceTerminateTransaction")
@click.option("--transactionalId", "--transactional-id", "transactional_id", required=True)
@click.pass_obj
def force_terminate(connection: Connection, transactional_id: str) -> None:
    """Fence the producer of a transactional id and abort its open transaction.

    \b
    kvorum kafka-transactions --bootstrap-server localhost:9092 forceTerminateTransaction --transactionalId orders-1
    """

    async def work(found: "Transactions") -> None:
        await found.describe(transactional_id)  # a query for an unknown id does not create it
        await found.force_terminate(transactional_id)

    run(connection, work)
