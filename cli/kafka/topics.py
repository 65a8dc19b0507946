"""`kafka-topics`. Source: Kafka's TopicCommand."""

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from kvorum.cli.completion import topic_names
from kvorum.cli.kafka.common import Connection, connected, is_given, one_action
from kvorum.cli.kafka.topics_described import Shown, described
from kvorum.cli.output import say, warn

if TYPE_CHECKING:
    from kvorum.client.wire.cluster_client import ClusterClient
    from kvorum.protocol.messages.metadata import MetadataResponseTopic

COLLIDING = "._"
INT16_MAX = 32767
ACTIONS = ("alter", "create", "describe", "list", "delete")
REPORTS = ("under_replicated_partitions", "under_min_isr_partitions", "at_min_isr_partitions", "unavailable_partitions")
GOES_WITH = {
    "config": ("alter", "create"),
    "partitions": ("alter", "create"),
    "replication_factor": ("create",),
    "replica_assignment": ("alter", "create"),
    **dict.fromkeys(REPORTS, ("describe",)),
    "topics_with_overrides": ("describe",),
    "if_exists": ("alter", "delete", "describe"),
    "if_not_exists": ("create",),
    "exclude_internal": ("list", "describe"),
}
"""Actions of each option."""
NEVER_TOGETHER = (
    *(("replica_assignment", each) for each in ("partitions", "replication_factor")),
    *((report, "topics_with_overrides") for report in REPORTS),
)
USE_CONFIGS = " (To alter topic configurations, the kafka-configs tool can be used.)"
T = TypeVar("T")


@click.command("kafka-topics")
@click.option("--create", is_flag=True)
@click.option("--list", "listing", is_flag=True)
@click.option("--describe", is_flag=True)
@click.option("--alter", is_flag=True, help="Add partitions. Use kafka-configs for configs.")
@click.option("--delete", is_flag=True)
@click.option("--topic", shell_complete=topic_names, help="Topic name; a pattern except with --create.")
@click.option("--topic-id", help="With --describe.")
@click.option("--partitions", type=int)
@click.option("--replication-factor", type=int)
@click.option(
    "--replica-assignment",
    metavar="1:2,2:3",
    help="Replicas of each partition, instead of --partitions and --replication-factor.",
)
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
@click.option("--partition-size-limit-per-response", type=click.IntRange(1), help="Ignored.")
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
        click.echo(
            "delete-config option is no longer supported and deprecated since version 4.0. The config will be fully "
            "removed in future releases.",
            err=True,
        )
    check(action, {**click.get_current_context().params, "config": configs})
    assignment = parse_assignment(replica_assignment)
    match action:
        case "create":
            check_numbers(partitions, replication_factor)
            assert topic is not None
            create_topic(connection, topic, partitions, replication_factor, assignment, configs, if_not_exists)
        case "alter":
            assert topic is not None and partitions is not None
            alter_topics(connection, topic, partitions, assignment, if_exists)
        case "list":
            wanted = matching(topic, exclude_internal)
            found = run(connection, lambda cluster: chosen(cluster, wanted))
            say("\n".join(each.name or "" for each in found))
        case "describe":
            describe_topics(connection, topic, topic_id, if_exists, exclude_internal, Shown(**shown))
        case _:
            assert topic is not None
            delete_topics(connection, topic, if_exists)


def check(action: str, options: Mapping[str, Any]) -> None:
    """Reject conflicting options, with Kafka's messages."""

    def refuse(one: str, other: str) -> NoReturn:
        first, second = (f'"[{name.replace("_", "-")}]"' for name in (one, other))
        raise click.UsageError(f"Option {first} can't be used with option {second}")

    given = {name for name in GOES_WITH if is_given(options[name])}
    unnamed = options["topic"] is None and options["topic_id"] is None
    if action == "describe" and options["if_exists"] and unnamed:
        raise click.UsageError("--topic or --topic-id is required to describe a topic")
    if action not in ("list", "describe") and options["topic"] is None:
        raise click.UsageError('Missing required argument "[topic]"')
    if action == "alter":
        if options["config"]:
            what = '"[[bootstrap-server], [config]]"'
            raise click.UsageError(f'Option combination {what} can\'t be used with option "[alter]"{USE_CONFIGS}')
        if options["partitions"] is None:
            raise click.UsageError('Missing required argument "[partitions]"')
    for name, actions in GOES_WITH.items():
        if name in given and action not in actions:
            refuse(name, action)
    for one, other in NEVER_TOGETHER:
        if {one, other} <= given and (action == "create" or one in REPORTS):
            refuse(one, other)


