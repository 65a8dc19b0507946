"""OffsetDelete (47): v0: offsets of topics that no member of the group reads (KIP-496).

Order: authorise the group, authorise and look up each topic and partition, query the coordinator, respond when the
change is written.
"""

from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.authorizer import Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


async def handle(ctx: RequestContext, request: OffsetDeleteRequest, broker: Broker) -> OffsetDeleteResponse:
    """Delete offsets; an error of the whole group has no rows."""
    if not broker.authorizer.authorize(ctx, Operation.DELETE, ResourceType.GROUP, request.group_id):
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        return OffsetDeleteResponse(error_code=code, throttle_time=broker.throttle(ctx))
    refused: list[OffsetDeleteResponseTopic] = []
    wanted = [topic for requested in request.topics if (topic := checked(ctx, requested, broker, refused)) is not None]
    response = await broker.groups.delete_offsets(OffsetDeleteRequest(group_id=request.group_id, topics=wanted))
    if response.error_code == ErrorCode.NONE:
        response.topics = merged(refused, response.topics)
    response.throttle_time = broker.throttle(ctx)
    return response


def checked(
    ctx: RequestContext, topic: OffsetDeleteRequestTopic, broker: Broker, refused: list[OffsetDeleteResponseTopic]
) -> OffsetDeleteRequestTopic | None:
    """Return the topic with its existing partitions, None without any; note the rejected ones."""
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    there, missing = [], list(topic.partitions)
    if not broker.authorizer.authorize(ctx, Operation.READ, ResourceType.TOPIC, topic.name):
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    else:
        there = [row for row in missing if broker.metadata.partition(topic.name, row.partition_index) is not None]
        missing = [row for row in missing if row not in there]
    if missing:
        rows = [OffsetDeleteResponsePartition(partition_index=row.partition_index, error_code=code) for row in missing]
        refused.append(OffsetDeleteResponseTopic(name=topic.name, partitions=rows))
    return OffsetDeleteRequestTopic(name=topic.name, partitions=there) if there else None


def merged(
    refused: list[OffsetDeleteResponseTopic], deleted: list[OffsetDeleteResponseTopic]
) -> list[OffsetDeleteResponseTopic]:
    """Return the rows of both, one per topic, rejected ones first."""
    topics: dict[str, OffsetDeleteResponseTopic] = {}
    for topic in (*refused, *deleted):
        row = topics.setdefault(topic.name, topic)
        if row is not topic:
            row.partitions += topic.partitions
    return list(topics.values())


HANDLER = BrokerApi(ApiKey.OFFSET_DELETE, handle)
