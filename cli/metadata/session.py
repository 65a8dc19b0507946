"""The input of the metadata shell: a terminal, or lines in a pipe."""

import contextlib
import shutil
import sys
from typing import TYPE_CHECKING

import click

from kvorum.cli.metadata.shell import Ended, Shell
from kvorum.cli.output import say

if TYPE_CHECKING:
    from kvorum.client.metadata_log.metadata_tree import Tree

PROMPT = ">> "


def hold(root: "Tree") -> None:
    """Read commands until exit or the end of the input, and print their output."""
    at_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    shell = Shell(root, shutil.get_terminal_size().columns if at_terminal else None)
    if at_terminal:
        with_completion(shell)
    while True:
        try:
            line = input(PROMPT) if at_terminal else sys.stdin.readline()
            if not line and not at_terminal:
                return
            for each in shell.run_line(line):
                say(each)
        except (EOFError, Ended):
            return
        except KeyboardInterrupt:
            click.echo("^C")


def with_completion(shell: Shell) -> None:
    """Enable line editing and completion, where Python supports it."""
    with contextlib.suppress(ImportError):
        import readline

        found: list[str] = []

        def complete(word: str, state: int) -> str | None:
            nonlocal found
            if state == 0:
                found = shell.completions(readline.get_line_buffer()[: readline.get_begidx()], word)
            return found[state] if state < len(found) else None

        readline.set_completer(complete)
        readline.set_completer_delims(" \t")
        readline.parse_and_bind("tab: complete")
