"""Groups over HTTP."""

from collections.abc import Mapping
from fnmatch import fnmatchcase

from pydantic import BaseModel

from kvorum.admin.http.commands import Command
from kvorum.admin.http.operations import Call, NoBody, Operation, Role
from kvorum.admin.http.parameters import (
    GROUP_ID,
    PAGE,
    TOPIC_NAME,
    WORD_CHARS_SHOWN,
    BadInput,
    flag,
    numbers,
    optional_text,
    text,
    words,
)
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
from kvorum.client.namespaces.groups import REASON_CHARS_MAX, Groups, casefold_all
from kvorum.client.values import group as values
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.topic_partition import TopicPartition, by_topic

GROUP_STATES = (
    *("PreparingRebalance", "CompletingRebalance", "Stable", "Empty", "Dead"),
    *("Assigning", "Reconciling", "NotReady", "Unknown"),
)
"""Kafka's GroupState."""
GROUP_TYPES = ("classic", "consumer", "share", "streams")
"""Kafka's GroupType; unsupported types have no groups."""


INSTANCE = optional_text("instance", "a static member's group.instance.id")
ALL = flag("all", "true: all members")
MEMBER = text("member", "id of the member")
PARTITIONS = numbers("partitions", "only these, comma-separated (default: all with a committed offset)", 2**31 - 1)
PREFIX = text("prefix", "only ids with this prefix", "")
FILTER = text("filter", "only ids that match, with * and ?", "*")
STATE = words(
    "state", "only these, comma-separated: Stable, Empty, PreparingRebalance, CompletingRebalance, Assigning, ..."
)
TYPE = words("type", "only these, comma-separated: classic, consumer", GROUP_TYPES)
LAG = flag("lag", "true: include the lag, members and topics of each group")
AFTER = text("after", "start after this id", "")
REASON = text("reason", "reason, for the coordinator's log", "")


async def list_groups(call: Call[NoBody]) -> GroupPage:
    """List groups of all protocols by id, in pages."""
    limit, after, prefix = PAGE.of(call), AFTER.of(call), PREFIX.of(call)
    pattern = FILTER.of(call)
    states, types = states_of(call), TYPE.of(call)
    groups = Groups(call.cluster)
    rows, unreachable = await groups.list_available(states, types)
    matching = [row for row in rows if row.group_id.startswith(prefix) and fnmatchcase(row.group_id, pattern)]
    found = [row for row in matching if row.group_id > after]
    page = found[:limit]
    lags: Mapping[str, values.TotalLag] = {}
    members: Mapping[str, values.Membership] = {}
    if LAG.of(call):
        consumers = [row for row in page if row.has_consumers]
        lags = await groups.total_lags(row.group_id for row in consumers)
        members = await groups.memberships(consumers)
    lines = [line_of(row, lags.get(row.group_id), members.get(row.group_id)) for row in page]
    following = lines[-1].group_id if len(found) > limit else None
    return GroupPage(groups=lines, next=following, unreachable=[*unreachable])


def check_listing(call: Call[NoBody]) -> None:
    """Check the parameters of `list_groups`, also before its stream begins. Raises BadInput."""
    PAGE.of(call)
    states_of(call)
    TYPE.of(call)
    LAG.of(call)


def line_of(row: values.GroupListing, lag: values.TotalLag | None, membership: values.Membership | None) -> GroupLine:
    """Return a group's line for HTTP."""
    topics = {topic for each in (lag, membership) if each is not None for topic in each.topics}
    return GroupLine(
        group_id=row.group_id,
        type=row.type,
        state=row.state,
        protocol_type=row.protocol_type,
        coordinator=row.coordinator_id,
        lag=None if lag is None else lag.lag,
        lag_partitions=None if lag is None else lag.partition_count,
        lag_unknown=None if lag is None else lag.unknown_count,
        members=None if membership is None else membership.member_count,
        topics=None if lag is None and membership is None else sorted(topics),
    )


def states_of(call: Call[NoBody]) -> list[str]:
    """Return the requested states of groups, in any case. Raises BadInput."""
    known = casefold_all(GROUP_STATES)
    for word in (found := STATE.of(call)):
        if word.casefold() not in known:
            raise BadInput("state", f"{word[:WORD_CHARS_SHOWN]!r} is not one of {', '.join(GROUP_STATES)}")
    return found


async def get_group(call: Call[NoBody]) -> Group:
    """Describe a group: members, assignments, committed offsets and lag."""
    group_id = GROUP_ID.of(call)
    groups = Groups(call.cluster)
    found = await groups.describe(group_id)
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


def member_of(member: values.Member) -> GroupMember:
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


async def offsets_of(groups: Groups, group: values.Group) -> list[GroupOffset]:
    """Return a row for each partition that the group has committed in, or that one of its members has, by name."""
    found = await groups.lags(group, attempts=ATTEMPTS)
    return [offset_of(each) for each in sorted(found, key=lambda each: each.topic_partition)]


