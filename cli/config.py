"""`kvorum config`: configuration files."""

import click

from kvorum.cli.folders import end_command
from kvorum.cli.shipped import ConfigFile


@click.group()
def config() -> None:
    """Check a configuration file.

    \b
    kvorum config validate configs/three-nodes.yaml
    """


def said_of_keys(path: str) -> tuple[str, ...]:
    """Return what is to be said of single keys where the whole cannot be: a file of an older Kafka has many such."""
    from kvorum.runtime.config import ConfigError
    from kvorum.runtime.config_files import load_node

    try:
        return load_node(path, check=False).warnings
    except ConfigError:
        return ()


@config.command()
@click.argument("path", type=ConfigFile())
def validate(path: str) -> None:
    """Validate a node's configuration or a cluster file and report errors with their lines.

    \b
    kvorum config validate configs/three-nodes.yaml
    kvorum config validate node.properties
    """
    from kvorum.cli.files import load_any
    from kvorum.runtime.config import ConfigError

    try:
        warnings, what = load_any(path)
    except ConfigError as error:
        for warning in said_of_keys(path):
            click.echo(f"warning: {warning}", err=True)
        end_command(error, path)
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)
    click.echo(f"{path}: {what}")
