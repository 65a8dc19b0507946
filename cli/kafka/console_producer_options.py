"""Options of `kafka-console-producer`, and the properties of its reader and its producer.

Source: Kafka's ConsoleProducerOptions.
"""

from typing import Any

import click

from kvorum.cli.connection.client import options_from_user, read_properties
from kvorum.cli.kafka.line_reader import LineError, LineReader
from kvorum.cli.kafka.option_checks import key_values, one_of_two
from kvorum.cli.output import say

LINE_READER = "org.apache.kafka.tools.LineMessageReader"
PROPERTY_OF = {
    "acks": "request_required_acks",
    "batch.size": "batch_size",
    "retries": "message_send_max_retries",
    "retry.backoff.ms": "retry_backoff_ms",
    "linger.ms": "linger_ms",
    "request.timeout.ms": "request_timeout_ms",
    "metadata.max.age.ms": "metadata_expiry_ms",
    "send.buffer.bytes": "socket_buffer_size",
    "buffer.memory": "max_memory_bytes",
}
DEPRECATED = (
    (
        "producer_property",
        "--producer-property is deprecated and will be removed in a future version",
        "--command-property",
    ),
    ("producer_config", "--producer.config is deprecated and will be removed in a future version", "--command-config"),
    ("property_", "--property is deprecated and will be removed in a future version", "--reader-property"),
    (
        "max_partition_memory_bytes",
        "--max-partition-memory-bytes is deprecated and will be removed in Apache Kafka 5.0",
        "--batch-size",
    ),
)


def check(options: dict[str, Any]) -> None:
    """Reject options that do not go together, as Kafka does; report deprecated ones."""
    config = click.get_current_context().params["command_config"]
    one_of_two("--command-config", config, "--producer.config", options["producer_config"])
    one_of_two("--command-property", options["command_property"], "--producer-property", options["producer_property"])
    one_of_two("--reader-property", options["reader_property"], "--property", options["property_"])
    for name, text, instead in DEPRECATED:
        if options[name]:
            say(f"Warning: {text}. Use {instead} instead.")
    if options["line_reader"].rpartition(".")[2] != "LineMessageReader":
        raise click.UsageError(f"{options['line_reader']}: Java classes are not supported; use {LINE_READER}")


def line_reader(options: dict[str, Any]) -> LineReader:
    """Return the reader of lines; ends the command for properties that exclude one another."""
    properties = read_properties(options["reader_config"])
    properties |= key_values(options["reader_property"] + options["property_"])
    try:
        return LineReader.of(properties)
    except LineError as error:
        raise click.UsageError(str(error)) from None


def producer_properties(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str], dict[str, Any]]:
    """Return the tool's own properties, those of file and properties options, and those that override both."""
    own = {name: options[option] for name, option in PROPERTY_OF.items() if options[option] is not None}
    batch_option = "batch_size"
    if options["max_partition_memory_bytes"] is not None:  # deprecated, and wins
        batch_option = "max_partition_memory_bytes"
        own["batch.size"] = options[batch_option]
    typed = options_from_user(own, PROPERTY_OF | {"batch.size": batch_option})
    typed["compression.type"] = options["compression_codec"]  # Kafka's tool does not read it from a file
    own |= {"partitioner": "murmur2_random", "client.id": "console-producer"}
    given = read_properties(options["producer_config"])
    given |= key_values(options["command_property"] + options["producer_property"])
    return own, given, typed
