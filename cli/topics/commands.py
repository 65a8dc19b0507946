"""`kvorum topics`."""

from typing import TYPE_CHECKING, Any

import click

from kvorum.cli.completion import topic_config_keys, topic_names
from kvorum.cli.connection.client import bootstrap_option, with_cluster
from kvorum.cli.output import Exit, fail, output_option, pairs, show, tell

if TYPE_CHECKING:
    from kvorum.client.wire.cluster_client import ClusterClient
    from kvorum.protocol.messages.metadata import MetadataResponseTopic

UNSET = -1


@click.group()
def topics() -> None:
    """Create, list, describe, alter and delete topics.

    \b
    kvorum topics create orders --partitions 6 --replication-factor 3 --config min.insync.replicas=2
    kvorum topics describe orders -o yaml
    kvorum topics alter orders --partitions 12 --config retention.ms=3600000 --delete-config cleanup.policy
    """


@topics.command()
@click.argument("names", nargs=-1, required=True)
@click.option(
    "-p", "--partitions", type=click.IntRange(1), help="Number of partitions (default: the cluster's num.partitions)."
)
@click.option(
    "-r", "--replication-factor", type=click.IntRange(1), help="Replication factor (default: the cluster's default)."
)
@click.option(
    "--replica-assignment",
    metavar="1:2,2:3",
    help="Replicas of each partition, instead of --partitions and --replication-factor.",
)
@click.option("-c", "--config", "configs", multiple=True, metavar="KEY=VALUE", shell_complete=topic_config_keys)
@click.option("--if-not-exists", is_flag=True, help="Ignore topics that exist.")
@click.option("--validate-only", is_flag=True, help="Validate only.")
@bootstrap_option
@output_option
def create(
    names: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    replica_assignment: str | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    validate_only: bool,
    bootstrap: str,
    output: str,
) -> None:
    """Create topics.

    \b
    kvorum topics create orders --partitions 6 --replication-factor 3 --config min.insync.replicas=2
    kvorum topics create orders payments --if-not-exists
    kvorum topics create orders --replica-assignment 1:2,2:3     two partitions with leaders 1 and 2
    """
    from kvorum.protocol.errors import ErrorCode
    from kvorum.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig

    if replica_assignment is not None and (partitions is not None or replication_factor is not None):
        raise click.UsageError("--replica-assignment cannot be combined with --partitions or --replication-factor")
    rows_of = enumerate(assignment_of(replica_assignment))
    placed = [CreatableReplicaAssignment(partition_index=index, broker_ids=ids) for index, ids in rows_of]
    values = [CreatableTopicConfig(name=key, value=value) for key, value in pairs(configs, "--config").items()]
    factor, count = replication_factor or UNSET, partitions or UNSET
    wanted = [
        CreatableTopic(name=name, num_partitions=count, replication_factor=factor, assignments=placed, configs=values)
        for name in names
    ]
    refused: list[str] = []

    async def work(cluster: "ClusterClient") -> list[dict[str, Any]]:
        rows = []
        for result in (await cluster.create_topics(wanted, validate_only=validate_only)).topics:
            if result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS and if_not_exists:
                rows.append(existing_row(await cluster.topic(result.name)))
            elif result.error_code:
                refused.append(refusal(result.name, result.error_code, result.error_message))
            else:
                rows.append(
                    {
                        "topic": result.name,
                        "topic_id": None if validate_only else str(result.topic_id),
                        "partitions": result.num_partitions,
                        "replication_factor": result.replication_factor,
                        "created": not validate_only,
                    }
                )
        return rows

    rows = with_cluster(bootstrap, work)
    if rows or output != "table":
        show(rows, output, ("topic", "topic_id", "partitions", "replication_factor", "created"))
    fail_if_any(refused)


def assignment_of(text: str | None) -> list[list[int]]:
    """Read 1:2,2:3: the replicas of each partition."""
    try:
        return [[int(part) for part in each.split(":")] for each in text.split(",")] if text else []
    except ValueError:
        raise click.BadParameter(f"{text!r} is not of the form 1:2,2:3", param_hint="--replica-assignment") from None


