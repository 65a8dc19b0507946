"""The describe action of `kafka-consumer-groups`. Source: Kafka's ConsumerGroupCommand.describeGroups."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from kvorum.cli.kafka.common import Connection
from kvorum.cli.kafka.tables import pad_columns
from kvorum.cli.output import say

if TYPE_CHECKING:
    from kvorum.client.values.group import Group, Lag, Member
    from kvorum.client.wire.cluster_client import ClusterClient
    from kvorum.protocol.topic_partition import TopicPartition

    MemberColumn = tuple[str, int, Callable[[Member], str]]

REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


def describe_groups(connection: Connection, options: dict[str, Any]) -> None:
    """Print each group for itself, an empty line above."""
    verbose, with_members, with_state = options["verbose"], options["members"], options["state"] is not None

    async def work(cluster: "ClusterClient") -> "list[tuple[Group, Sequence[Lag]]]":
        from kvorum.cli.groups.actions import find_group_ids
        from kvorum.client.namespaces.groups import Groups

        groups, found = Groups(cluster), []
        for group_id in sorted(await find_group_ids(cluster, options["group"], options["all_groups"])):
            group = await groups.describe(group_id)
            found.append((group, [] if with_members or with_state else await groups.lags(group)))
        return found

    for group, lags in connection.run(work, timeout_ms=options["timeout_ms"]):
        if group.state == "Empty":
            click.echo(f"\nConsumer group '{group.group_id}' has no active members.", err=True)
        elif group.state in REBALANCING:
            click.echo(f"\nWarning: Consumer group '{group.group_id}' is rebalancing.", err=True)
        if with_members:
            lines = member_lines(group, verbose)
        elif with_state:
            lines = state_lines(group, verbose)
        else:
            lines = offset_lines(group, lags, verbose) if lags else []
        if lines:
            click.echo()
        for line in lines:
            say(line)


def cell(value: object) -> str:
    """Return a value as a cell: - for None and for an empty text."""
    return "-" if value in (None, "") else str(value)


def offset_lines(group: "Group", lags: "Sequence[Lag]", verbose: bool) -> list[str]:
    """Return the table of partitions."""
    head = ["GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID"]
    rows = [[*head, "HOST", "CLIENT-ID"]]
    for each in lags:
        committed, member = each.committed, each.member
        epoch, offset = (None, None) if committed is None else (committed.leader_epoch, committed.offset)
        owner = [None, None, None] if member is None else [member.member_id, member.host, member.client_id]
        cells = [group.group_id, each.topic, each.partition, epoch, offset, each.end_offset, each.lag, *owner]
        rows.append([cell(value) for value in cells])
    widths = [-15, -15, 10, 15, 15, 15, 15, -15, -15, 0]
    if not verbose:
        rows = [row[:3] + row[4:] for row in rows]
        widths = widths[:3] + widths[4:]
    return pad_columns(rows, widths)


def member_lines(group: "Group", verbose: bool) -> list[str]:
    """Return the table of members; of a group without any its heading, as Kafka does."""
    members = sorted(group.members, key=lambda member: member.member_id)
    columns: list[MemberColumn] = [
        ("GROUP", -15, lambda _: group.group_id),
        ("CONSUMER-ID", -15, lambda member: member.member_id),
    ]
    if any(member.instance_id for member in members):
        columns.append(("GROUP-INSTANCE-ID", -17, lambda member: member.instance_id or ""))
    columns += [
        ("HOST", -15, lambda member: member.host),
        ("CLIENT-ID", -15, lambda member: member.client_id),
        ("#PARTITIONS", 15, lambda member: str(len(member.assignment))),
    ]
    if verbose:
        columns += [
            ("CURRENT-EPOCH", 15, lambda member: cell(member.epoch)),
            ("CURRENT-ASSIGNMENT", -20, lambda member: cell(assignment_text(member.assignment))),
            ("TARGET-EPOCH", 15, lambda member: cell(None if member.epoch is None else group.assignment_epoch)),
            ("TARGET-ASSIGNMENT", -20, lambda member: cell(assignment_text(member.target or ()))),
        ]
        if {member.upgraded for member in members} >= {True, False}:  # while some are still of the classic protocol
            columns.append(("UPGRADED", 0, lambda member: cell(member.upgraded).lower()))
    rows = [[title for title, _, _ in columns], *([text(member) for _, _, text in columns] for member in members)]
    lines = pad_columns(rows, [width for _, width, _ in columns])
    return lines if verbose else [f"{line} " for line in lines]  # Kafka's format of these ends in a blank


def assignment_text(partitions: "Iterable[TopicPartition]") -> str:
    """Return an assignment as Kafka 4 writes it: orders:0,1;payments:2."""
    from kvorum.protocol.topic_partition import by_topic

    topics = sorted(by_topic(partitions).items())
    return ";".join(f"{topic}:{','.join(map(str, sorted(indexes)))}" for topic, indexes in topics)


def state_lines(group: "Group", verbose: bool) -> list[str]:
    """Return the table of the group itself."""
    host, port = group.coordinator
    head = ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"]
    cells = [group.group_id, f"{host}:{port}  ({group.coordinator_id})", group.protocol, group.state]
    row = [*cells, group.epoch, group.assignment_epoch, len(group.members)]
    rows = [[*head, "#MEMBERS"], list(map(cell, row))]
    widths = [-15, -25, 20, 20, 15, 25, 0]
    if not verbose:
        rows = [each[:4] + each[6:] for each in rows]
        widths = widths[:4] + widths[6:]
    return pad_columns(rows, widths)
