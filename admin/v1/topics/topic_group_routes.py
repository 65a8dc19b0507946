"""The groups of a topic over HTTP: with committed offsets of it, or members that own partitions of it."""

from collections.abc import Mapping
from typing import Final

from kvorum.admin.http.operations import Call, NoBody, Operation
from kvorum.admin.http.parameters import PAGE
from kvorum.admin.v1.topics.topic_models import TopicGroup, TopicGroupPage
from kvorum.client.groups.groups import WITHOUT_MEMBERS, Committed, Groups, Listed
from kvorum.client.groups.lags import GROUPS_AT_ONCE, of_each
from kvorum.client.groups.members import Member
from kvorum.client.partitions.offsets import topic_offsets
from kvorum.client.wire.cluster_client import LATEST
from kvorum.protocol.topic_partition import TopicPartition

Ends = Mapping[int, int | None]
NO_PLACES: Final[Mapping[TopicPartition, Committed]] = {}


async def list_topic_groups(call: Call[NoBody]) -> TopicGroupPage:
    """List the groups with committed offsets in a topic, or with members that own partitions of it, by id.

    All groups of the cluster are described until the page is full. Coordinators that do not respond are named, and
    their groups are omitted.
    """
    limit, after = PAGE.of(call), call.query.get("after", "")
    topic = await call.cluster.topic(call.path["topic"])
    ends = await topic_offsets(call.cluster, topic, LATEST)
    groups = Groups(call.cluster)
    rows, unreachable = await groups.listed_if_reached()
    left = [each for each in rows if each.group_id > after and each.is_of_consumers]
    found: list[TopicGroup] = []
    while left and len(found) <= limit:
        batch, left = left[:GROUPS_AT_ONCE], left[GROUPS_AT_ONCE:]
        committed = await of_each((each.group_id for each in batch), groups.committed)
        busy = [each.group_id for each in batch if each.state not in WITHOUT_MEMBERS]
        described = await of_each(busy, groups.described)
        for each in batch:
            members = described[each.group_id].members if each.group_id in described else ()
            row = group_in(topic.name or "", each, committed.get(each.group_id, NO_PLACES), members, ends)
            found += [] if row is None else [row]
    page = found[:limit]
    following = page[-1].group_id if len(found) > limit else None
    return TopicGroupPage(groups=page, next=following, unreachable=unreachable)


def group_in(
    topic: str, group: Listed, committed: Mapping[TopicPartition, Committed], members: tuple[Member, ...], ends: Ends
) -> TopicGroup | None:
    """Return a group's partitions of a topic; None if it has none."""
    places = {place.partition: mine.offset for place, mine in committed.items() if place.topic == topic}
    owned = [{place.partition for place in member.assignment if place.topic == topic} for member in members]
    partitions = places.keys() | {partition for each in owned for partition in each}
    if not partitions:
        return None
    lags = [max(0, end - places[each]) for each in places if (end := ends.get(each)) is not None]
    return TopicGroup(
        group_id=group.group_id,
        type=group.type,
        state=group.state,
        members=sum(bool(each) for each in owned),
        partitions=len(partitions),
        lag=sum(lags),
        partitions_unknown=len(partitions) - len(lags),
    )


OPERATIONS = [
    Operation.get(
        "/v1/topics/{topic}/groups",
        "List the groups of a topic",
        list_topic_groups,
        TopicGroupPage,
        query={"after": "start after this id", **PAGE.documentation},
    )
]
