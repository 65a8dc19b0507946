"""Groups over HTTP."""

from collections.abc import Mapping
from fnmatch import fnmatchcase

from pydantic import BaseModel

from kvorum.admin.http.operations import WORD_CHARS_SHOWN, BadInput, Call, NoBody, Operation, Role
from kvorum.admin.http.parameters import PAGE
from kvorum.admin.v1.groups.group_models import (
    DeletedOffset,
    Group,
    GroupLine,
    GroupMember,
    GroupOffset,
    GroupPage,
    LagSummary,
    RemovedMember,
    TopicLag,
)
from kvorum.admin.v1.groups.group_offset_routes import ATTEMPTS, GET_OFFSETS, offset_of
from kvorum.client.groups.groups import REASON_CHARS_MAX, Groups, Leaving, Listed, Removed, folded
from kvorum.client.groups.lags import GroupLag, Membership, lags_of, memberships_of
from kvorum.client.groups.members import Described, Member
from kvorum.client.groups.offsets import places_of
from kvorum.client.wire.cluster_client import refuse
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.topic_partition import TopicPartition, by_topic

GROUP_STATES = (
    *("PreparingRebalance", "CompletingRebalance", "Stable", "Empty", "Dead"),
    *("Assigning", "Reconciling", "NotReady", "Unknown"),
)
"""Kafka's GroupState."""
GROUP_TYPES = ("classic", "consumer", "share", "streams")
"""Kafka's GroupType; unsupported types have no groups."""


async def list_groups(call: Call[NoBody]) -> GroupPage:
    """List groups of all protocols by id, in pages."""
    limit, after, prefix = PAGE.of(call), call.query.get("after", ""), call.query.get("prefix", "")
    pattern = call.query.get("filter", "*")
    states, types = states_of(call), call.words("type", GROUP_TYPES)
    rows, unreachable = await Groups(call.cluster).listed_if_reached(states, types)
    matching = [row for row in rows if row.group_id.startswith(prefix) and fnmatchcase(row.group_id, pattern)]
    found = [row for row in matching if row.group_id > after]
    page = found[:limit]
    lags: Mapping[str, GroupLag] = {}
    members: Mapping[str, Membership] = {}
    if call.flag("lag"):
        groups, consumers = Groups(call.cluster), [row for row in page if row.is_of_consumers]
        lags = await lags_of(groups, [row.group_id for row in consumers])
        members = await memberships_of(groups, consumers)
    lines = [line_of(row, lags.get(row.group_id), members.get(row.group_id)) for row in page]
    following = lines[-1].group_id if len(found) > limit else None
    return GroupPage(groups=lines, next=following, unreachable=unreachable)


def check_listing(call: Call[NoBody]) -> None:
    """Check the parameters of `list_groups`, also before its stream begins. Raises BadInput."""
    PAGE.of(call)
    states_of(call)
    call.words("type", GROUP_TYPES)
    call.flag("lag")


def line_of(row: Listed, lag: GroupLag | None, membership: Membership | None) -> GroupLine:
    """Return a group's line for HTTP."""
    topics = {topic for each in (lag, membership) if each is not None for topic in each.topics}
    return GroupLine(
        group_id=row.group_id,
        type=row.type,
        state=row.state,
        protocol_type=row.protocol_type,
        coordinator=row.coordinator_id,
        lag=None if lag is None else lag.lag,
        lag_partitions=None if lag is None else lag.partitions,
        lag_unknown=None if lag is None else lag.unknown,
        members=None if membership is None else membership.members,
        topics=None if lag is None and membership is None else sorted(topics),
    )


def states_of(call: Call[NoBody]) -> list[str]:
    """Return the requested states of groups, in any case. Raises BadInput."""
    known = folded(GROUP_STATES)
    for word in (found := call.words("state")):
        if word.casefold() not in known:
            raise BadInput("state", f"{word[:WORD_CHARS_SHOWN]!r} is not one of {', '.join(GROUP_STATES)}")
    return found


async def get_group(call: Call[NoBody]) -> Group:
    """Describe a group: members, assignments, committed offsets and lag."""
    group_id = call.path["group"]
    groups = Groups(call.cluster)
    found = await groups.described(group_id)
    return Group(
        group_id=group_id,
        type=found.type,
        state=found.state,
        protocol_type=found.protocol_type,
        coordinator=found.coordinator_id,
        protocol=found.protocol,
        epoch=found.epoch,
        assignment_epoch=found.assignment_epoch,
        members=[member_of(each) for each in found.members],
        offsets=await offsets_of(groups, found),
    )


def member_of(member: Member) -> GroupMember:
    """Return a member for HTTP."""
    return GroupMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.host,
        rack=member.rack,
        protocol=member.protocol,
        epoch=member.epoch,
        topics=list(member.topics),
        pattern=member.pattern,
        assignment=by_topic(member.assignment),
        target_assignment=None if member.target is None else by_topic(member.target),
    )


async def offsets_of(groups: Groups, group: Described) -> list[GroupOffset]:
    """Return a row for each partition that the group has committed in, or that one of its members has, by name."""
    found = await places_of(groups, group, attempts=ATTEMPTS)
    return [offset_of(each) for each in sorted(found, key=lambda each: each.place)]


