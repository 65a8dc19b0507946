"""`kvorum features`: what Kafka's kafka-features.sh does."""

from typing import TYPE_CHECKING, Any

import click

from kvorum.cli.completion import broker_ids
from kvorum.cli.connection.client import bootstrap_option, with_cluster
from kvorum.cli.output import Exit, fail, output_option, show, tell

if TYPE_CHECKING:
    from kvorum.client.features import UpgradeType
    from kvorum.client.wire.cluster_client import ClusterClient
    from kvorum.protocol.errors import KafkaError

COLUMNS = ("feature", "min_supported", "max_supported", "finalized", "epoch")


@click.group()
def features() -> None:
    """Describe and change the feature levels of a cluster.

    \b
    kvorum features describe
    kvorum features upgrade --feature transaction.version=2 --dry-run
    """


@features.command()
@click.option("--node-id", type=click.IntRange(0), help="Query this node.", shell_complete=broker_ids)
@bootstrap_option
@output_option
def describe(node_id: int | None, bootstrap: str, output: str) -> None:
    """Show the supported and the current level of each feature.

    \b
    kvorum features describe -o json
    """
    from kvorum.cli.configs.feature_levels import level_name

    async def work(cluster: "ClusterClient") -> list[dict[str, Any]]:
        from kvorum.client.features import describe_features

        address = None if node_id is None else await cluster.broker_address(node_id)
        return [row._asdict() for row in await describe_features(cluster, address)]

    rows = with_cluster(bootstrap, work)
    if output == "table":
        for row in rows:
            for name in ("min_supported", "max_supported", "finalized"):
                row[name] = level_name(row["feature"], row[name])
    show(rows, output, COLUMNS)


def change_options(command: Any) -> Any:
    """Add the options for the levels."""
    command = click.option("--dry-run", is_flag=True, help="Validate only.")(command)
    command = click.option("--release", help="All features of this release: 4.3, 4.0-IV3, ...")(command)
    return click.option("-f", "--feature", "levels", multiple=True, metavar="FEATURE=LEVEL", help="Repeatable.")(
        command
    )


@features.command()
@change_options
@bootstrap_option
@output_option
def upgrade(levels: tuple[str, ...], release: str | None, dry_run: bool, bootstrap: str, output: str) -> None:
    """Upgrade features.

    \b
    kvorum features upgrade --feature transaction.version=2 --dry-run
    kvorum features upgrade --release 4.3
    """
    from kvorum.client.features import UpgradeType

    wanted = wanted_levels(levels, release)
    if release is not None:  # features that the release does not have are unchanged
        wanted = {name: level for name, level in wanted.items() if level > 0}
    change("upgrade", wanted, UpgradeType.UPGRADE, dry_run, bootstrap, output)


@features.command()
@change_options
@click.option("--unsafe", is_flag=True, help="Even if metadata is lost.")
@bootstrap_option
@output_option
def downgrade(
    levels: tuple[str, ...], release: str | None, dry_run: bool, unsafe: bool, bootstrap: str, output: str
) -> None:
    """Downgrade features.

    \b
    kvorum features downgrade --feature transaction.version=1
    """
    from kvorum.client.features import UpgradeType

    kind = UpgradeType.UNSAFE_DOWNGRADE if unsafe else UpgradeType.SAFE_DOWNGRADE
    change("downgrade", wanted_levels(levels, release), kind, dry_run, bootstrap, output)


@features.command()
@click.argument("names", nargs=-1, required=True, metavar="FEATURE...")
@click.option("--dry-run", is_flag=True, help="Validate only.")
@click.option("--unsafe", is_flag=True, help="Even if metadata is lost.")
@bootstrap_option
@output_option
def disable(names: tuple[str, ...], dry_run: bool, unsafe: bool, bootstrap: str, output: str) -> None:
    """Set features to level 0.

    \b
    kvorum features disable group.version --dry-run
    """
    from kvorum.client.features import UpgradeType

    kind = UpgradeType.UNSAFE_DOWNGRADE if unsafe else UpgradeType.SAFE_DOWNGRADE
    change("disable", dict.fromkeys(names, 0), kind, dry_run, bootstrap, output)


@features.command("version-mapping")
@click.argument("release", required=False)
@output_option
def version_mapping(release: str | None, output: str) -> None:
    """Show the feature levels of a release (default: the newest).

    \b
    kvorum features version-mapping 4.0-IV3 -o json
    """
    from kvorum.cli.configs.feature_levels import METADATA_LEVELS, LevelError, mapping_lines, release_levels

    try:
        given = list(METADATA_LEVELS)[-1] if release is None else release
        tell(release_levels(given), output, *mapping_lines(release))
    except LevelError as error:
        fail(str(error), Exit.NOT_FOUND)


@features.command()
@click.argument("levels", nargs=-1, required=True, metavar="FEATURE=LEVEL...")
@output_option
def dependencies(levels: tuple[str, ...], output: str) -> None:
    """Show dependencies between feature levels.

    \b
    kvorum features dependencies eligible.leader.replicas.version=1
    """
    from kvorum.cli.configs.feature_levels import DEPENDENCIES, LevelError, dependency_lines, parse_levels

    try:
        lines = dependency_lines(levels)
        wanted = parse_levels(levels).items()
    except LevelError as error:
        fail(str(error), Exit.USAGE)
    rows = [{"feature": name, "level": level, "needs": DEPENDENCIES.get((name, level))} for name, level in wanted]
    tell(rows, output, *lines)


def wanted_levels(levels: tuple[str, ...], release: str | None) -> dict[str, int]:
    """Return the requested levels."""
    from kvorum.cli.configs.feature_levels import LevelError, parse_levels, release_levels

    if bool(levels) == (release is not None):
        raise click.UsageError("give --feature or --release")
    try:
        return parse_levels(levels) if release is None else release_levels(release)
    except LevelError as error:
        raise click.UsageError(str(error)) from None


def change(verb: str, levels: dict[str, int], kind: "UpgradeType", dry_run: bool, bootstrap: str, output: str) -> None:
    """Request other levels, and print the result of each."""

    async def work(cluster: "ClusterClient") -> "dict[str, KafkaError | None]":
        from kvorum.client.features import update_features

        return await update_features(cluster, levels, kind, validate_only=dry_run)

    outcome = with_cluster(bootstrap, work)
    rows = [
        {
            "feature": name,
            "level": levels[name],
            "changed": error is None and not dry_run,
            "error": None if error is None else str(error),
        }
        for name, error in sorted(outcome.items())
    ]
    tell(rows, output, *outcome_lines(verb, levels, outcome, dry_run))
    failed = sum(error is not None for error in outcome.values())
    if failed:
        fail(f"{failed} out of {len(outcome)} operation(s) failed.")


def outcome_lines(
    verb: str, levels: dict[str, int], outcome: "dict[str, KafkaError | None]", dry_run: bool
) -> list[str]:
    """Return the result of each feature, in Kafka's words (FeatureCommand)."""
    lines = []
    for feature, error in sorted(outcome.items()):
        to = "" if verb == "disable" else f" to {levels[feature]}"
        if error is None:
            lines.append(f"{feature} {'can be' if dry_run else 'was'} {verb}d{to}.")
        else:
            lines.append(f"{'Can not' if dry_run else 'Could not'} {verb} {feature}{to}. {error.message or error}")
    return lines
