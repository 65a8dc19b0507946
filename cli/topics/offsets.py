"""`kvorum offsets`: what Kafka's kafka-get-offsets.sh does."""

from typing import TYPE_CHECKING, Any

import click

from kvorum.cli.completion import topic_names
from kvorum.cli.connection.client import bootstrap_option, with_cluster
from kvorum.cli.output import Exit, fail, output_option, show

if TYPE_CHECKING:
    from kvorum.cli.topics.offset_filter import Filter
    from kvorum.client.partitions.offsets import LeaderOffset
    from kvorum.client.wire.cluster_client import ClusterClient
    from kvorum.protocol.topic_partition import TopicPartition

COLUMNS = ("topic", "partition", "offset")


@click.command()
@click.argument("topic", required=False, shell_complete=topic_names)
@click.option("-p", "--partitions", metavar="0,1,2", help="Only these partitions.")
@click.option("--topic-partitions", metavar="PATTERNS", help="Patterns with partitions, as orders:0,payments:2-,:1-3.")
@click.option(
    "-t",
    "--time",
    "at",
    default="latest",
    show_default=True,
    help="latest, earliest, max-timestamp, earliest-local, latest-tiered, or ms.",
)
@click.option("--exclude-internal", is_flag=True, help="Exclude internal topics.")
@bootstrap_option
@output_option
def offsets(
    topic: str | None,
    partitions: str | None,
    topic_partitions: str | None,
    at: str,
    exclude_internal: bool,
    bootstrap: str,
    output: str,
) -> None:
    """Show offsets of partitions: latest, earliest, or of the first record from a time on. TOPIC is a pattern.

    \b
    kvorum offsets orders
    kvorum offsets 'orders-.*' --time earliest -o json
    kvorum offsets --topic-partitions orders:0-3,payments --time 1767225600000
    """
    from kvorum.cli.topics.offset_filter import FilterError, by_rules, by_topic_and_partitions, parse_time

    if topic_partitions is not None and (topic is not None or partitions is not None):
        raise click.UsageError("--topic-partitions cannot be combined with TOPIC or --partitions")
    try:
        if topic_partitions is not None:
            wanted = by_rules(topic_partitions)
        else:
            wanted = by_topic_and_partitions(topic, partitions)
        time = parse_time(at)
    except FilterError as error:
        raise click.UsageError(str(error)) from None

    async def work(cluster: "ClusterClient") -> list[tuple["TopicPartition", "LeaderOffset"]]:
        return await fetch_offsets(cluster, wanted, time, internal=not exclude_internal)

    found = with_cluster(bootstrap, work)
    if not found:
        fail("Could not match any topic-partitions with the specified filters", Exit.NOT_FOUND)
    show([offset_row(place, each) for place, each in found], output, COLUMNS)
    refused = [f"{place}: {each.error.name}" for place, each in found if each.error]
    for line in refused[:-1]:
        click.echo(f"kvorum: {line}", err=True)
    if refused:
        fail(refused[-1])


def offset_row(place: "TopicPartition", found: "LeaderOffset") -> dict[str, Any]:
    """Return a partition's row; without an offset if there is no such record, or its leader returned an error."""
    return {
        "topic": place.topic,
        "partition": place.partition,
        "offset": found.offset if found.offset >= 0 else None,
        "timestamp": found.timestamp if found.timestamp >= 0 else None,
        "leader_epoch": found.leader_epoch if found.leader_epoch >= 0 else None,
    }


async def fetch_offsets(
    cluster: "ClusterClient", wanted: "Filter", time: int, *, internal: bool
) -> list[tuple["TopicPartition", "LeaderOffset"]]:
    """Return the leaders' answers for each wanted partition, by name."""
    from kvorum.client.partitions.offsets import list_offsets
    from kvorum.protocol.topic_partition import TopicPartition

    places = [
        TopicPartition(topic.name or "", row.partition_index)
        for topic in (await cluster.metadata()).topics
        for row in topic.partitions
        if internal or not topic.is_internal
    ]
    chosen = sorted(place for place in places if wanted(place))
    return list((await list_offsets(cluster, dict.fromkeys(chosen, time))).items())
