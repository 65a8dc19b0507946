"""List of Kafka's scripts: `kvorum kafka-topics`, with or without .sh."""

from collections.abc import Iterator
from contextlib import contextmanager

import click

from kvorum.cli.kafka.script_arguments import ARGPARSE_SCRIPTS, normalize_arguments
from kvorum.cli.lazy import LazyGroup

SCRIPTS = {
    "kafka-topics": ("cli.kafka.topics:topics", "Create, list, describe, alter and delete topics."),
    "kafka-console-producer": (
        "cli.kafka.console_producer:console_producer",
        "Produce records from lines of standard input.",
    ),
    "kafka-console-consumer": ("cli.kafka.console_consumer:console_consumer", "Print records as lines."),
    "kafka-consumer-groups": (
        "cli.kafka.consumer_groups:consumer_groups",
        "List and describe groups, reset and delete offsets.",
    ),
    "kafka-groups": ("cli.kafka.groups:groups", "List groups of all types."),
    "kafka-configs": ("cli.kafka.configs:configs", "Describe and alter configs and quotas."),
    "kafka-delegation-tokens": (
        "cli.kafka.delegation_tokens:delegation_tokens",
        "Create, renew, expire and describe delegation tokens.",
    ),
    "kafka-get-offsets": ("cli.kafka.get_offsets:get_offsets", "Print offsets of partitions."),
    "kafka-delete-records": ("cli.kafka.delete_records:delete_records", "Delete records before an offset."),
    "kafka-log-dirs": ("cli.kafka.log_dirs:log_dirs", "Describe the log directories of brokers."),
    "kafka-leader-election": (
        "cli.kafka.leader_election:leader_election",
        "Run preferred or unclean leader elections.",
    ),
    "kafka-reassign-partitions": (
        "cli.kafka.reassign_partitions:reassign_partitions",
        "Reassign partitions to other brokers.",
    ),
    "kafka-features": ("cli.kafka.features:features", "Describe and change feature levels."),
    "kafka-storage": ("cli.kafka.storage:storage", "Format and describe storage directories."),
    "kafka-server-start": ("cli.kafka.server:start", "Run a node."),
    "kafka-server-stop": ("cli.kafka.server:stop", "Stop the nodes of this machine."),
    "kafka-metadata-quorum": ("cli.kafka.metadata_quorum:metadata_quorum", "Describe and change the metadata quorum."),
    "kafka-metadata-shell": ("cli.kafka.metadata_shell:metadata_shell", "Browse a metadata snapshot."),
    "kafka-transactions": ("cli.kafka.transactions:transactions", "Describe and abort transactions."),
    "kafka-dump-log": ("cli.kafka.dump_log:dump_log", "Print the contents of log files."),
    "kafka-broker-api-versions": (
        "cli.kafka.broker_api_versions:broker_api_versions",
        "Print the API versions of brokers.",
    ),
    "kafka-cluster": ("cli.kafka.cluster:cluster", "Print the cluster id and endpoints; unregister brokers."),
    "kafka-client-metrics": ("cli.kafka.client_metrics:client_metrics", "Manage subscriptions to client metrics."),
    "kafka-producer-perf-test": ("cli.kafka.perf_producer:producer", "Measure produce throughput."),
    "kafka-consumer-perf-test": ("cli.kafka.perf_consumer:consumer", "Measure consume throughput."),
    "kafka-e2e-latency": ("cli.kafka.e2e_latency:e2e_latency", "Measure end-to-end latency."),
    "kafka-verifiable-producer": (
        "cli.kafka.verifiable:producer",
        "Produce numbers and print acknowledgements as JSON.",
    ),
    "kafka-verifiable-consumer": ("cli.kafka.verifiable:consumer", "Consume and print events as JSON."),
}
SUFFIX = ".sh"
KAFKA_VERSION = "4.3.0"
SCRIPTS_WITHOUT_VERSION = ARGPARSE_SCRIPTS | {"kafka-e2e-latency", "kafka-server-stop"}
"""Kafka's scripts that have no --version."""


def script_name(word: str) -> str | None:
    """Return the script of this name, with or without .sh; None if there is none."""
    name = word.removesuffix(SUFFIX)
    return name if name in SCRIPTS else None


@contextmanager
def limit_exit_codes(ctx: click.Context) -> Iterator[None]:
    """Make `kvorum` end with 1 after any error in a script: Kafka's have no other code (CommandLineUtils)."""
    try:
        yield
    except click.ClickException as error:
        if not runs_script(ctx):
            raise
        error.show()
        raise SystemExit(1) from None
    except (SystemExit, click.exceptions.Exit) as end:
        code = end.code if isinstance(end, SystemExit) else end.exit_code
        if code and runs_script(ctx):
            raise SystemExit(1) from None
        raise


def runs_script(ctx: click.Context) -> bool:
    """Return whether the called command is one of the scripts, or `kvorum kafka`."""
    name = ctx.invoked_subcommand
    return name is not None and (name == "kafka" or script_name(name) is not None)


def with_version(command: click.Command) -> click.Command:
    """Add --version: the Kafka release of the scripts."""
    if not any("--version" in option.opts for option in command.params):
        click.version_option(KAFKA_VERSION, "--version", message="%(version)s", help="Version of Kafka's tools.")(
            command
        )
    return command


class Scripts(LazyGroup):
    """The scripts; their names may end in .sh."""

    refuses_empty_values = False

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the script."""
        command = super().get_command(ctx, cmd_name)
        return command if command is None or cmd_name in SCRIPTS_WITHOUT_VERSION else with_version(command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the script."""
        if args:
            args = [script_name(args[0]) or args[0], *args[1:]]
        name, command, words = super().resolve_command(ctx, args)
        return name, command, normalize_arguments(name, command, words)


@click.group(cls=Scripts, table=SCRIPTS)
def kafka() -> None:
    """Apache Kafka's scripts, with their own options; `kvorum kafka-topics` is `kvorum kafka kafka-topics`.

    \b
    kvorum kafka-topics --bootstrap-server localhost:9092 --list
    kvorum kafka-consumer-groups.sh --bootstrap-server localhost:9092 --describe --group payments
    """
