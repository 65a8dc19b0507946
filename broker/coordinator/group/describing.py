"""DescribeGroups and ListGroups for the groups of one partition. Sans-IO.

The list of groups is committed state; the state of a classic group is known to its coordinator only. Source: Kafka's
GroupMetadataManager.describeGroups, listGroups.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Final, TypeAlias

from kvorum.broker.coordinator.group.classic.group import ClassicGroup
from kvorum.broker.coordinator.group.classic.words import ClassicState
from kvorum.broker.coordinator.group.words import (
    CONSUMER_PROTOCOL_TYPE,
    ConsumerGroup,
    GroupsState,
    MemberState,
)
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.describe_groups import DescribedGroup
from kvorum.protocol.messages.list_groups import ListedGroup

GroupOf: TypeAlias = Callable[[GroupsState, str], ClassicGroup | ConsumerGroup | None]
"""GroupShard.group."""

CLASSIC_TYPE: Final = "classic"
CONSUMER_TYPE: Final = "consumer"
NOT_FOUND_FROM: Final = 6
"""DescribeGroups: from this version on a group that is not there is an error; before, it is a dead one."""


def describe(state: GroupsState, group_of: GroupOf, group_ids: Sequence[str], api_version: int) -> list[DescribedGroup]:
    """Return a row for each group, with the data of classic ones; others are not found."""
    return [_described(group_of(state, group_id), group_id, api_version) for group_id in group_ids]


def _described(group: ClassicGroup | ConsumerGroup | None, group_id: str, api_version: int) -> DescribedGroup:
    if not isinstance(group, ClassicGroup):
        row = DescribedGroup(group_id=group_id, group_state=ClassicState.DEAD.value)
        if api_version >= NOT_FOUND_FROM:
            row.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            row.error_message = f"Group {group_id} {'not found' if group is None else 'is not a classic group'}."
        return row
    row = DescribedGroup(group_id=group_id, group_state=group.state.value, protocol_type=group.protocol_type or "")
    protocol = None
    if group.state is ClassicState.STABLE:
        protocol = row.protocol_data = group.protocol_name or ""
    row.members = [member.described(protocol) for member in group.members.values()]
    return row


def listed(
    state: GroupsState, group_of: GroupOf, states: Collection[str] = (), types: Collection[str] = ()
) -> list[ListedGroup]:
    """Return a row for each group in one of these states and of one of these types, case-insensitive; none: all."""
    wanted_states, wanted_types = {each.lower() for each in states}, {each.lower() for each in types}
    rows = []
    for group_id in sorted(state.groups):
        group = group_of(state, group_id)
        assert group is not None, "the state has it"
        if isinstance(group, ConsumerGroup):
            row = ListedGroup(group_type=CONSUMER_TYPE, protocol_type=CONSUMER_PROTOCOL_TYPE)
            row.group_state = consumer_state(group)
        else:
            row = ListedGroup(group_type=CLASSIC_TYPE, protocol_type=group.protocol_type or "")
            row.group_state = group.state.value
        row.group_id = group_id
        is_wanted = not wanted_states or row.group_state.lower() in wanted_states
        if is_wanted and (not wanted_types or row.group_type in wanted_types):
            rows.append(row)
    return rows


def consumer_state(group: ConsumerGroup) -> str:
    """Return the state of a consumer group's assignment (KIP-848)."""
    if not group.members:
        return "Empty"
    if group.group_epoch > group.assignment_epoch:
        return "Assigning"
    for member in group.members.values():
        if member.state is not MemberState.STABLE or member.member_epoch != group.assignment_epoch:
            return "Reconciling"
    return "Stable"
