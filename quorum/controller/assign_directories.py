"""AssignReplicasToDirs (73): v0.

A broker reports the log directories of its replicas (KIP-858).

So the controller knows the replicas of a directory when it fails; they lose ISR and leadership then. A replica assigned
to an offline directory loses them at once.

A replica is its log (docs/decisions/0025). If the directory in the metadata does not work, the broker's log in another
one is new, empty or rebuilt: the broker is then no longer the last leader that elections wait for. Its membership of
ISR or ELR belongs to the new log: the registration removed that of the old one. A replica reported as LOST has no
records. Kafka considers the records of either log. Order of the checks, each with its error:

    sender's registration and epoch    STALE_BROKER_EPOCH, for the whole request
    at most ASSIGNMENTS_MAX            INVALID_REQUEST, for the whole request
    topic id known                     UNKNOWN_TOPIC_ID
    partition known                    UNKNOWN_TOPIC_OR_PARTITION
    sender has a replica of it         NOT_LEADER_OR_FOLLOWER

Source: ReplicationControlManager.handleAssignReplicasToDirs.
"""

from typing import Final

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    RequestDirectoryData,
    RequestTopicData,
    ResponseDirectoryData,
    ResponsePartitionData,
    ResponseTopicData,
)
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.controller.context import Context
from kvorum.quorum.controller.partition_change import NOBODY, Election, PartitionChangeBuilder
from kvorum.quorum.controller.result import Result
from kvorum.quorum.image.cluster import BrokerRegistration
from kvorum.quorum.image.partition import LOST_DIRECTORY, PartitionRegistration
from kvorum.quorum.image.partition_set import TopicIdPartition
from kvorum.quorum.image.topics import TopicImage
from kvorum.quorum.records import MetadataRecord, PartitionChange
from kvorum.quorum.steps import Steps, pieces

ASSIGNMENTS_MAX: Final = 2_250
"""Replicas in one request (AssignReplicasToDirsRequest.MAX_ASSIGNMENTS_PER_REQUEST)."""


def assign_replicas_to_dirs(
    context: Context, request: AssignReplicasToDirsRequest
) -> Steps[Result[AssignReplicasToDirsResponse]]:
    """Store the directories of replicas. Raises KafkaError STALE_BROKER_EPOCH, INVALID_REQUEST."""
    broker = context.checked_broker(request.broker_id, request.broker_epoch)
    count = sum(len(topic.partitions) for directory in request.directories for topic in directory.topics)
    if count > ASSIGNMENTS_MAX:
        message = f"{count} replicas in one request, at most {ASSIGNMENTS_MAX} are accepted"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    assigning = Assigning(context, broker)
    response = AssignReplicasToDirsResponse()
    for directory in request.directories:
        response.directories.append((yield from assigning.directory(directory)))
    return Result(records=assigning.records, response=response)


class Assigning:
    """One request, while it is decided."""

    def __init__(self, context: Context, broker: BrokerRegistration) -> None:
        """Start without decisions."""
        self._context = context
        self._broker = broker
        self._changed: dict[TopicIdPartition, PartitionRegistration] = {}
        self.records: list[MetadataRecord] = []

    def directory(self, wanted: RequestDirectoryData) -> Steps[ResponseDirectoryData]:
        """Assign the replicas of one directory."""
        answer = ResponseDirectoryData(id_=wanted.id_)
        for topic in wanted.topics:
            answer.topics.append((yield from self._topic(topic, wanted.id_)))
        return answer

    def _topic(self, wanted: RequestTopicData, directory: Uuid) -> Steps[ResponseTopicData]:
        topic = self._context.image.topics.topic_by_id(wanted.topic_id)
        answer = ResponseTopicData(topic_id=wanted.topic_id)
        for piece in pieces(wanted.partitions):
            for each in piece:
                index = each.partition_index
                error = ErrorCode.UNKNOWN_TOPIC_ID if topic is None else self._assign(topic, index, directory)
                answer.partitions.append(ResponsePartitionData(partition_index=index, error_code=error))
            yield
        return answer

    def _assign(self, topic: TopicImage, index: int, directory: Uuid) -> ErrorCode:
        key = TopicIdPartition(topic.topic_id, index)
        partition = self._changed.get(key) or topic.partition(index)
        broker_id = self._broker.broker_id
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if broker_id not in partition.replicas:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        change = self._change(topic, index, partition, directory)
        if change is not None:
            self.records.append(change)
            self._changed[key] = partition.merge(change)
        return ErrorCode.NONE

    def _change(
        self, topic: TopicImage, index: int, partition: PartitionRegistration, directory: Uuid
    ) -> PartitionChange | None:
        context, broker_id = self._context, self._broker.broker_id
        known, works = partition.directory(broker_id), context.image.cluster.has_online_directory
        is_online, is_lost = works(broker_id, directory), directory == LOST_DIRECTORY
        is_another = known != directory and not works(broker_id, known)
        unclean = context.unclean_election_enabled(topic.name)
        return PartitionChangeBuilder(
            topic_id=topic.topic_id,
            partition_id=index,
            partition=partition,
            is_acceptable_leader=context.image.cluster.is_active,
            default_directory=context.default_directory,
            is_online_directory=works,
            is_resting=context.rests,
            election=Election.UNCLEAN if unclean else Election.ONLINE,
            target_isr=None if is_online else tuple(each for each in partition.isr if each != broker_id),
            target_directory=(broker_id, directory),
            elr_enabled=context.elr_enabled,
            min_isr=context.effective_min_isr(topic),
            unclean_shutdown=broker_id if is_lost else NOBODY,
            lost=broker_id if is_lost or is_another else NOBODY,
        ).build()
