"""A group of commands that knows them by name and one line each, and imports one when it runs."""

import difflib
import importlib
from collections.abc import Iterable, Mapping

import click

from kvorum.cli.text_values import guard_texts


class LazyGroup(click.Group):
    """Imports its commands on use. `table`: "module:attribute" (below kvorum) and a line of help, by command name."""

    refuses_empty_values = True
    """False for Kafka's scripts: they decide on empty values as Kafka does."""

    def __init__(
        self,
        *,
        table: Mapping[str, tuple[str, str]],
        sections: Mapping[str, Iterable[str]] | None = None,
        **settings: object,
    ) -> None:
        """Store the table; `sections` are the headings of the help with their commands."""
        super().__init__(**settings)  # type: ignore[arg-type]
        self._table = table
        self._sections = {"Commands": list(table)} if sections is None else sections

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the order of the table."""
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command."""
        if cmd_name not in self._table:
            return None
        module, _, name = self._table[cmd_name][0].partition(":")
        command = getattr(importlib.import_module(f"kvorum.{module}"), name)
        assert isinstance(command, click.Command)
        return guard_texts(command, refuses_empty=self.refuses_empty_values)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing any."""
        width = max(map(len, self._table))
        for heading, names in self._sections.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), self._table[name][1]) for name in names])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or raise an error with a suggestion."""
        return super().resolve_command(ctx, check_command(ctx, args, self._table))


def check_command(ctx: click.Context, args: list[str], known: Iterable[str]) -> list[str]:
    """Return the words, or raise a usage error with a suggestion if the first is no command."""
    names = list(known)
    if args and args[0] not in names and not args[0].startswith("-"):
        near = difflib.get_close_matches(args[0], names, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise click.UsageError(f"There is no command {args[0]!r}.{hint}", ctx)
    return args
