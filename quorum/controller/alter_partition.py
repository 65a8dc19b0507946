"""AlterPartition (56): v2-v3.

A leader proposes another ISR of its partition (Kafka's ReplicationControlManager).

v3: the epochs of the brokers in the ISR (KIP-903); -1 is not checked. Order of the checks, each with its error:

    sender's registration and epoch                       STALE_BROKER_EPOCH, for the whole request
    topic id known                                        UNKNOWN_TOPIC_ID
    partition known                                       UNKNOWN_TOPIC_OR_PARTITION
    leader epoch, partition epoch not above ours          NOT_CONTROLLER: the sender knows a newer controller
    leader epoch not below ours                           FENCED_LEADER_EPOCH
    sender leads                                          INVALID_REQUEST
    partition epoch not below ours                        INVALID_UPDATE_VERSION
    ISR within the replicas, none twice, leader in it     INVALID_REQUEST
    recovering: alone in the ISR; not from RECOVERED      INVALID_REQUEST
    each member registered, not shutting down, not fenced, of its epoch (KIP-841, KIP-903)    INELIGIBLE_REPLICA

Where the new ISR completes a reassignment that takes the leader away, the change is made *and* NEW_LEADER_ELECTED
answered.
"""

from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
    ResponseTopicData,
)
from kvorum.quorum.controller.context import Context
from kvorum.quorum.controller.partition_change import Election, PartitionChangeBuilder
from kvorum.quorum.controller.result import Result
from kvorum.quorum.image.partition import PartitionRegistration
from kvorum.quorum.image.topics import TopicImage
from kvorum.quorum.records import RECOVERED, RECOVERING, MetadataRecord

EPOCHS_VERSION = 3
UNCHECKED_EPOCH = -1


def alter_partition(context: Context, request: AlterPartitionRequest) -> Result[AlterPartitionResponse]:
    """Change ISRs where the request is right about them. Raises KafkaError STALE_BROKER_EPOCH."""
    context.checked_broker(request.broker_id, request.broker_epoch)
    response = AlterPartitionResponse()
    records: list[MetadataRecord] = []
    for topic_data in request.topics:
        answer = ResponseTopicData(topic_id=topic_data.topic_id)
        answer.partitions = _alter_topic(context, request.broker_id, topic_data, records)
        response.topics.append(answer)
    return Result(records=records, response=response)


def _alter_topic(
    context: Context, broker_id: int, topic_data: RequestTopicData, records: list[MetadataRecord]
) -> list[ResponsePartitionData]:
    topic = context.image.topics.topic_by_id(topic_data.topic_id)
    answers: list[ResponsePartitionData] = []
    changed: set[int] = set()
    for data in topic_data.partitions:
        if topic is None:
            answers.append(_refusal(data, ErrorCode.UNKNOWN_TOPIC_ID))
        elif data.partition_index in changed:
            # A second change of a partition in one request would be checked against the state that the first replaced.
            answers.append(_refusal(data, ErrorCode.INVALID_UPDATE_VERSION))
        else:
            answers.append(_alter(context, broker_id, topic, data, records))
            changed.add(data.partition_index)
    return answers


def _refusal(data: RequestPartitionData, error: ErrorCode) -> ResponsePartitionData:
    return ResponsePartitionData(partition_index=data.partition_index, error_code=error)


def _alter(
    context: Context, broker_id: int, topic: TopicImage, data: RequestPartitionData, records: list[MetadataRecord]
) -> ResponsePartitionData:
    """Decide on one partition; add its change, answer."""
    partition = topic.partition(data.partition_index)
    if partition is None:
        return _refusal(data, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    members = proposed_isr(data, context.api_version)
    error = (
        epoch_error(broker_id, partition, data)
        or isr_error(partition, members, data.leader_recovery_state)
        or eligibility_error(context, members)
    )
    if error is not None:
        return _refusal(data, error)
    unclean = context.unclean_election_enabled(topic.name)
    change = PartitionChangeBuilder(
        topic_id=topic.topic_id,
        partition_id=data.partition_index,
        partition=partition,
        is_acceptable_leader=context.image.cluster.is_active,
        default_directory=context.default_directory,
        is_online_directory=context.image.cluster.has_online_directory,
        is_resting=context.rests,
        election=Election.UNCLEAN if unclean else Election.ONLINE,
        target_isr=tuple(member.broker_id for member in members),
        target_recovery_state=data.leader_recovery_state,
        elr_enabled=context.elr_enabled,
        min_isr=context.effective_min_isr(topic),
    ).build()
    if change is not None:
        records.append(change)
        partition = partition.merge(change)
        if partition.leader != broker_id:
            return _refusal(data, ErrorCode.NEW_LEADER_ELECTED)
    return ResponsePartitionData(
        partition_index=data.partition_index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=list(partition.isr),
        leader_recovery_state=partition.leader_recovery_state,
        partition_epoch=partition.partition_epoch,
    )


def proposed_isr(data: RequestPartitionData, api_version: int) -> list[BrokerState]:
    """Return the proposed ISR, with the epoch of each member if the version has them."""
    if api_version >= EPOCHS_VERSION:
        return data.new_isr_with_epochs
    return [BrokerState(broker_id=broker_id, broker_epoch=UNCHECKED_EPOCH) for broker_id in data.new_isr]


def epoch_error(broker_id: int, partition: PartitionRegistration, data: RequestPartitionData) -> ErrorCode | None:
    """Check the sender and its epochs of the partition."""
    if data.leader_epoch > partition.leader_epoch or data.partition_epoch > partition.partition_epoch:
        return ErrorCode.NOT_CONTROLLER
    if data.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if data.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    return None


def isr_error(partition: PartitionRegistration, members: list[BrokerState], recovery_state: int) -> ErrorCode | None:
    """Check that the ISR can be one of this partition, in the recovery state that goes with it."""
    isr = [member.broker_id for member in members]
    if len(set(isr)) != len(isr) or not set(isr) <= set(partition.replicas) or partition.leader not in isr:
        return ErrorCode.INVALID_REQUEST
    if recovery_state not in (RECOVERED, RECOVERING):
        return ErrorCode.INVALID_REQUEST
    if recovery_state == RECOVERING and (len(isr) > 1 or not partition.recovering):
        return ErrorCode.INVALID_REQUEST
    return None


def eligibility_error(context: Context, members: list[BrokerState]) -> ErrorCode | None:
    """Check that each member is the intended incarnation and may be in an ISR."""
    for member in members:
        broker = context.image.cluster.broker(member.broker_id)
        if broker is None or not broker.active:
            return ErrorCode.INELIGIBLE_REPLICA
        if member.broker_epoch not in (UNCHECKED_EPOCH, broker.broker_epoch):
            return ErrorCode.INELIGIBLE_REPLICA
    return None
