"""Common parts of the actions of `kafka-reassign-partitions`: its files, and errors as Kafka prints them."""

import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from kvorum.cli.kafka.common import Connection
from kvorum.cli.output import Exit, say

if TYPE_CHECKING:
    from kvorum.client.namespaces.reassignments import Reassignments
    from kvorum.client.values.reassignment import Assignment
    from kvorum.client.wire.cluster_client import ClusterClient
    from kvorum.protocol.topic_partition import TopicPartition

T = TypeVar("T")


def with_reassignments(connection: Connection, work: Callable[["Reassignments"], Awaitable[T]]) -> T:
    """Run `work` on the cluster's reassignments."""

    async def run(cluster: "ClusterClient") -> T:
        from kvorum.client.namespaces.reassignments import Reassignments

        return await work(Reassignments(cluster))

    return connection.run(run)


def stop(text: str) -> NoReturn:
    """End with an error that Kafka prints to standard output."""
    say(text)
    raise SystemExit(Exit.FAILED)


def error_lines(head: str, errors: Mapping[Any, object]) -> str:
    """Return the errors below a head, one line per partition or replica."""
    return "\n".join([head, *(f"{place}: {error}" for place, error in sorted(errors.items()))])


def as_json(assignment: "Assignment", log_dirs: "Mapping[tuple[TopicPartition, int], str] | None" = None) -> str:
    """Return an assignment as Kafka writes it, without blanks."""
    from kvorum.client.reassignments.assignment_file import assignment_json

    return json.dumps(assignment_json(assignment, log_dirs or {}), separators=(",", ":"))


def assignment_in(path: Path) -> "Assignment":
    """Read a file of partitions."""
    from kvorum.client.reassignments.assignment_file import read_assignment

    try:
        return read_assignment(path.read_text())
    except ValueError as error:
        stop(f"Error: {error}")
