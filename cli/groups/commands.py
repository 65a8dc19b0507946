"""`kvorum groups`: what Kafka's kafka-consumer-groups.sh does."""

from typing import TYPE_CHECKING, Any

import click

from kvorum.cli.completion import group_names, topic_names
from kvorum.cli.connection.client import bootstrap_option, with_cluster
from kvorum.cli.groups.reset import check_groups, reset_offsets, with_usage
from kvorum.cli.output import Exit, fail, output_option, show, tell

if TYPE_CHECKING:
    from kvorum.cli.groups.rows import GroupRows
    from kvorum.client.wire.cluster_client import ClusterClient

LIST_COLUMNS = ("group", "type", "protocol", "state")
OFFSET_COLUMNS = (
    *("group", "topic", "partition", "leader_epoch", "current_offset", "log_end_offset", "lag"),
    *("consumer_id", "host", "client_id"),
)
MEMBER_COLUMNS = ("group", "consumer_id", "group_instance_id", "host", "client_id", "partitions")
VERBOSE_MEMBER_COLUMNS = ("epoch", "assignment", "target_epoch", "target_assignment", "upgraded")
STATE_COLUMNS = ("group", "coordinator", "assignment_strategy", "state", "members")
VERBOSE_STATE_COLUMNS = ("group_epoch", "target_assignment_epoch")
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
}


@click.group()
def groups() -> None:
    """List, describe and delete groups; reset their offsets.

    \b
    kvorum groups list --state Stable
    kvorum groups describe payments --members --verbose
    kvorum groups reset-offsets payments --topic orders --to-earliest              dry run
    kvorum groups reset-offsets payments --topic orders --to-earliest --execute    applies it
    """


@groups.command("list")
@click.option("--state", "states", help="Only groups in these states: Stable,Empty,...")
@click.option("--type", "types", help="Only groups of these types: Classic,Consumer,Share,Streams.")
@bootstrap_option
@output_option
def list_(states: str | None, types: str | None, bootstrap: str, output: str) -> None:
    """List groups, with type, protocol and state.

    \b
    kvorum groups list
    kvorum groups list --state Stable,Empty --type Consumer -o json
    """
    from kvorum.cli.groups.rows import STATES, TYPES, checked_words, list_row
    from kvorum.client.groups.groups import Groups

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
@click.option("--offsets", "what", flag_value="offsets", default="offsets", help="Partitions, offsets, lag (default).")
@click.option("--members", "what", flag_value="members", help="Members.")
@click.option("--state", "what", flag_value="state", help="State, coordinator, assignor.")
@click.option("-v", "--verbose", is_flag=True, help="Include epochs and assignments.")
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
        from kvorum.cli.groups.rows import group_ids, group_rows
        from kvorum.client.groups.groups import Groups

        wanted = await group_ids(Groups(cluster), names, all_groups)
        return [await group_rows(cluster, group_id) for group_id in wanted]

    show_described(with_cluster(bootstrap, work), what, verbose, output)


def show_described(found: list["GroupRows"], what: str, verbose: bool, output: str) -> None:
    """Print groups: in all detail for programs, in Kafka's columns for people."""
    from kvorum.cli.groups.rows import member_rows, state_notice, state_row

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


@groups.command()
@click.argument("names", nargs=-1, shell_complete=group_names, metavar="GROUP...")
@click.option("--all-groups", is_flag=True, help="All consumer groups without members.")
@bootstrap_option
@output_option
def delete(names: tuple[str, ...], all_groups: bool, bootstrap: str, output: str) -> None:
    """Delete groups that have no members, with their offsets.

    \b
    kvorum groups delete payments billing
    """
    check_groups(names, all_groups)

    async def work(cluster: "ClusterClient") -> dict[str, Any]:
        from kvorum.cli.groups import actions as group_actions
        from kvorum.cli.groups.rows import group_ids
        from kvorum.client.groups.groups import Groups

        if all_groups:
            return await group_actions.delete(cluster, await group_actions.without_members(cluster))
        return await group_actions.delete(cluster, await group_ids(Groups(cluster), names, all_groups))

    outcome = with_cluster(bootstrap, work)
    rows = [
        {"group": name, "deleted": error is None, "error": None if error is None else error.code.name}
        for name, error in outcome.items()
    ]
    tell(rows, output, *(f"{name} deleted" for name, error in outcome.items() if error is None))
    fail_if_refused(outcome)


def fail_if_refused(outcome: dict[str, Any]) -> None:
    """Print the reason of each failure, and end with an error if there was one."""
    from kvorum.protocol.errors import ErrorCode

    refused = {name: error for name, error in outcome.items() if error is not None}
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
    """Delete committed offsets of topics that the group does not consume.

    \b
    kvorum groups delete-offsets payments --topic orders --topic refunds:0,1
    """

    async def work(cluster: "ClusterClient") -> list[dict[str, Any]]:
        from kvorum.cli.groups.actions import places_of
        from kvorum.client.groups.groups import Groups

        outcome = await Groups(cluster).delete_offsets(name, await places_of(cluster, topics))
        return [
            {"topic": place.topic, "partition": place.partition, "status": "Successful" if not code else code.name}
            for place, code in sorted(outcome.items())
        ]

    rows = with_usage(bootstrap, work)
    show(rows, output, ("topic", "partition", "status"))
    if any(row["status"] != "Successful" for row in rows):
        fail("offsets of some partitions were not deleted")


groups.add_command(reset_offsets)


@groups.command("remove-members")
@click.argument("name", metavar="GROUP", shell_complete=group_names)
@click.option("--member", "members", multiple=True, metavar="ID", help="Member id, as in `describe --members`.")
@click.option("--instance", "instances", multiple=True, metavar="ID", help="A static member, by its group.instance.id.")
@click.option("--all", "everybody", is_flag=True, help="All current members.")
@click.option("--reason", default="", help="Reason, for the coordinator's log.")
@bootstrap_option
@output_option
def remove_members(
    name: str,
    members: tuple[str, ...],
    instances: tuple[str, ...],
    everybody: bool,
    reason: str,
    bootstrap: str,
    output: str,
) -> None:
    """Remove members from a classic group. A member that still runs may rejoin.

    \b
    kvorum groups remove-members payments --instance pay-1
    kvorum groups remove-members payments --all --reason "stuck since noon"
    """
    from kvorum.client.groups.groups import Groups, Leaving, Removed

    if bool(members or instances) == everybody:
        raise click.UsageError("give --member or --instance, or --all")
    leaving = [Leaving(member_id=each) for each in members] + [Leaving(instance_id=each) for each in instances]

    async def work(cluster: "ClusterClient") -> list[Removed]:
        groups = Groups(cluster)
        if everybody:
            return await groups.remove_all_members(name, reason)
        return await groups.remove_members(name, leaving, reason)

    rows = [
        {
            "consumer_id": each.member_id or None,
            "group_instance_id": each.instance_id,
            "status": each.error.name if each.error else "Removed",
        }
        for each in with_cluster(bootstrap, work)
    ]
    show(rows, output, ("consumer_id", "group_instance_id", "status"), TITLES)
    if any(row["status"] != "Removed" for row in rows):
        fail("some members were not removed")
