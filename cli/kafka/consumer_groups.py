"""`kafka-consumer-groups`. Source: Kafka's ConsumerGroupCommand, ConsumerGroupCommandOptions."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from kvorum.cli.completion import group_names, topic_names
from kvorum.cli.groups.reset import scenarios_of, warn_of_moves
from kvorum.cli.kafka.common import Connection, Files, connected, invalid_beside, one_action, without
from kvorum.cli.output import say

if TYPE_CHECKING:
    from kvorum.cli.groups.actions import Reset
    from kvorum.cli.groups.rows import GroupRows
    from kvorum.client.wire.cluster_client import ClusterClient
    from kvorum.protocol.errors import ErrorCode
    from kvorum.protocol.topic_partition import TopicPartition

WAYS = ("to_earliest", "to_latest", "to_current", "to_offset", "shift_by", "to_datetime", "by_duration", "from_file")
WITHOUT_EXECUTE = (
    "WARN: No action will be performed as the --execute option is missing. In version 5.0, this command will require "
    "either --dry-run or --execute to be specified. You should add the --dry-run option explicitly if you are "
    "scripting this command and want to keep the current default behavior without prompting."
)


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
@connected()
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
            list_groups(connection, options)
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


def list_groups(connection: Connection, options: dict[str, Any]) -> None:
    """Print the ids, or a table with types and states."""
    from kvorum.cli.groups.rows import STATES, TYPES_OF_CONSUMERS, checked_words, list_row
    from kvorum.client.groups.groups import Groups, Listed

    try:
        states = checked_words(options["state"], STATES, "state")
        types = checked_words(options["group_type"], TYPES_OF_CONSUMERS, "type")
    except ValueError as error:
        raise click.UsageError(str(error)) from None

    async def work(cluster: "ClusterClient") -> list[Listed]:
        return [each for each in await Groups(cluster).listed(states, types) if each.is_of_consumers]

    rows = [list_row(each) for each in connection.run(work, timeout_ms=options["timeout_ms"])]
    wanted = ["group", *(["type"] if options["group_type"] is not None else [])]
    wanted += ["state"] if options["state"] is not None else []
    if wanted == ["group"]:
        for row in rows:
            say(row["group"])
        return
    columns = [[name.upper(), *(row[name] for row in rows)] for name in wanted]
    widths = [max([15, *(len(row["group"]) for row in rows)]) + 10, 20, 20]
    for line in zip(*columns, strict=True):
        say(" ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=False)))


def text(value: object) -> str:
    """Return a value as a cell: - for None."""
    return "-" if value in (None, "") else str(value)


def padded(rows: Sequence[Sequence[str]], least: Sequence[int]) -> list[str]:
    """Return rows as lines; a column is as wide as its widest cell if `least` is negative, and fixed otherwise."""
    widths = []
    for index, width in enumerate(least):
        widest = max(len(row[index]) for row in rows[1:]) if len(rows) > 1 else 0
        widths.append(max(-width, widest) if width < 0 else width)
    return [" ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]


def describe_groups(connection: Connection, options: dict[str, Any]) -> None:
    """Print each group for itself, an empty line above."""

    async def work(cluster: "ClusterClient") -> list["GroupRows"]:
        from kvorum.cli.groups.rows import group_ids, group_rows
        from kvorum.client.groups.groups import Groups

        wanted = await group_ids(Groups(cluster), options["group"], options["all_groups"])
        return [await group_rows(cluster, group_id) for group_id in sorted(wanted)]

    verbose = options["verbose"]
    for each in connection.run(work, timeout_ms=options["timeout_ms"]):
        from kvorum.cli.groups.rows import state_notice

        notice = state_notice(each.group)
        if notice is not None:
            click.echo(f"\n{notice}", err=True)
        if options["members"]:
            lines = member_lines(each, verbose)
        elif options["state"] is not None:
            lines = state_lines(each, verbose)
        else:
            lines = offset_lines(each, verbose) if each.rows else []
        if lines:
            click.echo()
        for line in lines:
            say(line)


def offset_lines(found: "GroupRows", verbose: bool) -> list[str]:
    """Return the table of partitions."""
    head = ["GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID"]
    rows = [[*head, "HOST", "CLIENT-ID"], *([text(cell) for cell in row] for row in found.rows)]
    widths = [-15, -15, 10, 15, 15, 15, 15, -15, -15, 0]
    if not verbose:
        rows = [row[:3] + row[4:] for row in rows]
        widths = widths[:3] + widths[4:]
    return padded(rows, widths)


def member_lines(found: "GroupRows", verbose: bool) -> list[str]:
    """Return the table of members; of a group without any its heading, as Kafka does."""
    from kvorum.cli.groups.rows import member_rows

    members = member_rows(found.group)
    columns: list[tuple[str, int, list[str]]] = [
        ("GROUP", -15, [row.group for row in members]),
        ("CONSUMER-ID", -15, [row.consumer_id for row in members]),
    ]
    if any(row.group_instance_id for row in members):
        columns.append(("GROUP-INSTANCE-ID", -17, [row.group_instance_id or "" for row in members]))
    columns += [
        ("HOST", -15, [row.host for row in members]),
        ("CLIENT-ID", -15, [row.client_id for row in members]),
        ("#PARTITIONS", 15, [str(row.partitions) for row in members]),
    ]
    if verbose:
        columns += [
            ("CURRENT-EPOCH", 15, [text(row.epoch) for row in members]),
            ("CURRENT-ASSIGNMENT", -20, [text(row.assignment) for row in members]),
            ("TARGET-EPOCH", 15, [text(row.target_epoch) for row in members]),
            ("TARGET-ASSIGNMENT", -20, [text(row.target_assignment) for row in members]),
        ]
        if {row.upgraded for row in members} >= {True, False}:  # while some are still of the classic protocol
            columns.append(("UPGRADED", 0, [text(row.upgraded).lower() for row in members]))
    titles = [title for title, _, _ in columns]
    rows = [titles, *([cells[index] for _, _, cells in columns] for index in range(len(members)))]
    lines = padded(rows, [width for _, width, _ in columns])
    return lines if verbose else [f"{line} " for line in lines]  # Kafka's format of these ends in a blank


def state_lines(found: "GroupRows", verbose: bool) -> list[str]:
    """Return the table of the group itself."""
    from kvorum.cli.groups.rows import state_row

    row = state_row(found.group)
    head = ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"]
    rows = [[*head, "#MEMBERS"], list(map(text, row))]
    widths = [-15, -25, 20, 20, 15, 25, 0]
    if not verbose:
        rows = [each[:4] + each[6:] for each in rows]
        widths = widths[:4] + widths[6:]
    return padded(rows, widths)


def delete_groups(connection: Connection, options: dict[str, Any]) -> None:
    """Delete groups."""

    async def work(cluster: "ClusterClient") -> dict[str, Any]:
        from kvorum.cli.groups import actions as group_actions
        from kvorum.cli.groups.rows import group_ids
        from kvorum.client.groups.groups import Groups

        wanted = await group_ids(Groups(cluster), options["group"], options["all_groups"])
        return await group_actions.delete(cluster, wanted)

    outcome = connection.run(work, timeout_ms=options["timeout_ms"])
    done = ", ".join(f"'{name}'" for name, error in outcome.items() if error is None)
    refused = {name: error for name, error in outcome.items() if error is not None}
    if not refused:
        say(f"Deletion of requested consumer groups ({done}) was successful.")
        return
    say("\nError: Deletion of some consumer groups failed:")
    for name, error in refused.items():
        say(f"* Group '{name}' could not be deleted due to: {error}")
    if done:
        say(f"\nThese consumer groups were deleted successfully: {done}")
    raise SystemExit(1)


def delete_group_offsets(connection: Connection, options: dict[str, Any]) -> None:
    """Forget a group's offsets of topics; a topic that is not there is a row with the error."""
    from kvorum.cli.groups.reset_texts import parse_places
    from kvorum.client.groups.groups import Groups
    from kvorum.client.groups.offset_reset import ResetError
    from kvorum.client.groups.offsets import places_there

    (group_id,) = options["group"][-1:]
    try:
        named = [parse_places(topic) for topic in options["topic"]]
    except ResetError as error:
        raise click.UsageError(str(error)) from None

    async def work(cluster: "ClusterClient") -> tuple[dict["TopicPartition", "ErrorCode"], dict[str, "ErrorCode"]]:
        places, absent = await places_there(cluster, named)
        return await Groups(cluster).delete_offsets(group_id, places), absent

    outcome, absent = connection.run(work, timeout_ms=options["timeout_ms"])
    if any(outcome.values()):
        say("\nError: Encountered some partition-level error, see the follow-up details.")
    else:
        say(f"Request succeeded for deleting offsets from group {group_id}.")
    found = [(topic, -1, code) for topic, code in absent.items()]
    found += [(place.topic, place.partition, code) for place, code in outcome.items()]
    rows = [["TOPIC", "PARTITION", "STATUS"]]
    for topic, partition, code in sorted(found, key=lambda row: f"{row[0]}{row[1]}"):
        shown = "-" if partition < 0 else str(partition)
        rows.append([topic, shown, f"Error: {code.name}" if code else "Successful"])
    click.echo()
    for line in padded(rows, [-15, 10, 15]):
        say(line)
    if absent or any(outcome.values()):
        raise SystemExit(1)