def run(connection: Connection, work: Callable[["ClusterClient"], Awaitable[T]]) -> T:
    """Run `work`; an error is printed as by Kafka's tool: on standard output, with exit code 1."""
    from kvorum.protocol.errors import KafkaError

    async def guarded(cluster: "ClusterClient") -> T:
        try:
            return await work(cluster)
        except KafkaError as error:
            stop(error.message or error.code.name)

    return connection.run(guarded)


def stop(message: str) -> NoReturn:
    """End the command with an error."""
    say(f"Error while executing topic command : {message}")
    raise SystemExit(1)


def check_numbers(partitions: int | None, replication_factor: int | None) -> None:
    """Refuse numbers that no topic has."""
    if replication_factor is not None and not 1 <= replication_factor <= INT16_MAX:
        stop("The replication factor must be between 1 and 32767 inclusive")
    if partitions is not None and partitions < 1:
        stop("The partitions must be greater than 0")


def parse_assignment(text: str | None) -> list[list[int]]:
    """Read 1:2,2:3: the replicas of each partition, as many of each."""
    found: list[list[int]] = []
    for index, each in enumerate(text.split(",") if text else ()):
        try:
            replicas = [int(part) for part in each.split(":")]
        except ValueError:
            stop(f"--replica-assignment {text!r} is not like 1:2,2:3")
        twice = [str(broker) for broker, count in Counter(replicas).items() if count > 1]
        if twice:
            stop(f"Partition replica lists may not contain duplicate entries: {','.join(twice)}")
        found.append(replicas)
        if len(replicas) != len(found[0]):
            stop(f"Partition {index} has different replication factor: {replicas}")
    return found


def parse_configs(texts: Sequence[str]) -> dict[str, str]:
    """Read KEY=VALUE."""
    parts = [re.split(r"\s*=\s*", text) for text in texts]
    if not all(len(each) == 2 and each[1] for each in parts):
        stop('requirement failed: Invalid topic config: all configs to be added must be in the format "key=val".')
    return {key.strip(): value.strip() for key, value in parts}


def matching(topic: str | None, exclude_internal: bool) -> Callable[["MetadataResponseTopic"], bool]:
    """Return the filter of --topic, which is a pattern, and --exclude-internal."""
    from kvorum.cli.topics.offset_filter import FilterError, topic_pattern

    try:
        pattern = topic_pattern(topic)
    except FilterError as error:
        stop(str(error))
    return lambda each: pattern.fullmatch(each.name or "") is not None and not (exclude_internal and each.is_internal)


async def chosen_for_change(cluster: "ClusterClient", topic: str, if_exists: bool) -> list["MetadataResponseTopic"]:
    """Return the topics that --alter or --delete changes: an internal topic only if --topic names it.

    With Kafka's script a pattern matches internal topics too, and with them all committed offsets.
    """
    found = await chosen(cluster, matching(topic, exclude_internal=False))
    require(found, topic, if_exists)
    named = {name.strip(" \"'") for name in re.split(r"[,|]", topic)}
    kept = [each.name or "" for each in found if each.is_internal and each.name not in named]
    if kept:
        warn(f"internal topics are skipped, because --topic {topic!r} does not name them: {', '.join(kept)}")
    if kept and len(kept) == len(found):
        stop(f"Topic pattern '{topic}' matches internal topics only; name each of them exactly to change it")
    return [each for each in found if each.name not in kept]


