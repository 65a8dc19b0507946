"""`kvorum groups`: what Kafka's kafka-consumer-groups.sh does."""

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from kvorum.cli.client import bootstrap_option, with_cluster
from kvorum.cli.completion import group_names, topic_names
from kvorum.cli.output import Exit, fail, output_option, show, warn

if TYPE_CHECKING:
    from kvorum.admin.client import ClusterClient
    from kvorum.cli.group_actions import Reset, Scenarios
    from kvorum.cli.group_rows import GroupRows

LIST_COLUMNS = ("group", "type", "protocol", "state")
OFFSET_COLUMNS = (
    *("group", "topic", "partition", "leader_epoch", "current_offset", "log_end_offset", "lag"),
    *("consumer_id", "host", "client_id"),
)
MEMBER_COLUMNS = ("group", "consumer_id", "group_instance_id", "host", "client_id", "partitions")
VERBOSE_MEMBER_COLUMNS = ("epoch", "assignment", "target_epoch", "target_assignment", "upgraded")
STATE_COLUMNS = ("group", "coordinator", "assignment_strategy", "state", "members")
VERBOSE_STATE_COLUMNS = ("group_epoch", "target_assignment_epoch")
RESET_COLUMNS = ("group", "topic", "partition", "new_offset")
TITLES = {
    "leader_epoch": "LEADER-EPOCH",
    "current_offset": "CURRENT-OFFSET",
    "log_end_offset": "LOG-END-OFFSET",
    "consumer_id": "CONSUMER-ID",
    "client_id": "CLIENT-ID",
    "group_instance_id": "GROUP-INSTANCE-ID",
    "partitions": "#PARTITIONS",
    "epoch": "CURRENT-EPOCH",
    "assignment": "CURRENT-ASSIGNMENT",
    "target_epoch": "TARGET-EPOCH",
    "target_assignment": "TARGET-ASSIGNMENT",
    "coordinator": "COORDINATOR (ID)",
    "assignment_strategy": "ASSIGNMENT-STRATEGY",
    "group_epoch": "GROUP-EPOCH",
    "target_assignment_epoch": "TARGET-ASSIGNMENT-EPOCH",
    "members": "#MEMBERS",
    "new_offset": "NEW-OFFSET",
}


@click.group()
def groups() -> None:
    """List and describe groups, move their offsets, delete them.

    \b
    kvorum groups list --state Stable
    kvorum groups describe payments --members --verbose
    kvorum groups reset-offsets payments --topic orders --to-earliest              says what it would do
    kvorum groups reset-offsets payments --topic orders --to-earliest --execute    does it
    """


@groups.command("list")
@click.option("--state", "states", help="Only those in these states: Stable,Empty,...")
@click.option("--type", "types", help="Only those of these types: Classic,Consumer,Share,Streams.")
@bootstrap_option
@output_option
def list_(states: str | None, types: str | None, bootstrap: str, output: str) -> None:
    """List groups, with type, protocol and state.

    \b
    kvorum groups list
    kvorum groups list --state Stable,Empty --type Consumer -o json
    """
    from kvorum.admin.groups import Groups
    from kvorum.cli.group_rows import STATES, TYPES, checked_words, list_row

    try:
        wanted = checked_words(states, STATES, "state"), checked_words(types, TYPES, "type")
    except ValueError as error:
        raise click.UsageError(str(error)) from None

    async def work(cluster: "ClusterClient") -> list[dict[str, str]]:
        return [list_row(listed) for listed in await Groups(cluster).listed(*wanted)]

    show(with_cluster(bootstrap, work), output, LIST_COLUMNS)


