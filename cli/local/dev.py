"""`kvorum dev`: a cluster on this machine until Ctrl-C."""

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from kvorum.cli.local.folders import rebuild_option
from kvorum.cli.output import pairs, warn

if TYPE_CHECKING:
    from kvorum.cluster.local.local import LocalCluster
    from kvorum.runtime.cluster_file import ClusterSpec

DEFAULT_PORT = 9092
DEFAULT_ADMIN_PORT = 8080
REBALANCE_AT_ONCE = "group.initial.rebalance.delay.ms=0"
"""Kafka's default waits 3 s for more members: too long for developers and tests."""
ADMIN_PORTS_TRIED = 20
"""The default, else the next free one."""
DEFAULT_FOLDER_VARIABLE = "KVORUM_DIR"


@click.command()
@click.option("-n", "--nodes", type=click.IntRange(min=1), default=1, show_default=True, help="Number of brokers.")
@click.option(
    "-p",
    "--port",
    default=DEFAULT_PORT,
    type=click.IntRange(0, 65_535),
    show_default=True,
    help="Port of the first broker; 0: free ports.",
)
@click.option("-d", "--dir", "folder", help="Data directory; without it, a temporary one that is removed at the end.")
@click.option(
    "--set", "settings", multiple=True, metavar="[NODE:]KEY=VALUE", help="Set a config on every node, or on one."
)
@click.option(
    "--admin-port",
    type=click.IntRange(0, 65_535),
    show_default=f"{DEFAULT_ADMIN_PORT}, or the next free one",
    help="Port of the web console and admin HTTP API, on node-1; 0: a free one.",
)
@click.option(
    "--secure", is_flag=True, help="TLS and SCRAM: make certificates, a user, and files with the settings of clients."
)
@rebuild_option
def dev(
    nodes: int,
    port: int,
    folder: str | None,
    settings: tuple[str, ...],
    admin_port: int | None,
    secure: bool,
    rebuild: bool,
) -> None:
    """Start a throw-away cluster on this machine: nodes node-1 to node-N on ports P to P+N-1.

    Every node runs a broker. Controllers run on the first 1, 3 or 5 nodes, for clusters of 1-2, 3-4 and 5+ nodes.
    New groups get their first assignment at once (group.initial.rebalance.delay.ms=0).

    \b
    kvorum dev
    kvorum dev --nodes 3 --port 0 --set min.insync.replicas=2
    kvorum dev --nodes 2 --set node-1:broker.rack=a --set node-2:broker.rack=b
    kvorum dev --nodes 3 --dir ./data           kept; start it again with the same command
    kvorum dev --secure --dir ./data            clients need the files in ./data/security
    """
    import tempfile

    from kvorum.cli.local.folders import create_cluster
    from kvorum.cli.local.secure import DevSecurity
    from kvorum.cluster.local.foreground import run_until_signal
    from kvorum.runtime.cluster_file import DEV_LISTENERS, dev_cluster

    pairs(settings, "--set")
    port_of_admin = free_admin_port(port, nodes) if admin_port is None else admin_port

    def read(place: str) -> "ClusterSpec":
        is_chosen = admin_port is None and has_cluster(place)  # it keeps its port: no difference to warn of
        return dev_cluster(
            nodes,
            port,
            place,
            (REBALANCE_AT_ONCE, *(security.overrides() if security else ()), *settings),
            admin_port=0 if is_chosen else port_of_admin,
            broker_listeners=security.listeners if security else DEV_LISTENERS,
        )

    def advise(label: str) -> str:
        option = "--admin-port" if label.startswith("admin") else "--port"
        return f"choose another with {option}, or {option} 0 for {'a free one' if option[2] == 'a' else 'free ones'}"

    with tempfile.TemporaryDirectory(prefix="kvorum-dev-", ignore_cleanup_errors=True) as temporary:
        place = os.path.abspath(folder or temporary)
        security = DevSecurity(place, nodes) if secure else None
        prepare = security.prepare if security else None
        with create_cluster(place, read, rebuild=rebuild, port_advice=advise, prepare=prepare) as cluster:

            def report(outcome: dict[str, str], signals: object) -> None:
                """Print how to reach the cluster, or what failed."""
                more = security.write_client_files(cluster.plan.bootstrap) if security else []
                report_start(cluster, outcome, is_temporary=folder is None, more=more)

            code = run_until_signal(cluster, report)
            report_stop(cluster, code, is_temporary=folder is None)
            raise SystemExit(code)


