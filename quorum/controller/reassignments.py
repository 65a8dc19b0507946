"""AlterPartitionReassignments (45): v0-v1, and ListPartitionReassignments (46): v0 (ReplicationControlManager).

A reassignment is stored in the partition itself (KIP-455): its replicas are the target's, in the target's order,
followed by those that will leave; `adding_replicas` and `removing_replicas` list them.

    start     the target is combined with the present replicas; it is complete at once if no replica is added
    change    the same during a reassignment: replicas being added that are not in the new target leave
    cancel    (null replicas) replicas being added leave, those being removed stay
    complete  whatever change of the partition finds it ready (partition_change.complete_reassignment)

Each partition succeeds or fails alone:

    unknown topic or partition                                       UNKNOWN_TOPIC_OR_PARTITION
    no broker, a broker twice, or one that is not registered           INVALID_REPLICA_ASSIGNMENT
    another number of replicas, where v1 does not allow it (KIP-860)   INVALID_REPLICATION_FACTOR
    cancel, and none is in progress                                   NO_REASSIGNMENT_IN_PROGRESS
    cancel, and all in sync would leave                                INVALID_REPLICA_ASSIGNMENT

If unclean elections are enabled, Kafka performs the last one and loses records that were acknowledged, because only the
added replicas are in sync. Here it is rejected: an operator first elects one of the others uncleanly.

A fenced broker may be assigned: it is added once it has returned and caught up. A change that adds (removes) no replica
keeps those being added (removed), but, unlike in Kafka, not those that its target contradicts: with a target equal to
the original replicas, Kafka 4.3 waits for ever for some leaving replicas to be in the ISR.
"""

from collections.abc import Iterable
from typing import Final

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kvorum.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from kvorum.quorum.controller.assignments import check_manual_assignment
from kvorum.quorum.controller.context import Context
from kvorum.quorum.controller.partition_change import Election, PartitionChangeBuilder
from kvorum.quorum.controller.result import Result
from kvorum.quorum.image.partition import PartitionRegistration
from kvorum.quorum.image.partition_set import TopicIdPartition
from kvorum.quorum.image.topics import TopicImage
from kvorum.quorum.records import MetadataRecord, PartitionChange
from kvorum.quorum.steps import Steps, pieces

NOTHING_UNDER_WAY: Final = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def alter_partition_reassignments(
    context: Context, request: AlterPartitionReassignmentsRequest
) -> Steps[Result[AlterPartitionReassignmentsResponse]]:
    """Begin, change and cancel reassignments; all accepted ones in one change."""
    response = AlterPartitionReassignmentsResponse(
        error_message=None, allow_replication_factor_change=request.allow_replication_factor_change
    )
    if not request.topics:
        return Result(records=[], response=AlterPartitionReassignmentsResponse())  # as Kafka answers it
    records: list[MetadataRecord] = []
    changed: dict[TopicIdPartition, PartitionRegistration] = {}
    for wanted in request.topics:
        topic = context.image.topics.topic(wanted.name)
        answer = ReassignableTopicResponse(name=wanted.name)
        for piece in pieces(wanted.partitions):
            for target in piece:
                row = ReassignablePartitionResponse(partition_index=target.partition_index, error_message=None)
                try:
                    if topic is None:
                        raise KafkaError(
                            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {wanted.name}."
                        )
                    records += _alter(context, topic, target, request.allow_replication_factor_change, changed)
                except KafkaError as error:
                    row.error_code = error.code
                    # Kafka omits a message without information beyond the code.
                    row.error_message = error.message if error.code != NOTHING_UNDER_WAY else None
                answer.partitions.append(row)
            yield
        response.responses.append(answer)
    return Result(records=records, response=response)


def _alter(
    context: Context,
    topic: TopicImage,
    target: ReassignablePartition,
    may_resize: bool,
    changed: dict[TopicIdPartition, PartitionRegistration],
) -> list[PartitionChange]:
    """Decide on one partition; a repeated one starts from the earlier decision."""
    key = TopicIdPartition(topic.topic_id, target.partition_index)
    partition = changed.get(key) or topic.partition(target.partition_index)
    if partition is None:
        message = f"Unable to find partition {topic.name}:{target.partition_index}."
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
    builder = builder_of(context, topic, target.partition_index, partition)
    if target.replicas is None:
        cancel(context, topic, builder)
    else:
        check_manual_assignment(context, target.replicas, None)
        if not may_resize:
            _check_size(partition, len(target.replicas))
        _lay_over(builder, tuple(target.replicas))
    change = builder.build()
    if change is None:
        return []
    changed[key] = partition.merge(change)
    return [change]


