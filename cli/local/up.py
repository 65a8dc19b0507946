"""`kvorum up`, `down`, `status`: a cluster of a file on this machine."""

import os
from typing import TYPE_CHECKING

import click

from kvorum.cli.configs.shipped import ConfigFile
from kvorum.cli.local.folders import folder_option, open_cluster, patience_options, rebuild_option, stop_timeout_option
from kvorum.cli.output import Exit, fail, output_option, show

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvorum.runtime.cluster_file import ClusterSpec


@click.command()
@click.argument("file", type=ConfigFile(), metavar="CLUSTER.yaml")
@folder_option
@click.option("--detach", is_flag=True, help="Run in the background; `kvorum down` stops the nodes.")
@click.option(
    "--set", "settings", multiple=True, metavar="[NODE:]KEY=VALUE", help="Set a config on every node, or on one."
)
@rebuild_option
@patience_options
def up(
    file: str,
    folder: str,
    detach: bool,
    settings: tuple[str, ...],
    rebuild: bool,
    start_seconds: float,
    stop_seconds: float,
) -> None:
    """Start the cluster of CLUSTER.yaml on this machine and wait until every broker is unfenced.

    The folder is formatted on first start. Later changes to the file or --set are ignored, with a warning.

    \b
    kvorum up configs/three-nodes.yaml
    kvorum up configs/three-nodes.yaml --dir ./data --detach; kvorum status --dir ./data; kvorum down --dir ./data
    """
    from kvorum.cli.local.dev import report_start, report_stop
    from kvorum.cli.local.folders import create_cluster
    from kvorum.cluster.local.foreground import RUNNING, ClusterRunError, exit_code_of, run_until_signal
    from kvorum.cluster.local.paths import ClusterPaths

    is_new = not os.path.exists(ClusterPaths(folder).cluster)
    with create_cluster(
        folder, reader_of(file, settings), detach, rebuild, lambda label: port_advice(file, folder)
    ) as cluster:
        if is_new and not rebuild:
            click.echo(f"formatted cluster {cluster.plan.cluster_id} in {folder}", err=True)
        cluster.start_seconds, cluster.stop_seconds = start_seconds, stop_seconds
        if not detach:
            code = run_until_signal(cluster, lambda outcome, signals: report_start(cluster, outcome))
            report_stop(cluster, code)
            raise SystemExit(code)
        names = [node.name for node in cluster.plan.nodes if "node" not in cluster.processes(node.name)]
        if not names:
            raise ClusterRunError(f"the cluster in {folder} {RUNNING.format(folder=folder)}")
        outcome = cluster.start(*names)
        report_start(cluster, outcome, foreground=False)
        code = exit_code_of(cluster, outcome)
        if code != Exit.DONE:
            running = [name for name, what in outcome.items() if what != "died"]
            cluster.stop(*outcome)
            if running:
                click.echo(f"kvorum: stopped the nodes that this command had started: {', '.join(running)}", err=True)
    raise SystemExit(code)


def port_advice(file: str, folder: str) -> str:
    """Return what to do where a port cannot be bound."""
    from kvorum.cli.local.dev import has_cluster

    if has_cluster(folder):
        return f"the cluster in {folder} keeps the ports it was formatted with: stop the process that uses this one"
    return f"choose another in {file}, or 0 for a free one"


def reader_of(file: str, settings: tuple[str, ...]) -> "Callable[[str], ClusterSpec]":
    """Return what reads a cluster file for a folder."""

    def read(place: str) -> "ClusterSpec":
        from kvorum.runtime.cluster_file import load_cluster

        spec = load_cluster(file, place, settings)
        if len(spec.hosts) > 1:
            hosts = ", ".join(node.host or f"the machine of {node.name}" for node in spec.nodes)
            fail(
                f"{file} is a cluster on several machines ({hosts}): run `kvorum configs render {file} --node NAME` "
                "for each, then `kvorum format` and `kvorum node` on its machine",
                Exit.USAGE,
            )
        return spec

    return read


@click.command()
@folder_option
@stop_timeout_option
def down(folder: str, stop_seconds: float) -> None:
    """Stop all nodes of the cluster in a folder: a controlled shutdown of each. Ends a `dev` or `up` that runs them.

    \b
    kvorum down --dir ./data
    """
    from kvorum.cluster.local.foreground import end_foreground
    from kvorum.cluster.local.local import ClusterError

    cluster = open_cluster(folder)
    cluster.stop_seconds = stop_seconds
    running = [node.name for node in cluster.plan.nodes if cluster.processes(node.name)]
    for name in cluster.stop():
        click.echo(f"{name} did not stop within {stop_seconds:.0f} s and was killed", err=True)
    try:
        end_foreground(cluster)
    except ClusterError as error:
        fail(str(error))
    stopped = f"stopped {', '.join(running)}" if running else "no node was running"
    click.echo(f"{stopped}; the data is kept in {cluster.paths.folder}")


@click.command()
@folder_option
@output_option
def status(folder: str, output: str) -> None:
    """Show the nodes of the cluster in a folder and their processes. Exit code 1 when one does not run.

    \b
    kvorum status --dir ./data
    kvorum status --dir ./data -o json
    """
    from kvorum.runtime.process import is_stopped

    cluster = open_cluster(folder)
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
