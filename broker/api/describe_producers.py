"""DescribeProducers (61): v0: the producers with state on replicas here (KIP-664).

Order: authorise READ on each topic, look up, answer.
"""

from kvorum.broker.replica.types import NO_EPOCH
from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.authorizer import Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from kvorum.protocol.topic_names import check_topic_name
from kvorum.protocol.topic_partition import TopicPartition


def handle(ctx: RequestContext, request: DescribeProducersRequest, broker: Broker) -> DescribeProducersResponse:
    """Answer each partition on its own."""
    response = DescribeProducersResponse(throttle_time=broker.throttle(ctx))
    for topic in request.topics:
        allowed = broker.authorizer.authorize(ctx, Operation.READ, ResourceType.TOPIC, topic.name)
        answered = TopicResponse(name=topic.name)
        for index in topic.partition_indexes:
            row = PartitionResponse(partition_index=index)
            try:
                if not allowed:
                    raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                check_topic_name(topic.name)
                row.active_producers = producers(broker, TopicPartition(topic.name, index))
            except KafkaError as error:
                row.error_code = error.code
                row.error_message = error.message
            answered.partitions.append(row)
        response.topics.append(answered)
    return response


def producers(broker: Broker, key: TopicPartition) -> list[ProducerState]:
    """Return the producers of a local replica, leader or not. Raises KafkaError if there is none."""
    partition = broker.replica_manager.partition_or_raise(key)
    log = partition.log_or_raise(NO_EPOCH, require_leader=False)
    return [
        ProducerState(
            producer_id=entry.producer_id,
            producer_epoch=entry.producer_epoch,
            last_sequence=entry.last_sequence,
            last_timestamp=entry.last_timestamp,
            coordinator_epoch=entry.coordinator_epoch,
            current_txn_start_offset=entry.current_txn_first_offset,
        )
        for entry in log.producer_state.producers.values()
    ]


HANDLER = BrokerApi(ApiKey.DESCRIBE_PRODUCERS, handle)
