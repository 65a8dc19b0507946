"""`kvorum dev`: a cluster on this machine until Ctrl-C."""

from typing import TYPE_CHECKING

import click

from kvorum.cli.folders import rebuild_option
from kvorum.cli.output import pairs, warn

if TYPE_CHECKING:
    from kvorum.cluster.local import LocalCluster
    from kvorum.runtime.cluster_file import ClusterSpec

DEFAULT_PORT = 9092
DEFAULT_FOLDER_VARIABLE = "KVORUM_DIR"


@click.command()
@click.option("-n", "--nodes", default=1, show_default=True, help="How many brokers.")
@click.option(
    "-p",
    "--port",
    default=DEFAULT_PORT,
    type=click.IntRange(0, 65_535),
    show_default=True,
    help="First broker's port; 0: free ones.",
)
@click.option("-d", "--dir", "folder", help="Where to keep the data; without it, a temporary folder.")
@click.option(
    "--set", "settings", multiple=True, metavar="[NODE:]KEY=VALUE", help="Any config, on every node or on one."
)
@click.option(
    "--admin-port", default=0, type=click.IntRange(0, 65_535), help="Port of the admin HTTP API; 0: a free one."
)
@rebuild_option
def dev(nodes: int, port: int, folder: str | None, settings: tuple[str, ...], admin_port: int, rebuild: bool) -> None:
    """Start a throw-away cluster on this machine: nodes node-1 to node-N on ports P to P+N-1.

    Every node is a broker. The controllers are among them: one of 1 or 2 nodes, three of 3 or 4, five of more. The
    other nodes are brokers only.

    \b
    kvorum dev
    kvorum dev --nodes 3 --port 0 --set min.insync.replicas=2
    kvorum dev --nodes 2 --set node-1:broker.rack=a --set node-2:broker.rack=b
    kvorum dev --nodes 3 --dir ./data           kept; start it again with the same command
    """
    import tempfile

    from kvorum.cli.folders import made_cluster
    from kvorum.cluster.foreground import run_until_told
    from kvorum.runtime.cluster_file import dev_cluster

    pairs(settings, "--set")
    admin = (f"admin.listeners=http://127.0.0.1:{admin_port}",) if admin_port else ()

    def read(place: str) -> "ClusterSpec":
        return dev_cluster(nodes, port, place, (*settings, *admin))

    with (
        tempfile.TemporaryDirectory(prefix="kvorum-dev-", ignore_cleanup_errors=True) as temporary,
        made_cluster(folder or temporary, read, rebuild=rebuild) as cluster,
    ):

        def report(outcome: dict[str, str], told: object) -> None:
            """Say how to reach the cluster, or what failed."""
            report_start(cluster, outcome)

        raise SystemExit(run_until_told(cluster, report))


def report_start(
    cluster: "LocalCluster", outcome: dict[str, str], foreground: bool = True, closing: bool = True
) -> None:
    """Print what became of the start."""
    bad = {name: what for name, what in outcome.items() if what != "ready"}
    for name, what in bad.items():
        logs = [cluster.node(name).log(process) for process in ("node", *cluster.plan.node(name).roles)]
        click.echo(f"kvorum: {name} is not up ({what}); its logs: {', '.join(logs)}", err=True)
        for path in logs:
            tail(path)
    if bad:
        return
    try:
        print_addresses(cluster, outcome, foreground, closing)
    except OSError as error:  # the cluster runs all the same
        warn(f"the addresses cannot be written to standard output: {error}")


def print_addresses(cluster: "LocalCluster", outcome: dict[str, str], foreground: bool, closing: bool) -> None:
    """Print how to reach the cluster and how to stop it."""
    brokers = sum("broker" in node.roles for node in cluster.plan.nodes if node.name in outcome)
    before = [node.name for node in cluster.plan.nodes if node.name not in outcome]
    ran = f" Not waited for, since their processes ran already: {', '.join(before)}." if before else ""
    click.echo(f"{brokers} broker(s) are up and unfenced.{ran}")
    click.echo(f"  bootstrap.servers  {cluster.plan.bootstrap}")
    for url in cluster.plan.admin_urls():
        click.echo(f"  web console        {url}/")
        click.echo(f"  admin HTTP API     {url}/docs")
    click.echo(f"  folder             {cluster.paths.folder}")
    if closing:
        click.echo("Ctrl-C stops it." if foreground else f"kvorum down --dir {cluster.paths.folder} stops it.")


def tail(path: str, lines: int = 5) -> None:
    """Print the last lines of a log on standard error."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file.readlines()[-lines:]:
                click.echo(f"    {line.rstrip()}", err=True)
    except FileNotFoundError:
        return
