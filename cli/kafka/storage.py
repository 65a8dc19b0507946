"""`kafka-storage`. Source: Kafka's StorageTool, and its Formatter and DynamicVoters (KIP-853).

The voters of a static quorum are those of `controller.quorum.voters`; where it is not set, the options name the first
voters of a dynamic one. Levels of features are those of the release; other ones
are set by kafka-features once the cluster runs.
"""

import os
from typing import TYPE_CHECKING

import click

from kvorum.cli.kafka.features import print_levels
from kvorum.cli.local.node import FirstVoters, format_folders, settings_of
from kvorum.cli.output import Exit, fail, say

if TYPE_CHECKING:
    from kvorum.runtime.config import Settings

config_option = click.option(
    "-c", "--config", required=True, type=click.Path(exists=True, dir_okay=False), help="Properties file of the node."
)


@click.group("kafka-storage")
def storage() -> None:
    """Format the directories of a node, and look at them.

    \b
    kvorum kafka-storage format -t "$(kvorum kafka-storage random-uuid)" -c server.properties --standalone
    kvorum kafka-storage info -c server.properties
    """


@storage.command("random-uuid")
def random_uuid() -> None:
    """Print a random id for a cluster.

    \b
    kvorum kafka-storage random-uuid
    """
    from kvorum.cluster.local.formatting import new_cluster_id

    say(new_cluster_id())


@storage.command("version-mapping")
@click.option("-r", "--release-version")
def version_mapping(release_version: str | None) -> None:
    """Print the levels of a release's features.

    \b
    kvorum kafka-storage version-mapping --release-version 4.0-IV3
    """
    from kvorum.cli.configs.feature_levels import mapping_lines

    print_levels(lambda: mapping_lines(release_version))


@storage.command("feature-dependencies")
@click.option("-f", "--feature", "levels", multiple=True, required=True, metavar="FEATURE=LEVEL")
def feature_dependencies(levels: tuple[str, ...]) -> None:
    """Print what features at some levels need of others.

    \b
    kvorum kafka-storage feature-dependencies --feature share.version=1
    """
    from kvorum.cli.configs.feature_levels import dependency_lines

    print_levels(lambda: dependency_lines(levels))


@storage.command("format")
@config_option
@click.option("-t", "--cluster-id", required=True)
@click.option("-g", "--ignore-formatted", is_flag=True, help="Skip directories that are already formatted.")
@click.option("-r", "--release-version", help="Release version; only 4.3 is supported.")
@click.option(
    "-f",
    "--feature",
    "levels",
    multiple=True,
    metavar="FEATURE=LEVEL",
    help="Feature level; only the level of this release is supported.",
)
@click.option("-s", "--standalone", is_flag=True, help="Start a dynamic quorum with this controller as the only voter.")
@click.option("-N", "--no-initial-controllers", is_flag=True, help="Join a dynamic quorum as an observer.")
@click.option(
    "-I",
    "--initial-controllers",
    metavar="ID@HOST:PORT:DIRECTORY-ID,...",
    help="Start a dynamic quorum with these voters.",
)
@click.option("-S", "--add-scram", multiple=True, hidden=True)
def format_(
    config: str,
    cluster_id: str,
    ignore_formatted: bool,
    release_version: str | None,
    levels: tuple[str, ...],
    standalone: bool,
    no_initial_controllers: bool,
    initial_controllers: str | None,
    add_scram: tuple[str, ...],
) -> None:
    """Format the node's directories.

    \b
    kvorum kafka-storage format -t CLUSTER-ID -c server.properties --standalone
    kvorum kafka-storage format -t CLUSTER-ID -c server.properties \\
        --initial-controllers 1@a:9093:JEXY6aqzQY-32P5TStzaFg,2@b:9093:MvDxzVmcRsaTz33bUuRU6A
    """
    if standalone + no_initial_controllers + (initial_controllers is not None) > 1:
        raise click.UsageError("give one of --standalone, --no-initial-controllers and --initial-controllers")
    if add_scram:
        raise click.UsageError("--add-scram: credentials are not supported yet")
    check_cluster_id(cluster_id)
    release = checked_release(release_version, levels)
    settings = settings_of(config)
    first = FirstVoters(standalone, initial_controllers, no_initial_controllers)
    formatted, _ = format_folders(settings, cluster_id, None, first, ignore_formatted=ignore_formatted)
    if not formatted:
        say("All of the log directories are already formatted.")
    for each in formatted:
        what = described(settings, each.folder, first)
        say(f"Formatting {what} {each.folder} with metadata.version {release}.")


