"""DeleteRecords (21): v0-v2: move the start of partitions up.

Order: authorise each topic, look it up, move the log starts, wait until every live replica has followed, answer.
"""

import asyncio

from kvorum.broker.metadata.cache import is_internal
from kvorum.broker.replica.delayed_delete_records import INVALID_LOW_WATERMARK
from kvorum.broker.services import Broker, BrokerApi, Result
from kvorum.network.authorizer import Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kvorum.protocol.topic_partition import TopicPartition

Rows = dict[TopicPartition, DeleteRecordsPartitionResult]


def handle(ctx: RequestContext, request: DeleteRecordsRequest, broker: Broker) -> Result:
    """Delete the records below the given offsets."""
    refused: Rows = {}
    offsets: dict[TopicPartition, int] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            key = TopicPartition(topic.name, partition.partition_index)
            code = problem(ctx, broker, key)
            if code is ErrorCode.NONE:
                offsets[key] = partition.offset
            else:
                refused[key] = DeleteRecordsPartitionResult(
                    partition_index=key.partition, low_watermark=INVALID_LOW_WATERMARK, error_code=code
                )
    answer: asyncio.Future[DeleteRecordsResponse] = asyncio.get_running_loop().create_future()

    def on_done(rows: Rows) -> None:
        if not answer.done():
            answer.set_result(respond(ctx, broker, rows | refused))

    if offsets:
        broker.replica_manager.delete_records(request.timeout, offsets, on_done)
    else:
        on_done({})
    return answer


def problem(ctx: RequestContext, broker: Broker, key: TopicPartition) -> ErrorCode:
    """Return the error that forbids the deletion, NONE if it is permitted."""
    if not broker.authorizer.authorize(ctx, Operation.DELETE, ResourceType.TOPIC, key.topic):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if broker.metadata.partition(key.topic, key.partition) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if is_internal(key.topic):
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return ErrorCode.NONE


def respond(ctx: RequestContext, broker: Broker, rows: Rows) -> DeleteRecordsResponse:
    """Build the response from rows, by topic."""
    topics: dict[str, DeleteRecordsTopicResult] = {}
    for key, row in rows.items():
        topics.setdefault(key.topic, DeleteRecordsTopicResult(name=key.topic)).partitions.append(row)
    return DeleteRecordsResponse(throttle_time=broker.throttle(ctx), topics=list(topics.values()))


HANDLER = BrokerApi(ApiKey.DELETE_RECORDS, handle)