async def get_lag(call: Call[NoBody]) -> LagSummary:
    """Return the total lag of a group."""
    groups = Groups(call.cluster)
    described = await groups.described(call.path["group"])
    rows = await offsets_of(groups, described)
    known = [(row.lag, row.topic, row.partition) for row in rows if row.lag is not None]
    of_topics: dict[str, list[int]] = {}
    for lag, topic, _ in known:
        of_topics.setdefault(topic, []).append(lag)
    worst = max(known, default=None)
    return LagSummary(
        group_id=described.group_id,
        state=described.state,
        lag=sum(lag for lag, _, _ in known),
        lag_max=0 if worst is None else worst[0],
        lag_max_topic=None if worst is None else worst[1],
        lag_max_partition=None if worst is None else worst[2],
        partitions=len(known),
        partitions_unknown=len(rows) - len(known),
        topics=[
            TopicLag(topic=topic, partitions=len(lags), lag=sum(lags), lag_max=max(lags))
            for topic, lags in sorted(of_topics.items())
        ],
    )


async def delete_group(call: Call[NoBody]) -> None:
    """Delete a group without members, with its offsets."""
    await Groups(call.cluster).delete(call.path["group"])


async def delete_group_offsets(call: Call[NoBody]) -> list[BaseModel]:
    """Delete a group's committed offsets in a topic or some partitions; rejected while a member is subscribed."""
    group_id, topic = call.path["group"], call.path["topic"]
    groups = Groups(call.cluster)
    wanted = call.numbers("partitions", 2**31 - 1)
    if wanted is None:
        wanted = [place.partition for place in await groups.committed(group_id) if place.topic == topic]
        if not wanted:
            await groups.described(group_id)  # check whether it is the group that does not exist
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"group {group_id!r} has no committed offset in {topic!r}"
            )
    codes = await groups.delete_offsets(group_id, [TopicPartition(topic, partition) for partition in wanted])
    return [
        DeletedOffset(topic=place.topic, partition=place.partition, error=code.name if code else None)
        for place, code in sorted(codes.items())
    ]


async def remove_member(call: Call[NoBody]) -> None:
    """Remove a member of a classic group by its id. Its partitions are assigned to others. It may rejoin."""
    member_id = call.path["member"]
    leaving = [Leaving(member_id=member_id)]
    (removed,) = await Groups(call.cluster).remove_members(call.path["group"], leaving, reason_of(call))
    refuse(removed.error, f"member {member_id!r} of classic group {call.path['group']!r}")


async def remove_members(call: Call[NoBody]) -> list[BaseModel]:
    """Remove a static member of a classic group by its group.instance.id, or all current members."""
    group_id, instance = call.path["group"], call.query.get("instance")
    if (instance is not None) == call.flag("all"):
        raise BadInput("instance", "give either instance or all=true")
    if instance == "":
        raise BadInput("instance", "a group.instance.id must not be empty")
    groups = Groups(call.cluster)
    if instance is None:
        removed = await groups.remove_all_members(group_id, reason_of(call))
    else:
        removed = await groups.remove_members(group_id, [Leaving(instance_id=instance)], reason_of(call))
    return [removed_of(each) for each in removed]


def reason_of(call: Call[NoBody]) -> str:
    """Return why members are removed. Raises BadInput for more than a sentence."""
    reason = call.query.get("reason", "")
    if len(reason) > REASON_CHARS_MAX:
        raise BadInput("reason", f"at most {REASON_CHARS_MAX} characters")
    return reason


def removed_of(removed: Removed) -> RemovedMember:
    """Return the result of a member for HTTP."""
    return RemovedMember(
        member_id=removed.member_id or None,
        instance_id=removed.instance_id,
        error=removed.error.name if removed.error else None,
    )


LISTING = {
    "prefix": "only ids with this prefix",
    "filter": "only ids that match, with * and ?",
    "state": "only these, comma-separated: Stable, Empty, PreparingRebalance, CompletingRebalance, Assigning, ...",
    "type": "only these, comma-separated: classic, consumer",
    "lag": "true: include the lag, members and topics of each group",
    "after": "start after this id",
    **PAGE.documentation,
}
GROUP = "/v1/groups/{group}"
REASON = {"reason": "reason, for the coordinator's log"}
OPERATIONS = [
    Operation.get("/v1/groups", "List groups", list_groups, GroupPage, query=LISTING),
    Operation.get(GROUP, "Describe a group", get_group, Group),
    Operation(
        method="DELETE", path=GROUP, summary="Delete a group", handle=delete_group, status=204, guard=GET_OFFSETS
    ),
    Operation.get(f"{GROUP}/lag", "Get a group's lag", get_lag, LagSummary),
    Operation(
        method="DELETE",
        path=f"{GROUP}/members",
        summary="Remove a static member of a classic group, or all members",
        handle=remove_members,
        answer=RemovedMember,
        many=True,
        query={"instance": "a static member's group.instance.id", "all": "true: all members", **REASON},
        role=Role.OPERATE,
    ),
    Operation(
        method="DELETE",
        path=f"{GROUP}/members/{{member}}",
        summary="Remove a member of a classic group",
        handle=remove_member,
        status=204,
        query=REASON,
        role=Role.OPERATE,
    ),
    Operation(
        method="DELETE",
        path=f"{GROUP}/offsets/{{topic}}",
        summary="Delete a group's offsets in a topic",
        handle=delete_group_offsets,
        answer=DeletedOffset,
        many=True,
        query={"partitions": "only these, comma-separated (default: all with a committed offset)"},
        role=Role.OPERATE,
        guard=GET_OFFSETS,
    ),
]
