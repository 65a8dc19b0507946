"""`kvorum features`: what Kafka's kafka-features.sh does."""

from typing import TYPE_CHECKING, Any

import click

from kvorum.cli.client import bootstrap_option, with_cluster
from kvorum.cli.output import fail, output_option, show

if TYPE_CHECKING:
    from kvorum.admin.client import ClusterClient
    from kvorum.admin.features import UpgradeType
    from kvorum.protocol.errors import KafkaError

COLUMNS = ("feature", "min_supported", "max_supported", "finalized", "epoch")


@click.group()
def features() -> None:
    """Describe the features of a cluster, and put them to other levels.

    \b
    kvorum features describe
    kvorum features upgrade --feature transaction.version=2 --dry-run
    """


@features.command()
@bootstrap_option
@output_option
def describe(bootstrap: str, output: str) -> None:
    """Show the levels that are supported and the one in use, feature by feature.

    \b
    kvorum features describe -o json
    """
    from kvorum.cli.feature_levels import level_name

    async def work(cluster: "ClusterClient") -> list[dict[str, Any]]:
        from kvorum.admin.features import describe_features

        return [row._asdict() for row in await describe_features(cluster)]

    rows = with_cluster(bootstrap, work)
    if output == "table":
        for row in rows:
            for name in ("min_supported", "max_supported", "finalized"):
                row[name] = level_name(row["feature"], row[name])
    show(rows, output, COLUMNS)


def change_options(command: Any) -> Any:
    """Add what says to which levels."""
    command = click.option("--dry-run", is_flag=True, help="Check, change nothing.")(command)
    command = click.option("--release", help="All features of this release: 4.3, 4.0-IV3, ...")(command)
    return click.option("-f", "--feature", "levels", multiple=True, metavar="FEATURE=LEVEL", help="May be repeated.")(
        command
    )


@features.command()
@change_options
@bootstrap_option
def upgrade(levels: tuple[str, ...], release: str | None, dry_run: bool, bootstrap: str) -> None:
    """Put features to higher levels.

    \b
    kvorum features upgrade --feature transaction.version=2 --dry-run
    kvorum features upgrade --release 4.3
    """
    from kvorum.admin.features import UpgradeType

    wanted = wanted_levels(levels, release)
    if release is not None:  # what the release has not is left as it is
        wanted = {name: level for name, level in wanted.items() if level > 0}
    change("upgrade", wanted, UpgradeType.UPGRADE, dry_run, bootstrap)


@features.command()
@change_options
@click.option("--unsafe", is_flag=True, help="Even if metadata are lost by it.")
@bootstrap_option
def downgrade(levels: tuple[str, ...], release: str | None, dry_run: bool, unsafe: bool, bootstrap: str) -> None:
    """Put features to lower levels.

    \b
    kvorum features downgrade --feature transaction.version=1
    """
    from kvorum.admin.features import UpgradeType

    kind = UpgradeType.UNSAFE_DOWNGRADE if unsafe else UpgradeType.SAFE_DOWNGRADE
    change("downgrade", wanted_levels(levels, release), kind, dry_run, bootstrap)


def wanted_levels(levels: tuple[str, ...], release: str | None) -> dict[str, int]:
    """Return the levels that are asked for."""
    from kvorum.cli.feature_levels import LevelError, parse_levels, release_levels

    if bool(levels) == (release is not None):
        raise click.UsageError("give --feature or --release")
    try:
        return parse_levels(levels) if release is None else release_levels(release)
    except LevelError as error:
        raise click.UsageError(str(error)) from None


def change(verb: str, levels: dict[str, int], kind: "UpgradeType", dry_run: bool, bootstrap: str) -> None:
    """Ask for other levels, and say of each what became of it."""

    async def work(cluster: "ClusterClient") -> "dict[str, KafkaError | None]":
        from kvorum.admin.features import update_features

        return await update_features(cluster, levels, kind, validate_only=dry_run)

    outcome = with_cluster(bootstrap, work)
    for line in outcome_lines(verb, levels, outcome, dry_run):
        click.echo(line)
    failed = sum(error is not None for error in outcome.values())
    if failed:
        fail(f"{failed} out of {len(outcome)} operation(s) failed.")


def outcome_lines(
    verb: str, levels: dict[str, int], outcome: "dict[str, KafkaError | None]", dry_run: bool
) -> list[str]:
    """Say of each feature what became of it, in Kafka's words (FeatureCommand)."""
    lines = []
    for feature, error in sorted(outcome.items()):
        to = "" if verb == "disable" else f" to {levels[feature]}"
        if error is None:
            lines.append(f"{feature} {'can be' if dry_run else 'was'} {verb}d{to}.")
        else:
            lines.append(f"{'Can not' if dry_run else 'Could not'} {verb} {feature}{to}. {error.message or error}")
    return lines
