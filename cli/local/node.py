"""`kvorum node` and `kvorum format`: one node from its configuration file."""

import os
import sys
from typing import TYPE_CHECKING, NamedTuple

import click

from kvorum.cli.local.folders import end_command, require_linux
from kvorum.cli.output import fail, warn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvorum.cluster.local.formatting import FormattedDirectory, InitialController
    from kvorum.quorum.records import MetadataRecord
    from kvorum.runtime.config import Settings

FOLDER_HELP = "Folder for pid files and chosen ports (default: .kvorum in metadata.log.dir or the first log.dirs)."


add_scram_option = click.option(
    "-S",
    "--add-scram",
    multiple=True,
    metavar="MECHANISM=[name=NAME,password=PASSWORD] | @FILE",
    help="SCRAM credential of a new cluster, equal on all its controllers; FILE has one per line. Repeatable.",
)


@click.command()
@click.argument("config", type=click.Path(exists=True, dir_okay=False))
@click.option("--dir", "folder", help=FOLDER_HELP)
@click.option("--override", multiple=True, metavar="KEY=VALUE", help="Override a config. Repeatable.")
def node(config: str, folder: str | None, override: tuple[str, ...]) -> None:
    """Run one node (its roles, and an admin process if admin.listeners is set) until SIGTERM.

    The node must be formatted. Logs are written to standard error. SIGTERM starts a controlled shutdown.

    \b
    kvorum format node.properties --cluster-id "$(kvorum format --random-id)"
    kvorum node node.properties
    """
    from kvorum.cluster.process.child import main

    require_linux()
    arguments = ["node", "--config", config, "--dir", folder or folder_of(config, override), "--log-to-stderr"]
    for item in override:
        arguments += ["--override", item]
    sys.exit(main(arguments))


def folder_of(config: str, override: tuple[str, ...]) -> str:
    """Return the node's own folder in its metadata log directory."""
    from kvorum.cluster.local.formatting import node_folder

    return os.path.abspath(node_folder(settings_of(config, override)))


@click.command("format")
@click.argument("config", type=click.Path(exists=True, dir_okay=False), required=False)
@click.option("-t", "--cluster-id", help="Cluster id, equal on all nodes.")
@click.option("--random-id", is_flag=True, help="Print a random cluster id and exit.")
@click.option(
    "-g",
    "--ignore-formatted",
    is_flag=True,
    help="Skip directories that are formatted for this node; format only missing ones.",
)
@click.option("-s", "--standalone", is_flag=True, help="Start a dynamic quorum with this controller as the only voter.")
@click.option(
    "-I",
    "--initial-controllers",
    "initial",
    metavar="ID@HOST:PORT:DIRECTORY_ID,...",
    help="Start a dynamic quorum with these voters; use the same list for all controllers.",
)
@click.option("-N", "--no-initial-controllers", "observer", is_flag=True, help="Join a dynamic quorum, as an observer.")
@add_scram_option
@click.option("--dir", "folder", help=FOLDER_HELP)
@click.option("--override", multiple=True, metavar="KEY=VALUE", help="Override a config. Repeatable.")
def format_(
    config: str | None,
    cluster_id: str | None,
    random_id: bool,
    ignore_formatted: bool,
    standalone: bool,
    initial: str | None,
    observer: bool,
    add_scram: tuple[str, ...],
    folder: str | None,
    override: tuple[str, ...],
) -> None:
    """Write meta.properties to the node's directories and choose its ports given as 0. Rejects formatted directories.

    A controller that lost its directory gets a new directory id. It does not vote until the other controllers have
    brought it up to date and readmitted it, which happens automatically while they have a majority (otherwise see
    `kvorum quorum readmit --help`).

    \b
    kvorum format node.properties --cluster-id "$(kvorum format --random-id)"
    kvorum format node.properties --cluster-id ID --ignore-formatted      only missing directories
    kvorum format node.properties --cluster-id ID --standalone            voters can be added later
    kvorum format node.properties --cluster-id ID --no-initial-controllers
    kvorum format node.properties --cluster-id ID --add-scram @users      SCRAM-SHA-512=[name=ann,password=...]
    """
    from kvorum.cluster.local.formatting import new_cluster_id

    if random_id:
        click.echo(new_cluster_id())
        return
    if config is None or cluster_id is None:
        raise click.UsageError("give CONFIG and --cluster-id (--random-id prints one)")
    first = FirstVoters(standalone, initial, observer)
    settings = settings_of(config, override)
    users = scram_records(add_scram)
    formatted, ports = format_folders(
        settings, cluster_id, folder, first, ignore_formatted=ignore_formatted, bootstrap=users
    )
    for each in formatted:
        click.echo(
            f"formatted {each.folder} for node {settings.int('node.id')} of cluster {cluster_id}, "
            f"directory id {each.directory_id}"
        )
    if not formatted:
        click.echo("every directory is formatted already; nothing was done")
    for key, value in ports.items():
        click.echo(f"{key}={value}")


