"""The commands of `kvorum` under the headings of its help: module and attribute, and a line of help."""

from collections.abc import Mapping
from typing import Final

SECTIONS: Final[Mapping[str, Mapping[str, tuple[str, str]]]] = {
    "Run a cluster": {
        "dev": ("cli.local.dev:dev", "Start a temporary cluster on this machine, without configuration."),
        "up": ("cli.local.up:up", "Start the cluster of a cluster file on this machine."),
        "init": ("cli.configs.shipped:init", "Write a commented cluster file for `kvorum up`."),
        "down": ("cli.local.up:down", "Stop the cluster of a data directory."),
        "status": ("cli.local.up:status", "Show the status of a cluster's nodes."),
        "nodes": ("cli.local.nodes:nodes", "Kill, stop, start, pause or resume nodes."),
        "node": ("cli.local.node:node", "Run one node from its properties file, for service managers."),
        "format": ("cli.local.node:format_", "Format a node's storage directories."),
        "quickstart": (
            "cli.local.quickstart:quickstart",
            "Start a three-broker cluster with sample traffic, as `make run` does.",
        ),
    },
    "Work with records": {
        "topics": ("cli.nouns:topics", "Create, list, describe, alter and delete topics."),
        "produce": ("cli.records.produce:produce", "Produce records from lines of a file or of standard input."),
        "consume": ("cli.records.consume:consume", "Print the records of a topic."),
        "partitions": (
            "cli.nouns:partitions",
            "List and add partitions; delete their records; elect and move leaders.",
        ),
        "groups": ("cli.nouns:groups", "List, describe and delete groups; reset their offsets."),
        "offsets": ("cli.topics.offsets:offsets", "Show earliest, latest and other offsets of partitions."),
        "transactions": ("cli.nouns:transactions", "Describe transactions; find and abort hanging ones."),
    },
    "Administer": {
        "brokers": ("cli.nouns:brokers", "List brokers; put brokers in maintenance; decommission them."),
        "configs": ("cli.nouns:configs", "Describe and alter configs of topics, brokers, ...; validate config files."),
        "quotas": ("cli.nouns:quotas", "Manage client quotas by user, client id or IP address."),
        "users": ("cli.nouns:users", "Manage users with SCRAM credentials."),
        "tokens": ("cli.nouns:tokens", "Manage delegation tokens."),
        "log-dirs": ("cli.nouns:log_dirs", "List the log directories of brokers, and moves of replicas between them."),
        "reassign": ("cli.nouns:reassign", "Reassign partitions to other brokers, with an optional throttle."),
        "features": ("cli.nouns:features", "Describe and alter the features of a cluster."),
        "quorum": ("cli.nouns:quorum", "Inspect and repair the metadata quorum."),
        "metadata": ("cli.metadata.commands:metadata", "Browse the cluster's metadata as a tree of files."),
        "dump-log": (
            "cli.dump.dump_log:dump_log",
            "Print the contents of log files: records, indexes, producer state, snapshots.",
        ),
        "debug-bundle": ("cli.dump.debug_bundle:debug_bundle", "Write a ZIP with diagnostics of the cluster."),
        "security": ("cli.security.check:security", "Check the security of a configuration."),
        "certs": ("cli.security.certs:certs", "Make and renew certificates with a small CA."),
        "profile": (
            "cli.connection.profile:profile",
            "Manage named clusters with their addresses and client properties.",
        ),
        "protocol": ("cli.metadata.protocol:protocol", "Print the Kafka APIs and versions that Kvorum serves."),
        "kafka": ("cli.kafka.scripts:kafka", "Run Apache Kafka's scripts, with their own options."),
    },
    "Test": {
        "chaos": ("cli.chaos.commands:chaos", "Inject faults into a cluster and check its guarantees."),
    },
    "Pipelines": {
        "pipelines": ("cli.pipelines.commands:pipelines", "Run data pipelines on Spark: sources, transforms, sinks."),
    },
}
COMMANDS: Final = {name: command for commands in SECTIONS.values() for name, command in commands.items()}
ALIASES: Final = {"config": "configs"}
