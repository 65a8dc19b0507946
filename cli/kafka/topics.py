"""`kafka-topics`. Source: Kafka's TopicCommand."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from kvorum.cli.completion import topic_names
from kvorum.cli.kafka.common import Connection, connected, one_action
from kvorum.cli.output import Exit, fail

if TYPE_CHECKING:
    from kvorum.admin.client import ClusterClient, Eligible
    from kvorum.protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic

DEFAULT_CONFIG = 5
COLLIDING = "._"
INT16_MAX = 32767


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """Which partitions to describe; with none of these all, and the topics themselves."""

    under_replicated_partitions: bool
    unavailable_partitions: bool
    under_min_isr_partitions: bool
    at_min_isr_partitions: bool
    topics_with_overrides: bool

    @property
    def everything(self) -> bool:
        """Tell whether no kind of partition is asked for."""
        return not (
            self.under_replicated_partitions
            or self.unavailable_partitions
            or self.under_min_isr_partitions
            or self.at_min_isr_partitions
        )


@click.command("kafka-topics")
@click.option("--create", is_flag=True)
@click.option("--list", "listing", is_flag=True)
@click.option("--describe", is_flag=True)
@click.option("--alter", is_flag=True, help="More partitions; configs are kafka-configs'.")
@click.option("--delete", is_flag=True)
@click.option("--topic", shell_complete=topic_names, help="A pattern, but with --create.")
@click.option("--topic-id", help="With --describe.")
@click.option("--partitions", type=int)
@click.option("--replication-factor", type=int)
@click.option("--replica-assignment", metavar="1:2,2:3", help="Replicas of each partition, instead of the two above.")
@click.option("--config", "configs", multiple=True, metavar="KEY=VALUE", help="With --create.")
@click.option("--delete-config", "deleted", multiple=True, hidden=True)
@click.option("--if-exists", is_flag=True)
@click.option("--if-not-exists", is_flag=True)
@click.option("--under-replicated-partitions", is_flag=True)
@click.option("--unavailable-partitions", is_flag=True)
@click.option("--under-min-isr-partitions", is_flag=True)
@click.option("--at-min-isr-partitions", is_flag=True)
@click.option("--topics-with-overrides", is_flag=True)
@click.option("--exclude-internal", is_flag=True)
@click.option("--partition-size-limit-per-response", type=click.IntRange(1), help="Makes no difference here.")
@connected()
def topics(
    connection: Connection,
    create: bool,
    listing: bool,
    describe: bool,
    alter: bool,
    delete: bool,
    topic: str | None,
    topic_id: str | None,
    partitions: int | None,
    replication_factor: int | None,
    replica_assignment: str | None,
    configs: tuple[str, ...],
    deleted: tuple[str, ...],
    if_exists: bool,
    if_not_exists: bool,
    exclude_internal: bool,
    partition_size_limit_per_response: int | None,
    **shown: bool,
) -> None:
    """Create, list, describe, alter or delete topics.

    \b
    kvorum kafka-topics --bootstrap-server localhost:9092 --create --topic orders --partitions 3
    kvorum kafka-topics --bootstrap-server localhost:9092 --describe --topic orders
    """
    action = one_action({"list": listing, "describe": describe, "create": create, "alter": alter, "delete": delete})
    if deleted:
        raise click.UsageError("delete-config option is no longer supported and deprecated since version 4.0")
    if configs and action != "create":
        raise click.UsageError("Option [config] can only be used with option(s) [create]; kafka-configs alters configs")
    assignment = parse_assignment(replica_assignment)
    if assignment and action == "create" and (partitions is not None or replication_factor is not None):
        raise click.UsageError("Option [replica-assignment] can't be used with [partitions] or [replication-factor]")
    match action:
        case "create":
            check_numbers(topic, partitions, replication_factor)
            create_topic(connection, topic or "", partitions, replication_factor, assignment, configs, if_not_exists)
        case "alter":
            if topic is None or partitions is None:
                raise click.UsageError('Missing required argument "[topic]" or "[partitions]"')
            alter_topics(connection, topic, partitions, assignment, if_exists, exclude_internal)
        case "list":
            wanted = matching(topic, exclude_internal)
            found = connection.run(lambda cluster: chosen(cluster, wanted))
            click.echo("\n".join(each.name or "" for each in found))
        case "describe":
            describe_topics(connection, topic, topic_id, if_exists, exclude_internal, Shown(**shown))
        case _:
            if topic is None:
                raise click.UsageError('Missing required argument "[topic]"')
            delete_topics(connection, topic, if_exists, exclude_internal)


def check_numbers(topic: str | None, partitions: int | None, replication_factor: int | None) -> None:
    """Refuse numbers that no topic has."""
    if topic is None:
        raise click.UsageError('Missing required argument "[topic]"')
    if partitions is not None and partitions < 1:
        raise click.UsageError("The partitions must be greater than 0")
    if replication_factor is not None and not 1 <= replication_factor <= INT16_MAX:
        raise click.UsageError("The replication factor must be between 1 and 32767 inclusive")


def parse_assignment(text: str | None) -> list[list[int]]:
    """Read 1:2,2:3: the replicas of each partition, as many of each."""
    try:
        found = [[int(part) for part in each.split(":")] for each in text.split(",")] if text else []
    except ValueError:
        raise click.UsageError(f"--replica-assignment {text!r} is not like 1:2,2:3") from None
    for index, replicas in enumerate(found):
        if len(set(replicas)) != len(replicas):
            raise click.UsageError(f"Partition replica lists may not contain duplicate entries: {replicas}")
        if len(replicas) != len(found[0]):
            raise click.UsageError(f"Partition {index} has different replication factor: {replicas}")
    return found


def matching(topic: str | None, exclude_internal: bool) -> Callable[["MetadataResponseTopic"], bool]:
    """Return the filter of --topic, which is a pattern, and --exclude-internal."""
    from kvorum.cli.offset_filter import FilterError, topic_pattern

    try:
        pattern = topic_pattern(topic)
    except FilterError as error:
        raise click.UsageError(str(error)) from None
    return lambda each: pattern.fullmatch(each.name or "") is not None and not (exclude_internal and each.is_internal)


async def chosen(
    cluster: "ClusterClient", wanted: Callable[["MetadataResponseTopic"], bool]
) -> list["MetadataResponseTopic"]:
    """Return the topics that are wanted, by name."""
    found = [topic for topic in (await cluster.metadata()).topics if wanted(topic)]
    return sorted(found, key=lambda topic: topic.name or "")


def require(found: list[Any], topic: str | None, if_exists: bool) -> None:
    """End the command where a topic that is named is not there."""
    if topic and not found and not if_exists:
        fail(f"Error while executing topic command : Topic '{topic}' does not exist as expected", Exit.FAILED)


def create_topic(
    connection: Connection,
    topic: str,
    partitions: int | None,
    replication_factor: int | None,
    assignment: list[list[int]],
    configs: tuple[str, ...],
    if_not_exists: bool,
) -> None:
    """Create one topic."""
    from kvorum.cli.output import pairs
    from kvorum.protocol.errors import ErrorCode, KafkaError
    from kvorum.protocol.messages.create_topics import (
        CreatableReplicaAssignment,
        CreatableTopic,
        CreatableTopicConfig,
    )

    if any(character in topic for character in COLLIDING):
        click.echo(
            "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could "
            "collide. To avoid issues it is best to use either, but not both."
        )
    wanted = CreatableTopic(
        name=topic,
        num_partitions=-1 if partitions is None else partitions,
        replication_factor=-1 if replication_factor is None else replication_factor,
        assignments=[CreatableReplicaAssignment(partition_index=i, broker_ids=ids) for i, ids in enumerate(assignment)],
        configs=[
            CreatableTopicConfig(name=key.strip(), value=value.strip())
            for key, value in pairs(configs, "--config").items()
        ],
    )

    async def work(cluster: "ClusterClient") -> bool:
        try:
            await cluster.create_topic(wanted)
        except KafkaError as error:
            if not (if_not_exists and error.code is ErrorCode.TOPIC_ALREADY_EXISTS):
                raise
            return False
        return True

    if connection.run(work):
        click.echo(f"Created topic {topic}.")


def alter_topics(
    connection: Connection,
    topic: str,
    partitions: int,
    assignment: list[list[int]],
    if_exists: bool,
    exclude_internal: bool,
) -> None:
    """Raise the number of partitions of topics."""
    from kvorum.admin.client import refuse
    from kvorum.protocol.messages.create_partitions import (
        CreatePartitionsAssignment,
        CreatePartitionsRequest,
        CreatePartitionsResponse,
        CreatePartitionsTopic,
    )

    wanted = matching(topic, exclude_internal)

    async def work(cluster: "ClusterClient") -> int:
        found = await chosen(cluster, wanted)
        rows = [
            CreatePartitionsTopic(
                name=each.name or "",
                count=partitions,
                assignments=[CreatePartitionsAssignment(broker_ids=ids) for ids in assignment[len(each.partitions) :]]
                if assignment
                else None,
            )
            for each in found
        ]
        if rows:
            request = CreatePartitionsRequest(topics=rows, timeout=cluster.timeout_ms)
            for result in (await cluster.ask(request, CreatePartitionsResponse)).results:
                refuse(result.error_code, result.error_message)
        return len(rows)

    require(["any"] * connection.run(work), topic, if_exists)


def delete_topics(connection: Connection, topic: str, if_exists: bool, exclude_internal: bool) -> None:
    """Delete the topics that match."""
    wanted = matching(topic, exclude_internal)

    async def work(cluster: "ClusterClient") -> list[str]:
        found = [each.name or "" for each in await chosen(cluster, wanted)]
        for name in found:
            await cluster.delete_topic(name)
        return found

    require(connection.run(work), topic, if_exists)


def describe_topics(
    connection: Connection,
    topic: str | None,
    topic_id: str | None,
    if_exists: bool,
    exclude_internal: bool,
    shown: Shown,
) -> None:
    """Print topics and partitions, tabs between the parts."""
    by_name = matching(None if topic_id else topic, exclude_internal)

    async def work(cluster: "ClusterClient") -> list[str]:
        from kvorum.admin.client import ResourceType

        lines: list[str] = []
        live = {broker.node_id for broker in (await cluster.metadata([])).brokers}
        found = [each for each in await chosen(cluster, by_name) if topic_id in (None, str(each.topic_id))]
        require(found, topic_id or topic, if_exists)
        for each in found:
            entries = await cluster.describe_configs(ResourceType.TOPIC, each.name or "")
            configs = {entry.name: entry.value or "" for entry in entries}
            own = {entry.name: entry.value for entry in entries if entry.config_source != DEFAULT_CONFIG}
            lines += topic_lines(each, own, shown)
            eligible = await cluster.eligible(each)
            if not shown.topics_with_overrides:
                rows = sorted(each.partitions, key=lambda row: row.partition_index)
                lines += [
                    partition_line(each.name or "", row, eligible)
                    for row in rows
                    if is_shown(row, shown, live, int(configs.get("min.insync.replicas", "1")))
                ]
        return lines

    for line in connection.run(work):
        click.echo(line)


def topic_lines(topic: "MetadataResponseTopic", own: Mapping[str, str | None], shown: Shown) -> list[str]:
    """Return a topic's line, if it is to be shown."""
    if not shown.everything or (shown.topics_with_overrides and not own):
        return []
    factor = len(topic.partitions[0].replica_nodes) if topic.partitions else 0
    return [
        f"Topic: {topic.name}\tTopicId: {topic.topic_id}\tPartitionCount: {len(topic.partitions)}"
        f"\tReplicationFactor: {factor}\tConfigs: {','.join(f'{key}={value}' for key, value in own.items())}"
    ]


