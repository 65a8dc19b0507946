"""`kvorum`: one command, a subcommand a thing to do. A subcommand's module is imported when it is asked for."""

import importlib
import sys

import click

COMMANDS = {
    "dev": ("cli.dev:dev", "Start a throw-away cluster on this machine: one command, no configuration."),
    "up": ("cli.up:up", "Start the cluster of a CLUSTER.yaml on this machine."),
    "down": ("cli.up:down", "Stop the cluster in a folder, in order."),
    "status": ("cli.up:status", "Show what runs of the cluster in a folder."),
    "nodes": ("cli.nodes:nodes", "Kill, stop, start, pause or resume single nodes."),
    "node": ("cli.node:node", "Run one node from its configuration: what a service manager starts."),
    "format": ("cli.node:format_", "Give a node's directories their identity, once."),
    "topics": ("cli.topics:topics", "Create, list, describe, alter, delete topics."),
    "produce": ("cli.produce:produce", "Send lines of a file or of standard input to a topic."),
    "consume": ("cli.consume:consume", "Print the records of a topic."),
    "quorum": ("cli.quorum:quorum", "Look at the metadata quorum, and mend it."),
    "config": ("cli.config:config", "Check a configuration file."),
    "protocol": ("cli.protocol:protocol", "Print the Kafka APIs and versions this Kvorum serves."),
    "quickstart": (
        "cli.quickstart:quickstart",
        "A three-broker cluster with real records flowing: what `make run` runs.",
    ),
}


class LazyGroup(click.Group):
    """A group that knows its commands by name and one line each, and imports one when it runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the order of the table above."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command = getattr(importlib.import_module(f"kvorum.{module}"), name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which one may have been meant."""
        import difflib

        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise click.UsageError(f"There is no command {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="kvorum", prog_name="kvorum")
def main() -> None:
    """Kvorum: a Kafka cluster you can pip install.

    \b
    kvorum dev --nodes 3                        a three-broker cluster, until Ctrl-C
    kvorum up configs/three-nodes.yaml          the same from a file, with its data kept
    kvorum topics create orders -p 6 -r 3       a topic
    kvorum produce orders < lines.txt           records, a line each
    kvorum consume orders --from-beginning      and back

    Shell completion: eval "$(_KVORUM_COMPLETE=bash_source kvorum)"   (or zsh_source, fish_source)
    """


if __name__ == "__main__":
    sys.exit(main())