@groups.command()
@click.argument("names", nargs=-1, shell_complete=group_names, metavar="GROUP...")
@click.option("--all-groups", is_flag=True, help="All consumer groups.")
@click.option(
    "--offsets", "what", flag_value="offsets", default="offsets", help="Partitions, offsets, lag (the default)."
)
@click.option("--members", "what", flag_value="members", help="The members.")
@click.option("--state", "what", flag_value="state", help="State, coordinator, assignor.")
@click.option("-v", "--verbose", is_flag=True, help="Epochs and assignments, too.")
@bootstrap_option
@output_option
def describe(names: tuple[str, ...], all_groups: bool, what: str, verbose: bool, bootstrap: str, output: str) -> None:
    """Describe groups: offsets and lag, members, or state.

    \b
    kvorum groups describe payments
    kvorum groups describe payments --members --verbose
    kvorum groups describe --all-groups --state -o json
    """
    check_groups(names, all_groups)

    async def work(cluster: "ClusterClient") -> list["GroupRows"]:
        from kvorum.admin.groups import Groups
        from kvorum.cli.group_rows import group_ids, group_rows

        wanted = await group_ids(Groups(cluster), names, all_groups)
        return [await group_rows(cluster, group_id) for group_id in wanted]

    show_described(with_cluster(bootstrap, work), what, verbose, output)


def show_described(found: list["GroupRows"], what: str, verbose: bool, output: str) -> None:
    """Print groups: in all detail for programs, in Kafka's columns for people."""
    from kvorum.cli.group_rows import member_rows, state_notice, state_row

    rows: list[dict[str, Any]]
    if what == "members":
        rows = [row._asdict() for each in found for row in member_rows(each.group)]
        columns = (*MEMBER_COLUMNS, *(VERBOSE_MEMBER_COLUMNS if verbose else ()))
    elif what == "state":
        rows = [state_row(each.group)._asdict() for each in found]
        columns = (*STATE_COLUMNS, *(VERBOSE_STATE_COLUMNS if verbose else ()))
    else:
        rows = [row._asdict() for each in found for row in each.rows]
        columns = OFFSET_COLUMNS if verbose else tuple(name for name in OFFSET_COLUMNS if name != "leader_epoch")
    for each in found:
        notice = state_notice(each.group)
        if notice is not None and output == "table":
            click.echo(notice, err=True)
    show(rows, output, columns, TITLES)


def check_groups(names: tuple[str, ...], all_groups: bool) -> None:
    """Want groups, or all of them."""
    if bool(names) == all_groups:
        raise click.UsageError("name groups, or give --all-groups")


@groups.command()
@click.argument("names", nargs=-1, shell_complete=group_names, metavar="GROUP...")
@click.option("--all-groups", is_flag=True, help="All consumer groups without members.")
@bootstrap_option
def delete(names: tuple[str, ...], all_groups: bool, bootstrap: str) -> None:
    """Delete groups that have no members, with their offsets.

    \b
    kvorum groups delete payments billing
    """
    check_groups(names, all_groups)

    async def work(cluster: "ClusterClient") -> dict[str, Any]:
        from kvorum.admin.groups import Groups
        from kvorum.cli import group_actions
        from kvorum.cli.group_rows import group_ids

        return await group_actions.delete(cluster, await group_ids(Groups(cluster), names, all_groups))

    fail_if_refused(with_cluster(bootstrap, work), "deleted")


def fail_if_refused(outcome: dict[str, Any], done: str) -> None:
    """Say of each thing whether it was done, and end with an error if one was not."""
    from kvorum.protocol.errors import ErrorCode

    refused = {name: error for name, error in outcome.items() if error is not None}
    for name in outcome:
        if name not in refused:
            click.echo(f"{name} {done}")
    for name, error in list(refused.items())[:-1]:
        click.echo(f"kvorum: {name}: {error}", err=True)
    if refused:
        name, error = list(refused.items())[-1]
        missing = all(each.code is ErrorCode.GROUP_ID_NOT_FOUND for each in refused.values())
        fail(f"{name}: {error}", Exit.NOT_FOUND if missing else Exit.FAILED)


@groups.command("delete-offsets")
@click.argument("name", metavar="GROUP", shell_complete=group_names)
@click.option("--topic", "topics", multiple=True, required=True, metavar="TOPIC[:0,1]", shell_complete=topic_names)
@bootstrap_option
@output_option
def delete_offsets(name: str, topics: tuple[str, ...], bootstrap: str, output: str) -> None:
    """Forget what a group has committed of topics that it does not consume.

    \b
    kvorum groups delete-offsets payments --topic orders --topic refunds:0,1
    """

    async def work(cluster: "ClusterClient") -> list[dict[str, Any]]:
        from kvorum.admin.groups import Groups
        from kvorum.cli.group_actions import places_of

        outcome = await Groups(cluster).delete_offsets(name, await places_of(cluster, topics))
        return [
            {"topic": place.topic, "partition": place.partition, "status": "Successful" if not code else code.name}
            for place, code in sorted(outcome.items())
        ]

    rows = with_usage(bootstrap, work)
    show(rows, output, ("topic", "partition", "status"))
    if any(row["status"] != "Successful" for row in rows):
        fail("offsets of some partitions were not deleted")


