"""`kvorum`: one command, a subcommand a thing to do. A subcommand's module is imported when it is asked for."""

import sys

import click

from kvorum.cli.lazy import LazyGroup

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
    "transactions": ("cli.transactions:transactions", "Look at transactions, find hanging ones and end them."),
    "quorum": ("cli.quorum:quorum", "Look at the metadata quorum, and mend it."),
    "sim": ("cli.sim:sim", "Simulate whole clusters, faults and all, seed after seed."),
    "bench": ("cli.bench:bench", "Produce, consume and time single records, in less than a minute."),
    "config": ("cli.config:config", "Check a configuration file."),
    "protocol": ("cli.protocol:protocol", "Print the Kafka APIs and versions this Kvorum serves."),
    "pipelines": ("cli.pipelines:pipelines", "Data pipelines on Spark: sources, transforms, sinks."),
    "chaos": ("cli.chaos:chaos", "Break a cluster in every way, and check what it promised."),
    "quickstart": (
        "cli.quickstart:quickstart",
        "A three-broker cluster with real records flowing: what `make run` runs.",
    ),
}


@click.group(
    cls=LazyGroup, table=COMMANDS, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
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
