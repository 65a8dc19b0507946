"""`kvorum groups reset-offsets`, and its common parts with kafka-consumer-groups."""

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from kvorum.cli.completion import group_names, topic_names
from kvorum.cli.connection.client import bootstrap_option, with_cluster
from kvorum.cli.output import fail, output_option, show, warn

if TYPE_CHECKING:
    from kvorum.cli.groups.actions import Reset, Scenarios
    from kvorum.client.wire.cluster_client import ClusterClient

RESET_COLUMNS = ("group", "topic", "partition", "new_offset")
TITLES = {"new_offset": "NEW-OFFSET"}


def check_groups(names: tuple[str, ...], all_groups: bool) -> None:
    """Want groups, or all of them."""
    if bool(names) == all_groups:
        raise click.UsageError("give groups or --all-groups")


def with_usage(bootstrap: str, work: Any) -> Any:
    """Run `work` as `with_cluster`; a ResetError is a usage error."""
    from kvorum.client.groups.offset_reset import ResetError

    try:
        return with_cluster(bootstrap, work)
    except ResetError as error:
        raise click.UsageError(str(error)) from None


def way_options(command: Any) -> Any:
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


def scenarios_of(ways: dict[str, Any], group_id: str | None, now_ms: int) -> "Scenarios":
    """Return the one given reset method, by group. Raises ResetError if there is none, or several."""
    from kvorum.cli.groups.reset_texts import parse_datetime, parse_duration
    from kvorum.client.groups.offset_csv import parse_plan
    from kvorum.client.groups.offset_reset import ResetError, Scenario, Way

    given = {name: value for name, value in ways.items() if value is not None and value is not False}
    if len(given) != 1:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in ways)
        raise ResetError(f"give exactly one of {options}")
    ((name, value),) = given.items()
    match name:
        case "to_offset":
            scenario = Scenario(way=Way.OFFSET, number=value)
        case "shift_by":
            scenario = Scenario(way=Way.SHIFT, number=value)
        case "to_datetime":
            scenario = Scenario(way=Way.TIME, number=parse_datetime(value))
        case "by_duration":
            scenario = Scenario(way=Way.TIME, number=now_ms - round(parse_duration(value).total_seconds() * 1000))
        case "from_file":
            try:
                with open(value, encoding="utf-8") as file:
                    plans = parse_plan(file.read(), group_id)
            except UnicodeDecodeError as error:
                raise ResetError(f"{value}: {error}") from None
            return {name: Scenario(way=Way.EXPLICIT, offsets=offsets) for name, offsets in plans.items()}.get
        case _:
            scenario = Scenario(way=Way[name.removeprefix("to_").upper()])
    return lambda _: scenario


@click.command("reset-offsets")
@click.argument("names", nargs=-1, shell_complete=group_names, metavar="GROUP...")
@click.option("--all-groups", is_flag=True, help="All consumer groups.")
@click.option("--topic", "topics", multiple=True, metavar="TOPIC[:0,1]", shell_complete=topic_names)
@click.option("--all-topics", is_flag=True, help="All topics with committed offsets of the group.")
@way_options
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
    **ways: Any,
) -> None:
    """Reset committed offsets of groups. A dry run without --execute.

    \b
    kvorum groups reset-offsets payments --topic orders --to-earliest
    kvorum groups reset-offsets payments --topic orders:0,1 --shift-by -100 --execute
    kvorum groups reset-offsets payments --all-topics --by-duration PT15M --export > plan.csv
    kvorum groups reset-offsets payments --from-file plan.csv --execute
    """
    from kvorum.cli.groups.actions import Reset, Scope, reset
    from kvorum.cli.groups.rows import group_ids
    from kvorum.client.groups.offset_csv import format_plan
    from kvorum.client.groups.offset_reset import ResetError

    check_groups(names, all_groups)
    if dry_run and execute:
        raise click.UsageError("give --dry-run or --execute, not both")
    if (bool(topics) + all_topics + (ways["from_file"] is not None)) != 1:
        raise click.UsageError("give --topic, --all-topics or --from-file")
    try:
        scenarios = scenarios_of(ways, names[0] if len(names) == 1 else None, time.time_ns() // 1_000_000)
    except ResetError as error:
        raise click.UsageError(str(error)) from None

    async def work(cluster: "ClusterClient") -> list[Reset]:
        from kvorum.client.groups.groups import Groups

        wanted = await group_ids(Groups(cluster), names, all_groups)
        return await reset(cluster, wanted, Scope(topics=topics, all_topics=all_topics), scenarios, execute=execute)

    found: list[Reset] = with_usage(bootstrap, work)
    warn_of_moves(found)
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
    refused = [each.refused for each in found if each.refused is not None]
    for reason in refused[:-1]:
        click.echo(f"kvorum: {reason}", err=True)
    if refused:
        fail(refused[-1])


def warn_of_moves(found: Iterable["Reset"], *, notes: bool = True) -> None:
    """Report offsets outside their logs, with the offsets used instead, and the reason for the latest."""
    from kvorum.cli.groups.reset_texts import warning_of

    for move in (move for each in found for move in each.moves):
        if notes and move.note is not None:
            warn(f"{move.place}: {move.note}")
        warning = warning_of(move)
        if warning is not None:
            warn(warning)
