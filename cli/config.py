"""`kvorum config`: configuration files."""

import click

from kvorum.cli.output import fail


@click.group()
def config() -> None:
    """Check a configuration file.

    \b
    kvorum config validate configs/three-nodes.yaml
    """


@config.command()
@click.argument("path", type=click.Path(exists=True, dir_okay=False))
def validate(path: str) -> None:
    """Say what is wrong with a node's configuration or a cluster file: where, and what was meant.

    \b
    kvorum config validate configs/three-nodes.yaml
    kvorum config validate node.properties
    """
    from kvorum.cli.files import load_any
    from kvorum.runtime.config import ConfigError

    try:
        warnings, what = load_any(path)
    except ConfigError as error:
        fail(str(error))
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)
    click.echo(f"{path}: {what}")
