"""`kvorum`: one command with one subcommand per task. A subcommand's module is imported on use."""

import sys
from typing import Any

import click
from click.shell_completion import CompletionItem

from kvorum.cli.commands import ALIASES, COMMANDS, SECTIONS
from kvorum.cli.connection.profiles import profile_option
from kvorum.cli.entry import run
from kvorum.cli.kafka.script_arguments import normalize_arguments
from kvorum.cli.kafka.scripts import SCRIPTS, kafka, limit_exit_codes, script_name
from kvorum.cli.lazy import LazyGroup


class Main(LazyGroup):
    """All commands, their aliases, and Kafka's scripts under their own names, which `kvorum kafka` lists."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command, or the script."""
        script = script_name(cmd_name)
        cmd_name = ALIASES.get(cmd_name, cmd_name)
        return super().get_command(ctx, cmd_name) if script is None else kafka.get_command(ctx, script)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command."""
        with limit_exit_codes(ctx):
            return super().invoke(ctx)

    def __call__(self, *arguments: Any, **settings: Any) -> int:
        """Run the process of `kvorum`; return its exit code."""
        return run(lambda: self.main(*arguments, **settings))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command or the script, or raise an error with a suggestion."""
        script = script_name(args[0]) if args else None
        if script is None:
            return super().resolve_command(ctx, [ALIASES.get(each, each) for each in args[:1]] + args[1:])
        command = kafka.get_command(ctx, script)
        return script, command, normalize_arguments(script, command, args[1:])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete commands; scripts once their common prefix is typed."""
        found = super().shell_complete(ctx, incomplete)
        if incomplete.startswith("kafka-"):
            found += [CompletionItem(name, help=SCRIPTS[name][1]) for name in SCRIPTS if name.startswith(incomplete)]
        return found


@click.group(
    cls=Main,
    table=COMMANDS,
    sections=SECTIONS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(package_name="kvorum", prog_name="kvorum")
@profile_option
def main() -> None:
    """Kvorum: a Kafka cluster you can pip install.

    \b
    kvorum dev --nodes 3                        a three-broker cluster, until Ctrl-C
    kvorum up configs/three-nodes.yaml          the same from a file, with its data kept; kvorum init writes a file
    kvorum topics create orders -p 6 -r 3       a topic
    kvorum produce orders < lines.txt           records, a line each
    kvorum consume orders --from-beginning      and back
    kvorum kafka-topics --bootstrap-server localhost:9092 --list     Kafka's scripts, by their names

    Shell completion: eval "$(_KVORUM_COMPLETE=bash_source kvorum)"   (or zsh_source, fish_source)
    """


if __name__ == "__main__":
    sys.exit(main())
