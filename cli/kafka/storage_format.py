"""The format action of `kafka-storage`. Source: Kafka's Formatter and DynamicVoters (KIP-853).

The voters of a static quorum are those of `controller.quorum.voters`; where it is not set, the options name the first
voters of a dynamic one. Levels of features are those of the release; other ones are set by
kafka-features once the cluster runs.
"""

from typing import TYPE_CHECKING

import click

from kvorum.cli.local.node import FirstVoters, add_scram_option, format_folders, scram_records, settings_of
from kvorum.cli.output import fail, say

if TYPE_CHECKING:
    from kvorum.runtime.config import Settings

config_option = click.option(
    "-c", "--config", required=True, type=click.Path(exists=True, dir_okay=False), help="Properties file of the node."
)


@click.command("format")
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
@add_scram_option
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
    check_cluster_id(cluster_id)
    release = release_of(release_version, levels)
    settings = settings_of(config)
    first = FirstVoters(standalone, initial_controllers, no_initial_controllers)
    users = scram_records(add_scram)
    formatted, _ = format_folders(settings, cluster_id, None, first, ignore_formatted=ignore_formatted, bootstrap=users)
    if not formatted:
        say("All of the log directories are already formatted.")
    for each in formatted:
        kind = directory_kind(settings, each.folder, first)
        say(f"Formatting {kind} {each.folder} with metadata.version {release}.")


def check_cluster_id(text: str) -> None:
    """Reject an invalid cluster id."""
    from kvorum.protocol.uuids import Uuid

    try:
        Uuid.parse(text)
    except ValueError as error:
        fail(f"Cluster ID string {text} does not appear to be a valid UUID: {error}")


def release_of(release: str | None, levels: tuple[str, ...]) -> str:
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


def directory_kind(settings: "Settings", folder: str, first: FirstVoters) -> str:
    """Return the kind of a directory that was formatted."""
    from kvorum.cluster.local.formatting import controller_directory

    if folder not in (settings.str("metadata.log.dir"), controller_directory(settings)):
        return "data directory"
    if not any(first):
        return "metadata directory"
    return f"dynamic metadata {'' if first.observer else 'voter '}directory"