def settings_of(config: str, override: tuple[str, ...] = ()) -> "Settings":
    """Read a node's configuration; an error ends the command."""
    from kvorum.runtime.config import ConfigError
    from kvorum.runtime.config_files import load_node

    try:
        return load_node(config, overrides=override).settings
    except ConfigError as error:
        end_command(error, config)


class FirstVoters(NamedTuple):
    """Options for a dynamic quorum's first voters; at most one of them is set."""

    standalone: bool
    initial: str | None
    """ID@HOST:PORT:DIRECTORY_ID,..."""
    observer: bool


def format_folders(
    settings: "Settings",
    cluster_id: str,
    folder: str | None,
    first: FirstVoters,
    *,
    ignore_formatted: bool,
    bootstrap: "Sequence[MetadataRecord]" = (),
) -> "tuple[list[FormattedDirectory], dict[str, str]]":
    """Format a node's directories and choose its ports; return both, and end the command where it is not possible."""
    from kvorum.cluster.local.formatting import (
        FormatError,
        controller_directory,
        format_node,
        log_directories,
        node_folder,
    )
    from kvorum.cluster.local.paths import NodePaths
    from kvorum.cluster.local.ports import open_ports, read_ports, resolve_ports, write_ports
    from kvorum.runtime.config import ConfigError
    from kvorum.runtime.disk import OsDisk
    from kvorum.storage.checkpoints import CheckpointError

    try:
        paths = NodePaths(os.path.abspath(folder or node_folder(settings)))
        ports = {} if os.path.exists(paths.ports) else resolve_ports(settings)
        chosen = open_ports([f"{key}={text}" for key, text in ports.items()] or read_ports(paths), settings)
        settings = settings.with_overrides(dict(line.split("=", 1) for line in chosen))
        voters = first_voters(settings, first)
        formatted = format_node(
            OsDisk(), settings, cluster_id, ignore_formatted=ignore_formatted, initial=voters, bootstrap=bootstrap
        )
        if ports:
            write_ports(OsDisk(), paths, ports)
    except (ConfigError, FormatError, CheckpointError, OSError) as error:
        end_command(error, folder or ", ".join(log_directories(settings)))
    if bootstrap and controller_directory(settings) not in [each.folder for each in formatted]:
        warn("--add-scram has no effect: no controller was formatted; credentials are those of the controllers' format")
    return formatted, ports


def scram_records(options: tuple[str, ...]) -> "list[MetadataRecord]":
    """Return the records of --add-scram; an error ends the command."""
    from kvorum.cluster.local.add_scram import ScramOptionError, parse_scram_options
    from kvorum.runtime.chance import random_bytes

    try:
        return [user.to_record(random_bytes) for user in parse_scram_options(options, read_text)]
    except (ScramOptionError, UnicodeDecodeError) as error:
        fail(str(error))
    except OSError as error:
        fail(f"--add-scram: {error.filename}: {error.strerror or error}")


def read_text(path: str) -> str:
    """Return a file's text. Raises OSError, UnicodeDecodeError."""
    with open(path, encoding="utf-8") as file:
        return file.read()


def first_voters(settings: "Settings", first: FirstVoters) -> "dict[int, InitialController] | None":
    """Return the first voters of a dynamic quorum as the options name them, None for a static one.

    Raises FormatError where the options and the configuration do not go together, as Kafka's Formatter has it.
    """
    from kvorum.cluster.local import formatting
    from kvorum.runtime.listeners import controller_listener_names, voters

    standalone, initial, observer = first
    chosen = [standalone, initial is not None, observer]
    controller = "controller" in settings.list("process.roles")
    if sum(chosen) > 1:
        raise formatting.FormatError("give one of --standalone, --initial-controllers and --no-initial-controllers")
    if any(chosen) and voters(settings):
        raise formatting.FormatError(
            "controller.quorum.voters defines a static quorum: remove it and set "
            "controller.quorum.bootstrap.servers for a dynamic quorum"
        )
    if not controller:
        if standalone or initial is not None:
            raise formatting.FormatError("this node is not a controller: omit the controller options")
        return None
    if not any(chosen):
        if not voters(settings):
            raise formatting.FormatError(
                "controller.quorum.voters is not set on this controller: give one of --standalone, "
                "--initial-controllers and --no-initial-controllers"
            )
        return None
    if standalone:
        return formatting.standalone(settings)
    return (
        {} if initial is None else formatting.parse_initial_controllers(initial, controller_listener_names(settings)[0])
    )
