"""Levels of features in options, shared by `kafka-features` and `kafka-storage`. Source: Kafka's FeatureCommand."""

from collections.abc import Callable
from typing import Any

import click

from kvorum.cli.output import fail, say


def change_options(command: Any) -> Any:
    """Add the options for the levels."""
    command = click.option("--dry-run", is_flag=True)(command)
    command = click.option("--metadata", metavar="RELEASE", help="Deprecated: metadata.version, by name.")(command)
    command = click.option("--release-version", metavar="RELEASE", help="All features of a release.")(command)
    return click.option("--feature", "levels", multiple=True, metavar="FEATURE=LEVEL")(command)


def requested_levels(
    verb: str, levels: tuple[str, ...], release_version: str | None, metadata: str | None
) -> dict[str, int]:
    """Return the requested levels."""
    from kvorum.cli.configs.feature_levels import (
        METADATA_VERSION,
        LevelError,
        metadata_level,
        parse_levels,
        release_levels,
    )

    if release_version is not None and (levels or metadata is not None):
        raise click.UsageError("Can not specify `release-version` with other feature flags.")
    try:
        if release_version is not None:
            return release_levels(release_version)
        found = parse_levels(levels)
        if metadata is not None:
            say(" `metadata` flag is deprecated and may be removed in a future release.")
            found[METADATA_VERSION] = metadata_level(metadata)
    except LevelError as error:
        raise click.UsageError(str(error)) from None
    if not found:
        raise click.UsageError(f"You must specify at least one feature to {verb}")
    return found


def print_levels(lines_of: Callable[[], list[str]]) -> None:
    """Print lines about levels; a level that there is not ends the command."""
    from kvorum.cli.configs.feature_levels import LevelError

    try:
        lines = lines_of()
    except LevelError as error:
        fail(str(error))
    for line in lines:
        say(line)
