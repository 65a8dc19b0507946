"""`kvorum transactions`: what Kafka's kafka-transactions.sh does, with its options (KIP-664)."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kvorum.cli.connection.client import bootstrap_option, with_cluster
from kvorum.cli.output import output_option, show, tell

if TYPE_CHECKING:
    from kvorum.client.transactions import Transactions
    from kvorum.client.wire.cluster_client import ClusterClient
    from kvorum.protocol.messages.describe_producers import ProducerState

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])
MINUTE_MS = 60_000
LIST_COLUMNS = ("transactional_id", "coordinator", "producer_id", "state")
DESCRIBE_COLUMNS = (
    *("coordinator_id", "transactional_id", "producer_id", "producer_epoch", "state", "timeout_ms"),
    *("start_time_ms", "duration_ms", "partitions"),
)
PRODUCER_COLUMNS = (
    *("producer_id", "producer_epoch", "latest_coordinator_epoch", "last_sequence", "last_timestamp"),
    "current_transaction_start_offset",
)
HANGING_COLUMNS = (
    *("topic", "partition", "producer_id", "producer_epoch", "coordinator_epoch", "start_offset", "last_timestamp"),
    "duration_min",
)


@click.group()
def transactions() -> None:
    """Describe transactions; find and abort hanging ones.

    \b
    kvorum transactions list --duration-filter 60000
    kvorum transactions describe --transactional-id orders-1
    kvorum transactions find-hanging --topic orders
    kvorum transactions abort --topic orders --partition 0 --start-offset 1200
    """


def with_transactions(bootstrap: str, work: Callable[["Transactions"], Awaitable[T]]) -> T:
    """Run `work` on a cluster's transactions."""

    async def run(cluster: "ClusterClient") -> T:
        from kvorum.client.transactions import Transactions

        return await work(Transactions(cluster))

    return with_cluster(bootstrap, run)


def partition_options(command: F) -> F:
    """Add --topic and --partition, both required."""
    command = click.option("--partition", type=click.IntRange(0), required=True)(command)
    return click.option("--topic", required=True)(command)


@transactions.command("list")
@click.option(
    "--duration-filter", type=int, default=-1, help="Only transactions that are open for longer than this many ms."
)
@click.option("--transactional-id-pattern", help="Only ids that match this RE2 pattern completely.")
@click.option("--state", "states", multiple=True, help="Only transactions in this state (Ongoing, PrepareCommit, ...).")
@bootstrap_option
@output_option
def list_(
    duration_filter: int, transactional_id_pattern: str | None, states: tuple[str, ...], bootstrap: str, output: str
) -> None:
    """List transactional ids of all coordinators.

    \b
    kvorum transactions list
    kvorum transactions list --state Ongoing --duration-filter 60000
    kvorum transactions list --transactional-id-pattern 'orders-.*'
    """

    async def work(found: "Transactions") -> list[dict[str, Any]]:
        from kvorum.client.transactions import Filters

        filters = Filters(duration_ms=duration_filter, pattern=transactional_id_pattern, states=states)
        return [
            {
                "transactional_id": each.transactional_id,
                "coordinator": each.coordinator_id,
                "producer_id": each.producer_id,
                "state": each.state,
            }
            for each in await found.listed(filters)
        ]

    show(with_transactions(bootstrap, work), output, LIST_COLUMNS)


@transactions.command()
@click.option("--transactional-id", required=True)
@bootstrap_option
@output_option
def describe(transactional_id: str, bootstrap: str, output: str) -> None:
    """Show the coordinator's state of a transactional id.

    \b
    kvorum transactions describe --transactional-id orders-1
    """

    async def work(found: "Transactions") -> dict[str, Any]:
        coordinator_id, row = await found.describe(transactional_id)
        start_ms = row.transaction_start_time if row.transaction_start_time >= 0 else None
        return {
            "coordinator_id": coordinator_id,
            "transactional_id": transactional_id,
            "producer_id": row.producer_id,
            "producer_epoch": row.producer_epoch,
            "state": row.transaction_state,
            "timeout_ms": row.transaction_timeout,
            "start_time_ms": start_ms,
            "duration_ms": None if start_ms is None else wall_ms() - start_ms,
            "partitions": [f"{topic.topic}-{index}" for topic in row.topics for index in topic.partitions],
        }

    show(with_transactions(bootstrap, work), output, DESCRIBE_COLUMNS)


@transactions.command("describe-producers")
@click.option("--broker-id", type=int, help="Query this replica instead of the leader.")
@partition_options
@bootstrap_option
@output_option
def describe_producers(broker_id: int | None, topic: str, partition: int, bootstrap: str, output: str) -> None:
    """Show the producers with state on a partition.

    \b
    kvorum transactions describe-producers --topic orders --partition 0
    """

    async def work(found: "Transactions") -> list[dict[str, Any]]:
        from kvorum.protocol.topic_partition import TopicPartition

        return [producer_row(each) for each in await found.producers(TopicPartition(topic, partition), broker_id)]

    show(with_transactions(bootstrap, work), output, PRODUCER_COLUMNS)


