"""Which of Kafka's scripts there are: `kvorum kafka-topics`, with or without .sh at its end."""

from collections.abc import Iterator
from contextlib import contextmanager

import click

from kvorum.cli.lazy import LazyGroup

SCRIPTS = {
    "kafka-topics": ("cli.kafka.topics:topics", "Create, list, describe, alter, delete topics."),
    "kafka-console-producer": ("cli.kafka.console_producer:console_producer", "Lines of standard input to records."),
    "kafka-console-consumer": ("cli.kafka.console_consumer:console_consumer", "Records to lines."),
    "kafka-consumer-groups": ("cli.kafka.consumer_groups:consumer_groups", "Groups, their offsets and lag."),
    "kafka-groups": ("cli.kafka.groups:groups", "Groups of all types."),
    "kafka-configs": ("cli.kafka.configs:configs", "Configs and quotas."),
    "kafka-get-offsets": ("cli.kafka.get_offsets:get_offsets", "Offsets of partitions."),
    "kafka-delete-records": ("cli.kafka.delete_records:delete_records", "Delete records up to an offset."),
    "kafka-log-dirs": ("cli.kafka.log_dirs:log_dirs", "Log directories of brokers."),
    "kafka-leader-election": ("cli.kafka.leader_election:leader_election", "Preferred and unclean elections."),
    "kafka-reassign-partitions": (
        "cli.kafka.reassign_partitions:reassign_partitions",
        "Move partitions to other brokers.",
    ),
    "kafka-features": ("cli.kafka.features:features", "Features and their levels."),
    "kafka-storage": ("cli.kafka.storage:storage", "Format a node's directories, look at them."),
    "kafka-metadata-quorum": ("cli.kafka.metadata_quorum:metadata_quorum", "The metadata quorum."),
    "kafka-transactions": ("cli.kafka.transactions:transactions", "Transactions and their producers."),
    "kafka-dump-log": ("cli.kafka.dump_log:dump_log", "The files of a log."),
    "kafka-broker-api-versions": ("cli.kafka.broker_api_versions:broker_api_versions", "What brokers speak."),
    "kafka-cluster": ("cli.kafka.cluster:cluster", "The cluster's id, its endpoints."),
    "kafka-client-metrics": ("cli.kafka.client_metrics:client_metrics", "Subscriptions to clients' metrics."),
    "kafka-producer-perf-test": ("cli.kafka.perf:producer", "How fast records are written."),
    "kafka-consumer-perf-test": ("cli.kafka.perf:consumer", "How fast records are read."),
    "kafka-verifiable-producer": ("cli.kafka.verifiable:producer", "Acknowledgements as JSON."),
    "kafka-verifiable-consumer": ("cli.kafka.verifiable:consumer", "Events of a consumer as JSON."),
}
SUFFIX = ".sh"


def script_name(word: str) -> str | None:
    """Return which script is meant, None if it is none of them."""
    name = word.removesuffix(SUFFIX)
    return name if name in SCRIPTS else None


@contextmanager
def ending_as_kafkas(ctx: click.Context) -> Iterator[None]:
    """Have `kvorum` end with 1 whatever went wrong in a script: Kafka's know no other code (CommandLineUtils)."""
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
    """Tell whether what was called is one of the scripts, or `kvorum kafka`."""
    name = ctx.invoked_subcommand
    return name is not None and (name == "kafka" or script_name(name) is not None)


def spelt_out(command: click.Command | None, words: list[str]) -> list[str]:
    """Return a script's words with long options in full: joptsimple takes any beginning that only one option has.

    What several have is left as it is, and refused as an option that is not known.
    """
    if command is None or isinstance(command, click.Group):  # those are argparse4j's, which wants them in full
        return words
    known = {name: option for option in command.params for name in option.opts if name.startswith("--")}
    found: list[str] = []
    for number, word in enumerate(words):
        if word == "--":
            return found + words[number:]
        name, equals, value = word.partition("=")
        options = [each for each in known if each.startswith(name)] if name.startswith("--") else []
        if name not in known and len({known[each].name for each in options}) == 1:
            word = f"{options[0]}{equals}{value}"
        found.append(word)
    return found


class Scripts(LazyGroup):
    """The scripts; their names may end in .sh, and their options be abbreviated."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the script."""
        if args:
            args = [script_name(args[0]) or args[0], *args[1:]]
        name, command, words = super().resolve_command(ctx, args)
        return name, command, spelt_out(command, words)


@click.group(cls=Scripts, table=SCRIPTS)
def kafka() -> None:
    """Apache Kafka's scripts, with their own options; `kvorum kafka-topics` is `kvorum kafka kafka-topics`.

    \b
    kvorum kafka-topics --bootstrap-server localhost:9092 --list
    kvorum kafka-consumer-groups.sh --bootstrap-server localhost:9092 --describe --group payments
    """
