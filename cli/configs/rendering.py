"""`kvorum configs render`: the configuration of one node of a cluster file."""

from typing import TYPE_CHECKING

import click

from kvorum.cli.configs.shipped import ConfigFile
from kvorum.cli.local.folders import end_command
from kvorum.cli.output import Exit, fail, warn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvorum.runtime.cluster_file import ClusterSpec, NodeSpec

DATA = "/var/lib/kvorum"
PATH_ENDINGS = (".location", ".file", ".dir", ".dirs")


@click.command()
@click.argument("file", type=ConfigFile(), metavar="CLUSTER.yaml")
@click.option("-n", "--node", "wanted", required=True, metavar="NAME|ID", help="Name or node id.")
@click.option(
    "-d", "--dir", "folder", default=DATA, show_default=True, help="Parent of NODE/data, where log.dirs is not set."
)
@click.option(
    "--set", "settings", multiple=True, metavar="[NODE:]KEY=VALUE", help="Set a config on every node, or on one."
)
def render(file: str, wanted: str, folder: str, settings: tuple[str, ...]) -> None:
    """Print the properties file of one node of CLUSTER.yaml, for `kvorum format` and `kvorum node` on its machine.

    The whole cluster is checked, except for key and trust stores: `kvorum configs validate` does that on the machine
    of the node. The output contains all secrets of the node.

    \b
    kvorum configs render cluster.yaml --node 2 > node-2.properties
    kvorum configs render cluster.yaml --node node-2 --dir /srv/kvorum
    """
    from kvorum.runtime.cluster_file import load_cluster
    from kvorum.runtime.config import ConfigError

    try:
        spec = load_cluster(file, folder, settings)
    except ConfigError as error:
        end_command(error, file)
    node = node_named(spec, wanted)
    for warning in (*spec.warnings, *relative_paths(node)):
        warn(warning)
    host = f" on {node.host}" if node.host else ""
    cluster_id = spec.cluster_id or "ID"
    click.echo(f"# {node.name}{host} of cluster {spec.name}; rendered from {file}.")
    click.echo(f"# First: kvorum format FILE --cluster-id {cluster_id}; then: kvorum node FILE")
    click.echo(node.properties(), nl=False)


def node_named(spec: "ClusterSpec", wanted: str) -> "NodeSpec":
    """Return a node by name, else by id; an unknown one ends the command."""
    for node in spec.nodes:
        if node.name == wanted:
            return node
    for node in spec.nodes:
        if node.settings.raw("node.id") == wanted:
            return node
    choice = ", ".join(f"{node.name} ({node.settings.raw('node.id')})" for node in spec.nodes)
    fail(f"there is no node {wanted!r}; there are {choice}", Exit.NOT_FOUND)


def relative_paths(node: "NodeSpec") -> "Iterator[str]":
    """Yield warnings about paths that depend on the working directory of `kvorum node`."""
    for key, entry in node.settings.explicit().items():
        paths = [path.strip() for path in entry.text.split(",")]
        if key.endswith(PATH_ENDINGS) and any(path and not path.startswith("/") for path in paths):
            yield f"{node.name}: {key}={entry.text} is relative to the working directory of kvorum node"
