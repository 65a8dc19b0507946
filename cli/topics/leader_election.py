"""`kvorum leader-election`: what Kafka's kafka-leader-election.sh does."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from kvorum.cli.completion import topic_names
from kvorum.cli.connection.client import bootstrap_option, with_cluster
from kvorum.cli.output import fail, output_option, show

if TYPE_CHECKING:
    from kvorum.client.wire.cluster_client import ClusterClient
    from kvorum.protocol.messages.elect_leaders import ElectLeadersResponse, PartitionResult
    from kvorum.protocol.topic_partition import TopicPartition

COLUMNS = ("topic", "partition", "outcome")


@click.command("leader-election")
@click.argument("topic", required=False, shell_complete=topic_names)
@click.option("-p", "--partition", "partitions", type=click.IntRange(0), multiple=True, help="Repeatable.")
@click.option("--all", "everything", is_flag=True, help="All partitions that can have another leader.")
@click.option(
    "-f",
    "--path-to-json-file",
    "path",
    type=click.Path(exists=True, dir_okay=False),
    help='{"partitions": [{"topic": "orders", "partition": 0}]}',
)
@click.option(
    "--unclean", is_flag=True, help="Elect any live replica of a partition without a leader. Records may be lost."
)
@bootstrap_option
@output_option
def leader_election(
    topic: str | None,
    partitions: tuple[int, ...],
    everything: bool,
    path: str | None,
    unclean: bool,
    bootstrap: str,
    output: str,
) -> None:
    """Elect preferred replicas as leaders, or (--unclean) any live replica.

    \b
    kvorum leader-election orders
    kvorum leader-election orders --partition 3 --unclean
    kvorum leader-election --all
    """
    from kvorum.cli.topics.partition_files import PartitionFileError, partition_rows
    from kvorum.protocol.topic_partition import by_topic

    if (topic is not None) + everything + (path is not None) != 1:
        raise click.UsageError("give TOPIC, --all or --path-to-json-file")
    if partitions and topic is None:
        raise click.UsageError("--partition goes with TOPIC")
    try:
        listed = None if path is None else by_topic(place for place, _ in partition_rows(path))
    except PartitionFileError as error:
        raise click.UsageError(str(error)) from None

    async def work(cluster: "ClusterClient") -> "ElectLeadersResponse":
        wanted: Mapping[str, list[int]] | None = listed
        if topic is not None:
            indexes = [row.partition_index for row in (await cluster.topic(topic)).partitions]
            wanted = {topic: list(partitions) or sorted(indexes)}
        return await cluster.elect_leaders(wanted, unclean=unclean)

    rows = []
    failed = False
    for place, result in results(with_cluster(bootstrap, work)).items():
        outcome = outcome_of(result)
        failed = failed or outcome not in ("elected", "not needed")
        rows.append({"topic": place.topic, "partition": place.partition, "outcome": outcome})
    show(rows, output, COLUMNS)
    if failed:
        fail("some leaders could not be elected")


def results(answer: "ElectLeadersResponse") -> "dict[TopicPartition, PartitionResult]":
    """Return the result of each partition, by name."""
    from kvorum.protocol.topic_partition import TopicPartition

    found = {
        TopicPartition(topic.topic, row.partition_id): row
        for topic in answer.replica_election_results
        for row in topic.partition_result
    }
    return dict(sorted(found.items()))


def outcome_of(result: Any) -> str:
    """Return the result of a partition."""
    from kvorum.client.wire.cluster_client import code_of
    from kvorum.protocol.errors import ErrorCode

    match result.error_code:
        case ErrorCode.NONE:
            return "elected"
        case ErrorCode.ELECTION_NOT_NEEDED:
            return "not needed"
        case code:
            return f"{code_of(code).name}: {result.error_message or 'refused'}"