def check_cluster_id(text: str) -> None:
    """Reject an invalid cluster id."""
    from kvorum.protocol.uuids import Uuid

    try:
        Uuid.parse(text)
    except ValueError as error:
        fail(f"Cluster ID string {text} does not appear to be a valid UUID: {error}")


def checked_release(release: str | None, levels: tuple[str, ...]) -> str:
    """Return the release by name; another than this one's, or another level of a feature, ends the command."""
    from kvorum.cli.configs.feature_levels import METADATA_LEVELS, LevelError, parse_levels, release_levels

    newest = list(METADATA_LEVELS)[-1]
    try:
        own, wanted = release_levels(newest), release_levels(newest if release is None else release)
        wanted |= parse_levels(levels)
    except LevelError as error:
        fail(str(error))
    for feature, level in wanted.items():
        if feature not in own:
            fail(f"Unsupported feature: {feature}. Supported features are: {', '.join(own)}")
        if level != own[feature]:
            fail(
                f"{feature}={level} is not the level of this release ({own[feature]}); "
                "other levels are set by kafka-features once the cluster runs"
            )
    return newest


def described(settings: "Settings", folder: str, first: FirstVoters) -> str:
    """Return what kind of a directory it is."""
    from kvorum.cluster.local.formatting import controller_directory

    if folder not in (settings.str("metadata.log.dir"), controller_directory(settings)):
        return "data directory"
    if not any(first):
        return "metadata directory"
    return f"dynamic metadata {'' if first.observer else 'voter '}directory"


@storage.command()
@config_option
def info(config: str) -> None:
    """List the node's directories, their owners and their problems.

    \b
    kvorum kafka-storage info -c server.properties
    """
    from kvorum.cluster.local.formatting import log_directories

    folders = sorted(log_directories(settings_of(config)))
    there, metadata, problems = looked_at(folders)
    if there:
        say("Found log directory:" if len(there) == 1 else "Found log directories:")
        for folder in there:
            say(f"  {folder}")
        click.echo()
    if metadata is not None:
        pairs = ", ".join(f"{key}={value}" for key, value in sorted(metadata.items()))
        say(f"Found metadata: {{{pairs}}}\n")
    if problems:
        say("Found problem:" if len(problems) == 1 else "Found problems:")
        for problem in problems:
            say(f"  {problem}")
        click.echo()
        raise SystemExit(Exit.FAILED)


def looked_at(folders: list[str]) -> tuple[list[str], dict[str, str] | None, list[str]]:
    """Return the existing folders, the first meta.properties among them, and the problems."""
    from kvorum.runtime.disk import OsDisk
    from kvorum.storage.checkpoints import META_PROPERTIES, CheckpointError, read_meta_properties

    there, first, problems = [], None, []
    for folder in folders:
        if not os.path.isdir(folder):
            problems.append(f"{folder} {'is not a directory' if os.path.exists(folder) else 'does not exist'}")
            continue
        there.append(folder)
        try:
            found = read_meta_properties(OsDisk(), folder)
        except (CheckpointError, OSError) as error:
            problems.append(f"Error loading {os.path.join(folder, META_PROPERTIES)}: {error}")
            continue
        if found is None:
            problems.append(f"{folder} is not formatted.")
        elif first is None:
            first = found
        elif found.cluster_id != first.cluster_id:
            problems.append("Mismatched cluster IDs between storage directories.")
        elif found.node_id != first.node_id:
            problems.append("Mismatched node IDs between storage directories.")
    if first is None:
        return there, None, problems
    cluster_id, node_id, directory_id = first
    metadata = {"version": "1", "cluster.id": cluster_id, "node.id": str(node_id), "directory.id": str(directory_id)}
    return there, metadata, problems