def is_shown(row: "MetadataResponsePartition", shown: Shown, live: set[int], min_isr: int) -> bool:
    """Tell whether a partition is of a kind that is asked for."""
    leaderless = row.leader_id < 0
    return (
        shown.everything
        or (shown.under_replicated_partitions and len(row.isr_nodes) < len(row.replica_nodes))
        or (shown.unavailable_partitions and (leaderless or row.leader_id not in live))
        or (shown.under_min_isr_partitions and (leaderless or len(row.isr_nodes) < min_isr))
        or (shown.at_min_isr_partitions and len(row.isr_nodes) == min_isr)
    )


def partition_line(topic: str, row: "MetadataResponsePartition", eligible: "Mapping[int, Eligible]") -> str:
    """Return a partition's line."""

    def ids(numbers: list[int] | None) -> str:
        return "N/A" if numbers is None else ",".join(map(str, numbers))

    told = eligible[row.partition_index]
    return (
        f"\tTopic: {topic}\tPartition: {row.partition_index}\tLeader: {'none' if row.leader_id < 0 else row.leader_id}"
        f"\tReplicas: {ids(row.replica_nodes)}\tIsr: {ids(row.isr_nodes)}"
        f"\tElr: {ids(told.elr)}\tLastKnownElr: {ids(told.last_known_elr)}"
    )