async def get_lag(call: Call[NoBody]) -> LagSummary:
    """Return the total lag of a group."""
    groups = Groups(call.cluster)
    group = await groups.describe(GROUP_ID.of(call))
    rows = await offsets_of(groups, group)
    known = [(row.lag, row.topic, row.partition) for row in rows if row.lag is not None]
    of_topics: dict[str, list[int]] = {}
    for lag, topic, _ in known:
        of_topics.setdefault(topic, []).append(lag)
    worst = max(known, default=None)
    return LagSummary(
        group_id=group.group_id,
        state=group.state,
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
    await Groups(call.cluster).delete(GROUP_ID.of(call))


async def delete_group_offsets(call: Call[NoBody]) -> list[BaseModel]:
    """Delete a group's committed offsets in a topic or some partitions; rejected while a member is subscribed."""
    group_id, topic = GROUP_ID.of(call), TOPIC_NAME.of(call)
    groups = Groups(call.cluster)
    wanted = PARTITIONS.of(call)
    if wanted is None:
        wanted = [place.partition for place in await groups.offsets(group_id) if place.topic == topic]
        if not wanted:
            await groups.describe(group_id)  # check whether it is the group that does not exist
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"group {group_id!r} has no committed offset in {topic!r}"
            )
    errors = await groups.delete_offsets(group_id, [TopicPartition(topic, partition) for partition in wanted])
    return [
        DeletedOffset(topic=place.topic, partition=place.partition, error=None if error is None else error.code.name)
        for place, error in sorted(errors.items())
    ]


async def remove_member(call: Call[NoBody]) -> None:
    """Remove a member of a group by its id. Its partitions are assigned to others. It may rejoin."""
    member_id = MEMBER.of(call)
    (removal,) = await Groups(call.cluster).remove_members(
        GROUP_ID.of(call), member_ids=[member_id], reason=reason_of(call)
    )
    if removal.error is not None:
        text = f"member {member_id!r} of group {call.path['group']!r}"
        raise KafkaError(removal.error.code, text)


async def remove_members(call: Call[NoBody]) -> list[BaseModel]:
    """Remove a static member of a group by its group.instance.id, or all current members."""
    group_id, instance = GROUP_ID.of(call), INSTANCE.of(call)
    if (instance is not None) == ALL.of(call):
        raise BadInput("instance", "give either instance or all=true")
    if instance == "":
        raise BadInput("instance", "a group.instance.id must not be empty")
    groups = Groups(call.cluster)
    if instance is None:
        removals = await groups.remove_all_members(group_id, reason=reason_of(call))
    else:
        removals = await groups.remove_members(group_id, instance_ids=[instance], reason=reason_of(call))
    return [
        RemovedMember(
            member_id=each.member_id or None,
            instance_id=each.instance_id,
            error=None if each.error is None else each.error.code.name,
        )
        for each in removals
    ]


def reason_of(call: Call[NoBody]) -> str:
    """Return why members are removed. Raises BadInput for more than a sentence."""
    reason = REASON.of(call)
    if len(reason) > REASON_CHARS_MAX:
        raise BadInput("reason", f"at most {REASON_CHARS_MAX} characters")
    return reason


LISTING = (PREFIX, FILTER, STATE, TYPE, LAG, AFTER, PAGE)
GROUP = "/v1/groups/{group}"
OPERATIONS = [
    Operation.get(
        "/v1/groups",
        "List groups",
        list_groups,
        GroupPage,
        parameters=LISTING,
        command=Command(
            name="groups list",
            examples=("", "--state Stable,Empty --type consumer -o json", "--lag"),
            text="List groups of all protocols by id.",
            rows="groups",
            columns=("group_id", "type", "protocol_type", "state", "coordinator", "members?", "lag?", "topics?"),
        ),
    ),
    Operation.get(
        GROUP,
        "Describe a group",
        get_group,
        Group,
        parameters=(GROUP_ID,),
        command=Command(name="groups describe", examples=("payments", "payments billing -o json"), each="group"),
    ),
    Operation(
        method="DELETE",
        path=GROUP,
        summary="Delete a group",
        handle=delete_group,
        status=204,
        guard=GET_OFFSETS,
        parameters=(GROUP_ID,),
        command=Command(
            name="groups delete",
            examples=("payments billing",),
            each="group",
            tolerate={"if_exists": ErrorCode.GROUP_ID_NOT_FOUND},
            done="{group} deleted",
        ),
    ),
    Operation.get(
        f"{GROUP}/lag",
        "Get a group's lag",
        get_lag,
        LagSummary,
        parameters=(GROUP_ID,),
        command=Command(name="groups lag", examples=("payments",)),
    ),
    Operation(
        method="DELETE",
        path=f"{GROUP}/members",
        summary="Remove a static member of a group, or all members",
        handle=remove_members,
        answer=RemovedMember,
        many=True,
        parameters=(GROUP_ID, INSTANCE, ALL, REASON),
        role=Role.OPERATE,
        command=Command(
            name="groups remove-members",
            examples=("payments --instance pay-1", "payments --all --reason stuck"),
            columns=("member_id", "instance_id", "error"),
        ),
    ),
    Operation(
        method="DELETE",
        path=f"{GROUP}/members/{{member}}",
        summary="Remove a member of a group",
        handle=remove_member,
        status=204,
        parameters=(GROUP_ID, MEMBER, REASON),
        role=Role.OPERATE,
        command=Command(name="groups remove-member", examples=("payments pay-1-9f0c6d",), done="{member} removed"),
    ),
    Operation(
        method="DELETE",
        path=f"{GROUP}/offsets/{{topic}}",
        summary="Delete a group's offsets in a topic",
        handle=delete_group_offsets,
        answer=DeletedOffset,
        many=True,
        parameters=(GROUP_ID, TOPIC_NAME, PARTITIONS),
        role=Role.OPERATE,
        guard=GET_OFFSETS,
        command=Command(
            name="groups delete-offsets",
            examples=("payments orders", "payments orders --partitions 0,1"),
            columns=("topic", "partition", "error"),
        ),
    ),
]
