"""ListOffsets (2): v1-v11.

v2: isolation level. v4: current leader epoch (KIP-320). v5: OFFSET_NOT_AVAILABLE (before: LEADER_NOT_AVAILABLE). v6:
flexible. v7: the greatest timestamp (KIP-734). v8: earliest local, which is earliest (KIP-405). v9: latest tiered. v10:
timeout for tiered storage. v11: earliest pending upload. Without tiered storage the last two do not exist: -1.
`__cluster_metadata` is answered from this broker's own copy.
Order: authorise each topic, reject duplicate partitions, check the timestamp's version, look up.
"""

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kvorum.broker.api.metadata import may_describe
from kvorum.broker.metadata.cache import METADATA_TOPIC
from kvorum.broker.metadata.metadata_log import PARTITION
from kvorum.broker.replica.types import (
    CONSUMER_REPLICA_ID,
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    IsolationLevel,
)
from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.storage.log_read import TimestampOffset

UNKNOWN: Final = -1
OFFSET_NOT_AVAILABLE_VERSION_MIN: Final = 5
TIMESTAMP_VERSIONS: Final[Mapping[int, int]] = MappingProxyType(
    {
        EARLIEST_TIMESTAMP: 1,
        LATEST_TIMESTAMP: 1,
        MAX_TIMESTAMP: 7,
        EARLIEST_LOCAL_TIMESTAMP: 8,
        LATEST_TIERED_TIMESTAMP: 9,
        EARLIEST_PENDING_UPLOAD_TIMESTAMP: 11,
    }
)
"""{special timestamp: first version that knows it}."""


def handle(ctx: RequestContext, request: ListOffsetsRequest, broker: Broker) -> ListOffsetsResponse:
    """Answer each partition on its own."""
    response = ListOffsetsResponse(throttle_time=broker.throttle(ctx))
    times = Counter(
        (topic.name, requested.partition_index) for topic in request.topics for requested in topic.partitions
    )
    for topic in request.topics:
        answered = ListOffsetsTopicResponse(name=topic.name)
        allowed = may_describe(ctx, broker, topic.name)
        for requested in {each.partition_index: each for each in topic.partitions}.values():
            try:
                if not allowed:
                    raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                if times[topic.name, requested.partition_index] > 1:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "duplicate partition")
                found = look_up(ctx, request, broker, topic.name, requested)
                row = ListOffsetsPartitionResponse(
                    partition_index=requested.partition_index,
                    timestamp=found.timestamp,
                    offset=found.offset,
                    leader_epoch=found.leader_epoch,
                )
            except KafkaError as error:
                row = ListOffsetsPartitionResponse(
                    partition_index=requested.partition_index,
                    error_code=code_of(error, ctx.api_version),
                    timestamp=UNKNOWN,
                    offset=UNKNOWN,
                    leader_epoch=UNKNOWN,
                )
            answered.partitions.append(row)
        response.topics.append(answered)
    return response


def look_up(
    ctx: RequestContext, request: ListOffsetsRequest, broker: Broker, topic: str, requested: ListOffsetsPartition
) -> TimestampOffset:
    """Return the requested offset. Raises KafkaError."""
    timestamp = requested.timestamp
    if timestamp < 0 and ctx.api_version < TIMESTAMP_VERSIONS.get(timestamp, ctx.api_version + 1):
        problem = f"timestamp {timestamp} is not known in ListOffsets v{ctx.api_version}"
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, problem)
    if topic == METADATA_TOPIC:
        return in_metadata_log(broker, requested)
    if request.replica_id == CONSUMER_REPLICA_ID and request.isolation_level not in (0, 1):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"isolation level {request.isolation_level} is not known")
    return broker.replica_manager.offsets.fetch_offset_for_timestamp(
        TopicPartition(topic, requested.partition_index),
        timestamp,
        isolation_level=IsolationLevel(request.isolation_level & 1),
        current_leader_epoch=requested.current_leader_epoch,
        replica_id=request.replica_id,
    )


def in_metadata_log(broker: Broker, requested: ListOffsetsPartition) -> TimestampOffset:
    """Return the requested offset of this broker's copy of the metadata log. Raises KafkaError."""
    if requested.partition_index != PARTITION:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    copy = broker.metadata_log.log(requested.current_leader_epoch)
    not_found = TimestampOffset(UNKNOWN, UNKNOWN, UNKNOWN)
    match requested.timestamp:
        case timestamp if timestamp == LATEST_TIMESTAMP:
            return TimestampOffset(UNKNOWN, broker.metadata_log.end(copy), broker.metadata_log.leader_epoch)
        case timestamp if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
            return TimestampOffset(UNKNOWN, copy.log_start_offset, UNKNOWN)
        case timestamp if timestamp in (LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP):
            return not_found
        case timestamp if timestamp == MAX_TIMESTAMP:
            return copy.offset_of_max_timestamp() or not_found
        case timestamp:
            return copy.offset_for_timestamp(timestamp) or not_found


def code_of(error: KafkaError, version: int) -> ErrorCode:
    """Return the error's code as this version knows it."""
    if error.code is ErrorCode.OFFSET_NOT_AVAILABLE and version < OFFSET_NOT_AVAILABLE_VERSION_MIN:
        return ErrorCode.LEADER_NOT_AVAILABLE
    return error.code


HANDLER = BrokerApi(ApiKey.LIST_OFFSETS, handle)
