"""`kvorum`: one command with one subcommand per task. A subcommand's module is imported on use."""

import sys
from typing import Any

import click
from click.shell_completion import CompletionItem

from kvorum.cli.connection.profiles import profile_option
from kvorum.cli.entry import run
from kvorum.cli.kafka.script_arguments import normalize_arguments
from kvorum.cli.kafka.scripts import SCRIPTS, kafka, limit_exit_codes, script_name
from kvorum.cli.lazy import LazyGroup

COMMANDS = {
    "dev": ("cli.local.dev:dev", "Start a temporary cluster on this machine, without configuration."),
    "up": ("cli.local.up:up", "Start the cluster of a cluster file on this machine."),
    "init": ("cli.configs.shipped:init", "Write a commented cluster file for `kvorum up`."),
    "down": ("cli.local.up:down", "Stop the cluster of a data directory."),
    "status": ("cli.local.up:status", "Show the status of a cluster's nodes."),
    "nodes": ("cli.local.nodes:nodes", "Kill, stop, start, pause or resume nodes."),
    "node": ("cli.local.node:node", "Run one node from its properties file, for service managers."),
    "format": ("cli.local.node:format_", "Format a node's storage directories."),
    "topics": ("cli.nouns:topics", "Create, list, describe, alter and delete topics."),
    "partitions": (
        "cli.nouns:partitions",
        "List and add partitions; delete their records; elect and move leaders.",
    ),
    "produce": ("cli.records.produce:produce", "Produce records from lines of a file or of standard input."),
    "consume": ("cli.records.consume:consume", "Print the records of a topic."),
    "brokers": ("cli.nouns:brokers", "List brokers; put brokers in maintenance; decommission them."),
    "groups": ("cli.nouns:groups", "List, describe and delete groups; reset their offsets."),
    "configs": (
        "cli.nouns:configs",
        "Describe and alter configs of topics, brokers, ...; validate config files.",
    ),
    "quotas": ("cli.nouns:quotas", "Manage client quotas by user, client id or IP address."),
    "offsets": ("cli.topics.offsets:offsets", "Show earliest, latest and other offsets of partitions."),
    "log-dirs": ("cli.nouns:log_dirs", "List the log directories of brokers, and moves of replicas between them."),
    "features": ("cli.nouns:features", "Describe and alter the features of a cluster."),
    "transactions": ("cli.nouns:transactions", "Describe transactions; find and abort hanging ones."),
    "reassign": ("cli.nouns:reassign", "Reassign partitions to other brokers, with an optional throttle."),
    "quorum": ("cli.nouns:quorum", "Inspect and repair the metadata quorum."),
    "debug-bundle": ("cli.dump.debug_bundle:debug_bundle", "Write a ZIP with diagnostics of the cluster."),
    "dump-log": (
        "cli.dump.dump_log:dump_log",
        "Print the contents of log files: records, indexes, producer state, snapshots.",
    ),
    "metadata": ("cli.metadata.commands:metadata", "Browse the cluster's metadata as a tree of files."),
    "profile": ("cli.connection.profile:profile", "Manage named clusters with their addresses and client properties."),
    "kafka": ("cli.kafka.scripts:kafka", "Run Apache Kafka's scripts, with their own options."),
    "protocol": ("cli.metadata.protocol:protocol", "Print the Kafka APIs and versions that Kvorum serves."),
    "pipelines": ("cli.pipelines.commands:pipelines", "Run data pipelines on Spark: sources, transforms, sinks."),
    "chaos": ("cli.chaos.commands:chaos", "Inject faults into a cluster and check its guarantees."),
    "quickstart": (
        "cli.local.quickstart:quickstart",
        "Start a three-broker cluster with sample traffic, as `make run` does.",
    ),
}
ALIASES = {"config": "configs"}
SECTIONS = {
    "Run a cluster": ("dev", "up", "init", "down", "status", "nodes", "node", "format", "quickstart"),
    "Work with records": ("topics", "produce", "consume", "partitions", "groups", "offsets", "transactions"),
    "Administer": (
        *("brokers", "configs", "quotas", "log-dirs", "reassign", "features", "quorum", "metadata"),
        *("dump-log", "debug-bundle", "profile", "protocol", "kafka"),
    ),
    "Test": ("chaos",),
    "Pipelines": ("pipelines",),
}
"""The headings of `kvorum --help`."""


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
