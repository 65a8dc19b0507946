"""`kvorum delete-records`: what Kafka's kafka-delete-records.sh does."""

from typing import TYPE_CHECKING

import click

from kvorum.cli.connection.client import bootstrap_option, with_cluster
from kvorum.cli.output import fail, output_option, show

if TYPE_CHECKING:
    from kvorum.client.partitions.delete_records import Deleted
    from kvorum.client.wire.cluster_client import ClusterClient
    from kvorum.protocol.topic_partition import TopicPartition

COLUMNS = ("topic", "partition", "low_watermark", "error")


@click.command("delete-records")
@click.argument("places", nargs=-1, metavar="TOPIC:PARTITION:OFFSET...")
@click.option(
    "-f",
    "--offset-json-file",
    "path",
    type=click.Path(exists=True, dir_okay=False),
    help='{"partitions": [{"topic": "orders", "partition": 0, "offset": 100}]}',
)
@bootstrap_option
@output_option
def delete_records(places: tuple[str, ...], path: str | None, bootstrap: str, output: str) -> None:
    """Permanently delete the records of partitions below an offset. -1 is the high watermark: all records.

    \b
    kvorum delete-records orders:0:100 orders:1:-1
    kvorum delete-records --offset-json-file offsets.json
    """
    from kvorum.cli.topics.partition_files import PartitionFileError, offsets_of
    from kvorum.client.partitions.delete_records import delete_records

    if bool(places) == (path is not None):
        raise click.UsageError("give TOPIC:PARTITION:OFFSET or --offset-json-file")
    try:
        wanted = offsets_of(path) if path is not None else dict(read_place(place) for place in places)
    except PartitionFileError as error:
        raise click.UsageError(str(error)) from None

    async def work(cluster: "ClusterClient") -> "dict[TopicPartition, Deleted]":
        return await delete_records(cluster, wanted)

    found = with_cluster(bootstrap, work)
    rows = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "low_watermark": None if each.error else each.low_watermark,
            "error": each.error.name if each.error else None,
        }
        for place, each in found.items()
    ]
    show(rows, output, COLUMNS)
    if any(each.error for each in found.values()):
        fail("records of some partitions were not deleted")


def read_place(text: str) -> tuple["TopicPartition", int]:
    """Read TOPIC:PARTITION:OFFSET."""
    from kvorum.protocol.topic_partition import TopicPartition

    topic, _, rest = text.partition(":")
    partition, _, offset = rest.partition(":")
    try:
        if not topic:
            raise ValueError("no topic")
        return TopicPartition(topic, int(partition)), int(offset)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not TOPIC:PARTITION:OFFSET", param_hint="PLACES") from None
