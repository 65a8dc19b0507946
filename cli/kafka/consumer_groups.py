"""`kafka-consumer-groups`. Source: Kafka's ConsumerGroupCommand, ConsumerGroupCommandOptions."""

from typing import Any

import click

from kvorum.cli.completion import group_names, topic_names
from kvorum.cli.kafka.common import Connection, Files, connection_options
from kvorum.cli.kafka.consumer_groups_delete import delete_group_offsets, delete_groups
from kvorum.cli.kafka.consumer_groups_describe import describe_groups
from kvorum.cli.kafka.consumer_groups_list import list_groups, validate_regex
from kvorum.cli.kafka.consumer_groups_reset import WAYS, reset_group_offsets
from kvorum.cli.kafka.option_checks import invalid_beside, one_action, without


@click.command("kafka-consumer-groups")
@click.option("--list", "listing", is_flag=True)
@click.option("--describe", is_flag=True)
@click.option("--delete", is_flag=True)
@click.option("--delete-offsets", is_flag=True)
@click.option("--reset-offsets", is_flag=True)
@click.option("--validate-regex", metavar="REGEX", help="Check whether a pattern is valid in RE2 syntax.")
@click.option("--group", "group", multiple=True, shell_complete=group_names)
@click.option("--all-groups", is_flag=True)
@click.option("--topic", "topic", multiple=True, shell_complete=topic_names, help="TOPIC or TOPIC:0,1,2")
@click.option("--all-topics", is_flag=True)
@click.option("--members", is_flag=True, help="With --describe.")
@click.option("--offsets", is_flag=True, help="With --describe: the default.")
@click.option(
    "--state", is_flag=False, flag_value="", help="With --describe: show the state; with --list: show or select states."
)
@click.option("--type", "group_type", is_flag=False, flag_value="", help="With --list: show or select types.")
@click.option("--verbose", is_flag=True, help="With --describe.")
@click.option("--dry-run", is_flag=True)
@click.option("--execute", is_flag=True)
@click.option("--export", is_flag=True)
@click.option("--to-earliest", is_flag=True)
@click.option("--to-latest", is_flag=True)
@click.option("--to-current", is_flag=True)
@click.option("--to-offset", type=int)
@click.option("--shift-by", type=int)
@click.option("--to-datetime", metavar="YYYY-MM-DDThh:mm:ss.sss")
@click.option("--by-duration", metavar="PnDTnHnMnS")
@click.option("--from-file", type=Files)
@click.option("--timeout", "timeout_ms", type=click.IntRange(1), default=30_000, help="Timeout of requests in ms.")
@connection_options()
def consumer_groups(connection: Connection, **options: Any) -> None:
    """List and describe consumer groups, delete them, reset and delete their offsets.

    \b
    kvorum kafka-consumer-groups --bootstrap-server localhost:9092 --describe --group payments
    kvorum kafka-consumer-groups --bootstrap-server localhost:9092 --group payments --topic orders \\
        --reset-offsets --to-earliest --execute
    """
    actions = {name: options[name] for name in ("describe", "delete", "reset_offsets", "delete_offsets")}
    action = one_action(
        {"list": options["listing"]}
        | {name.replace("_", "-"): wanted for name, wanted in actions.items()}
        | {"validate-regex": options["validate_regex"] is not None}
    )
    check(action, options)
    match action:
        case "list":
            list_groups(connection, options["state"], options["group_type"], options["timeout_ms"])
        case "describe":
            describe_groups(connection, options)
        case "delete":
            delete_groups(connection, options)
        case "delete-offsets":
            delete_group_offsets(connection, options)
        case "reset-offsets":
            reset_group_offsets(connection, options)
        case _:
            validate_regex(options["validate_regex"])


def check(action: str, options: dict[str, Any]) -> None:
    """Refuse options that do not go together, as Kafka does."""
    if action in ("describe", "delete", "reset-offsets") and not options["group"] and not options["all_groups"]:
        raise click.UsageError(f"Option [{action}] takes one of these options: [group], [all-groups]")
    if options["group"]:
        invalid_beside("group", {"all-groups": options["all_groups"], "list": options["listing"]})
    if options["topic"]:
        invalid_beside("topic", {"list": options["listing"], "describe": options["describe"]})
    if action == "delete-offsets" and not (options["group"] and options["topic"]):
        raise click.UsageError("Option [delete-offsets] takes the following options: [group], [topic]")
    if action != "describe":
        for name in ("members", "offsets", "verbose"):
            without({name: options[name]}, f"[{action}]; it goes with [describe]")
    elif options["members"] + options["offsets"] + (options["state"] is not None) > 1:
        raise click.UsageError("Option [describe] takes at most one of these options: [members], [offsets], [state]")
    elif options["state"]:
        raise click.UsageError("Option [describe] does not take a value for [state]")
    if action not in ("describe", "list"):
        without({"state": options["state"]}, f"[{action}]")
    if action != "list":
        without({"type": options["group_type"]}, f"[{action}]")
    if action == "delete" and options["topic"]:
        raise click.UsageError("The consumer does not support topic-specific offset deletion from a consumer group.")
    if action != "reset-offsets":
        for name in (*WAYS, "dry_run", "execute", "export", "all_topics"):
            without({name.replace("_", "-"): options[name]}, f"[{action}]; it goes with [reset-offsets]")
    elif options["dry_run"] and options["execute"]:
        raise click.UsageError("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
