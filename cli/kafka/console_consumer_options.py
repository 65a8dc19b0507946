"""Options of `kafka-console-consumer`, and its consumer's properties. Source: Kafka's ConsoleConsumerOptions."""

import secrets
from typing import Any

import click

from kvorum.cli.connection.client_properties import BLACKLIST, INTERNAL_TOPICS
from kvorum.cli.kafka.option_checks import one_of_two
from kvorum.cli.output import say

GROUP_DIGITS = 100_000
OFFSET_MAX = 2**63 - 1
DEPRECATED = (
    ("consumer_property", "--consumer-property", "--command-property"),
    ("consumer_config", "--consumer.config", "--command-config"),
    ("property_", "--property", "--formatter-property"),
)


def check(options: dict[str, Any]) -> None:
    """Reject options that do not go together, as Kafka does; report deprecated ones."""
    if (options["topic"] is None) == (options["include"] is None):
        raise click.UsageError("Exactly one of --include/--topic is required.")
    if options["partition"] is not None:
        if options["topic"] is None:
            raise click.UsageError("The topic is required when partition is specified.")
        if options["from_beginning"] and options["offset"] is not None:
            raise click.UsageError("Options from-beginning and offset cannot be specified together.")
    elif options["offset"] is not None:
        raise click.UsageError("The partition is required when offset is specified.")
    if options["offset"] is not None and not is_word(options["offset"]) and not is_offset(options["offset"]):
        raise click.UsageError(
            f"The provided offset value '{options['offset']}' is incorrect. Valid values are 'earliest', 'latest', "
            "or a non-negative long."
        )
    config = click.get_current_context().params["command_config"]
    one_of_two("--consumer-property", options["consumer_property"], "--command-property", options["command_property"])
    one_of_two("--consumer.config", options["consumer_config"], "--command-config", config)
    one_of_two("--property", options["property_"], "--formatter-property", options["formatter_property"])
    for name, old, new in DEPRECATED:
        if options[name]:
            say(f"Option {old} is deprecated and will be removed in a future version. Use {new} instead.")


def consumer_properties(options: dict[str, Any], from_file: dict[str, str], given: dict[str, str]) -> dict[str, Any]:
    """Return the defaults of the tool's consumer, which file and properties override.

    Ends the command for different groups, and for a start other than that of --from-beginning.
    """
    named = [options["group"], from_file.get("group.id"), given.get("group.id")]
    groups = list(dict.fromkeys(each for each in named if each is not None))
    if len(groups) > 1:
        raise click.UsageError(
            "The group ids provided in different places (directly using '--group', via '--consumer-property', or via "
            f"'--consumer.config') do not match. Detected group ids: {', '.join(repr(each) for each in groups)}"
        )
    if groups and options["partition"] is not None:
        raise click.UsageError("Options group and partition cannot be specified together.")
    reset = (from_file | given).get("auto.offset.reset")
    if options["from_beginning"] and reset not in (None, "earliest"):
        raise click.UsageError(
            f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={reset}', please remove one option"
        )
    own: dict[str, Any] = {
        "group.id": groups[0] if groups else f"console-consumer-{secrets.randbelow(GROUP_DIGITS)}",
        "auto.offset.reset": "earliest" if options["from_beginning"] else "latest",
        "isolation.level": options["isolation_level"],
        "client.id": "console-consumer",
        "enable.auto.commit": bool(groups),  # a group made up here is not used again
    }
    if options["include"] is not None:
        return own | {BLACKLIST: INTERNAL_TOPICS}
    return own | {"allow.auto.create.topics": True}


def is_word(text: str) -> bool:
    """Return whether a text names an end of the log."""
    return text.lower() in ("earliest", "latest")


def is_offset(text: str) -> bool:
    """Return whether a text is a valid offset."""
    return text.isdecimal() and len(text) <= len(str(OFFSET_MAX)) and int(text) <= OFFSET_MAX