def with_usage(bootstrap: str, work: Any) -> Any:
    """Run `work` as `with_cluster`; what cannot be asked for is wrong usage."""
    from kvorum.admin.offset_reset import ResetError

    try:
        return with_cluster(bootstrap, work)
    except ResetError as error:
        raise click.UsageError(str(error)) from None


def way_options(command: Any) -> Any:
    """Add the ways of a reset, one of which is to be given."""
    for option in (
        click.option("--to-earliest", is_flag=True, help="To the first record there is."),
        click.option("--to-latest", is_flag=True, help="Behind the last record."),
        click.option("--to-current", is_flag=True, help="Where the group is; to the end where it has been nowhere."),
        click.option("--to-offset", type=int, help="To this offset."),
        click.option("--shift-by", type=int, help="So many records on, or back if negative."),
        click.option("--to-datetime", metavar="YYYY-MM-DDThh:mm:ss.sss", help="To the first record from then on."),
        click.option("--by-duration", metavar="PnDTnHnMnS", help="To the first record of so long ago."),
        click.option("--from-file", type=click.Path(exists=True, dir_okay=False), help="As a CSV file says."),
    ):
        command = option(command)
    return command


def scenarios_of(ways: dict[str, Any], group_id: str | None, now_ms: int) -> "Scenarios":
    """Return the one way that is given, by group. Raises ResetError if there is none, or several."""
    from kvorum.admin.offset_reset import ResetError, Scenario, Way
    from kvorum.cli.reset_texts import parse_datetime, parse_duration, parse_plan

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
            with open(value, encoding="utf-8") as file:
                plans = parse_plan(file.read(), group_id)
            return {name: Scenario(way=Way.EXPLICIT, offsets=offsets) for name, offsets in plans.items()}.get
        case _:
            scenario = Scenario(way=Way[name.removeprefix("to_").upper()])
    return lambda _: scenario


@groups.command("reset-offsets")
@click.argument("names", nargs=-1, shell_complete=group_names, metavar="GROUP...")
@click.option("--all-groups", is_flag=True, help="All consumer groups.")
@click.option("--topic", "topics", multiple=True, metavar="TOPIC[:0,1]", shell_complete=topic_names)
@click.option("--all-topics", is_flag=True, help="All that the group has committed offsets of.")
@way_options
@click.option("--dry-run", is_flag=True, help="Change nothing: the default.")
@click.option("--execute", is_flag=True, help="Do it. The group must have no members.")
@click.option("--export", is_flag=True, help="Print CSV that --from-file reads.")
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
    """Say where groups are to go on. Without --execute it is only shown what would be done.

    \b
    kvorum groups reset-offsets payments --topic orders --to-earliest
    kvorum groups reset-offsets payments --topic orders:0,1 --shift-by -100 --execute
    kvorum groups reset-offsets payments --all-topics --by-duration PT15M --export > plan.csv
    kvorum groups reset-offsets payments --from-file plan.csv --execute
    """
    from kvorum.admin.offset_reset import ResetError
    from kvorum.cli.group_actions import Reset, Scope, reset
    from kvorum.cli.group_rows import group_ids
    from kvorum.cli.reset_texts import format_plan

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
        from kvorum.admin.groups import Groups

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
        click.echo("nothing was changed; to do it, give --execute", err=True)
    refused = [each.refused for each in found if each.refused is not None]
    for reason in refused[:-1]:
        click.echo(f"kvorum: {reason}", err=True)
    if refused:
        fail(refused[-1])


def warn_of_moves(found: Iterable["Reset"]) -> None:
    """Say which offsets lie outside their logs, and where the groups go instead."""
    from kvorum.cli.reset_texts import warning_of

    for move in (move for each in found for move in each.moves):
        warning = warning_of(move)
        if warning is not None:
            warn(warning)
