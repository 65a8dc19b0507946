"""Output of commands: tables for people, JSON or YAML for programs; exit codes."""

import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import NoReturn, TypeVar

import click

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
BUT_LAYOUT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
NO_TITLES: Mapping[str, str] = MappingProxyType({})
F = TypeVar("F", bound=Callable[..., object])
FORMATS = ("table", "json", "yaml")
Row = Mapping[str, object]


class Exit(IntEnum):
    """Exit codes of commands."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    NOT_FOUND = 4


def output_option(command: F) -> F:
    """Add `-o table|json|yaml`."""
    return click.option("-o", "--output", type=click.Choice(FORMATS), default="table", show_default=True)(command)


def show(
    rows: Sequence[Row] | Sequence[str] | Row,
    output: str,
    columns: Sequence[str] = (),
    titles: Mapping[str, str] = NO_TITLES,
) -> None:
    """Print rows as a table, or the whole value as JSON or YAML. A lone mapping is printed as name and value.

    `titles` heads columns of a table otherwise than by their name in capitals.
    """
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
        table([row if isinstance(row, Mapping) else {"value": row} for row in rows], columns, titles)


def tell(rows: Sequence[Row] | Row, output: str, *lines: str) -> None:
    """Print the result: in words for people, as JSON or YAML for programs."""
    if output == "table":
        for line in lines:
            click.echo(line)
    else:
        show(rows, output)


def table(rows: Sequence[Row], columns: Sequence[str], titles: Mapping[str, str] = NO_TITLES) -> None:
    """Print rows under their column names."""
    names = list(columns) or list(rows[0] if rows else [])
    cells = [[cell(row.get(name)) for name in names] for row in rows]
    heads = [titles.get(name, name.upper()) for name in names]
    widths = [max(len(text) for text in column) for column in zip(heads, *cells, strict=True)]
    for number, line in enumerate((heads, *cells)):
        text = "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        click.echo(style_text(text, bold=True) if number == 0 else text)


def cell(value: object) -> str:
    """Return a value as one cell's text."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return harmless(",".join(text_of(item) for item in value))
        case dict():
            return harmless(",".join(f"{key}={item}" for key, item in value.items()))
        case _:
            return harmless(str(value))


def text_of(item: object) -> str:
    """Return an item of a list; of a mapping its values."""
    return ":".join(map(cell, item.values())) if isinstance(item, dict) else str(item)


def harmless(text: str) -> str:
    """Return a text that does nothing to a terminal.

    A group's or client's name may be any text: one with a terminal's commands in it is shown, not obeyed.
    """
    return CONTROL.sub(lambda found: repr(found.group())[1:-1], text)


def say(text: str) -> None:
    """Print a line of a script, which may have tabs and empty lines; a terminal gets other control characters escaped.

    In a file or a pipe every character is unchanged: programs read it there.
    """
    stream = sys.stdout
    shown = text if stream is None or not stream.isatty() else BUT_LAYOUT.sub(lambda it: repr(it.group())[1:-1], text)
    raw(shown + "\n")


def raw(text: str) -> None:
    """Print a text unchanged on any output: click.echo removes terminal commands in files and pipes."""
    click.echo(text, nl=False, color=True)


def style_text(text: str, *, err: bool = False, bold: bool = False, color: str | None = None) -> str:
    """Return coloured text on a terminal, plain text otherwise (also with NO_COLOR)."""
    stream = sys.stderr if err else sys.stdout
    if os.environ.get("NO_COLOR") or stream is None or not stream.isatty():  # None: closed by the parent process
        return text
    return click.style(text, fg=color, bold=bold)


def fail(message: str, code: int = Exit.FAILED) -> NoReturn:
    """Print an error on standard error, and exit."""
    report(message)
    raise SystemExit(code)


def report(message: str) -> None:
    """Print an error on standard error."""
    click.echo(f"{style_text('kvorum:', err=True, color='red')} {message}", err=True)


def install_hint(extra: str) -> str:
    """Return how to install Kvorum with an extra. PyPI has no package of that name yet."""
    return f"pip install '.[{extra}]' in the checkout, or 'WHEEL[{extra}]'"


def warn(message: str) -> None:
    """Print a warning on standard error."""
    click.echo(f"{style_text('warning:', err=True, color='yellow')} {message}", err=True)


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
    """Print one JSON value on a separate line."""
    click.echo(json.dumps(value, default=str, separators=(",", ":")))