def existing_row(topic: "MetadataResponseTopic") -> dict[str, Any]:
    """Return the row of `create` for an existing topic."""
    return {
        "topic": topic.name,
        "topic_id": str(topic.topic_id),
        "partitions": len(topic.partitions),
        "replication_factor": max((len(each.replica_nodes) for each in topic.partitions), default=0),
        "created": False,
    }


def refusal(name: str, code: int, message: str | None) -> str:
    """Return one topic's error as a line."""
    from kvorum.client.wire.cluster_client import code_of

    return f"{name}: {code_of(code).name}: {message or 'refused'}"


def fail_if_any(refused: list[str], code: Exit = Exit.FAILED) -> None:
    """Print the rejected topics, one per line, and end with an error; return without any."""
    for line in refused[:-1]:
        click.echo(f"kvorum: {line}", err=True)
    if refused:
        fail(refused[-1], code)


@topics.command("list")
@click.argument("pattern", required=False, shell_complete=topic_names)
@click.option("--internal", is_flag=True, help="Include internal topics.")
@click.option("--under-replicated", is_flag=True, help="Only topics with an under-replicated partition.")
@click.option("--unavailable", is_flag=True, help="Only topics with a partition without a leader.")
@bootstrap_option
@output_option
def list_(
    pattern: str | None, internal: bool, under_replicated: bool, unavailable: bool, bootstrap: str, output: str
) -> None:
    """List topics: all, or those whose complete name matches a pattern.

    \b
    kvorum topics list
    kvorum topics list 'orders-.*' --under-replicated
    kvorum topics list --internal -o json
    """
    from kvorum.cli.topics.offset_filter import FilterError, topic_pattern

    try:
        wanted = topic_pattern(pattern)
    except FilterError as error:
        raise click.UsageError(str(error)) from None

    async def work(cluster: "ClusterClient") -> list[dict[str, Any]]:
        from kvorum.cli.topics.rows import list_row, under_way

        moving = await under_way(cluster)
        found = sorted((await cluster.metadata()).topics, key=lambda topic: topic.name or "")
        chosen = [each for each in found if wanted.fullmatch(each.name or "") and (internal or not each.is_internal)]
        return [list_row(each, moving) for each in chosen]

    rows = [
        row
        for row in with_cluster(bootstrap, work)
        if (row["under_replicated"] or not under_replicated) and (row["unavailable"] or not unavailable)
    ]
    show(rows, output, ("topic", "partitions", "replication_factor", "under_replicated", "unavailable"))


@topics.command()
@click.argument("names", nargs=-1, required=True, shell_complete=topic_names, metavar="NAME...")
@bootstrap_option
@output_option
def describe(names: tuple[str, ...], bootstrap: str, output: str) -> None:
    """Describe topics: partitions, leaders, in-sync and eligible replicas, reassignments, offsets, configs.

    \b
    kvorum topics describe orders -o yaml
    kvorum topics describe orders payments
    """

    async def work(cluster: "ClusterClient") -> list[dict[str, Any]]:
        from kvorum.cli.topics.rows import described, under_way

        moving = await under_way(cluster)
        return [await described(cluster, name, moving) for name in dict.fromkeys(names)]

    found = with_cluster(bootstrap, work)
    if output != "table":
        show(found[0] if len(names) == 1 else found, output)
        return
    for number, each in enumerate(found):
        if number:
            click.echo()
        rows = each.pop("partitions")
        moves = any(row["adding"] or row["removing"] for row in rows)
        columns = [key for key in rows[0] if moves or key not in ("adding", "removing")] if rows else []
        show(each, output)
        click.echo()
        show(rows, output, columns)


