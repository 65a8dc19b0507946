"""CreateTopics (19): v2-v7.

v4: -1 for the cluster's default partitions and replication factor (KIP-464). v5: the new topic's configs and counts in
the response (KIP-525). v7: topic ids (KIP-516). Each topic succeeds or fails alone; the successful ones are one change.
Order of the checks: duplicates, the metadata topic, name, existing topic, colliding name, null configs, configs,
assignment or counts, placement, mutation quota (ControllerApis.createTopics, ReplicationControlManager.createTopics).
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kvorum.protocol.topic_names import CLUSTER_METADATA_TOPIC, check_topic_name
from kvorum.quorum.controller.assignments import Replicas, check_manual_assignment, new_partitions, place_partitions
from kvorum.quorum.controller.context import Context
from kvorum.quorum.controller.result import Result
from kvorum.quorum.image.configs import ResourceType
from kvorum.quorum.image.topics import collision_key
from kvorum.quorum.records import Config, MetadataRecord, Topic
from kvorum.quorum.steps import Steps, pieces

PARTITIONS_MAX: Final = 10_000
"""Partitions that one request may create (Kafka's MAX_PARTITIONS_PER_BATCH): a change of a few MiB."""

DEFAULT: Final = -1


def create_topics(context: Context, request: CreateTopicsRequest) -> Steps[Result[CreateTopicsResponse]]:
    """Create topics, one after the other; with `validate_only`, return only the result.

    Raises KafkaError POLICY_VIOLATION: more than PARTITIONS_MAX partitions.
    """
    _check_size(context, request)
    counts = Counter(topic.name for topic in request.topics)
    response = CreateTopicsResponse()
    records: list[MetadataRecord] = []
    duplicates: set[str] = set()
    taken: dict[str, str] = {}
    for topic in request.topics:
        if counts[topic.name] > 1:
            if topic.name not in duplicates:
                duplicates.add(topic.name)
                response.topics.append(_refusal(topic, KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")))
            continue
        try:
            result, topic_records = yield from _create_topic(context, topic, taken)
        except KafkaError as error:
            response.topics.append(_refusal(topic, error))
            yield
            continue
        taken[collision_key(topic.name)] = topic.name
        response.topics.append(result)
        records += topic_records
    return Result(records=[] if request.validate_only else records, response=response)


def _check_size(context: Context, request: CreateTopicsRequest) -> None:
    total = 0
    for topic in request.topics:
        if topic.assignments:
            total += len(topic.assignments)
        elif topic.num_partitions == DEFAULT:
            total += context.settings.num_partitions
        else:
            total += max(topic.num_partitions, 0)
    if total > PARTITIONS_MAX:
        message = f"Excessively large number of partitions per request: {total}, at most {PARTITIONS_MAX} are created."
        raise KafkaError(ErrorCode.POLICY_VIOLATION, message)


def _refusal(topic: CreatableTopic, error: KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(name=topic.name, error_code=error.code, error_message=error.message)


def _create_topic(
    context: Context, topic: CreatableTopic, taken: Mapping[str, str]
) -> Steps[tuple[CreatableTopicResult, list[MetadataRecord]]]:
    """Make the answer and the records of one topic; `taken` are the names created before it, by
    collision key. Raises KafkaError."""
    _check_name(context, topic.name, taken)
    overrides = _checked_configs(context, topic)
    assignments = yield from _assignments(context, topic)
    context.charge(len(assignments))
    topic_id = context.random_uuid()
    records: list[MetadataRecord] = [Topic(name=topic.name, topic_id=topic_id)]
    records += [
        Config(resource_type=ResourceType.TOPIC, resource_name=topic.name, name=name, value=value)
        for name, value in sorted(overrides.items())
    ]
    nobody_active = ErrorCode.INVALID_REPLICA_ASSIGNMENT if topic.assignments else ErrorCode.INVALID_REPLICATION_FACTOR
    records += yield from new_partitions(context, topic_id, assignments, nobody_active)
    result = CreatableTopicResult(
        name=topic.name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=len(assignments),
        replication_factor=len(assignments[0]),
        configs=context.describe_new_topic(overrides),
    )
    return result, records


def _check_name(context: Context, name: str, taken: Mapping[str, str]) -> None:
    if name == CLUSTER_METADATA_TOPIC:
        message = f"Creation of internal topic {CLUSTER_METADATA_TOPIC} is prohibited."
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    check_topic_name(name)
    if context.image.topics.topic(name) is not None:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    colliding = context.image.topics.colliding_topic(name) or taken.get(collision_key(name))
    if colliding is not None:
        message = f"Topic '{name}' collides with existing topic: {colliding}"
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, message)


def _checked_configs(context: Context, topic: CreatableTopic) -> Mapping[str, str]:
    """Return a new topic's overrides. Raises KafkaError INVALID_CONFIG."""
    nulls = [config.name for config in topic.configs if config.value is None]
    if nulls:
        message = f"Null value not supported for topic configs: {','.join(nulls)}"
        raise KafkaError(ErrorCode.INVALID_CONFIG, message)
    overrides = {config.name: config.value for config in topic.configs if config.value is not None}
    context.schema.validate(ResourceType.TOPIC, topic.name, overrides)
    return overrides


def _assignments(context: Context, topic: CreatableTopic) -> Steps[list[Replicas]]:
    """Find the replicas of each partition, in order. Raises KafkaError."""
    if topic.assignments:
        return (yield from _manual_assignments(context, topic))
    if topic.replication_factor < DEFAULT or topic.replication_factor == 0:
        message = "Replication factor must be larger than 0, or -1 to use the default value."
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, message)
    if topic.num_partitions < DEFAULT or topic.num_partitions == 0:
        message = "Number of partitions was set to an invalid non-positive value."
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, message)
    settings = context.settings
    count = settings.num_partitions if topic.num_partitions == DEFAULT else topic.num_partitions
    factor = settings.default_replication_factor if topic.replication_factor == DEFAULT else topic.replication_factor
    try:
        return (yield from place_partitions(context, count, factor))
    except KafkaError as error:
        message = f"Unable to replicate the partition {factor} time(s): {error.message}"
        raise KafkaError(error.code, message) from error


def _manual_assignments(context: Context, topic: CreatableTopic) -> Steps[list[Replicas]]:
    """Use the replicas in the request. Raises KafkaError."""
    for name, value in (("replication factor", topic.replication_factor), ("numPartitions", topic.num_partitions)):
        if value != DEFAULT:
            message = f"A manual partition assignment was specified, but {name} was not set to -1."
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    by_partition: dict[int, Replicas] = {}
    replication_factor: int | None = None
    for piece in pieces(topic.assignments):
        for assignment in piece:
            if assignment.partition_index in by_partition:
                message = f"Found multiple manual partition assignments for partition {assignment.partition_index}"
                raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
            check_manual_assignment(context, assignment.broker_ids, replication_factor)
            replication_factor = len(assignment.broker_ids)
            by_partition[assignment.partition_index] = tuple(assignment.broker_ids)
        yield
    if sorted(by_partition) != list(range(len(by_partition))):
        message = "partitions should be a consecutive 0-based integer sequence"
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    return [by_partition[partition_id] for partition_id in range(len(by_partition))]
