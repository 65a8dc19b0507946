"""`kafka-log-dirs`: two lines, and JSON. Source: Kafka's LogDirsCommand."""

from typing import TYPE_CHECKING

import click

from kvorum.cli.kafka.common import Connection, connected
from kvorum.cli.output import say
from kvorum.cli.topics.log_dirs import numbers

if TYPE_CHECKING:
    from kvorum.client.wire.cluster_client import ClusterClient
    from kvorum.protocol.messages.describe_log_dirs import DescribeLogDirsResult


@click.command("kafka-log-dirs")
@click.option("--describe", is_flag=True, required=True)
@click.option("--topic-list", default="", metavar="orders,payments")
@click.option("--broker-list", default="", metavar="1,2,3")
@connected()
def log_dirs(connection: Connection, describe: bool, topic_list: str, broker_list: str) -> None:
    """Describe the log directories of brokers.

    \b
    kvorum kafka-log-dirs --bootstrap-server localhost:9092 --describe --topic-list orders
    """
    from kvorum.cli.records.record_decoders import compact

    brokers = numbers(broker_list, "--broker-list")
    topics = {name for name in topic_list.split(",") if name}

    async def work(cluster: "ClusterClient") -> "dict[int, list[DescribeLogDirsResult]]":
        from kvorum.client.partitions.log_dirs import describe_log_dirs

        return await describe_log_dirs(cluster, brokers)

    say("Querying brokers for log directories information")
    found = connection.run(work)
    say(f"Received log directory information from brokers {','.join(map(str, found))}")
    say(compact({"brokers": [shown(broker, dirs, topics) for broker, dirs in found.items()], "version": 1}))


def shown(broker: int, directories: "list[DescribeLogDirsResult]", topics: set[str]) -> dict[str, object]:
    """Return a broker's part of the JSON."""
    from kvorum.client.wire.cluster_client import code_of

    return {
        "broker": broker,
        "logDirs": [
            {
                "partitions": [
                    {
                        "partition": f"{topic.name}-{row.partition_index}",
                        "size": row.partition_size,
                        "offsetLag": row.offset_lag,
                        "isFuture": row.is_future_key,
                    }
                    for topic in each.topics
                    for row in topic.partitions
                    if not topics or topic.name in topics
                ],
                "error": code_of(each.error_code).name if each.error_code else None,
                "logDir": each.log_dir,
            }
            for each in directories
        ],
    }