def has_cluster(folder: str) -> bool:
    """Return whether a folder contains a cluster that was started before."""
    from kvorum.cluster.local.paths import ClusterPaths

    paths = ClusterPaths(folder)
    return os.path.exists(paths.cluster) and not os.path.exists(paths.never_started_file)


def free_admin_port(first_broker_port: int, brokers: int) -> int:
    """Return the default console port or the next one that is free and no broker's; 0 where none of them is."""
    import socket

    from kvorum.cluster.local.ports import reserve

    for port in range(DEFAULT_ADMIN_PORT, DEFAULT_ADMIN_PORT + ADMIN_PORTS_TRIED):
        if first_broker_port <= port < first_broker_port + brokers:
            continue
        with socket.socket() as trial, suppress(OSError):
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(("127.0.0.1", port))
            reserve(port)  # another cluster that starts at the same moment takes the next one
            return port
    return 0


def report_start(
    cluster: "LocalCluster",
    outcome: dict[str, str],
    foreground: bool = True,
    closing: bool = True,
    is_temporary: bool = False,
    more: Sequence[str] = (),
) -> None:
    """Print how to reach the cluster, and `more` lines; or a line for each node that did not start, with the reason."""
    bad = {name: what for name, what in outcome.items() if what != "ready"}
    for name, what in bad.items():
        click.echo(f"kvorum: {failure_of(cluster, name, what)}", err=True)
    if bad:
        if is_temporary:
            click.echo("kvorum: the logs are deleted with the temporary folder; --dir DIR keeps them", err=True)
        return
    try:
        print_addresses(cluster, outcome, foreground, closing, more)
    except OSError as error:  # the cluster continues
        warn(f"the addresses cannot be written to standard output: {error}")


def report_stop(cluster: "LocalCluster", code: int, is_temporary: bool = False) -> None:
    """Print that a cluster was stopped after a signal, and whether its data were kept."""
    if code == 0:
        data = "its data is removed" if is_temporary else f"its data is kept in {cluster.paths.folder}"
        click.echo(f"Cluster stopped; {data}.", err=True)


def failure_of(cluster: "LocalCluster", name: str, what: str) -> str:
    """Return in one line why a node is not up."""
    reason = cluster.refusals.get(name)
    role = None if reason is None else reason.partition(": ")[0]
    log = cluster.node(name).log(role if role in cluster.plan.node(name).roles or role == "admin" else "node")
    if what == "died":
        return f"{name} did not start: {reason or 'its process ended without an error message'}; log: {log}"
    waits = f", {reason}" if reason else ""
    return f"{name} is not up after {cluster.start_seconds:.0f} s (--start-timeout){waits}; log: {log}"


def print_addresses(
    cluster: "LocalCluster", outcome: dict[str, str], foreground: bool, closing: bool, more: Sequence[str]
) -> None:
    """Print how to reach the cluster and how to stop it."""
    brokers = sum("broker" in node.roles for node in cluster.plan.nodes if node.name in outcome)
    before = [node.name for node in cluster.plan.nodes if node.name not in outcome]
    ran = f" Already running, not checked: {', '.join(before)}." if before else ""
    click.echo(f"{brokers} broker{' is' if brokers == 1 else 's are'} up.{ran}")
    click.echo(f"  bootstrap.servers  {cluster.plan.bootstrap}")
    for url in cluster.plan.admin_urls()[:1]:
        click.echo(f"  web console        {url}/")
        click.echo(f"  admin HTTP API     {url}/docs")
    if others := cluster.plan.admin_urls()[1:]:
        click.echo(f"  also on            {', '.join(others)}")
    click.echo(f"  folder             {cluster.paths.folder}")
    for line in more:
        click.echo(line)
    if closing:
        click.echo("Press Ctrl-C to stop." if foreground else f"Stop it with: kvorum down --dir {cluster.paths.folder}")
