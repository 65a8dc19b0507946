"""`kafka-log-dirs`: two lines, and JSON. Source: Kafka's LogDirsCommand."""

from typing import TYPE_CHECKING

import click

from kvorum.cli.kafka.common import Connection, connection_options
from kvorum.cli.output import say

if TYPE_CHECKING:
    from kvorum.client.values.log_dir import LogDir
    from kvorum.client.wire.cluster_client import ClusterClient


@click.command("kafka-log-dirs")
@click.option("--describe", is_flag=True, required=True)
@click.option("--topic-list", default="", metavar="orders,payments")
@click.option("--broker-list", default="", metavar="1,2,3")
@connection_options()
def log_dirs(connection: Connection, describe: bool, topic_list: str, broker_list: str) -> None:
    """Describe the log directories of brokers.

    \b
    kvorum kafka-log-dirs --bootstrap-server localhost:9092 --describe --topic-list orders
    """
    from kvorum.cli.records.record_decoders import compact

    brokers = numbers(broker_list, "--broker-list")
    topics = {name for name in topic_list.split(",") if name}

    async def work(cluster: "ClusterClient") -> "dict[int, list[LogDir]]":
        from kvorum.client.partitions.log_dirs import describe_log_dirs

        return await describe_log_dirs(cluster, brokers)

    say("Querying brokers for log directories information")
    found = connection.run(work)
    say(f"Received log directory information from brokers {','.join(map(str, found))}")
    say(compact({"brokers": [broker_json(broker, dirs, topics) for broker, dirs in found.items()], "version": 1}))


def broker_json(broker: int, directories: "list[LogDir]", topics: set[str]) -> dict[str, object]:
    """Return a broker's part of the JSON."""
    return {
        "broker": broker,
        "logDirs": [
            {
                "partitions": [
                    {
                        "partition": str(row.topic_partition),
                        "size": row.size_bytes,
                        "offsetLag": row.offset_lag,
                        "isFuture": row.is_future,
                    }
                    for row in each.replicas
                    if not topics or row.topic in topics
                ],
                "error": None if each.error is None else each.error.name,
                "logDir": each.path,
            }
            for each in directories
        ],
    }


def numbers(text: str | None, option: str) -> list[int]:
    """Read 1,2,3."""
    try:
        return [int(part) for part in (text or "").split(",") if part.strip()]
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a list of numbers", param_hint=option) from None