async def chosen(
    cluster: "ClusterClient", wanted: Callable[["MetadataResponseTopic"], bool]
) -> list["MetadataResponseTopic"]:
    """Return the topics that are wanted, by name."""
    found = [topic for topic in (await cluster.metadata()).topics if wanted(topic)]
    return sorted(found, key=lambda topic: topic.name or "")


def require(found: Sequence[object], topic: str | None, if_exists: bool, *, what: str = "Topic") -> None:
    """End the command if a named topic does not exist."""
    if topic and not found and not if_exists:
        stop(f"{what} '{topic}' does not exist as expected")


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
    from kvorum.protocol.errors import ErrorCode, KafkaError
    from kvorum.protocol.messages.create_topics import (
        CreatableReplicaAssignment,
        CreatableTopic,
        CreatableTopicConfig,
    )

    if any(character in topic for character in COLLIDING):
        say(
            "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could "
            "collide. To avoid issues it is best to use either, but not both."
        )
    wanted = CreatableTopic(
        name=topic,
        num_partitions=-1 if partitions is None else partitions,
        replication_factor=-1 if replication_factor is None else replication_factor,
        assignments=[CreatableReplicaAssignment(partition_index=i, broker_ids=ids) for i, ids in enumerate(assignment)],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in parse_configs(configs).items()],
    )

    async def work(cluster: "ClusterClient") -> bool:
        try:
            await cluster.create_topic(wanted)
        except KafkaError as error:
            if not (if_not_exists and error.code is ErrorCode.TOPIC_ALREADY_EXISTS):
                raise
            return False
        return True

    if run(connection, work):
        say(f"Created topic {topic}.")


def alter_topics(
    connection: Connection, topic: str, partitions: int, assignment: list[list[int]], if_exists: bool
) -> None:
    """Raise the number of partitions of topics."""
    from kvorum.client.wire.cluster_client import first_code, refuse
    from kvorum.protocol.messages.create_partitions import (
        CreatePartitionsAssignment,
        CreatePartitionsRequest,
        CreatePartitionsResponse,
        CreatePartitionsTopic,
    )

    async def work(cluster: "ClusterClient") -> None:
        found = await chosen_for_change(cluster, topic, if_exists)
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
            answer = await cluster.ask_active(request, CreatePartitionsResponse, lambda it: first_code(it.results))
            for result in answer.results:
                refuse(result.error_code, result.error_message)

    run(connection, work)


def delete_topics(connection: Connection, topic: str, if_exists: bool) -> None:
    """Delete the topics that match."""

    async def work(cluster: "ClusterClient") -> None:
        for each in await chosen_for_change(cluster, topic, if_exists):
            await cluster.delete_topic(each.name or "")

    run(connection, work)


def describe_topics(
    connection: Connection,
    topic: str | None,
    topic_id: str | None,
    if_exists: bool,
    exclude_internal: bool,
    shown: Shown,
) -> None:
    """Print topics and partitions, tabs between the parts."""
    from kvorum.protocol.uuids import Uuid

    if if_exists and topic and topic_id:
        say(
            "Only topic id will be used when both --topic and --topic-id are specified and topicId is not "
            "Uuid.ZERO_UUID"
        )
    try:
        wanted_id = None if topic_id is None else Uuid.parse(topic_id)
    except ValueError as error:
        stop(str(error))
    by_id = wanted_id is not None and any(wanted_id)
    by_name = matching(None if by_id else topic, exclude_internal)

    async def work(cluster: "ClusterClient") -> list[str]:
        found = await chosen(cluster, by_name)
        if by_id:
            found = [each for each in found if each.topic_id == wanted_id]
        require(found, topic_id if by_id else topic, if_exists, what="TopicId" if by_id else "Topic")
        live = {broker.node_id for broker in (await cluster.metadata([])).brokers}
        return await described(cluster, found, live, shown)

    for line in run(connection, work):
        say(line)
