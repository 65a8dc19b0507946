"""Consumer groups."""

import re

from kvorum.admin.http.operations import Call, NoBody
from kvorum.admin.v3.group_models import ConsumerGroupData, ConsumerGroupDataList
from kvorum.admin.v3.links import CLUSTER, Links, links_of, not_found
from kvorum.admin.v3.path_parameters import GROUP_ID, PARTITION_ID, TOPIC_NAME, get_operation
from kvorum.client.namespaces.groups import Groups
from kvorum.client.values.group import CLASSIC, CONSUMER, Group
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.topic_partition import TopicPartition

GROUPS = f"{CLUSTER}/consumer-groups"
GROUP = f"{GROUPS}/{{consumer_group_id}}"


def group_data(links: Links, group: Group) -> ConsumerGroupData:
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
        coordinator=links.relationship("brokers", group.coordinator_id),
        consumers=links.relationship(*me, "consumers"),
        lag_summary=links.relationship(*me, "lag-summary"),
    )


async def group_of(call: Call[NoBody]) -> Group:
    """Return the group that the path names. Raises KafkaError, HttpError."""
    group_id = GROUP_ID.of(call)
    try:
        return await Groups(call.cluster).describe(group_id)
    except KafkaError as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        raise not_found(f"Consumer Group {group_id} could not be found.") from error


async def list_kafka_consumer_groups(call: Call[NoBody]) -> ConsumerGroupDataList:
    """List consumer groups by id, of both protocols."""
    links, groups = await links_of(call), Groups(call.cluster)
    found = await groups.describe_many([each.group_id for each in await groups.list() if each.has_consumers])
    data = []
    for group in found.values():
        if isinstance(group, Group):
            data.append(group_data(links, group))
        elif group.code is not ErrorCode.GROUP_ID_NOT_FOUND:  # deleted since it was listed
            raise group
    return ConsumerGroupDataList(metadata=links.collection("consumer-groups"), data=data)


async def get_kafka_consumer_group(call: Call[NoBody]) -> ConsumerGroupData:
    """Return one group."""
    links = await links_of(call)
    return group_data(links, await group_of(call))


def partition_of(call: Call[NoBody]) -> TopicPartition:
    """Return the partition that the path names. Raises BadInput."""
    return TopicPartition(TOPIC_NAME.of(call), PARTITION_ID.of(call))


OPERATIONS = [
    get_operation(GROUPS, "List consumer groups", list_kafka_consumer_groups, ConsumerGroupDataList),
    get_operation(GROUP, "Get a consumer group", get_kafka_consumer_group, ConsumerGroupData),
]
