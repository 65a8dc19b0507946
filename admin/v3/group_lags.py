"""Lags of consumer groups."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kvorum.admin.http.operations import Call, NoBody
from kvorum.admin.v3.consumer_groups import GROUP, group_of, partition_of
from kvorum.admin.v3.group_models import ConsumerGroupLagSummaryData, ConsumerLagData, ConsumerLagDataList
from kvorum.admin.v3.links import Links, links_of, not_found
from kvorum.admin.v3.path_parameters import get_operation
from kvorum.client.namespaces.groups import Groups
from kvorum.client.partitions.offsets import list_offsets
from kvorum.client.values.group import Group, Member
from kvorum.client.values.offset import OffsetSpec
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.topic_partition import TopicPartition

LAGS = f"{GROUP}/lags"
GONE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
"""Error of a committed partition that was deleted."""


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
    call: Call[NoBody], group: Group, needed: Callable[[TopicPartition], bool] | None = None
) -> list[Lag]:
    """Return a group's lags, sorted; without deleted partitions and those without a known log end.

    Raises HttpError; KafkaError if the leader of a needed partition returns no end, or none at all.
    """
    committed = await Groups(call.cluster).offsets(group.group_id)
    if not committed:
        raise not_found("Consumer group offsets could not be found.")
    ends = await list_offsets(call.cluster, dict.fromkeys(committed, OffsetSpec.LATEST), attempts=1)
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
    links, group, place = await links_of(call), await group_of(call), partition_of(call)
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
        max_lag_consumer=links.relationship(*me, "consumers", *([consumer] if consumer else [])),
        max_lag_partition=links.relationship("topics", worst.place.topic, "partitions", worst.place.partition),
    )


OPERATIONS = [
    get_operation(
        f"{GROUP}/lag-summary",
        "Get a group's lag summary",
        get_kafka_consumer_group_lag_summary,
        ConsumerGroupLagSummaryData,
    ),
    get_operation(LAGS, "List a group's lags", list_kafka_consumer_lags, ConsumerLagDataList),
    get_operation(
        f"{LAGS}/{{topic_name}}/partitions/{{partition_id}}",
        "Get a group's lag in a partition",
        get_kafka_consumer_lag,
        ConsumerLagData,
    ),
]
