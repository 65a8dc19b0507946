"""`kafka-storage`. Source: Kafka's StorageTool."""

import os

import click

from kvorum.cli.kafka.feature_options import print_levels
from kvorum.cli.kafka.storage_format import config_option, format_
from kvorum.cli.local.node import settings_of
from kvorum.cli.output import Exit, say


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


storage.add_command(format_)


@storage.command()
@config_option
def info(config: str) -> None:
    """List the node's directories, their owners and their problems.

    \b
    kvorum kafka-storage info -c server.properties
    """
    from kvorum.cluster.local.formatting import log_directories

    folders = sorted(log_directories(settings_of(config)))
    existing, metadata, problems = read_directories(folders)
    if existing:
        say("Found log directory:" if len(existing) == 1 else "Found log directories:")
        for folder in existing:
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


def read_directories(folders: list[str]) -> tuple[list[str], dict[str, str] | None, list[str]]:
    """Return the existing folders, the first meta.properties among them, and the problems."""
    from kvorum.runtime.disk import OsDisk
    from kvorum.storage.checkpoints import META_PROPERTIES, CheckpointError, read_meta_properties

    existing, first, problems = [], None, []
    for folder in folders:
        if not os.path.isdir(folder):
            problems.append(f"{folder} {'is not a directory' if os.path.exists(folder) else 'does not exist'}")
            continue
        existing.append(folder)
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
        return existing, None, problems
    cluster_id, node_id, directory_id = first
    metadata = {"version": "1", "cluster.id": cluster_id, "node.id": str(node_id), "directory.id": str(directory_id)}
    return existing, metadata, problems
