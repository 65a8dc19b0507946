"""Example files that are installed with Kvorum, and `kvorum init`, which writes one of them."""

import os
from pathlib import Path
from typing import Any, Final

import click

from kvorum.cli.output import fail

ROOT: Final = Path(__file__).resolve().parent.parent.parent
FOLDER: Final = "configs"
EXAMPLES: Final = {"1": f"{FOLDER}/single.yaml", "3": f"{FOLDER}/three-nodes.yaml"}
MACHINES: Final = f"{FOLDER}/three-machines.yaml"


class ConfigFile(click.Path):
    """An existing file; configs/NAME also names a file that is installed with Kvorum, if there is none here."""

    def __init__(self) -> None:
        """Accept files only."""
        super().__init__(exists=True, dir_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        text = os.fspath(value)
        shipped = ROOT / text
        if text.startswith(f"{FOLDER}/") and ".." not in Path(text).parts and not os.path.exists(text):
            value = str(shipped) if shipped.is_file() else value
        return super().convert(value, param, ctx)


@click.command()
@click.argument("file", type=click.Path(dir_okay=False), metavar="FILE", default="cluster.yaml")
@click.option(
    "-n", "--nodes", type=click.Choice(list(EXAMPLES)), default="3", show_default=True, help="Number of nodes."
)
@click.option("--machines", is_flag=True, help="Three nodes on three machines, with TLS and users.")
def init(file: str, nodes: str, machines: bool) -> None:
    """Write a commented cluster file, cluster.yaml by default. An existing file is not overwritten.

    \b
    kvorum init cluster.yaml
    kvorum up cluster.yaml --dir ./data
    kvorum init cluster.yaml --machines
    """
    example = MACHINES if machines else EXAMPLES[nodes]
    try:
        with open(file, "x", encoding="utf-8") as target:
            target.write((ROOT / example).read_text(encoding="utf-8").replace(example, file))
    except FileExistsError:
        fail(f"{file} exists already; give another name")
    if machines:
        click.echo(
            f"wrote {file}: set the hosts, then print each node's file: kvorum configs render {file} --node NAME"
        )
    else:
        click.echo(f"wrote {file}: {nodes} node{'' if nodes == '1' else 's'}; start it with: kvorum up {file}")
