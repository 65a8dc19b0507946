"""Common parts of `kvorum reassign`: files of partitions, options, errors."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from kvorum.cli.connection.client import with_cluster
from kvorum.cli.output import fail

if TYPE_CHECKING:
    from kvorum.client.namespaces.reassignments import Reassignments
    from kvorum.client.values.log_dir import TopicPartitionReplica
    from kvorum.client.values.reassignment import Assignment
    from kvorum.client.wire.cluster_client import ClusterClient
    from kvorum.protocol.errors import KafkaError
    from kvorum.protocol.topic_partition import TopicPartition

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])
TIMEOUT_MS = 10_000


def with_reassignments(bootstrap: str, work: Callable[["Reassignments"], Awaitable[T]]) -> T:
    """Run `work` on a cluster's reassignments."""

    async def run(cluster: "ClusterClient") -> T:
        from kvorum.client.namespaces.reassignments import Reassignments

        return await work(Reassignments(cluster))

    return with_cluster(bootstrap, run)


def file_option(command: F) -> F:
    """Add --reassignment-json-file, required."""
    return click.option(
        "--reassignment-json-file",
        "path",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        required=True,
        help="Partitions and their replicas, as `generate` writes them.",
    )(command)


def preserve_option(command: F) -> F:
    """Add --preserve-throttles."""
    return click.option("--preserve-throttles", is_flag=True, help="Keep the throttles.")(command)


def timeout_option(command: F) -> F:
    """Add --timeout."""
    return click.option(
        "--timeout", "timeout_ms", type=click.IntRange(1), default=TIMEOUT_MS, show_default=True, help="ms."
    )(command)


def assignment_in(path: Path) -> "Assignment":
    """Read a file of partitions; an error ends the command."""
    from kvorum.client.reassignments.assignment_file import read_assignment

    try:
        return read_assignment(path.read_text())
    except ValueError as error:
        raise click.BadParameter(f"{path}: {error}", param_hint="--reassignment-json-file") from error


def moves_in(path: Path) -> "dict[TopicPartitionReplica, str]":
    """Return the log directories of replicas in a file that assignment_in accepted."""
    from kvorum.client.reassignments.assignment_file import read_log_dirs

    return read_log_dirs(path.read_text())


def fail_if_refused(
    refused: "Mapping[TopicPartition, KafkaError] | Mapping[TopicPartitionReplica, str]", what: str
) -> None:
    """End with an error if partitions or replicas were refused, a line each."""
    if refused:
        fail("\n".join([f"{what}:", *sorted(f"{place}: {why}" for place, why in refused.items())]))


async def remove_throttles(found: "Reassignments", plan: "Assignment") -> None:
    """Remove throttles, and print the result on the stream that programs do not read."""
    say_throttle_removed(*await found.remove_throttles({place.topic for place in plan}))


def say_throttle_removed(brokers: Sequence[int], topics: Sequence[str]) -> None:
    """Print the throttles that were removed, on the stream that programs do not read."""
    click.echo(f"Cleared throttles on brokers {','.join(map(str, brokers))} and topics {','.join(topics)}", err=True)


def plural(places: "Assignment | Sequence[TopicPartition] | Sequence[TopicPartitionReplica]") -> str:
    """Return the ending of a word that counts these."""
    return "" if len(places) == 1 else "s"


def join_places(places: "Assignment | Sequence[TopicPartition] | Sequence[TopicPartitionReplica]") -> str:
    """Return partitions, or replicas, as a text."""
    return ",".join(str(place) for place in sorted(places))
