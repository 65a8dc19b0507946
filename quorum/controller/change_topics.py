"""DeleteTopics (20): v1-v6, and CreatePartitions (37): v0-v3.

DeleteTopics v6: topics by name or by id. Each topic succeeds or fails alone; the successful ones are one change
(ControllerApis.deleteTopics, ControllerApis.createPartitions, ReplicationControlManager).
"""

from collections import Counter
from typing import Final

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from kvorum.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kvorum.protocol.topic_names import INTERNAL_TOPICS
from kvorum.protocol.uuids import ZERO_UUID, Uuid
from kvorum.quorum.controller.assignments import Replicas, check_manual_assignment, new_partitions, place_partitions
from kvorum.quorum.controller.context import Context
from kvorum.quorum.controller.create_topics import PARTITIONS_MAX
from kvorum.quorum.controller.result import Result
from kvorum.quorum.image.configs import ResourceType
from kvorum.quorum.image.topics import TopicImage
from kvorum.quorum.records import Config, MetadataRecord, RemoveTopic
from kvorum.quorum.steps import Steps, pieces
from kvorum.runtime.config_defs import COORDINATOR_PARTITIONS

DELETION_DISABLED_VERSION: Final = 3
"""The first version that knows TOPIC_DELETION_DISABLED."""


def delete_topics(context: Context, request: DeleteTopicsRequest) -> Result[DeleteTopicsResponse]:
    """Delete topics, by name or by id.

    Raises KafkaError TOPIC_DELETION_DISABLED (INVALID_REQUEST below v3): delete.topic.enable is false.
    """
    if not context.settings.delete_topic_enable:
        known = context.api_version >= DELETION_DISABLED_VERSION
        code = ErrorCode.TOPIC_DELETION_DISABLED if known else ErrorCode.INVALID_REQUEST
        raise KafkaError(code, "Topic deletion is disabled.")
    wanted = [DeleteTopicState(name=name) for name in request.topic_names] + request.topics
    names = Counter(topic.name for topic in wanted if topic.name is not None)
    ids = Counter(topic.topic_id for topic in wanted if topic.name is None)
    refused: list[DeletableTopicResult] = []
    deleted: dict[Uuid, TopicImage] = {}
    answered: set[tuple[str | None, Uuid]] = set()
    # Ids first: a name that maps to one of them takes it back.
    for topic in sorted(wanted, key=lambda topic: topic.name is not None):
        if (topic.name, topic.topic_id) in answered:
            continue  # a duplicate is answered once
        answered.add((topic.name, topic.topic_id))
        try:
            image = _topic_to_delete(context, topic, names, ids)
        except KafkaError as error:
            refused.append(_refused_deletion(topic.name, topic.topic_id, error))
            continue
        if topic.name is not None and image.topic_id in ids:
            # Named by name and by id: one error for the two, and the topic is kept.
            deleted.pop(image.topic_id, None)
            message = "The provided topic name maps to an ID that was already supplied."
            refusal = KafkaError(ErrorCode.INVALID_REQUEST, message)
            refused.append(_refused_deletion(image.name, image.topic_id, refusal))
            continue
        deleted[image.topic_id] = image
    for image in tuple(deleted.values()):
        try:
            context.charge(len(image.partitions))
        except KafkaError as error:
            del deleted[image.topic_id]
            refused.append(_refused_deletion(image.name, image.topic_id, error))
    done = [DeletableTopicResult(name=image.name, topic_id=image.topic_id) for image in deleted.values()]
    records: list[MetadataRecord] = [RemoveTopic(topic_id=topic_id) for topic_id in deleted]
    return Result(records=records, response=DeleteTopicsResponse(responses=done + refused))


def _refused_deletion(name: str | None, topic_id: Uuid, error: KafkaError) -> DeletableTopicResult:
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=error.code, error_message=error.message)


