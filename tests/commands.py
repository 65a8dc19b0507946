"""Whether a line that calls `kvorum` names a command, and options, that there are. Nothing is run."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click

from kvorum.cli.main import main

ENDS = {";", "&&", "||", "|", "&", ">", "<", ")"}
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PROMPT = "$ "


def calls(text: str) -> Iterator[list[str]]:
    """Give the words behind each `kvorum` that is run in some lines of shell, up to the next command."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line.replace("$(", " $ ( ").replace(")", " ) ").replace(";", " ; "), comments=True)
        for index, word in enumerate(words):
            if word.rpartition("/")[2] == "kvorum" and (index == 0 or starts_a_command(words[index - 1])):
                rest = words[index + 1 :]
                yield rest[: next((at for at, each in enumerate(rest) if each in ENDS), len(rest))]


def starts_a_command(before: str) -> bool:
    """Return whether a command may follow this word."""
    return before in {*ENDS, "(", "exec", "sudo", "do", "then", "kvorum"} or "=" in before


def complaint(words: list[str]) -> str | None:
    """Say what is wrong with a call of `kvorum` with these words; None if nothing is."""
    command: click.Command = main
    path = "kvorum"
    context = click.Context(main)
    while isinstance(command, click.Group) and words:
        if words[0].startswith("-"):
            option = option_of(command, words[0].partition("=")[0])
            if option is None:
                break
            words = words[1 if option.is_flag or "=" in words[0] else 2 :]
            continue
        found = command.get_command(context, words[0])
        if found is None:
            return f"{path} has no command {words[0]}"
        command, path, words = found, f"{path} {words[0]}", words[1:]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    known |= {"--help", "-h"}
    for word in words:
        name = word.partition("=")[0]
        if re.fullmatch(r"--?[a-z][a-z-]*", name) and name not in known:
            return f"{path} has no option {name}"
    return None


def option_of(command: click.Command, name: str) -> click.Option | None:
    """Return the option of that name, None if the command has none."""
    options = (each for each in command.params if isinstance(each, click.Option))
    return next((each for each in options if name in (*each.opts, *each.secondary_opts)), None)


def fenced(page: Path) -> str:
    """Return the lines of a page's code blocks, of a console's what is typed; a line that goes on is one."""
    lines: list[str] = []
    for language, block in FENCE.findall(page.read_text()):
        found = block.replace("\\\n", " ").splitlines()
        typed = [line.removeprefix(PROMPT) for line in found if line.startswith(PROMPT)]
        lines += typed if language == "console" else found
    return "\n".join(lines)
