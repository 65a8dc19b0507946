"""`kafka-topics` --create, --alter and --delete, and what all its actions share. Source: Kafka's TopicCommand."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from kvorum.cli.kafka.common import Connection
from kvorum.cli.kafka.topics_options import check_numbers, parse_assignment, parse_configs, stop, topic_filter
from kvorum.cli.output import say, warn

if TYPE_CHECKING:
    from kvorum.client.values.topic import Topic
    from kvorum.client.wire.cluster_client import ClusterClient

COLLIDING = "._"
T = TypeVar("T")


def run(connection: Connection, work: Callable[["ClusterClient"], Awaitable[T]]) -> T:
    """Run `work`; an error is printed as by Kafka's tool: on standard output, with exit code 1."""
    from kvorum.protocol.errors import KafkaError

    async def stop_on_error(cluster: "ClusterClient") -> T:
        try:
            return await work(cluster)
        except KafkaError as error:
            stop(error.message or error.code.name)

    return connection.run(stop_on_error)


async def find_topics(cluster: "ClusterClient", wanted: "Callable[[Topic], bool]") -> "list[Topic]":
    """Return the topics that are wanted, by name, without reassignments."""
    from kvorum.client.namespaces.topics import Topics

    return [each for each in await Topics(cluster).list(internal=True, reassignments=False) if wanted(each)]


def require(found: Sequence[object], topic: str | None, if_exists: bool, *, what: str = "Topic") -> None:
    """End the command if a named topic does not exist."""
    if topic and not found and not if_exists:
        stop(f"{what} '{topic}' does not exist as expected")


async def topics_to_change(cluster: "ClusterClient", topic: str, if_exists: bool) -> "list[Topic]":
    """Return the topics that --alter or --delete changes: an internal topic only if --topic names it.

    With Kafka's script a pattern matches internal topics too, and with them all committed offsets.
    """
    found = await find_topics(cluster, topic_filter(topic))
    require(found, topic, if_exists)
    named = {name.strip(" \"'") for name in topic.replace("|", ",").split(",")}
    kept = [each.name for each in found if each.is_internal and each.name not in named]
    if kept:
        warn(f"internal topics are skipped, because --topic {topic!r} does not name them: {', '.join(kept)}")
    if kept and len(kept) == len(found):
        stop(f"Topic pattern '{topic}' matches internal topics only; name each of them exactly to change it")
    return [each for each in found if each.name not in kept]


def create_topic(connection: Connection, options: dict[str, Any]) -> None:
    """Create one topic."""
    from kvorum.client.namespaces.topics import Topics
    from kvorum.protocol.errors import ErrorCode, KafkaError

    topic, assignment = options["topic"], parse_assignment(options["replica_assignment"])
    check_numbers(options["partitions"], options["replication_factor"])
    if any(character in topic for character in COLLIDING):
        say(
            "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could "
            "collide. To avoid issues it is best to use either, but not both."
        )
    configs = parse_configs(options["config"])

    async def work(cluster: "ClusterClient") -> bool:
        try:
            await Topics(cluster).create(
                topic,
                partitions=options["partitions"],
                replication_factor=options["replication_factor"],
                assignments=dict(enumerate(assignment)),
                configs=configs,
            )
        except KafkaError as error:
            if not (options["if_not_exists"] and error.code is ErrorCode.TOPIC_ALREADY_EXISTS):
                raise
            return False
        return True

    if run(connection, work):
        say(f"Created topic {topic}.")


def alter_topics(connection: Connection, options: dict[str, Any]) -> None:
    """Increase the number of partitions of the topics that match; an error does not stop the others."""
    assignment = parse_assignment(options["replica_assignment"])

    async def work(cluster: "ClusterClient") -> None:
        from kvorum.client.namespaces.partitions import Partitions

        partitions = Partitions(cluster)
        requests = [
            partitions.add(
                each.name,
                options["partitions"],
                assignments=assignment[len(each.partitions) :] if assignment else None,
            )
            for each in await topics_to_change(cluster, options["topic"], options["if_exists"])
        ]
        for result in await asyncio.gather(*requests, return_exceptions=True):
            if result is not None:
                raise result

    run(connection, work)


def delete_topics(connection: Connection, options: dict[str, Any]) -> None:
    """Delete the topics that match."""

    async def work(cluster: "ClusterClient") -> None:
        from kvorum.client.namespaces.topics import Topics

        for each in await topics_to_change(cluster, options["topic"], options["if_exists"]):
            await Topics(cluster).delete(each.name)

    run(connection, work)
