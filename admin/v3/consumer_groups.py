"""Consumer groups with their members, assignments and lags."""

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kvorum.admin.http.operations import Call, NoBody, Operation, number_of
from kvorum.admin.v1.models import INT32_MAX
from kvorum.admin.v3.links import CLUSTER, Links, links_of, not_found
from kvorum.admin.v3.models import (
    ConsumerAssignmentData,
    ConsumerAssignmentDataList,
    ConsumerData,
    ConsumerDataList,
    ConsumerGroupData,
    ConsumerGroupDataList,
    ConsumerGroupLagSummaryData,
    ConsumerLagData,
    ConsumerLagDataList,
)
from kvorum.client.groups.groups import Groups
from kvorum.client.groups.members import CLASSIC, CONSUMER, Described, Member
from kvorum.client.partitions.offsets import Spec, list_offsets
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.topic_partition import TopicPartition

GROUPS = f"{CLUSTER}/consumer-groups"
GROUP = f"{GROUPS}/{{consumer_group_id}}"
CONSUMERS = f"{GROUP}/consumers"
CONSUMER_PATH = f"{CONSUMERS}/{{consumer_id}}"
ASSIGNMENTS = f"{CONSUMER_PATH}/assignments"
LAGS = f"{GROUP}/lags"
GONE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
"""Error of a committed partition that was deleted."""
AT_ONCE = 16
"""Groups described at a time."""


def group_data(links: Links, group: Described) -> ConsumerGroupData:
    """Return a group."""
    me = ("consumer-groups", group.group_id)
    return ConsumerGroupData(
        metadata=links.metadata(me, ("consumer-group", group.group_id)),
        cluster_id=links.cluster_id,
        consumer_group_id=group.group_id,
        is_simple=group.type == CLASSIC and group.protocol_type == "",
        partition_assignor=group.protocol,
        state=re.sub(r"(?<=[a-z])(?=[A-Z])", "_", group.state).upper(),
        type=group.type.upper(),
        is_mixed_consumer_group=group.type == CONSUMER and any(not each.upgraded for each in group.members),
        coordinator=links.related("brokers", group.coordinator_id),
        consumers=links.related(*me, "consumers"),
        lag_summary=links.related(*me, "lag-summary"),
    )


async def group_of(call: Call[NoBody]) -> Described:
    """Return the group that the path names. Raises KafkaError, Refused."""
    group_id = call.path["consumer_group_id"]
    try:
        return await Groups(call.cluster).described(group_id)
    except KafkaError as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        raise not_found(f"Consumer Group {group_id} could not be found.") from error


async def list_kafka_consumer_groups(call: Call[NoBody]) -> ConsumerGroupDataList:
    """List consumer groups by id, of both protocols."""
    links, groups = await links_of(call), Groups(call.cluster)
    free = asyncio.Semaphore(AT_ONCE)

    async def describe(group_id: str) -> Described | None:
        async with free:
            try:
                return await groups.described(group_id)
            except KafkaError as error:
                if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                    raise
                return None  # deleted since it was listed

    wanted = [each.group_id for each in await groups.listed() if each.is_of_consumers]
    found = await asyncio.gather(*(describe(group_id) for group_id in wanted))
    return ConsumerGroupDataList(
        metadata=links.collection("consumer-groups"),
        data=[group_data(links, group) for group in found if group is not None],
    )


async def get_kafka_consumer_group(call: Call[NoBody]) -> ConsumerGroupData:
    """Return one group."""
    links = await links_of(call)
    return group_data(links, await group_of(call))


# Members


def consumer_data(links: Links, group_id: str, member: Member) -> ConsumerData:
    """Return a member."""
    me = ("consumer-groups", group_id, "consumers", member.member_id)
    return ConsumerData(
        metadata=links.metadata(me, ("consumer-group", group_id), ("consumer", member.member_id)),
        cluster_id=links.cluster_id,
        consumer_group_id=group_id,
        consumer_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        assignments=links.related(*me, "assignments"),
    )


def member_of(call: Call[NoBody], group: Described) -> Member:
    """Return the member that the path names. Raises Refused."""
    for member in group.members:
        if member.member_id == call.path["consumer_id"]:
            return member
    raise not_found()