def _topic_to_delete(context: Context, topic: DeleteTopicState, names: Counter[str], ids: Counter[Uuid]) -> TopicImage:
    """Return the topic that is meant. Raises KafkaError."""
    if topic.name is None and topic.topic_id == ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if topic.name is not None and topic.topic_id != ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if topic.name is None:
        if ids[topic.topic_id] > 1:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic id.")
        image = context.image.topics.topic_by_id(topic.topic_id)
        if image is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"topic with id {topic.topic_id} does not exist")
        return image
    if names[topic.name] > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    image = context.image.topics.topic(topic.name)
    if image is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic.name} does not exist")
    return image


def create_partitions(context: Context, request: CreatePartitionsRequest) -> Steps[Result[CreatePartitionsResponse]]:
    """Give topics more partitions; with `validate_only`, return only the result.

    Raises KafkaError POLICY_VIOLATION: more than PARTITIONS_MAX new partitions.
    """
    _check_size(context, request)
    counts = Counter(topic.name for topic in request.topics)
    response = CreatePartitionsResponse()
    records: list[MetadataRecord] = []
    answered: set[str] = set()
    for topic in request.topics:
        if topic.name in answered:
            continue  # a duplicate is answered once
        answered.add(topic.name)
        result = CreatePartitionsTopicResult(name=topic.name)
        try:
            if counts[topic.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            records += yield from _new_partitions(context, topic)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
        response.results.append(result)
    return Result(records=[] if request.validate_only else records, response=response)


def _check_size(context: Context, request: CreatePartitionsRequest) -> None:
    total = 0
    for topic in request.topics:
        image = context.image.topics.topic(topic.name)
        total += 0 if image is None else max(topic.count - len(image.partitions), 0)
    if total > PARTITIONS_MAX:
        message = f"Excessively large number of partitions per request: {total}, at most {PARTITIONS_MAX} are created."
        raise KafkaError(ErrorCode.POLICY_VIOLATION, message)


def _new_partitions(context: Context, topic: CreatePartitionsTopic) -> Steps[list[MetadataRecord]]:
    """Return the records of one topic's new partitions. Raises KafkaError.

    An internal topic's former count is written down with them: coordinators stay on the partitions that have them.
    """
    image = context.image.topics.topic(topic.name)
    if image is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic.name} does not exist")
    existing = len(image.partitions)
    if topic.count == existing:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {existing} partition(s).")
    if topic.count < existing:
        message = (
            f"The topic {topic.name} currently has {existing} partition(s); {topic.count} would not be an increase."
        )
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, message)
    if topic.assignments is None or len(topic.assignments) == topic.count - existing:
        context.charge(topic.count - existing)
    replication_factor = len(image.partitions[0].replicas)
    assignments, nobody_active = yield from _assignments(context, topic, topic.count - existing, replication_factor)
    records: list[MetadataRecord] = []
    if topic.name in INTERNAL_TOPICS and COORDINATOR_PARTITIONS not in context.image.configs.topic(topic.name):
        records.append(
            Config(
                resource_type=ResourceType.TOPIC,
                resource_name=topic.name,
                name=COORDINATOR_PARTITIONS,
                value=str(existing),
            )
        )
    records += yield from new_partitions(context, image.topic_id, assignments, nobody_active, existing)
    return records


def _assignments(
    context: Context, topic: CreatePartitionsTopic, additional: int, replication_factor: int
) -> Steps[tuple[list[Replicas], ErrorCode]]:
    """Find the new partitions' replicas, and the code for one whose replicas are all down. Raises KafkaError."""
    if topic.assignments is None:
        placed = yield from place_partitions(context, additional, replication_factor)
        return placed, ErrorCode.INVALID_REPLICATION_FACTOR
    if len(topic.assignments) != additional:
        message = (
            f"Attempted to add {additional} additional partition(s), "
            f"but only {len(topic.assignments)} assignment(s) were specified."
        )
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    for piece in pieces(topic.assignments):
        for assignment in piece:
            check_manual_assignment(context, assignment.broker_ids, replication_factor)
        yield
    named = [tuple(assignment.broker_ids) for assignment in topic.assignments]
    return named, ErrorCode.INVALID_REPLICA_ASSIGNMENT
