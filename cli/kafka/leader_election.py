"""`kafka-leader-election`. Source: Kafka's LeaderElectionCommand."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from kvorum.cli.completion import topic_names
from kvorum.cli.connection.client import read_properties
from kvorum.cli.kafka.common import Connection, Files, connection_options
from kvorum.cli.kafka.option_checks import one_of_two
from kvorum.cli.output import fail, say

if TYPE_CHECKING:
    from kvorum.client.wire.cluster_client import ClusterClient
    from kvorum.protocol.errors import KafkaError
    from kvorum.protocol.topic_partition import TopicPartition


@click.command("kafka-leader-election")
@click.option("--election-type", required=True, type=click.Choice(["PREFERRED", "UNCLEAN"], case_sensitive=False))
@click.option("--topic", shell_complete=topic_names)
@click.option("--partition", type=click.IntRange(0))
@click.option("--path-to-json-file", type=Files)
@click.option("--all-topic-partitions", is_flag=True)
@click.option("--admin.config", "admin_config", type=Files, help="Deprecated: --command-config.")
@connection_options()
def leader_election(
    connection: Connection,
    election_type: str,
    topic: str | None,
    partition: int | None,
    path_to_json_file: str | None,
    all_topic_partitions: bool,
    admin_config: str | None,
) -> None:
    """Elect preferred leaders, or unclean ones where a partition has none.

    \b
    kvorum kafka-leader-election --bootstrap-server localhost:9092 --election-type preferred --all-topic-partitions
    """
    from kvorum.cli.kafka.partition_files import PartitionFileError, partition_rows
    from kvorum.protocol.topic_partition import by_topic

    if (topic is not None) + (path_to_json_file is not None) + all_topic_partitions != 1:
        raise click.UsageError(
            "One and only one of the following options is required: "
            "[topic], [all-topic-partitions], [path-to-json-file]"
        )
    if (topic is None) != (partition is None):
        raise click.UsageError("Option [partition] is only allowed if [topic] is used, and required with it")
    if admin_config is not None:
        config = click.get_current_context().params["command_config"]
        one_of_two("--command-config", config, "--admin.config", admin_config)
        say(
            "Option --admin.config has been deprecated and will be removed in a future version. "
            "Use --command-config instead."
        )
        connection = replace(connection, properties=connection.properties | read_properties(admin_config))
    wanted = None
    try:
        if path_to_json_file is not None:
            wanted = by_topic(place for place, _ in partition_rows(path_to_json_file))
        elif topic is not None and partition is not None:
            wanted = {topic: [partition]}
    except PartitionFileError as error:
        raise click.UsageError(str(error)) from None

    async def work(cluster: "ClusterClient") -> "dict[TopicPartition, KafkaError | None]":
        return await cluster.elect_leaders(wanted, unclean=election_type.upper() == "UNCLEAN")

    show(connection.run(work), election_type.upper())


def show(results: "Mapping[TopicPartition, KafkaError | None]", kind: str) -> None:
    """Print the results of the partitions, in Kafka's words."""
    elected, needless, failed = [], [], []
    for place, error in sorted(results.items()):
        match outcome_of(error):
            case "elected":
                elected.append(str(place))
            case "not needed":
                needless.append(str(place))
            case reason:
                failed.append(f"Error completing leader election ({kind}) for partition: {place}: {reason}")
    if elected:
        say(f"Successfully completed leader election ({kind}) for partitions {', '.join(elected)}")
    if needless:
        say(f"Valid replica already elected for partitions {', '.join(needless)}")
    for line in failed:
        say(line)
    if failed:
        fail(f"{len(failed)} replica(s) could not be elected")


def outcome_of(error: "KafkaError | None") -> str:
    """Return the result of a partition."""
    from kvorum.protocol.errors import ErrorCode

    if error is None:
        return "elected"
    if error.code is ErrorCode.ELECTION_NOT_NEEDED:
        return "not needed"
    return f"{error.code.name}: {error.message or 'refused'}"
