"""Members of consumer groups and their assignments."""

from kvorum.admin.http.operations import Call, NoBody
from kvorum.admin.v3.consumer_groups import GROUP, group_of, partition_of
from kvorum.admin.v3.group_models import (
    ConsumerAssignmentData,
    ConsumerAssignmentDataList,
    ConsumerData,
    ConsumerDataList,
)
from kvorum.admin.v3.links import Links, links_of, not_found
from kvorum.admin.v3.path_parameters import CONSUMER_ID, get_operation
from kvorum.client.values.group import Group, Member
from kvorum.protocol.topic_partition import TopicPartition

CONSUMERS = f"{GROUP}/consumers"
CONSUMER_PATH = f"{CONSUMERS}/{{consumer_id}}"
ASSIGNMENTS = f"{CONSUMER_PATH}/assignments"


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
        assignments=links.relationship(*me, "assignments"),
    )


def member_of(call: Call[NoBody], group: Group) -> Member:
    """Return the member that the path names. Raises HttpError."""
    for member in group.members:
        if member.member_id == CONSUMER_ID.of(call):
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
        partition=links.relationship("topics", *parts),
        lag=links.relationship("consumer-groups", group_id, "lags", *parts),
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


async def get_kafka_consumer_assignment(call: Call[NoBody]) -> ConsumerAssignmentData:
    """Return one partition of a member; 404 if it is not assigned to the member."""
    links, group = await links_of(call), await group_of(call)
    member, place = member_of(call, group), partition_of(call)
    if place not in member.assignment:
        raise not_found()
    return assignment_data(links, group.group_id, member, place)


OPERATIONS = [
    get_operation(CONSUMERS, "List a group's consumers", list_kafka_consumers, ConsumerDataList),
    get_operation(CONSUMER_PATH, "Get a consumer", get_kafka_consumer, ConsumerData),
    get_operation(
        ASSIGNMENTS, "List a consumer's partitions", list_kafka_consumer_assignment, ConsumerAssignmentDataList
    ),
    get_operation(
        f"{ASSIGNMENTS}/{{topic_name}}/partitions/{{partition_id}}",
        "Get one of a consumer's partitions",
        get_kafka_consumer_assignment,
        ConsumerAssignmentData,
    ),
]
