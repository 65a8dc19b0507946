"""`kafka-get-offsets`: topic:partition:offset. Source: Kafka's GetOffsetShell."""

from typing import TYPE_CHECKING

import click

from kvorum.cli.kafka.common import Connection, connection_options
from kvorum.cli.output import fail, say

if TYPE_CHECKING:
    from kvorum.client.partitions.offsets import LeaderOffset
    from kvorum.client.wire.cluster_client import ClusterClient
    from kvorum.protocol.topic_partition import TopicPartition


@click.command("kafka-get-offsets")
@click.option("--topic", help="A pattern.")
@click.option("--partitions", metavar="0,1,2")
@click.option("--topic-partitions", metavar="orders:0,payments:2-")
@click.option("--time", "at", default="latest", help="latest, earliest, max-timestamp, ..., or a timestamp in ms.")
@click.option("--exclude-internal-topics", is_flag=True)
@connection_options()
def get_offsets(
    connection: Connection,
    topic: str | None,
    partitions: str | None,
    topic_partitions: str | None,
    at: str,
    exclude_internal_topics: bool,
) -> None:
    """Print topic:partition:offset, one line per partition.

    \b
    kvorum kafka-get-offsets --bootstrap-server localhost:9092 --topic orders --time -2
    """
    from kvorum.cli.topics.offset_filter import FilterError, by_rules, by_topic_and_partitions, parse_time
    from kvorum.cli.topics.offsets import fetch_offsets

    if topic_partitions is not None and (topic is not None or partitions is not None):
        raise click.UsageError("--topic-partitions cannot be used with --topic or --partitions")
    try:
        by_name = by_topic_and_partitions(topic, partitions)
        wanted = by_name if topic_partitions is None else by_rules(topic_partitions)
        time = parse_time(at)
    except FilterError as error:
        raise click.UsageError(str(error)) from None

    async def work(cluster: "ClusterClient") -> "list[tuple[TopicPartition, LeaderOffset]]":
        return await fetch_offsets(cluster, wanted, time, internal=not exclude_internal_topics)

    found = connection.run(work)
    if not found:
        fail("Could not match any topic-partitions with the specified filters")
    for place, each in sorted(found, key=lambda item: str(item[0])):
        if each.error:
            click.echo(f"Skip getting offsets for topic-partition {place} due to error: {each.error.name}", err=True)
        elif each.offset >= 0:
            say(f"{place.topic}:{place.partition}:{each.offset}")
