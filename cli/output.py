"""How commands print: tables for people, JSON or YAML for programs; exit codes."""

import json
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import NoReturn, TypeVar

import click

F = TypeVar("F", bound=Callable[..., object])
FORMATS = ("table", "json", "yaml")
Row = Mapping[str, object]


class Exit(IntEnum):
    """What a command's exit code means."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    NOT_FOUND = 4


def output_option(command: F) -> F:
    """Add `-o table|json|yaml`."""
    return click.option("-o", "--output", type=click.Choice(FORMATS), default="table", show_default=True)(command)


def show(rows: Sequence[Row] | Row, output: str, columns: Sequence[str] = ()) -> None:
    """Print rows as a table, or the whole value as JSON or YAML. A lone mapping is printed as name and value."""
    if output == "json":
        click.echo(json.dumps(rows, indent=2, default=str))
    elif output == "yaml":
        import yaml

        plain = json.loads(json.dumps(rows, default=str))
        click.echo(yaml.safe_dump(plain, sort_keys=False), nl=False)
    elif isinstance(rows, Mapping):
        width = max((len(key) for key in rows), default=0)
        for key, value in rows.items():
            click.echo(f"{key:<{width}}  {cell(value)}")
    else:
        table(rows, columns)


def table(rows: Sequence[Row], columns: Sequence[str]) -> None:
    """Print rows under their column names."""
    names = list(columns) or list(rows[0] if rows else [])
    cells = [[cell(row.get(name)) for name in names] for row in rows]
    widths = [max(len(text) for text in column) for column in zip(names, *cells, strict=True)]
    for line in ([name.upper() for name in names], *cells):
        click.echo("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())


def cell(value: object) -> str:
    """Return a value as one cell's text."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return ",".join(str(item) for item in value)
        case dict():
            return ",".join(f"{key}={item}" for key, item in value.items())
        case _:
            return str(value)


def fail(message: str, code: Exit = Exit.FAILED) -> NoReturn:
    """Say on standard error what was wrong, and end."""
    click.echo(f"kvorum: {message}", err=True)
    raise SystemExit(code)


def pairs(values: Sequence[str], option: str) -> dict[str, str]:
    """Read KEY=VALUE options."""
    found: dict[str, str] = {}
    for value in values:
        key, equals, text = value.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{value!r} is not KEY=VALUE", param_hint=option)
        found[key] = text
    return found


def echo_json_line(value: object) -> None:
    """Print one JSON value on a line of its own."""
    click.echo(json.dumps(value, default=str, separators=(",", ":")))
