"""The reset-offsets action of `kafka-consumer-groups`."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from kvorum.cli.groups.reset import targets_of, warn_of_limits
from kvorum.cli.kafka.common import Connection
from kvorum.cli.kafka.tables import pad_columns
from kvorum.cli.output import say

if TYPE_CHECKING:
    from kvorum.cli.groups.actions import GroupReset
    from kvorum.client.wire.cluster_client import ClusterClient

WAYS = ("to_earliest", "to_latest", "to_current", "to_offset", "shift_by", "to_datetime", "by_duration", "from_file")
WITHOUT_EXECUTE = (
    "WARN: No action will be performed as the --execute option is missing. In version 5.0, this command will require "
    "either --dry-run or --execute to be specified. You should add the --dry-run option explicitly if you are "
    "scripting this command and want to keep the current default behavior without prompting."
)


def reset_group_offsets(connection: Connection, options: dict[str, Any]) -> None:
    """Print the new offsets of groups, and commit them with --execute."""
    from kvorum.cli.groups.actions import Scope, find_group_ids, reset
    from kvorum.client.groups.offset_csv import format_plan
    from kvorum.client.values.offset_reset import ResetError

    if not options["dry_run"] and not options["execute"]:
        click.echo(WITHOUT_EXECUTE, err=True)
    scope = Scope(topics=options["topic"], all_topics=options["all_topics"])
    if not scope.topics and not scope.all_topics and options["from_file"] is None:
        raise click.UsageError("One of the reset scopes should be defined: --all-topics, --topic.")
    only = options["group"][0] if len(options["group"]) == 1 else None

    async def work(cluster: "ClusterClient") -> list["GroupReset"]:
        wanted = await find_group_ids(cluster, options["group"], options["all_groups"])
        return await reset(cluster, wanted, scope, targets, execute=options["execute"])

    try:
        targets = targets_of({name: options[name] for name in WAYS}, only, time.time_ns() // 1_000_000)
        found = connection.run(work, timeout_ms=options["timeout_ms"])
    except ResetError as error:
        raise click.UsageError(str(error)) from None
    for each in (one for group in found for one in group.resets):
        if each.note is not None and is_reset_by_time(options):
            partition = f"Partition {each.partition} from topic {each.topic}"
            say(f"\nWarn: {partition} is empty. Falling back to latest known offset.")
    warn_of_limits(found, notes=False)
    errors = [group.error for group in found if group.error is not None]
    for reason in errors:
        say(f"\nError: {reason}")
    if options["export"]:
        say(format_plan(((group.group_id, group.offsets) for group in found), with_group=only is None))
    else:
        for line in plan_lines(found):
            say(line)
    if errors:
        raise SystemExit(1)


def is_reset_by_time(options: dict[str, Any]) -> bool:
    """Return whether groups are reset to a time."""
    return options["to_datetime"] is not None or options["by_duration"] is not None


def plan_lines(found: Sequence["GroupReset"]) -> list[str]:
    """Return the table of new offsets: a heading if there are groups, and one row per partition."""
    if not found:
        return [""]
    rows = [["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"]]
    for each in found:
        for place, offset in each.offsets.items():
            rows.append([each.group_id, place.topic, str(place.partition), str(offset)])
    group_width = max(15, *(len(each.group_id) for each in found))
    return ["", *pad_columns(rows, [group_width, -15, 10, 0])]
