"""Every command of `kvorum` and every script of Kafka, with words that call it."""

from collections.abc import Iterator
from pathlib import Path

import click

from kvorum.cli.main import main


def leaves() -> list[tuple[tuple[str, ...], click.Command]]:
    """Return the commands and groups below `kvorum` with their paths."""
    context = click.Context(main)

    def walk(path: tuple[str, ...], command: click.Command) -> Iterator[tuple[tuple[str, ...], click.Command]]:
        if path:
            yield path, command
        for name in command.list_commands(context) if isinstance(command, click.Group) else ():
            assert isinstance(command, click.Group)
            found = command.get_command(context, name)
            assert found is not None
            yield from walk((*path, name), found)

    return list(walk((), main))


def takes_text(parameter: click.Parameter) -> bool:
    """Return whether a parameter is given as a text."""
    is_flag = isinstance(parameter, click.Option) and (parameter.is_flag or parameter.count)
    return not is_flag and isinstance(parameter.type, click.types.StringParamType)


def words_of(path: tuple[str, ...], command: click.Command, given: dict[str, str], folder: Path) -> list[str]:
    """Return words that call a command with some parameters; those that it needs besides get a plausible value."""
    words, arguments = list(path), []
    for parameter in command.params:
        assert parameter.name is not None
        value = given.get(parameter.name)
        if value is None and parameter.required:
            value = plausible(parameter, folder)
        if value is None:
            continue
        if isinstance(parameter, click.Argument):
            arguments.append(value)
        else:
            words += [max(parameter.opts, key=len), value]
    return [*words, *(["--"] if arguments else []), *arguments]


def plausible(parameter: click.Parameter, folder: Path) -> str:
    """Return a value that a parameter takes."""
    match parameter.type:
        case click.Choice():
            return str(parameter.type.choices[0])
        case click.IntRange() | click.FloatRange():
            return str(parameter.type.min or 1)
        case click.types.IntParamType() | click.types.FloatParamType():
            return "1"
        case click.Path():
            path = folder / "file.yaml"
            path.touch()
            return str(path)
        case _:
            return "x"
