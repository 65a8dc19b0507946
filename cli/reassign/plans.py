"""Common parts of `kvorum reassign`: files of partitions, options, errors."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from kvorum.cli.connection.client import with_cluster
from kvorum.cli.output import fail

if TYPE_CHECKING:
    from kvorum.client.partitions.log_dir_moves import Replica
    from kvorum.client.reassignments.reassignments import Assignment, Reassignments
    from kvorum.client.wire.cluster_client import ClusterClient
    from kvorum.protocol.topic_partition import TopicPartition

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])
TIMEOUT_MS = 10_000


def with_reassignments(bootstrap: str, work: Callable[["Reassignments"], Awaitable[T]]) -> T:
    """Run `work` on a cluster's reassignments."""

    async def run(cluster: "ClusterClient") -> T:
        from kvorum.client.reassignments.reassignments import Reassignments

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
    from kvorum.client.reassignments.reassignments import read_assignment

    try:
        return read_assignment(path.read_text())
    except ValueError as error:
        raise click.BadParameter(f"{path}: {error}", param_hint="--reassignment-json-file") from error


def moves_in(path: Path) -> "dict[Replica, str]":
    """Return the log directories of replicas in a file that assignment_in accepted."""
    from kvorum.client.reassignments.reassignments import read_moves

    return read_moves(path.read_text())


def fail_if_refused(refused: "Mapping[TopicPartition, str] | Mapping[Replica, str]", what: str) -> None:
    """End with an error if partitions or replicas were refused, a line each."""
    if refused:
        fail("\n".join([f"{what}:", *sorted(f"{place}: {why}" for place, why in refused.items())]))


async def say_unthrottled(found: "Reassignments", wanted: "Assignment") -> None:
    """Remove throttles, and print that on the stream that programs do not read."""
    brokers, topics = await found.unthrottle(wanted)
    click.echo(f"Cleared throttles on brokers {','.join(map(str, brokers))} and topics {','.join(topics)}", err=True)


def plural(places: "Assignment | Sequence[TopicPartition] | Sequence[Replica]") -> str:
    """Return the ending of a word that counts these."""
    return "" if len(places) == 1 else "s"


def joined(places: "Assignment | Sequence[TopicPartition] | Sequence[Replica]") -> str:
    """Return partitions, or replicas, as a text."""
    return ",".join(str(place) for place in sorted(places))
