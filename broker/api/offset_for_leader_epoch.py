"""OffsetForLeaderEpoch (23): v2-v4.

v3: replica id (KIP-392). v4: flexible. Returns the end offset of a leader epoch, from which a client or replica finds
where its log diverges.
Order: authorise (a replica as a broker, a client on each topic), look up, answer.
"""

from typing import Final

from kvorum.broker.api.metadata import may_describe
from kvorum.broker.metadata.cache import METADATA_TOPIC
from kvorum.broker.metadata.metadata_log import PARTITION
from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.authorizer import CLUSTER_NAME, Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.storage import epoch_cache

UNDEFINED: Final = -1


def handle(ctx: RequestContext, request: OffsetForLeaderEpochRequest, broker: Broker) -> OffsetForLeaderEpochResponse:
    """Answer each partition on its own."""
    response = OffsetForLeaderEpochResponse(throttle_time=broker.throttle(ctx))
    as_broker = broker.authorizer.authorize(ctx, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
    for topic in request.topics:
        allowed = as_broker or may_describe(ctx, broker, topic.topic)
        answered = OffsetForLeaderTopicResult(topic=topic.topic)
        for requested in topic.partitions:
            try:
                if not allowed:
                    raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                end = look_up(broker, topic.topic, requested)
                row = EpochEndOffset(partition=requested.partition, leader_epoch=end.epoch, end_offset=end.end_offset)
            except KafkaError as error:
                row = EpochEndOffset(
                    error_code=error.code, partition=requested.partition, leader_epoch=UNDEFINED, end_offset=UNDEFINED
                )
            answered.partitions.append(row)
        response.topics.append(answered)
    return response


def look_up(broker: Broker, topic: str, requested: OffsetForLeaderPartition) -> epoch_cache.EpochEndOffset:
    """Return the largest epoch not above the requested one, with its end offset. Raises KafkaError."""
    if topic == METADATA_TOPIC:
        if requested.partition != PARTITION:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return broker.metadata_log.log(requested.current_leader_epoch).end_offset_for_epoch(requested.leader_epoch)
    return broker.replica_manager.offsets.last_offset_for_leader_epoch(
        TopicPartition(topic, requested.partition), requested.current_leader_epoch, requested.leader_epoch
    )


HANDLER = BrokerApi(ApiKey.OFFSET_FOR_LEADER_EPOCH, handle)
