"""`kvorum security check`: judges a configuration file."""

import os
import stat

import click

from kvorum.cli.configs.shipped import ConfigFile
from kvorum.cli.local.folders import end_command
from kvorum.cli.output import Exit, output_option, show, warn


@click.group()
def security() -> None:
    """Check the security of a configuration.

    \b
    kvorum security check node.properties
    """


@security.command()
@click.argument("path", type=ConfigFile(), metavar="CONFIG")
@output_option
def check(path: str, output: str) -> None:
    """List what is open, weak, expires soon or can be read by others, in a node's file or a cluster file.

    The exit code is 1 if there is a finding. A configuration that cannot work is reported as by
    `kvorum configs validate`.

    \b
    kvorum security check node.properties
    kvorum security check cluster.yaml -o json
    """
    from datetime import UTC, datetime

    from kvorum.cli.configs.files import load_any, settings_of_nodes
    from kvorum.runtime.config import ConfigError
    from kvorum.security.review import review_config_file, review_node

    rows = []
    try:
        warnings, _ = load_any(path)
        for name, settings in settings_of_nodes(path).items():
            for each in (
                *review_node(settings, datetime.now(UTC), mode_of),
                *review_config_file(path, settings, mode_of),
            ):
                rows.append({"kind": each.kind.value, "node": name, "where": each.where, "problem": each.problem})
    except ConfigError as error:
        end_command(error, path)
    for warning in warnings:
        warn(warning)
    if rows or output != "table":
        show(rows, output)
    else:
        click.echo(f"{path}: no finding")
    raise SystemExit(Exit.FAILED if rows else Exit.DONE)


def mode_of(path: str) -> int | None:
    """Return the permissions of a file, None if it is not there."""
    try:
        return stat.S_IMODE(os.stat(path).st_mode)
    except OSError:
        return None
