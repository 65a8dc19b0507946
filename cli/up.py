"""`kvorum up`, `down`, `status`: a cluster of a file on this machine."""

from typing import TYPE_CHECKING

import click

from kvorum.cli.nodes import folder_option
from kvorum.cli.output import Exit, fail, output_option, show

if TYPE_CHECKING:
    from kvorum.cluster.local import LocalCluster


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False), metavar="CLUSTER.yaml")
@folder_option
@click.option("--detach", is_flag=True, help="Leave the nodes running and return; `kvorum down` stops them.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Any config, on every node.")
def up(file: str, folder: str, detach: bool, settings: tuple[str, ...]) -> None:
    """Start the cluster of CLUSTER.yaml on this machine and wait until every broker is unfenced.

    The first time, the folder is formatted; afterwards the cluster in it is started as it was made.

    \b
    kvorum up configs/three-nodes.yaml
    kvorum up configs/three-nodes.yaml --dir ./data --detach; kvorum status --dir ./data; kvorum down --dir ./data
    """
    from kvorum.cli.dev import report_start
    from kvorum.cluster.foreground import run_until_told
    from kvorum.runtime.config import ConfigError

    try:
        cluster = cluster_of(file, folder, detach, settings)
    except ConfigError as error:
        fail(str(error), Exit.USAGE)
    if not detach:
        raise SystemExit(run_until_told(cluster, lambda outcome: report_start(cluster, outcome)))
    outcome = cluster.start()
    report_start(cluster, outcome, foreground=False)
    raise SystemExit(Exit.DONE if all(each == "ready" for each in outcome.values()) else Exit.FAILED)


def cluster_of(file: str, folder: str, detach: bool, settings: tuple[str, ...]) -> "LocalCluster":
    """Return the file's cluster in its folder, made when it is not there yet. Raises ConfigError."""
    import os

    from kvorum.cluster.formatting import new_cluster_id
    from kvorum.cluster.local import LocalCluster
    from kvorum.cluster.plan import plan_of
    from kvorum.runtime.cluster_file import load_cluster

    spec = load_cluster(file, os.path.abspath(folder), settings)
    for warning in spec.warnings:
        click.echo(f"warning: {warning}", err=True)
    return LocalCluster.create(folder, plan_of(spec, spec.cluster_id or new_cluster_id()), detached=detach)


@click.command()
@folder_option
def down(folder: str) -> None:
    """Stop all nodes of the cluster in a folder: a controlled shutdown of each.

    \b
    kvorum down --dir ./data
    """
    from kvorum.cluster.local import ClusterError, LocalCluster

    try:
        cluster = LocalCluster.open(folder, detached=True)
    except ClusterError as error:
        fail(str(error), Exit.NOT_FOUND)
    for name in cluster.stop():
        click.echo(f"{name} did not end by itself and was killed", err=True)


@click.command()
@folder_option
@output_option
def status(folder: str, output: str) -> None:
    """Show the nodes of the cluster in a folder and their processes. Exit code 1 when one does not run.

    \b
    kvorum status --dir ./data
    kvorum status --dir ./data -o json
    """
    from kvorum.cluster.local import ClusterError, LocalCluster
    from kvorum.runtime.process import is_stopped

    try:
        cluster = LocalCluster.open(folder)
    except ClusterError as error:
        fail(str(error), Exit.NOT_FOUND)
    rows = []
    for node in cluster.plan.nodes:
        processes = cluster.processes(node.name)
        state = "down" if not processes else "paused" if any(map(is_stopped, processes.values())) else "up"
        if state == "up" and not set(node.roles) <= processes.keys():
            state = "partly up"
        rows.append(
            {
                "node": node.name,
                "roles": node.roles,
                "state": state,
                "pids": {role: process.pid for role, process in processes.items()},
                "listeners": node.properties["listeners"],
            }
        )
    show(rows, output)
    raise SystemExit(Exit.DONE if all(row["state"] == "up" for row in rows) else Exit.FAILED)