def producer_row(each: "ProducerState") -> dict[str, Any]:
    """Return the row of a producer."""
    start = each.current_txn_start_offset
    return {
        "producer_id": each.producer_id,
        "producer_epoch": each.producer_epoch,
        "latest_coordinator_epoch": each.coordinator_epoch,
        "last_sequence": each.last_sequence,
        "last_timestamp": each.last_timestamp,
        "current_transaction_start_offset": None if start < 0 else start,
    }


@transactions.command("find-hanging")
@click.option("--broker-id", type=int, help="Check the replicas of this broker.")
@click.option(
    "--max-transaction-timeout",
    type=click.IntRange(0),
    default=15,
    show_default=True,
    help="Minutes; transactions that are open for less may still be active.",
)
@click.option("--topic", help="Check this topic only; required with --partition.")
@click.option("--partition", type=click.IntRange(0))
@bootstrap_option
@output_option
def find_hanging(
    broker_id: int | None,
    max_transaction_timeout: int,
    topic: str | None,
    partition: int | None,
    bootstrap: str,
    output: str,
) -> None:
    """Find open transactions on a partition that no coordinator will end.

    \b
    kvorum transactions find-hanging --topic orders
    kvorum transactions find-hanging --broker-id 1 --max-transaction-timeout 30
    """
    if topic is None and broker_id is None:
        raise click.UsageError("give --topic or --broker-id to limit the search")
    if partition is not None and topic is None:
        raise click.UsageError("--partition requires --topic")
    now_ms = wall_ms()

    async def work(found: "Transactions") -> list[dict[str, Any]]:
        places = await found.places(topic, partition, broker_id)
        timeout_ms = max_transaction_timeout * MINUTE_MS
        return [
            {
                "topic": each.place.topic,
                "partition": each.place.partition,
                "producer_id": each.producer.producer_id,
                "producer_epoch": each.producer.producer_epoch,
                "coordinator_epoch": each.producer.coordinator_epoch,
                "start_offset": each.producer.current_txn_start_offset,
                "last_timestamp": each.producer.last_timestamp,
                "duration_min": (now_ms - each.producer.last_timestamp) // MINUTE_MS,
            }
            for each in await found.hanging(places, timeout_ms=timeout_ms, now_ms=now_ms, broker_id=broker_id)
        ]

    show(with_transactions(bootstrap, work), output, HANGING_COLUMNS)


@transactions.command()
@partition_options
@click.option("--start-offset", type=click.IntRange(0), help="First offset of the transaction, as in find-hanging.")
@click.option("--producer-id", type=click.IntRange(0))
@click.option("--producer-epoch", type=click.IntRange(0))
@click.option("--coordinator-epoch", type=click.IntRange(-1))
@bootstrap_option
@output_option
def abort(
    topic: str,
    partition: int,
    start_offset: int | None,
    producer_id: int | None,
    producer_epoch: int | None,
    coordinator_epoch: int | None,
    bootstrap: str,
    output: str,
) -> None:
    """Abort a hanging transaction on one partition.

    A transaction that a coordinator knows ends by itself; run find-hanging first. Name the transaction by
    --start-offset, or by --producer-id, --producer-epoch and --coordinator-epoch together.

    \b
    kvorum transactions abort --topic orders --partition 0 --start-offset 1200
    """
    if start_offset is None and (producer_id is None or producer_epoch is None or coordinator_epoch is None):
        raise click.UsageError("give --start-offset, or --producer-id, --producer-epoch and --coordinator-epoch")

    async def work(found: "Transactions") -> None:
        from kvorum.protocol.topic_partition import TopicPartition

        place = TopicPartition(topic, partition)
        if start_offset is not None:
            producer = await found.open_at(place, start_offset)
            await found.abort(place, producer.producer_id, producer.producer_epoch, producer.coordinator_epoch)
        else:
            assert producer_id is not None and producer_epoch is not None and coordinator_epoch is not None
            await found.abort(place, producer_id, producer_epoch, coordinator_epoch)

    with_transactions(bootstrap, work)
    tell({"topic": topic, "partition": partition, "aborted": True}, output, f"aborted on {topic}-{partition}")


@transactions.command("force-terminate")
@click.option("--transactional-id", required=True)
@bootstrap_option
@output_option
def force_terminate(transactional_id: str, bootstrap: str, output: str) -> None:
    """Fence the producer of a transactional id and abort its open transaction.

    \b
    kvorum transactions force-terminate --transactional-id orders-1
    """

    async def work(found: "Transactions") -> None:
        await found.describe(transactional_id)  # a query for an unknown id does not create it
        await found.force_terminate(transactional_id)

    with_transactions(bootstrap, work)
    tell({"transactional_id": transactional_id, "terminated": True}, output, f"terminated {transactional_id}")


def wall_ms() -> int:
    """Return the wall clock's time."""
    from kvorum.runtime.clock import SystemClock

    return SystemClock().wall_ms()
