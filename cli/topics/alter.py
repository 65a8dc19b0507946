"""`kvorum topics alter`: partitions, replication factor and configs of a topic in one command."""

from typing import TYPE_CHECKING

import click

from kvorum.cli.completion import topic_config_keys, topic_names
from kvorum.cli.connection.client import bootstrap_option, with_cluster
from kvorum.cli.output import output_option, pairs, tell

if TYPE_CHECKING:
    from kvorum.client.wire.cluster_client import ClusterClient


@click.command()
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
    from kvorum.client.reassignments.replica_count import begin, plan_replication_factor
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
            resizing = await plan_replication_factor(cluster, await cluster.topic(name), replication_factor)
        if partitions is not None:
            if changes:
                await cluster.alter_configs(ResourceType.TOPIC, name, changes, validate_only=True)
            await cluster.create_partitions(name, partitions)
        if changes:
            await cluster.alter_configs(ResourceType.TOPIC, name, changes)
        if resizing is not None and resizing.target:
            await begin(cluster, resizing.target)
        return [key for key in deleted if key not in there]

    for key in with_cluster(bootstrap, work):
        # As kafka-configs since 4.3: not an error, since the result is as wanted. But a misspelt name must be visible.
        click.echo(f"warning: {key} was not set on {name}", err=True)
    set_to = {change.name: change.value for change in changes if change.operation is ConfigOperation.SET}
    done = {"topic": name, "partitions": partitions, "replication_factor": replication_factor}
    tell({**done, "set": set_to, "deleted": list(deleted)}, output, f"{name} altered")
