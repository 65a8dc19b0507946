"""`kafka-transactions`. Source: Kafka's TransactionsCommand."""

import time

import click

from kvorum.cli.kafka.common import Connection, connection_options
from kvorum.cli.kafka.hanging_transactions import abort, find_hanging, partition_options
from kvorum.cli.kafka.scripts import KAFKA_VERSION
from kvorum.cli.kafka.tables import pretty_table

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


@click.group("kafka-transactions")
@click.version_option(
    *(None, "-v", "--version"),
    package_name="kvorum",
    message=f"{KAFKA_VERSION} (Kvorum:%(version)s)",  # Kafka has its commit there
    help="Version of Kafka's tools.",
)
@connection_options()
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
    from kvorum.client.namespaces.transactions import Transactions

    listings = connection.run(
        lambda cluster: Transactions(cluster).list(open_for_ms=duration_filter, pattern=transactional_id_pattern)
    )
    rows = [[each.transactional_id, each.coordinator_id, each.producer_id, each.state] for each in listings]
    pretty_table(LIST_HEADERS, rows)


@transactions.command()
@click.option("--transactional-id", required=True)
@click.pass_obj
def describe(connection: Connection, transactional_id: str) -> None:
    """Print what an id's coordinator knows of it.

    \b
    kvorum kafka-transactions --bootstrap-server localhost:9092 describe --transactional-id orders-1
    """
    from kvorum.client.namespaces.transactions import Transactions

    row = connection.run(lambda cluster: Transactions(cluster).describe(transactional_id))
    start_ms = row.start_time_ms
    times = [NONE, NONE] if start_ms is None else [start_ms, time.time_ns() // 1_000_000 - start_ms]
    cells = [row.coordinator_id, transactional_id, row.producer_id, row.producer_epoch, row.state, row.timeout_ms]
    pretty_table(DESCRIBE_HEADERS, [[*cells, *times, ",".join(map(str, row.partitions))]])


@transactions.command("describe-producers")
@click.option("--broker-id", type=int, help="Query this replica instead of the leader.")
@partition_options
@click.pass_obj
def describe_producers(connection: Connection, broker_id: int | None, topic: str, partition: int) -> None:
    """Print the producers that a partition has state of.

    \b
    kvorum kafka-transactions --bootstrap-server localhost:9092 describe-producers --topic orders --partition 0
    """
    from kvorum.client.namespaces.transactions import Transactions
    from kvorum.protocol.topic_partition import TopicPartition

    producers = connection.run(
        lambda cluster: Transactions(cluster).producers(TopicPartition(topic, partition), broker_id=broker_id)
    )
    rows: list[list[object]] = []
    for each in producers:
        cells = [each.producer_id, each.producer_epoch, each.coordinator_epoch, each.last_sequence]
        start = each.transaction_start_offset
        rows.append([*cells, each.last_timestamp_ms, NONE if start is None else start])
    pretty_table(PRODUCER_HEADERS, rows)


transactions.add_command(find_hanging)
transactions.add_command(abort)


@transactions.command("forceTerminateTransaction")
@click.option("--transactionalId", "--transactional-id", "transactional_id", required=True)
@click.pass_obj
def force_terminate(connection: Connection, transactional_id: str) -> None:
    """Fence the producer of a transactional id and abort its open transaction.

    \b
    kvorum kafka-transactions --bootstrap-server localhost:9092 forceTerminateTransaction --transactionalId orders-1
    """
    from kvorum.client.namespaces.transactions import Transactions

    connection.run(lambda cluster: Transactions(cluster).force_terminate(transactional_id))
