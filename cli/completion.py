"""Shell completion besides commands and options: topics, groups, brokers, configs, nodes, scenarios.

With a short timeout: an unresponsive cluster gives no completions and prints no error.
"""

import contextlib
import io
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import click

from kvorum.cli.connection.client import default_bootstrap, with_cluster

if TYPE_CHECKING:
    from kvorum.client.wire.cluster_client import ClusterClient

TIMEOUT_MS = 1_500
"""A user waits for the completion."""


def names(ctx: click.Context, ask: Callable[["ClusterClient"], Awaitable[list[str]]], typed: str) -> list[str]:
    """Return the names with the typed prefix; none without a cluster."""
    found: list[str] = []
    bootstrap = ctx.params.get("bootstrap") or ctx.params.get("bootstrap_server")
    with contextlib.suppress(SystemExit, click.ClickException), contextlib.redirect_stderr(io.StringIO()):
        found = with_cluster(bootstrap or default_bootstrap(), ask, timeout_ms=TIMEOUT_MS)
    return [name for name in found if name.startswith(typed)]


def topic_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete a topic; internal ones only after their first letter."""

    async def ask(cluster: "ClusterClient") -> list[str]:
        found = (await cluster.metadata()).topics
        return sorted(topic.name or "" for topic in found if incomplete or not topic.is_internal)

    return names(ctx, ask, incomplete)


def group_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete a group."""

    async def ask(cluster: "ClusterClient") -> list[str]:
        from kvorum.client.groups.groups import Groups

        return [listed.group_id for listed in await Groups(cluster).listed()]

    return names(ctx, ask, incomplete)


def broker_ids(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete a broker's id."""

    async def ask(cluster: "ClusterClient") -> list[str]:
        return [str(each.node_id) for each in sorted((await cluster.metadata([])).brokers, key=lambda it: it.node_id)]

    return names(ctx, ask, incomplete)


def topic_config_keys(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete a topic config with the following sign; nothing for an unknown value."""

    async def ask(cluster: "ClusterClient") -> list[str]:
        from kvorum.client.wire.cluster_client import ResourceType

        topics = [topic.name or "" for topic in (await cluster.metadata()).topics]
        found = await cluster.describe_configs(ResourceType.TOPIC, topics[0]) if topics else []
        return sorted(f"{each.name}=" for each in found)

    return names(ctx, ask, incomplete)


def node_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete a node of the cluster in --dir."""
    from kvorum.cluster.local.local import ClusterError, LocalCluster

    folder = ctx.params.get("folder") or os.environ.get("KVORUM_DIR", "kvorum-data")
    with contextlib.suppress(ClusterError, OSError):
        return [node.name for node in LocalCluster.open(folder).plan.nodes if node.name.startswith(incomplete)]
    return []


def scenario_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete a scenario that is shipped."""
    try:
        from kvorum.chaos.scenario.files import shipped
    except ModuleNotFoundError:
        return []
    return sorted(name for name in shipped() if name.startswith(incomplete))
