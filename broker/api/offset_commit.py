"""OffsetCommit (8): v2-v10: offsets of a group, kept until they expire.

v2 to v4: a retention time from the client. v5: the broker's. v6: leader epochs (KIP-320). v7: static members
(KIP-345). v8: flexible. v9: members of consumer groups (KIP-848). v10: topic ids (KIP-848).
Order: authorise the group, resolve, authorise and look up each topic and partition, query the coordinator, respond when
the offsets are committed.
"""

import asyncio

from kvorum.broker.api.finishing import finished
from kvorum.broker.api.group_client import client_of
from kvorum.broker.coordinator.group import refusals
from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.authorizer import Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.image.topics import TopicImage

TOPIC_IDS_FROM = 10


def handle(
    ctx: RequestContext, request: OffsetCommitRequest, broker: Broker
) -> "OffsetCommitResponse | asyncio.Future[OffsetCommitResponse]":
    """Commit the valid offsets; each partition has a separate code."""
    refused: list[OffsetCommitResponseTopic] = []

    def finish(response: OffsetCommitResponse) -> None:
        if refused or len(response.topics) > 1:
            response.topics = merged(refused, response.topics)
        response.throttle_time = broker.throttle(ctx)

    if not broker.authorizer.authorize(ctx, Operation.READ, ResourceType.GROUP, request.group_id):
        response = refusals.commit(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        response.throttle_time = broker.throttle(ctx)
        return response
    wanted = [topic for requested in request.topics if (topic := checked(ctx, requested, broker, refused)) is not None]
    if not wanted:
        return finished(OffsetCommitResponse(), finish)
    request.topics = wanted
    return finished(broker.groups.commit(client_of(ctx), request), finish)


def checked(
    ctx: RequestContext, topic: OffsetCommitRequestTopic, broker: Broker, refused: list[OffsetCommitResponseTopic]
) -> OffsetCommitRequestTopic | None:
    """Return the topic with its existing partitions, None without any; note the rejected ones."""
    found = resolve(ctx, topic, broker)
    if isinstance(found, ErrorCode):
        refuse(topic, topic.partitions, found, refused)
        return None
    known = found.partitions
    missing = [row for row in topic.partitions if row.partition_index not in known]
    if missing:
        refuse(topic, missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, refused)
        topic.partitions = [row for row in topic.partitions if row.partition_index in known]
    return topic if topic.partitions else None


def refuse(
    topic: OffsetCommitRequestTopic,
    partitions: list[OffsetCommitRequestPartition],
    code: ErrorCode,
    refused: list[OffsetCommitResponseTopic],
) -> None:
    """Add the rejected partitions of a topic."""
    rows = [OffsetCommitResponsePartition(partition_index=row.partition_index, error_code=code) for row in partitions]
    if rows:
        refused.append(OffsetCommitResponseTopic(topic_id=topic.topic_id, name=topic.name, partitions=rows))


def resolve(ctx: RequestContext, topic: OffsetCommitRequestTopic, broker: Broker) -> TopicImage | ErrorCode:
    """Set the topic's name or id, and return it, or the error for all its partitions."""
    if ctx.api_version >= TOPIC_IDS_FROM:
        name = broker.metadata.topic_name(topic.topic_id)
        if name is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        topic.name = name
    if not broker.authorizer.authorize(ctx, Operation.READ, ResourceType.TOPIC, topic.name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    found = broker.metadata.topic(topic.name)
    if found is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    topic.topic_id = found.topic_id
    return found


def merged(
    refused: list[OffsetCommitResponseTopic], committed: list[OffsetCommitResponseTopic]
) -> list[OffsetCommitResponseTopic]:
    """Return the rows of both, one per topic, rejected ones first."""
    topics: dict[tuple[Uuid, str], OffsetCommitResponseTopic] = {}
    for topic in (*refused, *committed):
        row = topics.setdefault((topic.topic_id, topic.name), topic)
        if row is not topic:
            row.partitions += topic.partitions
    return list(topics.values())


HANDLER = BrokerApi(ApiKey.OFFSET_COMMIT, handle)
