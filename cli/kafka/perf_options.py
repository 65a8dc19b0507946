"""Common parts of `kafka-producer-perf-test` and `kafka-consumer-perf-test`: options, and figures of the client.

The clients are librdkafka's: Java-only properties are reported and ignored, and --print-metrics prints the figures of
librdkafka.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import click

from kvorum.cli.kafka.common import Connection, OrderedCommand
from kvorum.cli.kafka.option_checks import one_of_two
from kvorum.cli.output import say

POLL_SECONDS: Final = 0.1
MULTI_VALUE_OPTIONS = ("--producer-props", "--command-property")
"""Options that take several words, up to the next option."""
RENAMED = {
    "producer_props": ("--producer-props", "--command-property"),
    "producer_config": ("--producer.config", "--command-config"),
    "consumer_config": ("--consumer.config", "--command-config"),
    "messages": ("--messages", "--num-records"),
}


class MultiValueCommand(OrderedCommand):
    """A command some of whose options take several words."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Repeat such an option before each of its words."""
        found: list[str] = []
        many = ""
        for word in args:
            if word.startswith("--"):
                many = word if word in MULTI_VALUE_OPTIONS else ""
                found += [] if many else [word]
            else:
                found += [many, word] if many else [word]
        return super().parse_args(ctx, found)


def say_deprecated(options: dict[str, Any], words: str) -> None:
    """Report deprecated names (KIP-1147), and reject both names at once."""
    params = click.get_current_context().params
    for name, (old, new) in RENAMED.items():
        if options.get(name):
            one_of_two(new, params.get(new.removeprefix("--").replace("-", "_")), old, options[name])
            say(words.format(old, new))


def with_servers(connection: Connection, given: dict[str, str]) -> Connection:
    """Return the cluster's address: from --bootstrap-server, else from a property."""
    context = click.get_current_context()
    servers = given.pop("bootstrap.servers", None)
    return connection if context.params["bootstrap_server"] or servers is None else replace(connection, where=servers)


def collect_statistics(own: dict[str, Any]) -> dict[str, Any]:
    """Return the statistics that a client with these properties will have: the latest ones."""
    statistics: dict[str, Any] = {}
    own |= {"statistics.interval.ms": 500, "stats_cb": lambda text: statistics.update(json.loads(text))}
    return statistics


def metric_lines(statistics: Mapping[str, Any]) -> list[str]:
    """Return librdkafka's figures, one per line, in the layout of Kafka's ToolsUtils.printMetrics."""
    rows = [
        (f"librdkafka-{statistics.get('type', 'client')}:{name}:{{client-id={statistics.get('client_id')}}}", value)
        for name, value in sorted(statistics.items())
        if isinstance(value, int | float)
    ]
    width = max([len(name) for name, _ in rows] + [len("Metric Name")])
    head = f"\n{'Metric Name':<{width}}   Value"
    return [head, *(f"{name:<{width}} : {value:.3f}" for name, value in rows)]


def wall_ms() -> float:
    """Return the wall clock's time."""
    return time.time_ns() / 1e6