async def list_kafka_consumers(call: Call[NoBody]) -> ConsumerDataList:
    """List a group's members."""
    links, group = await links_of(call), await group_of(call)
    return ConsumerDataList(
        metadata=links.collection("consumer-groups", group.group_id, "consumers"),
        data=[consumer_data(links, group.group_id, member) for member in group.members],
    )


async def get_kafka_consumer(call: Call[NoBody]) -> ConsumerData:
    """Return one member."""
    links, group = await links_of(call), await group_of(call)
    return consumer_data(links, group.group_id, member_of(call, group))


def assignment_data(links: Links, group_id: str, member: Member, place: TopicPartition) -> ConsumerAssignmentData:
    """Return one partition of a member."""
    parts = (place.topic, "partitions", place.partition)
    names = (
        ("consumer-group", group_id),
        ("consumer", member.member_id),
        ("assignment", place.topic),
        ("partition", place.partition),
    )
    return ConsumerAssignmentData(
        metadata=links.metadata(
            ("consumer-groups", group_id, "consumers", member.member_id, "assignments", *parts), *names
        ),
        cluster_id=links.cluster_id,
        consumer_group_id=group_id,
        consumer_id=member.member_id,
        topic_name=place.topic,
        partition_id=place.partition,
        partition=links.related("topics", *parts),
        lag=links.related("consumer-groups", group_id, "lags", *parts),
    )


async def list_kafka_consumer_assignment(call: Call[NoBody]) -> ConsumerAssignmentDataList:
    """List a member's partitions."""
    links, group = await links_of(call), await group_of(call)
    member = member_of(call, group)
    parts = ("consumer-groups", group.group_id, "consumers", member.member_id, "assignments")
    return ConsumerAssignmentDataList(
        metadata=links.collection(*parts),
        data=[assignment_data(links, group.group_id, member, place) for place in member.assignment],
    )


def place_of(call: Call[NoBody]) -> TopicPartition:
    """Return the partition that the path names. Raises BadInput."""
    return TopicPartition(call.path["topic_name"], number_of("partition_id", call.path["partition_id"], 0, INT32_MAX))


async def get_kafka_consumer_assignment(call: Call[NoBody]) -> ConsumerAssignmentData:
    """Return one partition of a member; 404 if it is not assigned to the member."""
    links, group = await links_of(call), await group_of(call)
    member, place = member_of(call, group), place_of(call)
    if place not in member.assignment:
        raise not_found()
    return assignment_data(links, group.group_id, member, place)


# Lags


class Lag(NamedTuple):
    """The position of a group in a partition, the log end, and the present owner."""

    place: TopicPartition
    current: int
    end: int
    member: Member | None

    @property
    def lag(self) -> int:
        """Return the lag; an offset beyond the log end has lag 0."""
        return max(0, self.end - self.current)


async def lags_of(
    call: Call[NoBody], group: Described, needed: Callable[[TopicPartition], bool] | None = None
) -> list[Lag]:
    """Return a group's lags, sorted; without deleted partitions and those without a known log end.

    Raises Refused; KafkaError if the leader of a needed partition returns no end, or none at all.
    """
    committed = await Groups(call.cluster).committed(group.group_id)
    if not committed:
        raise not_found("Consumer group offsets could not be found.")
    ends = await list_offsets(call.cluster, dict.fromkeys(committed, Spec.LATEST), attempts=1)
    there = {place: each.error for place, each in ends.items() if each.error not in GONE}
    silent = {place: error for place, error in there.items() if error is not ErrorCode.NONE}
    for place, error in silent.items():
        if len(silent) == len(there) or (needed is not None and needed(place)):
            raise KafkaError(error, f"the log end offset of {place} is not available")
    owners = {place: member for member in group.members for place in member.assignment}
    return [
        Lag(place, each.offset, ends[place].offset, owners.get(place))
        for place, each in sorted(committed.items())
        if ends[place].error is ErrorCode.NONE
    ]


