"""`kvorum features version-mapping` and `dependencies`: the tables of Kafka's releases, without a cluster."""

import click

from kvorum.cli.output import Exit, fail, output_option, tell


@click.command("version-mapping")
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


@click.command()
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
