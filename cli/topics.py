"""`kvorum topics`."""

from typing import TYPE_CHECKING, Any

import click

from kvorum.cli.client import bootstrap_option, with_cluster
from kvorum.cli.completion import topic_names
from kvorum.cli.output import Exit, fail, output_option, pairs, show

if TYPE_CHECKING:
    from kvorum.admin.client import ClusterClient
    from kvorum.admin.reassignments import UnderWay
    from kvorum.protocol.messages.metadata import MetadataResponseTopic

UNSET = -1


@click.group()
def topics() -> None:
    """Create, list, describe, alter, delete topics.

    \b
    kvorum topics create orders --partitions 6 --replication-factor 3 --config min.insync.replicas=2
    kvorum topics describe orders -o yaml
    kvorum topics alter orders --partitions 12 --config retention.ms=3600000 --delete-config cleanup.policy
    """


@topics.command()
@click.argument("names", nargs=-1, required=True)
@click.option("-p", "--partitions", type=click.IntRange(1), help="Without it, the cluster's num.partitions.")
@click.option("-r", "--replication-factor", type=click.IntRange(1), help="Without it, the cluster's default.")
@click.option("-c", "--config", "configs", multiple=True, metavar="KEY=VALUE")
@click.option("--if-not-exists", is_flag=True, help="A topic that is there already is fine.")
@click.option("--validate-only", is_flag=True, help="Check, create nothing.")
@bootstrap_option
@output_option
def create(
    names: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
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
    """
    from kvorum.protocol.errors import ErrorCode
    from kvorum.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig

    values = [CreatableTopicConfig(name=key, value=value) for key, value in pairs(configs, "--config").items()]
    factor, count = replication_factor or UNSET, partitions or UNSET
    wanted = [CreatableTopic(name=n, num_partitions=count, replication_factor=factor, configs=values) for n in names]
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


def existing_row(topic: "MetadataResponseTopic") -> dict[str, Any]:
    """Return what `create` shows of a topic that was there already."""
    return {
        "topic": topic.name,
        "topic_id": str(topic.topic_id),
        "partitions": len(topic.partitions),
        "replication_factor": max((len(each.replica_nodes) for each in topic.partitions), default=0),
        "created": False,
    }


def refusal(name: str, code: int, message: str | None) -> str:
    """Return one topic's error as a line."""
    from kvorum.admin.client import code_of

    return f"{name}: {code_of(code).name}: {message or 'refused'}"


def fail_if_any(refused: list[str], code: Exit = Exit.FAILED) -> None:
    """Say which topics were refused, one a line, and end with an error; go on if none was."""
    for line in refused[:-1]:
        click.echo(f"kvorum: {line}", err=True)
    if refused:
        fail(refused[-1], code)


@topics.command("list")
@click.option("--internal", is_flag=True, help="Internal topics too.")
@bootstrap_option
@output_option
def list_(internal: bool, bootstrap: str, output: str) -> None:
    """List topics.

    \b
    kvorum topics list
    kvorum topics list --internal -o json
    """

    from kvorum.admin.places import Place
    from kvorum.admin.replication import is_under_replicated, moving_of, replication_factor

    async def work(cluster: "ClusterClient") -> list[dict[str, Any]]:
        found = [topic for topic in (await cluster.metadata()).topics if internal or not topic.is_internal]
        moving = await moving_of(cluster, found)
        rows = {
            topic.name or "": [(p, moving.get(Place(topic.name or "", p.partition_index))) for p in topic.partitions]
            for topic in found
        }
        return [
            {
                "topic": name,
                "partitions": len(partitions),
                "replication_factor": max((replication_factor(*each) for each in partitions), default=0),
                "under_replicated": sum(is_under_replicated(*each) for each in partitions),
            }
            for name, partitions in sorted(rows.items())
        ]

    show(with_cluster(bootstrap, work), output, ("topic", "partitions", "replication_factor", "under_replicated"))


def on_its_way(moving: "UnderWay | None") -> dict[str, list[int]]:
    """Return which replicas of a partition come and go, for a line of it."""
    return {"adding": [] if moving is None else moving.adding, "removing": [] if moving is None else moving.removing}


@topics.command()
@click.argument("name", shell_complete=topic_names)
@bootstrap_option
@output_option
def describe(name: str, bootstrap: str, output: str) -> None:
    """Describe a topic: partitions, leaders, in-sync and eligible replicas, offsets, configs set on it.

    While it is reassigned also which replicas come and go.

    \b
    kvorum topics describe orders -o yaml
    """
    from kvorum.admin.client import EARLIEST, LATEST, ResourceType
    from kvorum.admin.partition_offsets import topic_offsets
    from kvorum.admin.replication import moving_of
    from kvorum.admin.topic_configs import topic_overrides

    async def work(cluster: "ClusterClient") -> dict[str, Any]:
        topic = await cluster.topic(name)
        configs = topic_overrides(await cluster.describe_configs(ResourceType.TOPIC, name))
        eligible = await cluster.eligible(topic)
        earliest, latest = await topic_offsets(cluster, topic, EARLIEST), await topic_offsets(cluster, topic, LATEST)
        moving = {
            place.partition: each for place, each in (await moving_of(cluster, [topic])).items() if place.topic == name
        }
        rows = [
            {
                "partition": p.partition_index,
                "leader": p.leader_id,
                "epoch": p.leader_epoch,
                "replicas": p.replica_nodes,
                "isr": p.isr_nodes,
                "elr": eligible[p.partition_index].elr,
                "last_known_elr": eligible[p.partition_index].last_known_elr,
                "earliest": earliest[p.partition_index],
                "latest": latest[p.partition_index],
                **({} if not moving else on_its_way(moving.get(p.partition_index))),
            }
            for p in sorted(topic.partitions, key=lambda p: p.partition_index)
        ]
        return {"topic": name, "topic_id": str(topic.topic_id), "configs": configs, "partitions": rows}

    found = with_cluster(bootstrap, work)
    if output == "table":
        rows = found.pop("partitions")
        show(found, output)
        click.echo()
        show(rows, output)
    else:
        show(found, output)


@topics.command()
@click.argument("name", shell_complete=topic_names)
@click.option("-p", "--partitions", type=click.IntRange(1), help="How many there are to be in all.")
@click.option("-c", "--config", "configs", multiple=True, metavar="KEY=VALUE")
@click.option("--delete-config", "deleted", multiple=True, metavar="KEY", help="Back to the default.")
@bootstrap_option
def alter(
    name: str, partitions: int | None, configs: tuple[str, ...], deleted: tuple[str, ...], bootstrap: str
) -> None:
    """Add partitions to a topic, change its configs.

    \b
    kvorum topics alter orders --partitions 12
    kvorum topics alter orders --config retention.ms=3600000 --delete-config cleanup.policy
    """
    from kvorum.admin.client import ConfigChange, ConfigOperation, ResourceType
    from kvorum.admin.topic_configs import topic_overrides

    changes = [ConfigChange(name=key, value=value) for key, value in pairs(configs, "--config").items()]
    changes += [ConfigChange(name=key, operation=ConfigOperation.DELETE) for key in deleted]
    if partitions is None and not changes:
        raise click.UsageError("nothing to change: give --partitions, --config or --delete-config")

    async def work(cluster: "ClusterClient") -> list[str]:
        there = topic_overrides(await cluster.describe_configs(ResourceType.TOPIC, name)) if deleted else {}
        if partitions is not None:
            if changes:  # all of it is checked before any of it is done
                await cluster.alter_configs(ResourceType.TOPIC, name, changes, validate_only=True)
            await cluster.create_partitions(name, partitions)
        if changes:
            await cluster.alter_configs(ResourceType.TOPIC, name, changes)
        return [key for key in deleted if key not in there]

    for key in with_cluster(bootstrap, work):
        # As kafka-configs since 4.3: no error, what was wanted is so. A misspelt name should not pass unseen, though.
        click.echo(f"warning: {key} was not set on {name}", err=True)


@topics.command()
@click.argument("names", nargs=-1, required=True, shell_complete=topic_names)
@click.option("--if-exists", is_flag=True, help="A topic that is not there is fine.")
@bootstrap_option
def delete(names: tuple[str, ...], if_exists: bool, bootstrap: str) -> None:
    """Delete topics with their records.

    \b
    kvorum topics delete orders payments --if-exists
    """
    from kvorum.protocol.errors import ErrorCode, KafkaError

    refused: list[str] = []
    unknown: list[str] = []

    async def work(cluster: "ClusterClient") -> None:
        for name in names:
            try:
                await cluster.delete_topic(name)
            except KafkaError as error:
                missing = error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if not (if_exists and missing):
                    refused.append(refusal(name, error.code, error.message))
                    unknown.extend([name] if missing else [])

    with_cluster(bootstrap, work)
    fail_if_any(refused, Exit.NOT_FOUND if len(unknown) == len(refused) else Exit.FAILED)
