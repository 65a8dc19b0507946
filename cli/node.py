"""`kvorum node` and `kvorum format`: one node from its configuration file."""

import os
import sys

import click

from kvorum.cli.folders import require_linux
from kvorum.cli.output import Exit, fail

FOLDER_HELP = (
    "Folder for pid files and chosen ports; without it, .kvorum in metadata.log.dir, else in the first log.dirs."
)


@click.command()
@click.argument("config", type=click.Path(exists=True, dir_okay=False))
@click.option("--dir", "folder", help=FOLDER_HELP)
@click.option("--override", multiple=True, metavar="KEY=VALUE", help="Takes the place of a config. May be repeated.")
def node(config: str, folder: str | None, override: tuple[str, ...]) -> None:
    """Run one node (its roles, and an admin process where admin.listeners is set) until SIGTERM.

    The node must be formatted. Logs go to standard error. SIGTERM is a controlled shutdown.

    \b
    kvorum format node.properties --cluster-id "$(kvorum format --random-id)"
    kvorum node node.properties
    """
    from kvorum.cluster.child import main

    require_linux()
    arguments = ["node", "--config", config, "--dir", folder or folder_of(config, override), "--log-to-stderr"]
    for item in override:
        arguments += ["--override", item]
    sys.exit(main(arguments))


def folder_of(config: str, override: tuple[str, ...]) -> str:
    """Return the node's own folder in its metadata log directory."""
    from kvorum.cluster import exits
    from kvorum.cluster.formatting import node_folder
    from kvorum.runtime.config import ConfigError
    from kvorum.runtime.config_files import load_node

    try:
        return os.path.abspath(node_folder(load_node(config, overrides=override).settings))
    except ConfigError as error:
        fail(str(error), exits.Exit.CONFIG)


@click.command("format")
@click.argument("config", type=click.Path(exists=True, dir_okay=False), required=False)
@click.option("-t", "--cluster-id", help="The cluster's id; every node of a cluster has the same.")
@click.option("--random-id", is_flag=True, help="Only print a random cluster id.")
@click.option(
    "-g",
    "--ignore-formatted",
    is_flag=True,
    help="Leave directories alone that are this node's already; format only those that were lost.",
)
@click.option("--dir", "folder", help=FOLDER_HELP)
@click.option("--override", multiple=True, metavar="KEY=VALUE", help="Takes the place of a config. May be repeated.")
def format_(
    config: str | None,
    cluster_id: str | None,
    random_id: bool,
    ignore_formatted: bool,
    folder: str | None,
    override: tuple[str, ...],
) -> None:
    """Write meta.properties into the node's directories and choose its ports given as 0. Refuses a second time.

    A controller that lost its directory comes back under a new directory id: it neither votes nor counts until the
    others have brought it up to date and taken it in, which they do by themselves while a majority of them lives
    (else see `kvorum quorum readmit --help`).

    \b
    kvorum format node.properties --cluster-id "$(kvorum format --random-id)"
    kvorum format node.properties --cluster-id ID --ignore-formatted      only what was lost
    """
    from kvorum.cluster.formatting import FormatError, format_node, new_cluster_id
    from kvorum.cluster.paths import NodePaths
    from kvorum.cluster.ports import resolve_ports, write_ports
    from kvorum.runtime.config import ConfigError
    from kvorum.runtime.config_files import load_node
    from kvorum.runtime.disk import OsDisk
    from kvorum.storage.checkpoints import CheckpointError

    if random_id:
        click.echo(new_cluster_id())
        return
    if config is None or cluster_id is None:
        raise click.UsageError("give CONFIG and --cluster-id (--random-id prints one)")
    try:
        settings = load_node(config, overrides=override).settings
        paths = NodePaths(os.path.abspath(folder or folder_of(config, override)))
        ports = {} if os.path.exists(paths.ports) else resolve_ports(settings)
        formatted = format_node(OsDisk(), settings, cluster_id, ignore_formatted=ignore_formatted)
        if ports:
            write_ports(OsDisk(), paths, ports)
    except ConfigError as error:
        fail(str(error), Exit.USAGE)
    except (FormatError, CheckpointError, OSError) as error:
        fail(str(error))
    for each in formatted:
        click.echo(
            f"formatted {each.folder} for node {settings.int('node.id')} of cluster {cluster_id}, "
            f"directory id {each.directory_id}"
        )
    if not formatted:
        click.echo("every directory is formatted already; nothing was done")
    for key, value in ports.items():
        click.echo(f"{key}={value}")