def reset_group_offsets(connection: Connection, options: dict[str, Any]) -> None:
    """Print the new offsets of groups, and commit them with --execute."""
    from kvorum.cli.groups.actions import Scope, reset
    from kvorum.client.groups.offset_csv import format_plan
    from kvorum.client.groups.offset_reset import ResetError

    if not options["dry_run"] and not options["execute"]:
        click.echo(WITHOUT_EXECUTE, err=True)
    scope = Scope(topics=options["topic"], all_topics=options["all_topics"])
    if not scope.topics and not scope.all_topics and options["from_file"] is None:
        raise click.UsageError("One of the reset scopes should be defined: --all-topics, --topic.")
    only = options["group"][0] if len(options["group"]) == 1 else None

    async def work(cluster: "ClusterClient") -> list["Reset"]:
        from kvorum.cli.groups.rows import group_ids
        from kvorum.client.groups.groups import Groups

        wanted = await group_ids(Groups(cluster), options["group"], options["all_groups"])
        return await reset(cluster, wanted, scope, scenarios, execute=options["execute"])

    try:
        scenarios = scenarios_of({name: options[name] for name in WAYS}, only, time.time_ns() // 1_000_000)
        found = connection.run(work, timeout_ms=options["timeout_ms"])
    except ResetError as error:
        raise click.UsageError(str(error)) from None
    for move in (move for each in found for move in each.moves):
        if move.note is not None and scenarios_are_of_time(options):
            place = f"Partition {move.place.partition} from topic {move.place.topic}"
            say(f"\nWarn: {place} is empty. Falling back to latest known offset.")
    warn_of_moves(found, notes=False)
    refused = [each.refused for each in found if each.refused is not None]
    for reason in refused:
        say(f"\nError: {reason}")
    if options["export"]:
        say(format_plan(((each.group_id, each.offsets) for each in found), with_group=only is None))
    else:
        for line in plan_lines(found):
            say(line)
    if refused:
        raise SystemExit(1)


def scenarios_are_of_time(options: dict[str, Any]) -> bool:
    """Return whether groups are reset to a time."""
    return options["to_datetime"] is not None or options["by_duration"] is not None


def plan_lines(found: Sequence["Reset"]) -> list[str]:
    """Return the table of new offsets: a heading if there are groups, and one row per partition."""
    if not found:
        return [""]
    rows = [["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"]]
    for each in found:
        for place, offset in each.offsets.items():
            rows.append([each.group_id, place.topic, str(place.partition), str(offset)])
    group_width = max(15, *(len(each.group_id) for each in found))
    return ["", *padded(rows, [group_width, -15, 10, 0])]


def validate_regex(pattern: str) -> None:
    """Return whether RE2 accepts a pattern."""
    import re2  # type: ignore[import-untyped]  # the wheel has no stubs

    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode() if isinstance(error.args[0], bytes) else error.args[0]
        say(f"The regular expression `{pattern}` is invalid: {reason}.")
        return
    say(f"The regular expression `{pattern}` is valid.")
