"""Values of `kafka-topics` options, and the rules between options. Source: Kafka's TopicCommandOptions."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import click

from kvorum.cli.kafka.option_checks import has_value
from kvorum.cli.output import say

if TYPE_CHECKING:
    from kvorum.client.values.topic import Topic

INT16_MAX = 32767
FILTERS = ("under_replicated_partitions", "under_min_isr_partitions", "at_min_isr_partitions", "unavailable_partitions")
ACTIONS_OF = {
    "config": ("alter", "create"),
    "partitions": ("alter", "create"),
    "replication_factor": ("create",),
    "replica_assignment": ("alter", "create"),
    **dict.fromkeys(FILTERS, ("describe",)),
    "topics_with_overrides": ("describe",),
    "if_exists": ("alter", "delete", "describe"),
    "if_not_exists": ("create",),
    "exclude_internal": ("list", "describe"),
}
"""Actions of each option."""
EXCLUSIVE = (
    *(("replica_assignment", each) for each in ("partitions", "replication_factor")),
    *((each, "topics_with_overrides") for each in FILTERS),
)
USE_CONFIGS = " (To alter topic configurations, the kafka-configs tool can be used.)"
DELETE_CONFIG = (
    "delete-config option is no longer supported and deprecated since version 4.0. The config will be fully removed in "
    "future releases."
)


def check_options(action: str, options: Mapping[str, Any]) -> None:
    """Reject conflicting options, with Kafka's messages."""

    def reject(one: str, other: str) -> NoReturn:
        first, second = (f'"[{name.replace("_", "-")}]"' for name in (one, other))
        raise click.UsageError(f"Option {first} can't be used with option {second}")

    given = {name for name in ACTIONS_OF if has_value(options[name])}
    unnamed = options["topic"] is None and options["topic_id"] is None
    if options["deleted"]:
        click.echo(DELETE_CONFIG, err=True)
    if action == "describe" and options["if_exists"] and unnamed:
        raise click.UsageError("--topic or --topic-id is required to describe a topic")
    if action not in ("list", "describe") and options["topic"] is None:
        raise click.UsageError('Missing required argument "[topic]"')
    if action == "alter":
        if options["config"]:
            what = '"[[bootstrap-server], [config]]"'
            raise click.UsageError(f'Option combination {what} can\'t be used with option "[alter]"{USE_CONFIGS}')
        if options["partitions"] is None:
            raise click.UsageError('Missing required argument "[partitions]"')
    for name, actions in ACTIONS_OF.items():
        if name in given and action not in actions:
            reject(name, action)
    for one, other in EXCLUSIVE:
        if {one, other} <= given and (action == "create" or one in FILTERS):
            reject(one, other)


def stop(message: str) -> NoReturn:
    """End the command with an error, on standard output as by Kafka's tool."""
    say(f"Error while executing topic command : {message}")
    raise SystemExit(1)


def check_numbers(partitions: int | None, replication_factor: int | None) -> None:
    """Reject numbers that no topic has."""
    if replication_factor is not None and not 1 <= replication_factor <= INT16_MAX:
        stop("The replication factor must be between 1 and 32767 inclusive")
    if partitions is not None and partitions < 1:
        stop("The partitions must be greater than 0")


def parse_assignment(text: str | None) -> list[list[int]]:
    """Parse 1:2,2:3: the replicas of each partition, as many of each."""
    found: list[list[int]] = []
    for index, each in enumerate(text.split(",") if text else ()):
        try:
            replicas = [int(part) for part in each.split(":")]
        except ValueError:
            stop(f"--replica-assignment {text!r} is not like 1:2,2:3")
        twice = [str(broker) for broker, count in Counter(replicas).items() if count > 1]
        if twice:
            stop(f"Partition replica lists may not contain duplicate entries: {','.join(twice)}")
        found.append(replicas)
        if len(replicas) != len(found[0]):
            stop(f"Partition {index} has different replication factor: {replicas}")
    return found


def parse_configs(texts: Sequence[str]) -> dict[str, str]:
    """Parse KEY=VALUE."""
    parts = [re.split(r"\s*=\s*", text) for text in texts]
    if not all(len(each) == 2 and each[1] for each in parts):
        stop('requirement failed: Invalid topic config: all configs to be added must be in the format "key=val".')
    return {key.strip(): value.strip() for key, value in parts}


def topic_filter(topic: str | None, exclude_internal: bool = False) -> "Callable[[Topic], bool]":
    """Return the filter of --topic, which is a pattern, and --exclude-internal."""
    from kvorum.cli.topics.offset_filter import FilterError, topic_pattern

    try:
        pattern = topic_pattern(topic)
    except FilterError as error:
        stop(str(error))
    return lambda each: pattern.fullmatch(each.name) is not None and not (exclude_internal and each.is_internal)
