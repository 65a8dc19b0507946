"""`kvorum configs validate`: checks configuration files."""

import click

from kvorum.cli.configs.shipped import ConfigFile
from kvorum.cli.local.folders import end_command


def warnings_of_keys(path: str) -> tuple[str, ...]:
    """Return the warnings about single keys of an invalid file: a file of an older Kafka has many."""
    from kvorum.runtime.config import ConfigError
    from kvorum.runtime.config_files import load_node

    try:
        return load_node(path, check=False).warnings
    except ConfigError:
        return ()


@click.command()
@click.argument("path", type=ConfigFile())
def validate(path: str) -> None:
    """Validate a node's configuration or a cluster file and report errors with their lines.

    \b
    kvorum configs validate configs/three-nodes.yaml
    kvorum configs validate node.properties
    """
    from kvorum.cli.configs.files import load_any
    from kvorum.runtime.config import ConfigError

    try:
        warnings, what = load_any(path)
    except ConfigError as error:
        for warning in warnings_of_keys(path):
            click.echo(f"warning: {warning}", err=True)
        end_command(error, path)
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)
    click.echo(f"{path}: {what}")
