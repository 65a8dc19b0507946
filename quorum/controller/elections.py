"""ElectLeaders (43): v0-v2, leader balance, and the sweep for unclean elections (ReplicationControlManager).

v0 elects preferred leaders only. A null list of partitions means all of them; those that already have the requested
leader are then left out of the answer. An explicit unclean election is an operator's decision: it ignores
unclean.leader.election.enable, and works only without a leader (KIP-460).
"""

from collections.abc import Callable, Iterable
from typing import Final

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)
from kvorum.quorum.controller.context import Context
from kvorum.quorum.controller.partition_change import Election, PartitionChangeBuilder
from kvorum.quorum.controller.result import Result
from kvorum.quorum.image.partition import PartitionRegistration
from kvorum.quorum.image.partition_set import TopicIdPartition
from kvorum.quorum.image.topics import TopicImage
from kvorum.quorum.records import MetadataRecord, PartitionChange
from kvorum.quorum.steps import Steps, pieces

PREFERRED: Final = 0
UNCLEAN: Final = 1
"""ElectionType on the wire."""

ELECTIONS_MAX: Final = 1_000
"""Elections of one periodic decision (Kafka's maxElectionsPerImbalance): a change of some 100 KiB."""

Key = tuple[str, int]


def elect_leaders(context: Context, request: ElectLeadersRequest) -> Steps[Result[ElectLeadersResponse]]:
    """Elect the requested leaders, partition by partition. Raises KafkaError INVALID_REQUEST: unknown election type."""
    if request.election_type not in (PREFERRED, UNCLEAN):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
    records: list[MetadataRecord] = []
    wanted = request.topic_partitions
    results = yield from (
        _elect_everywhere(context, request.election_type, records)
        if wanted is None
        else _elect_named(context, wanted, request.election_type, records)
    )
    return Result(records=records, response=ElectLeadersResponse(replica_election_results=results))


def _elect_everywhere(
    context: Context, election_type: int, records: list[MetadataRecord]
) -> Steps[list[ReplicaElectionResult]]:
    results: list[ReplicaElectionResult] = []
    for topic in context.image.topics.sorted_topics():
        result = ReplicaElectionResult(topic=topic.name)
        for piece in pieces(topic.sorted_partitions()):
            outcomes = [
                _outcome(context, topic.name, partition_id, election_type, records) for partition_id, _ in piece
            ]
            result.partition_result += (each for each in outcomes if each.error_code != ErrorCode.ELECTION_NOT_NEEDED)
            yield
        results.append(result)
    return results


def _elect_named(
    context: Context, wanted: list[TopicPartitions], election_type: int, records: list[MetadataRecord]
) -> Steps[list[ReplicaElectionResult]]:
    results: list[ReplicaElectionResult] = []
    outcomes: dict[Key, PartitionResult] = {}
    for topic in wanted:
        result = ReplicaElectionResult(topic=topic.topic)
        for piece in pieces(topic.partitions):
            for partition_id in piece:
                key = (topic.topic, partition_id)
                if key not in outcomes:  # named again it is answered again, and elected once
                    outcomes[key] = _outcome(context, topic.topic, partition_id, election_type, records)
                result.partition_result.append(outcomes[key])
            yield
        results.append(result)
    return results


def _outcome(
    context: Context, name: str, partition_id: int, election_type: int, records: list[MetadataRecord]
) -> PartitionResult:
    try:
        records.append(elect_leader(context, name, partition_id, election_type))
    except KafkaError as error:
        return PartitionResult(partition_id=partition_id, error_code=error.code, error_message=error.message)
    return PartitionResult(partition_id=partition_id, error_message=None)


def elect_leader(context: Context, name: str, partition_id: int, election_type: int) -> PartitionChange:
    """Return the change that elects a leader for one partition.

    Raises KafkaError:
        UNKNOWN_TOPIC_OR_PARTITION: it does not exist. ELECTION_NOT_NEEDED: led by the preferred leader already;
        unclean: led already. PREFERRED_LEADER_NOT_AVAILABLE: the preferred leader is not in the ISR, not alive, or in
        maintenance. ELIGIBLE_LEADERS_NOT_AVAILABLE: no replica is alive.
    """
    topic = context.image.topics.topic(name)
    partition = None if topic is None else topic.partition(partition_id)
    if topic is None or partition is None:
        missing = f"topic as {name}" if topic is None else f"partition as {name}-{partition_id}"
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such {missing}")
    unclean = election_type == UNCLEAN
    if partition.has_leader if unclean else not partition.is_imbalanced:
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
    election = Election.UNCLEAN if unclean else Election.PREFERRED
    change = partition_election(context, topic, partition_id, partition, election)
    if change is None and unclean:
        message = f"no replica of {name}-{partition_id} is alive"
        raise KafkaError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, message)
    if change is None:
        resting = context.rests(partition.preferred_leader)
        what = "is in maintenance" if resting else "is not alive and in sync"
        message = f"broker {partition.preferred_leader} {what}"
        raise KafkaError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, message)
    return change


def partition_election(
    context: Context, topic: TopicImage, partition_id: int, partition: PartitionRegistration, election: Election
) -> PartitionChange | None:
    """Return the change that such an election brings, None where it brings none."""
    return PartitionChangeBuilder(
        topic_id=topic.topic_id,
        partition_id=partition_id,
        partition=partition,
        is_acceptable_leader=context.image.cluster.is_active,
        default_directory=context.default_directory,
        is_online_directory=context.image.cluster.has_online_directory,
        is_resting=context.rests,
        election=election,
        elr_enabled=context.elr_enabled,
        min_isr=context.effective_min_isr(topic),
    ).build()


def balance_leaders(context: Context) -> Steps[Result[bool]]:
    """Move leaderships back to preferred leaders that are alive and in sync; the answer: repeat at once.

    For auto.leader.rebalance.enable, each leader.imbalance.check.interval.seconds. Never unclean.
    """
    imbalanced = yield from context.image.topics.index.imbalanced_partitions()
    return (yield from _up_to_a_limit(context, imbalanced, _preferred_change))


def sweep_unclean(context: Context) -> Steps[Result[bool]]:
    """Elect uncleanly where there is no leader and the configs permit it; return whether to repeat at once.

    Runs each unclean.leader.election.interval.ms, so that an enabled config takes effect. A failover of a topic that
    permits it already does not wait for this: fencing elects at once.
    """
    leaderless = yield from context.image.topics.index.partitions_without_leader()
    return (yield from _up_to_a_limit(context, leaderless, _unclean_change))


def _up_to_a_limit(
    context: Context,
    partitions: Iterable[TopicIdPartition],
    change_of: Callable[[Context, TopicIdPartition], PartitionChange | None],
) -> Steps[Result[bool]]:
    """Find at most ELECTIONS_MAX changes; return whether there may be more."""
    records: list[MetadataRecord] = []
    for piece in pieces(partitions):
        for key in piece:
            change = change_of(context, key)
            if change is not None:
                records.append(change)
                if len(records) >= ELECTIONS_MAX:
                    return Result(records=records, response=True)
        yield
    return Result(records=records, response=False)


def _preferred_change(context: Context, key: TopicIdPartition) -> PartitionChange | None:
    topic, partition = context.image.topics.existing(key)
    return partition_election(context, topic, key.partition_id, partition, Election.PREFERRED)


def _unclean_change(context: Context, key: TopicIdPartition) -> PartitionChange | None:
    topic, partition = context.image.topics.existing(key)
    if not context.unclean_election_enabled(topic.name):
        return None
    return partition_election(context, topic, key.partition_id, partition, Election.UNCLEAN)
