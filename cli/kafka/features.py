"""`kafka-features`. Source: Kafka's FeatureCommand."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from kvorum.cli.kafka.common import Connection, connection_options
from kvorum.cli.kafka.feature_options import change_options, print_levels, requested_levels
from kvorum.cli.output import fail, say

if TYPE_CHECKING:
    from kvorum.client.values.feature import Feature
    from kvorum.client.wire.cluster_client import ClusterClient
    from kvorum.protocol.errors import KafkaError


@click.group("kafka-features")
@connection_options(controller=True)
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

    async def work(cluster: "ClusterClient") -> "Sequence[Feature]":
        from kvorum.client.namespaces.features import Features

        return await Features(cluster).list(node_id)

    for row in connection.run(work):
        lowest, highest = level_name(row.name, row.min_supported), level_name(row.name, row.max_supported)
        say(
            f"Feature: {row.name:<40}  SupportedMinVersion: {lowest:<15}  SupportedMaxVersion: {highest:<15}"
            f"  FinalizedVersionLevel: {level_name(row.name, row.finalized):<15}"
            f"  Epoch: {'-' if row.epoch is None else row.epoch}"
        )


@features.command()
@change_options
@click.pass_obj
def upgrade(connection: Connection, /, dry_run: bool, **levels: Any) -> None:
    """Upgrade features.

    \b
    kvorum kafka-features --bootstrap-server localhost:9092 upgrade --release-version 4.3
    """
    wanted = requested_levels("upgrade", **levels)
    if levels["release_version"] is not None:  # features that the release does not have are unchanged
        wanted = {feature: level for feature, level in wanted.items() if level > 0}
    update(connection, "upgrade", wanted, dry_run)


@features.command()
@change_options
@click.option("--unsafe", is_flag=True, help="Even if metadata is lost.")
@click.pass_obj
def downgrade(connection: Connection, /, dry_run: bool, unsafe: bool, **levels: Any) -> None:
    """Downgrade features.

    \b
    kvorum kafka-features --bootstrap-server localhost:9092 downgrade --feature transaction.version=1
    """
    update(connection, "downgrade", requested_levels("downgrade", **levels), dry_run, unsafe)


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
    if not names:
        raise click.UsageError("You must specify at least one feature to disable")
    update(connection, "disable", dict.fromkeys(names, 0), dry_run, unsafe)


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


def update(connection: Connection, verb: str, levels: dict[str, int], dry_run: bool, unsafe: bool = False) -> None:
    """Request other levels, and print the result of each."""

    async def work(cluster: "ClusterClient") -> "dict[str, KafkaError | None]":
        from kvorum.client.features import UpgradeType, update_features

        downgrade = UpgradeType.UNSAFE_DOWNGRADE if unsafe else UpgradeType.SAFE_DOWNGRADE
        kind = UpgradeType.UPGRADE if verb == "upgrade" else downgrade
        return await update_features(cluster, levels, kind, validate_only=dry_run)

    errors = connection.run(work)
    for feature, error in sorted(errors.items()):
        to = "" if verb == "disable" else f" to {levels[feature]}"
        if error is None:
            say(f"{feature} {'can be' if dry_run else 'was'} {verb}d{to}.")
        else:
            say(f"{'Can not' if dry_run else 'Could not'} {verb} {feature}{to}. {error.message or error}")
    failed = sum(error is not None for error in errors.values())
    if failed:
        fail(f"{failed} out of {len(errors)} operation(s) failed.")
