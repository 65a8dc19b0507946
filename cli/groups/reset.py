"""`kvorum groups reset-offsets`, and its common parts with kafka-consumer-groups."""

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from kvorum.cli.completion import group_names, topic_names
from kvorum.cli.connection.client import bootstrap_option, with_cluster
from kvorum.cli.output import fail, output_option, show, warn

if TYPE_CHECKING:
    from kvorum.cli.groups.actions import GroupReset, Targets
    from kvorum.client.wire.cluster_client import ClusterClient

RESET_COLUMNS = ("group", "topic", "partition", "new_offset")
TITLES = {"new_offset": "NEW-OFFSET"}


def check_groups(names: tuple[str, ...], all_groups: bool) -> None:
    """Want groups, or all of them."""
    if bool(names) == all_groups:
        raise click.UsageError("give groups or --all-groups")


def with_usage(bootstrap: str, work: Any) -> Any:
    """Run `work` as `with_cluster`; a ResetError is a usage error."""
    from kvorum.client.values.offset_reset import ResetError

    try:
        return with_cluster(bootstrap, work)
    except ResetError as error:
        raise click.UsageError(str(error)) from None


def target_options(command: Any) -> Any:
    """Add the options of a reset, of which one is required."""
    for option in (
        click.option("--to-earliest", is_flag=True, help="To the earliest record."),
        click.option("--to-latest", is_flag=True, help="To the end."),
        click.option("--to-current", is_flag=True, help="To the committed offset, or the end where there is none."),
        click.option("--to-offset", type=int, help="To this offset."),
        click.option("--shift-by", type=int, help="Shift by N records; negative: backwards."),
        click.option("--to-datetime", metavar="YYYY-MM-DDThh:mm:ss.sss", help="To the first record from this time on."),
        click.option("--by-duration", metavar="PnDTnHnMnS", help="To the first record after now minus this duration."),
        click.option("--from-file", type=click.Path(exists=True, dir_okay=False), help="Offsets from a CSV file."),
    ):
        command = option(command)
    return command


def targets_of(options: dict[str, Any], group_id: str | None, now_ms: int) -> "Targets":
    """Return the one given target, by group. Raises ResetError if there is none, or several."""
    from kvorum.cli.groups.reset_texts import parse_datetime, parse_duration
    from kvorum.client.groups.offset_csv import parse_plan
    from kvorum.client.values.offset_reset import ResetError, ResetTarget

    given = {name: value for name, value in options.items() if value is not None and value is not False}
    if len(given) != 1:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in options)
        raise ResetError(f"give exactly one of {names}")
    ((name, value),) = given.items()
    match name:
        case "to_offset":
            target = ResetTarget(offset=value)
        case "shift_by":
            target = ResetTarget(shift_by=value)
        case "to_datetime":
            target = ResetTarget(timestamp_ms=parse_datetime(value))
        case "by_duration":
            target = ResetTarget(timestamp_ms=now_ms - round(parse_duration(value).total_seconds() * 1000))
        case "from_file":
            try:
                with open(value, encoding="utf-8") as file:
                    plans = parse_plan(file.read(), group_id)
            except UnicodeDecodeError as error:
                raise ResetError(f"{value}: {error}") from None
            return {name: ResetTarget(offsets=offsets) for name, offsets in plans.items()}.get
        case "to_earliest":
            target = ResetTarget(to="earliest")
        case "to_latest":
            target = ResetTarget(to="latest")
        case _:
            target = ResetTarget(to="current")
    return lambda _: target


@click.command("reset-offsets")
@click.argument("names", nargs=-1, shell_complete=group_names, metavar="GROUP...")
@click.option("--all-groups", is_flag=True, help="All consumer groups.")
@click.option("--topic", "topics", multiple=True, metavar="TOPIC[:0,1]", shell_complete=topic_names)
@click.option("--all-topics", is_flag=True, help="All topics with committed offsets of the group.")
@target_options
@click.option("--dry-run", is_flag=True, help="Change nothing (default).")
@click.option("--execute", is_flag=True, help="Apply the reset. The group must have no members.")
@click.option("--export", is_flag=True, help="Print CSV for --from-file.")
@bootstrap_option
@output_option
def reset_offsets(
    names: tuple[str, ...],
    all_groups: bool,
    topics: tuple[str, ...],
    all_topics: bool,
    dry_run: bool,
    execute: bool,
    export: bool,
    bootstrap: str,
    output: str,
    **target_values: Any,
) -> None:
    """Reset committed offsets of groups. A dry run without --execute.

    \b
    kvorum groups reset-offsets payments --topic orders --to-earliest
    kvorum groups reset-offsets payments --topic orders:0,1 --shift-by -100 --execute
    kvorum groups reset-offsets payments --all-topics --by-duration PT15M --export > plan.csv
    kvorum groups reset-offsets payments --from-file plan.csv --execute
    """
    from kvorum.cli.groups.actions import GroupReset, Scope, find_group_ids, reset
    from kvorum.client.groups.offset_csv import format_plan
    from kvorum.client.values.offset_reset import ResetError

    check_groups(names, all_groups)
    if dry_run and execute:
        raise click.UsageError("give --dry-run or --execute, not both")
    if (bool(topics) + all_topics + (target_values["from_file"] is not None)) != 1:
        raise click.UsageError("give --topic, --all-topics or --from-file")
    try:
        targets = targets_of(target_values, names[0] if len(names) == 1 else None, time.time_ns() // 1_000_000)
    except ResetError as error:
        raise click.UsageError(str(error)) from None

    async def work(cluster: "ClusterClient") -> list[GroupReset]:
        wanted = await find_group_ids(cluster, names, all_groups)
        return await reset(cluster, wanted, Scope(topics=topics, all_topics=all_topics), targets, execute=execute)

    found: list[GroupReset] = with_usage(bootstrap, work)
    warn_of_limits(found)
    if export:
        plans = ((each.group_id, each.offsets) for each in found)
        click.echo(format_plan(plans, with_group=len(names) != 1), nl=False)
    else:
        rows = [
            {"group": each.group_id, "topic": place.topic, "partition": place.partition, "new_offset": offset}
            for each in found
            for place, offset in each.offsets.items()
        ]
        show(rows, output, RESET_COLUMNS, TITLES)
    if not execute:
        click.echo("Dry run: nothing was changed. Add --execute to apply.", err=True)
    errors = [each.error for each in found if each.error is not None]
    for reason in errors[:-1]:
        click.echo(f"kvorum: {reason}", err=True)
    if errors:
        fail(errors[-1])


def warn_of_limits(found: Iterable["GroupReset"], *, notes: bool = True) -> None:
    """Report offsets outside their logs, with the offsets used instead, and the reason for the latest."""
    from kvorum.cli.groups.reset_texts import warning_of

    for reset in (one for each in found for one in each.resets):
        if notes and reset.note is not None:
            warn(f"{reset.topic_partition}: {reset.note}")
        warning = warning_of(reset)
        if warning is not None:
            warn(warning)
