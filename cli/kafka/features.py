"""`kafka-features`. Source: Kafka's FeatureCommand."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from kvorum.cli.configs.features import outcome_lines
from kvorum.cli.kafka.common import Connection, connected
from kvorum.cli.output import fail, say

if TYPE_CHECKING:
    from kvorum.client.features import FeatureRow, UpgradeType
    from kvorum.client.wire.cluster_client import ClusterClient
    from kvorum.protocol.errors import KafkaError


@click.group("kafka-features")
@connected(controller=True)
def features(connection: Connection) -> None:
    """Describe, upgrade, downgrade and disable features; the cluster is named before the action.

    \b
    kvorum kafka-features --bootstrap-server localhost:9092 describe
    kvorum kafka-features --bootstrap-server localhost:9092 upgrade --feature transaction.version=2 --dry-run
    """
    click.get_current_context().obj = connection


@features.command()
@click.option("--node-id", type=click.IntRange(0), help="Query this broker.")
@click.pass_obj
def describe(connection: Connection, node_id: int | None) -> None:
    """Print the features.

    \b
    kvorum kafka-features --bootstrap-server localhost:9092 describe
    """
    from kvorum.cli.configs.feature_levels import level_name

    async def work(cluster: "ClusterClient") -> "list[FeatureRow]":
        from kvorum.client.features import describe_features

        address = None if node_id is None else await cluster.broker_address(node_id)
        return await describe_features(cluster, address)

    for row in connection.run(work):
        lowest, highest = level_name(row.feature, row.min_supported), level_name(row.feature, row.max_supported)
        say(
            f"Feature: {row.feature:<40}  SupportedMinVersion: {lowest:<15}  SupportedMaxVersion: {highest:<15}"
            f"  FinalizedVersionLevel: {level_name(row.feature, row.finalized):<15}"
            f"  Epoch: {'-' if row.epoch is None else row.epoch}"
        )


def change_options(command: Any) -> Any:
    """Add the options for the levels."""
    command = click.option("--dry-run", is_flag=True)(command)
    command = click.option("--metadata", metavar="RELEASE", help="Deprecated: metadata.version, by name.")(command)
    command = click.option("--release-version", metavar="RELEASE", help="All features of a release.")(command)
    return click.option("--feature", "levels", multiple=True, metavar="FEATURE=LEVEL")(command)


@features.command()
@change_options
@click.pass_obj
def upgrade(
    connection: Connection, levels: tuple[str, ...], release_version: str | None, metadata: str | None, dry_run: bool
) -> None:
    """Upgrade features.

    \b
    kvorum kafka-features --bootstrap-server localhost:9092 upgrade --release-version 4.3
    """
    from kvorum.client.features import UpgradeType

    wanted = levels_of("upgrade", levels, release_version, metadata)
    if release_version is not None:  # features that the release does not have are unchanged
        wanted = {feature: level for feature, level in wanted.items() if level > 0}
    change(connection, "upgrade", wanted, UpgradeType.UPGRADE, dry_run)


@features.command()
@change_options
@click.option("--unsafe", is_flag=True, help="Even if metadata is lost.")
@click.pass_obj
def downgrade(
    connection: Connection,
    levels: tuple[str, ...],
    release_version: str | None,
    metadata: str | None,
    dry_run: bool,
    unsafe: bool,
) -> None:
    """Downgrade features.

    \b
    kvorum kafka-features --bootstrap-server localhost:9092 downgrade --feature transaction.version=1
    """
    from kvorum.client.features import UpgradeType

    kind = UpgradeType.UNSAFE_DOWNGRADE if unsafe else UpgradeType.SAFE_DOWNGRADE
    change(connection, "downgrade", levels_of("downgrade", levels, release_version, metadata), kind, dry_run)


@features.command()
@click.option("--feature", "names", multiple=True)
@click.option("--unsafe", is_flag=True)
@click.option("--dry-run", is_flag=True)
@click.pass_obj
def disable(connection: Connection, names: tuple[str, ...], unsafe: bool, dry_run: bool) -> None:
    """Set features to level 0.

    \b
    kvorum kafka-features --bootstrap-server localhost:9092 disable --feature group.version
    """
    from kvorum.client.features import UpgradeType

    if not names:
        raise click.UsageError("You must specify at least one feature to disable")
    kind = UpgradeType.UNSAFE_DOWNGRADE if unsafe else UpgradeType.SAFE_DOWNGRADE
    change(connection, "disable", dict.fromkeys(names, 0), kind, dry_run)


@features.command("version-mapping")
@click.option("--release-version")
def version_mapping(release_version: str | None) -> None:
    """Print the levels of a release's features.

    \b
    kvorum kafka-features --bootstrap-server localhost:9092 version-mapping --release-version 4.0-IV3
    """
    from kvorum.cli.configs.feature_levels import mapping_lines

    print_levels(lambda: mapping_lines(release_version))


@features.command("feature-dependencies")
@click.option("--feature", "levels", multiple=True, required=True, metavar="FEATURE=LEVEL")
def feature_dependencies(levels: tuple[str, ...]) -> None:
    """Print what features at some levels need of others.

    \b
    kvorum kafka-features --bootstrap-server localhost:9092 feature-dependencies --feature share.version=1
    """
    from kvorum.cli.configs.feature_levels import dependency_lines

    print_levels(lambda: dependency_lines(levels))


def print_levels(lines_of: Callable[[], list[str]]) -> None:
    """Print lines about levels; a level that there is not ends the command."""
    from kvorum.cli.configs.feature_levels import LevelError

    try:
        lines = lines_of()
    except LevelError as error:
        fail(str(error))
    for line in lines:
        say(line)


def levels_of(verb: str, levels: tuple[str, ...], release: str | None, metadata: str | None) -> dict[str, int]:
    """Return the requested levels."""
    from kvorum.cli.configs.feature_levels import (
        METADATA_VERSION,
        LevelError,
        metadata_level,
        parse_levels,
        release_levels,
    )

    if release is not None and (levels or metadata is not None):
        raise click.UsageError("Can not specify `release-version` with other feature flags.")
    try:
        if release is not None:
            return release_levels(release)
        found = parse_levels(levels)
        if metadata is not None:
            say(" `metadata` flag is deprecated and may be removed in a future release.")
            found[METADATA_VERSION] = metadata_level(metadata)
    except LevelError as error:
        raise click.UsageError(str(error)) from None
    if not found:
        raise click.UsageError(f"You must specify at least one feature to {verb}")
    return found


def change(connection: Connection, verb: str, levels: dict[str, int], kind: "UpgradeType", dry_run: bool) -> None:
    """Request other levels, and print the result of each."""

    async def work(cluster: "ClusterClient") -> "dict[str, KafkaError | None]":
        from kvorum.client.features import update_features

        return await update_features(cluster, levels, kind, validate_only=dry_run)

    outcome = connection.run(work)
    for line in outcome_lines(verb, levels, outcome, dry_run):
        say(line)
    failed = sum(error is not None for error in outcome.values())
    if failed:
        fail(f"{failed} out of {len(outcome)} operation(s) failed.")
