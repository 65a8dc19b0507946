"""DescribeTopicPartitions (75): v0.

Topics in the order of their names, as many partitions as fit one answer, and a cursor for the next page (KIP-966).

Order: check the cursor, authorise each topic, answer up to the limit (max.request.partition.size.limit at most).
"""

from collections.abc import Awaitable, Iterator

from kvorum.broker.api.metadata import missing_code
from kvorum.broker.metadata.cache import is_internal
from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.authorizer import Operation, ResourceType, authorized_operations
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    ResponseCursor,
)
from kvorum.quorum.image.topics import TopicImage

SIZE_LIMIT_KEY = "max.request.partition.size.limit"


def handle(
    ctx: RequestContext, request: DescribeTopicPartitionsRequest, broker: Broker
) -> DescribeTopicPartitionsResponse | Awaitable[DescribeTopicPartitionsResponse]:
    """Answer one page; as with Metadata, one that names a leader which has just died waits a moment."""
    return broker.peers.settle(lambda: answer(ctx, request, broker), leaders)


def leaders(response: DescribeTopicPartitionsResponse) -> set[int]:
    """Return the leaders named in the response."""
    return {partition.leader_id for topic in response.topics for partition in topic.partitions}


def answer(
    ctx: RequestContext, request: DescribeTopicPartitionsRequest, broker: Broker
) -> DescribeTopicPartitionsResponse:
    """Answer one page as the image is now."""
    response = DescribeTopicPartitionsResponse(throttle_time=broker.throttle(ctx))
    try:
        names = names_from_cursor(request, broker)
    except KafkaError as error:
        response.topics = [failed(error.code, topic.name) for topic in request.topics]
        return response
    refused: list[DescribeTopicPartitionsResponseTopic] = []
    left = max(1, min(broker.settings.int(SIZE_LIMIT_KEY), request.response_partition_limit))
    cursor = request.cursor
    for name in names:
        if not broker.authorizer.authorize(ctx, Operation.DESCRIBE, ResourceType.TOPIC, name):
            if request.topics:
                refused.append(failed(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name))
            continue
        if left == 0:
            response.next_cursor = ResponseCursor(topic_name=name, partition_index=0)
            break
        topic = broker.metadata.topic(name)
        if topic is None:
            missing = failed(missing_code(name), name)
            missing.topic_authorized_operations = operations(ctx, broker, name)
            response.topics.append(missing)
            continue
        start = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        described = describe(ctx, broker, topic, start, left)
        response.topics.append(described)
        left -= len(described.partitions)
        if start + len(described.partitions) < len(topic.partitions):
            following = start + len(described.partitions)
            response.next_cursor = ResponseCursor(topic_name=name, partition_index=following)
            break
    response.topics.extend(refused)
    return response


def names_from_cursor(request: DescribeTopicPartitionsRequest, broker: Broker) -> Iterator[str]:
    """Return the names to describe, sorted, from the cursor on. Raises KafkaError INVALID_REQUEST."""
    first = request.cursor.topic_name if request.cursor is not None else ""
    requested = [topic.name for topic in request.topics]
    if request.cursor is not None and requested and first not in requested:
        problem = f"DescribeTopicPartitionsRequest topic list should contain the cursor topic: {first}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)
    if request.cursor is not None and request.cursor.partition_index < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "DescribeTopicPartitionsRequest cursor partition must be valid")
    names = sorted(set(requested)) if requested else broker.metadata.topic_names()
    return (name for name in names if name >= first)


def describe(
    ctx: RequestContext, broker: Broker, topic: TopicImage, start: int, count: int
) -> DescribeTopicPartitionsResponseTopic:
    """Return a topic with up to `count` of its partitions."""
    partitions: list[DescribeTopicPartitionsResponsePartition] = []
    for index in range(start, min(start + count, len(topic.partitions))):
        view = broker.metadata.partition_view(index, topic.partitions[index], ctx.listener, False, True)
        partitions.append(
            DescribeTopicPartitionsResponsePartition(
                error_code=view.error,
                partition_index=view.partition_index,
                leader_id=view.leader_id,
                leader_epoch=view.leader_epoch,
                replica_nodes=view.replicas,
                isr_nodes=view.isr,
                eligible_leader_replicas=view.elr,
                last_known_elr=view.last_known_elr,
                offline_replicas=view.offline_replicas,
            )
        )
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=is_internal(topic.name),
        partitions=partitions,
        topic_authorized_operations=operations(ctx, broker, topic.name),
    )


def operations(ctx: RequestContext, broker: Broker, name: str) -> int:
    """Return the bit set of the client's permitted operations on a topic."""
    return authorized_operations(broker.authorizer, ctx, ResourceType.TOPIC, name)


def failed(code: ErrorCode, name: str) -> DescribeTopicPartitionsResponseTopic:
    """Return the error response for a topic."""
    return DescribeTopicPartitionsResponseTopic(error_code=code, name=name, is_internal=is_internal(name))


HANDLER = BrokerApi(ApiKey.DESCRIBE_TOPIC_PARTITIONS, handle)
