"""OffsetFetch (9): v1-v10: the offsets that groups have committed.

v2: an error for the whole response, and all offsets of a group (no topics named). v5: leader epochs (KIP-320).
v6: flexible. v7: only stable offsets (KIP-447). v8: several groups at once (KIP-709). v9: members of consumer groups
(KIP-848). v10: topic ids (KIP-848).
Order: authorise each group, resolve and authorise each topic, query the coordinator, respond. A response for all topics
omits those that the client may not describe.
"""

import asyncio

from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.authorizer import Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from kvorum.protocol.uuids import ZERO_UUID

TOP_ERROR_FROM = 2
GROUPS_FROM = 8
TOPIC_IDS_FROM = 10
NO_OFFSET = -1
PASSING = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}


async def handle(ctx: RequestContext, request: OffsetFetchRequest, broker: Broker) -> OffsetFetchResponse:
    """Answer for one group (before v8) or several."""
    groups = request.groups if ctx.api_version >= GROUPS_FROM else [only_group(request)]
    rows = await asyncio.gather(*(fetched(ctx, group, request.require_stable, broker) for group in groups))
    if ctx.api_version >= GROUPS_FROM:
        return OffsetFetchResponse(throttle_time=broker.throttle(ctx), groups=list(rows))
    response = as_one(rows[0])
    response.throttle_time = broker.throttle(ctx)
    return response


async def fetched(
    ctx: RequestContext, group: OffsetFetchRequestGroup, require_stable: bool, broker: Broker
) -> OffsetFetchResponseGroup:
    """Return the offsets of one group that the client may see, or the error."""
    if not broker.authorizer.authorize(ctx, Operation.DESCRIBE, ResourceType.GROUP, group.group_id):
        return failed(ctx, group, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if group.topics is None:
        row = await broker.groups.fetch(group, require_stable=require_stable)
        row.topics = [topic for topic in row.topics if may_see(ctx, topic, broker)]
        return row
    refused: list[OffsetFetchResponseTopics] = []
    allowed: list[OffsetFetchRequestTopics] = []
    for topic in group.topics:
        code = resolve(ctx, topic, broker)
        if code is ErrorCode.NONE:
            allowed.append(topic)
        else:
            refused.append(without_offsets(topic, code))
    requested = OffsetFetchRequestGroup(
        group_id=group.group_id, member_id=group.member_id, member_epoch=group.member_epoch, topics=allowed
    )
    row = await broker.groups.fetch(requested, require_stable=require_stable)
    if row.error_code != ErrorCode.NONE:
        return failed(ctx, group, ErrorCode(row.error_code))
    row.topics += refused
    return row


def resolve(ctx: RequestContext, topic: OffsetFetchRequestTopics, broker: Broker) -> ErrorCode:
    """Set the topic's name; return the error that hides its offsets, NONE if they are shown."""
    if ctx.api_version >= TOPIC_IDS_FROM:
        name = broker.metadata.topic_name(topic.topic_id)
        if name is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        topic.name = name
    if not broker.authorizer.authorize(ctx, Operation.DESCRIBE, ResourceType.TOPIC, topic.name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.NONE


def may_see(ctx: RequestContext, topic: OffsetFetchResponseTopics, broker: Broker) -> bool:
    """Return whether a response for all topics includes a topic; with topic ids, topics without an id are omitted."""
    if not broker.authorizer.authorize(ctx, Operation.DESCRIBE, ResourceType.TOPIC, topic.name):
        return False
    if ctx.api_version >= TOPIC_IDS_FROM:
        topic.topic_id = broker.metadata.topic_id(topic.name)
        return topic.topic_id != ZERO_UUID
    return True


def failed(ctx: RequestContext, group: OffsetFetchRequestGroup, code: ErrorCode) -> OffsetFetchResponseGroup:
    """Return a group's error response; before v2 the error is in each partition (OffsetFetchResponse.groupError).

    Up to v7 each partition has the error too if the coordinator moves or is loading: aiokafka (0.14) uses v3 and reads
    only the partitions. Kafka's response has no partitions in this case, which aiokafka treats as a group without
    commits, so it starts at the start or the end. Clients that read the error first see no difference.
    """
    top = code if ctx.api_version >= TOP_ERROR_FROM else ErrorCode.NONE
    is_in_rows = ctx.api_version < TOP_ERROR_FROM or (ctx.api_version < GROUPS_FROM and code in PASSING)
    rows = [without_offsets(topic, code) for topic in group.topics or ()] if is_in_rows else []
    return OffsetFetchResponseGroup(group_id=group.group_id, error_code=top, topics=rows)


def without_offsets(topic: OffsetFetchRequestTopics, code: ErrorCode) -> OffsetFetchResponseTopics:
    """Return the rows of a topic with an error for each partition."""
    rows = [
        OffsetFetchResponsePartitions(partition_index=each, committed_offset=NO_OFFSET, error_code=code)
        for each in topic.partition_indexes
    ]
    return OffsetFetchResponseTopics(topic_id=topic.topic_id, name=topic.name, partitions=rows)


def only_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    """Return the group of a request before v8 in the form of the later ones."""
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)


def as_one(group: OffsetFetchResponseGroup) -> OffsetFetchResponse:
    """Return one group's answer in the form before v8."""
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=row.partition_index,
                        committed_offset=row.committed_offset,
                        committed_leader_epoch=row.committed_leader_epoch,
                        metadata=row.metadata,
                        error_code=row.error_code,
                    )
                    for row in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )


HANDLER = BrokerApi(ApiKey.OFFSET_FETCH, handle)