def lag_data(links: Links, group_id: str, row: Lag) -> ConsumerLagData:
    """Return one lag."""
    names = ("consumer-group", group_id), ("lag", row.place.topic), ("partition", row.place.partition)
    parts = ("consumer-groups", group_id, "lags", row.place.topic, "partitions", row.place.partition)
    return ConsumerLagData(
        metadata=links.metadata(parts, *names),
        cluster_id=links.cluster_id,
        consumer_group_id=group_id,
        topic_name=row.place.topic,
        partition_id=row.place.partition,
        consumer_id="" if row.member is None else row.member.member_id,
        instance_id=None if row.member is None else row.member.instance_id,
        client_id="" if row.member is None else row.member.client_id,
        current_offset=row.current,
        log_end_offset=row.end,
        lag=row.lag,
    )


async def list_kafka_consumer_lags(call: Call[NoBody]) -> ConsumerLagDataList:
    """List a group's lag per partition with a committed offset."""
    links, group = await links_of(call), await group_of(call)
    rows = await lags_of(call, group)
    if not rows:
        raise not_found("Consumer lags not found.")
    return ConsumerLagDataList(
        metadata=links.collection("consumer-groups", group.group_id, "lags"),
        data=[lag_data(links, group.group_id, row) for row in rows],
    )


async def get_kafka_consumer_lag(call: Call[NoBody]) -> ConsumerLagData:
    """Return a group's lag in one partition."""
    links, group, place = await links_of(call), await group_of(call), place_of(call)
    for row in await lags_of(call, group, lambda each: each == place):
        if row.place == place:
            return lag_data(links, group.group_id, row)
    raise not_found()


async def get_kafka_consumer_group_lag_summary(call: Call[NoBody]) -> ConsumerGroupLagSummaryData:
    """Return a group's total lag and its largest lag."""
    links, group = await links_of(call), await group_of(call)
    rows = await lags_of(call, group, lambda _: True)  # a sum without one of them would look like progress
    if not rows:
        raise not_found("Consumer lags not found.")
    return summary(links, group.group_id, rows)


def summary(links: Links, group_id: str, rows: Sequence[Lag]) -> ConsumerGroupLagSummaryData:
    """Return the summary of some lags; of equal lags the first one."""
    worst = max(rows, key=lambda row: row.lag)
    me = ("consumer-groups", group_id)
    consumer = "" if worst.member is None else worst.member.member_id
    return ConsumerGroupLagSummaryData(
        metadata=links.metadata((*me, "lag-summary"), ("consumer-group", group_id), ("lag-summary", None)),
        cluster_id=links.cluster_id,
        consumer_group_id=group_id,
        max_lag_consumer_id=consumer,
        max_lag_instance_id=None if worst.member is None else worst.member.instance_id,
        max_lag_client_id="" if worst.member is None else worst.member.client_id,
        max_lag_topic_name=worst.place.topic,
        max_lag_partition_id=worst.place.partition,
        max_lag=worst.lag,
        total_lag=sum(row.lag for row in rows),
        max_lag_consumer=links.related(*me, "consumers", *([consumer] if consumer else [])),
        max_lag_partition=links.related("topics", worst.place.topic, "partitions", worst.place.partition),
    )


OPERATIONS = [
    Operation.get(GROUPS, "List consumer groups", list_kafka_consumer_groups, ConsumerGroupDataList),
    Operation.get(GROUP, "Get a consumer group", get_kafka_consumer_group, ConsumerGroupData),
    Operation.get(CONSUMERS, "List a group's consumers", list_kafka_consumers, ConsumerDataList),
    Operation.get(CONSUMER_PATH, "Get a consumer", get_kafka_consumer, ConsumerData),
    Operation.get(
        ASSIGNMENTS, "List a consumer's partitions", list_kafka_consumer_assignment, ConsumerAssignmentDataList
    ),
    Operation.get(
        f"{ASSIGNMENTS}/{{topic_name}}/partitions/{{partition_id}}",
        "Get one of a consumer's partitions",
        get_kafka_consumer_assignment,
        ConsumerAssignmentData,
    ),
    Operation.get(
        f"{GROUP}/lag-summary",
        "Get a group's lag summary",
        get_kafka_consumer_group_lag_summary,
        ConsumerGroupLagSummaryData,
    ),
    Operation.get(LAGS, "List a group's lags", list_kafka_consumer_lags, ConsumerLagDataList),
    Operation.get(
        f"{LAGS}/{{topic_name}}/partitions/{{partition_id}}",
        "Get a group's lag in a partition",
        get_kafka_consumer_lag,
        ConsumerLagData,
    ),
]