@topics.command()
@click.argument("name", shell_complete=topic_names)
@click.option("-p", "--partitions", type=click.IntRange(1), help="New total number of partitions.")
@click.option(
    "-r",
    "--replication-factor",
    type=click.IntRange(1),
    help="New replication factor; starts a reassignment.",
)
@click.option("-c", "--config", "configs", multiple=True, metavar="KEY=VALUE", shell_complete=topic_config_keys)
@click.option("--delete-config", "deleted", multiple=True, metavar="KEY", help="Reset a config to its default.")
@bootstrap_option
@output_option
def alter(
    name: str,
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    deleted: tuple[str, ...],
    bootstrap: str,
    output: str,
) -> None:
    """Add partitions to a topic, change its replication factor and its configs.

    \b
    kvorum topics alter orders --partitions 12
    kvorum topics alter orders --replication-factor 3       starts it; see kvorum reassign list
    kvorum topics alter orders --config retention.ms=3600000 --delete-config cleanup.policy
    """
    from kvorum.client.config_sources import topic_overrides
    from kvorum.client.reassignments.replica_count import begin, planned
    from kvorum.client.wire.cluster_client import ConfigChange, ConfigOperation, ResourceType

    changes = [ConfigChange(name=key, value=value) for key, value in pairs(configs, "--config").items()]
    changes += [ConfigChange(name=key, operation=ConfigOperation.DELETE) for key in deleted]
    if partitions is None and replication_factor is None and not changes:
        raise click.UsageError(
            "nothing to change: give --partitions, --replication-factor, --config or --delete-config"
        )

    if partitions is not None and replication_factor is not None:
        raise click.UsageError("--partitions and --replication-factor require two commands: add partitions first")

    async def work(cluster: "ClusterClient") -> list[str]:
        there = topic_overrides(await cluster.describe_configs(ResourceType.TOPIC, name)) if deleted else {}
        resizing = None
        if replication_factor is not None:  # all of it is checked before any of it is done
            resizing = await planned(cluster, await cluster.topic(name), replication_factor)
        if partitions is not None:
            if changes:
                await cluster.alter_configs(ResourceType.TOPIC, name, changes, validate_only=True)
            await cluster.create_partitions(name, partitions)
        if changes:
            await cluster.alter_configs(ResourceType.TOPIC, name, changes)
        if resizing is not None and resizing.wanted:
            await begin(cluster, resizing.wanted)
        return [key for key in deleted if key not in there]

    for key in with_cluster(bootstrap, work):
        # As kafka-configs since 4.3: not an error, since the result is as wanted. But a misspelt name must be visible.
        click.echo(f"warning: {key} was not set on {name}", err=True)
    set_to = {change.name: change.value for change in changes if change.operation is ConfigOperation.SET}
    done = {"topic": name, "partitions": partitions, "replication_factor": replication_factor}
    tell({**done, "set": set_to, "deleted": list(deleted)}, output, f"{name} altered")


@topics.command()
@click.argument("names", nargs=-1, required=True, shell_complete=topic_names)
@click.option("--if-exists", is_flag=True, help="Ignore topics that do not exist.")
@bootstrap_option
@output_option
def delete(names: tuple[str, ...], if_exists: bool, bootstrap: str, output: str) -> None:
    """Delete topics with their records.

    \b
    kvorum topics delete orders payments --if-exists
    """
    from kvorum.cli.connection.missing_topics import explained
    from kvorum.protocol.errors import ErrorCode, KafkaError

    refused: list[str] = []
    unknown: list[str] = []
    gone: list[str] = []

    async def work(cluster: "ClusterClient") -> None:
        for name in names:
            try:
                await cluster.delete_topic(name)
                gone.append(name)
            except KafkaError as error:
                missing = error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if missing and not if_exists:
                    unknown.append(name)
                    refused.append(await explained(cluster, KafkaError(error.code, name)))
                elif not missing:
                    refused.append(refusal(name, error.code, error.message))

    with_cluster(bootstrap, work)
    rows = [{"topic": name, "deleted": name in gone} for name in names]
    tell(rows, output, *(f"{name} deleted" for name in gone))
    fail_if_any(refused, Exit.NOT_FOUND if len(unknown) == len(refused) else Exit.FAILED)