def builder_of(
    context: Context, topic: TopicImage, partition_id: int, partition: PartitionRegistration
) -> PartitionChangeBuilder:
    """Return a builder of a partition's change, without changes yet."""
    return PartitionChangeBuilder(
        topic_id=topic.topic_id,
        partition_id=partition_id,
        partition=partition,
        is_acceptable_leader=context.image.cluster.is_active,
        default_directory=context.default_directory,
        elr_enabled=context.elr_enabled,
        min_isr=context.effective_min_isr(topic),
        is_online_directory=context.image.cluster.has_online_directory,
        is_resting=context.rests,
    )


def _lay_over(builder: PartitionChangeBuilder, target: tuple[int, ...]) -> None:
    """Set the target of the partition: all of it, then the leaving replicas (PartitionReassignmentReplicas)."""
    before = builder.partition
    removing = tuple(sorted(set(before.replicas).difference(target)))
    adding = tuple(sorted(set(target).difference(before.replicas)))
    builder.target_replicas = target + removing
    builder.target_removing = removing
    # A repeated request changes only the throttle.
    builder.target_adding = adding or tuple(replica for replica in before.adding_replicas if replica in target)


def _check_size(partition: PartitionRegistration, size: int) -> None:
    """Raise KafkaError INVALID_REPLICATION_FACTOR where the replicas would not be as many as without the change."""
    before = len({*partition.replicas, *partition.adding_replicas} - {*partition.removing_replicas})
    if before != size:
        message = f"The replication factor is changed from {before} to {size}"
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, message)


def cancel(context: Context, topic: TopicImage, builder: PartitionChangeBuilder) -> None:
    """Revert a partition's reassignment (PartitionReassignmentRevert). Raises KafkaError."""
    partition = builder.partition
    if not partition.is_reassigning:
        raise KafkaError(NOTHING_UNDER_WAY, "No partition reassignment is in progress.")
    adding = partition.adding_replicas
    replicas = tuple(replica for replica in partition.replicas if replica not in adding)
    isr = tuple(replica for replica in partition.isr if replica not in adding)
    unclean = context.unclean_election_enabled(topic.name)
    complete = partition.isr or partition.eligible
    if not replicas:
        message = "Invalid replica assignment: addingReplicas contains all replicas."
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    if (not isr and not unclean) or (complete and set(complete) <= set(adding)):
        message = (
            f"Unable to revert partition assignment for {topic.name}:{builder.partition_id} because it would require "
            f"an unclean leader election."
        )
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    builder.target_isr = isr
    builder.target_replicas = replicas
    builder.target_removing = builder.target_adding = ()
    if unclean and not partition.has_leader:
        builder.election = Election.UNCLEAN


def list_partition_reassignments(
    context: Context, request: ListPartitionReassignmentsRequest
) -> Steps[Result[ListPartitionReassignmentsResponse]]:
    """List current reassignments of the named partitions or (null) of all; missing ones are omitted."""
    response = ListPartitionReassignmentsResponse(error_message=None)
    topics = context.image.topics
    if request.topics is None:
        under_way: dict[str, list[int]] = {}
        for piece in pieces((yield from topics.index.reassigning_partitions())):
            for key in piece:
                under_way.setdefault(topics.existing(key)[0].name, []).append(key.partition_id)
            yield
        wanted: Iterable[tuple[str, list[int]]] = sorted(under_way.items())
    else:
        wanted = [(topic.name, topic.partition_indexes) for topic in request.topics]
    for name, numbers in wanted:
        found = topics.topic(name)
        answer = OngoingTopicReassignment(name=name)
        for part in pieces(numbers if found is not None else ()):
            assert found is not None
            answer.partitions += _under_way(found, part)
            yield
        if answer.partitions:
            response.topics.append(answer)
    return Result(records=[], response=response)


def _under_way(topic: TopicImage, numbers: Iterable[int]) -> list[OngoingPartitionReassignment]:
    """Return the rows of those partitions that are being reassigned."""
    found = ((number, topic.partition(number)) for number in numbers)
    return [
        OngoingPartitionReassignment(
            partition_index=number,
            replicas=list(partition.replicas),
            adding_replicas=list(partition.adding_replicas),
            removing_replicas=list(partition.removing_replicas),
        )
        for number, partition in found
        if partition is not None and partition.is_reassigning
    ]
