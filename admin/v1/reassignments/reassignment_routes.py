"""Reassignments over HTTP: propose, begin, watch, verify and cancel them (KIP-455, KIP-73)."""

from collections.abc import Iterable

from pydantic import BaseModel

from kvorum.admin.http.commands import Command
from kvorum.admin.http.operations import Call, NoBody, Operation, Role, Rows
from kvorum.admin.http.paging import AFTER_PARTITION, behind, next_query, place_text
from kvorum.admin.http.parameters import ONLY_TOPIC, ROWS, check_named
from kvorum.admin.v1.partitions.log_dir_routes import begin_moves, verify_moves
from kvorum.admin.v1.reassignments.reassignment_models import (
    Cancel,
    CancelledPartition,
    CopyProgress,
    Execute,
    Proposal,
    Propose,
    ProposedPartition,
    ReassignmentEntry,
    StartedPartition,
    Verified,
    VerifiedPartition,
    Verify,
)
from kvorum.client.namespaces.reassignments import Reassignments
from kvorum.client.reassignments.progress import NO_PROGRESS, Progress, read_progress
from kvorum.client.reassignments.proposals import check_racks, keep, spread
from kvorum.client.values.reassignment import Reassignment
from kvorum.client.wire.cluster_client import ClusterClient
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.metadata import MetadataResponsePartition
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.runtime.chance import new_random


async def rows_of(cluster: ClusterClient, topics: Iterable[str]) -> dict[TopicPartition, MetadataResponsePartition]:
    """Return the metadata of all partitions of these topics; nothing for missing topics."""
    names = sorted(set(topics))
    found = (await cluster.metadata(names)).topics if names else []
    return {TopicPartition(topic.name or "", row.partition_index): row for topic in found for row in topic.partitions}


async def list_reassignments(call: Call[NoBody]) -> Rows:
    """List current reassignments with the lag of the new replicas in bytes and records."""
    limit, after, topic = ROWS.of(call), AFTER_PARTITION.of(call), ONLY_TOPIC.of(call)
    current = await Reassignments(call.cluster).list()
    wanted = [place for place in current if topic in (None, place.topic)]
    page, more = behind(wanted, lambda place: place, after, limit)
    rows = await rows_of(call.cluster, (place.topic for place in page))
    by_broker: dict[int, set[TopicPartition]] = {}
    for place in page:
        each = current[place]
        leader = rows[place].leader_id if place in rows else -1
        for broker in (*each.adding, leader):
            by_broker.setdefault(broker, set()).add(place)
    reported = await read_progress(call.cluster, by_broker)
    found: list[BaseModel] = [entry_of(place, current[place], rows.get(place), reported) for place in page]
    return Rows(rows=found, next_query=next_query(call, place_text(page[-1])) if more else None)


def entry_of(
    place: TopicPartition, each: Reassignment, row: MetadataResponsePartition | None, reported: Progress
) -> ReassignmentEntry:
    """Return one reassignment for HTTP; `row` is None if the broker's metadata lacks the topic."""
    leader, isr = (-1, []) if row is None else (row.leader_id, row.isr_nodes)
    of_leader = reported.get((leader, place), NO_PROGRESS)

    def progress(broker: int) -> CopyProgress:
        held = reported.get((broker, place), NO_PROGRESS)
        known = held.end_offset is not None and of_leader.end_offset is not None
        return CopyProgress(
            broker=broker,
            in_sync=broker in isr,
            size_bytes=held.size_bytes,
            end_offset=held.end_offset,
            lag=max(0, (of_leader.end_offset or 0) - (held.end_offset or 0)) if known else None,
        )

    return ReassignmentEntry(
        topic=place.topic,
        partition=place.partition,
        leader=leader,
        isr=isr,
        replicas=[*each.replicas],
        target=[*each.target],
        adding=[*each.adding],
        removing=[*each.removing],
        size_bytes=of_leader.size_bytes,
        end_offset=of_leader.end_offset,
        progress=[progress(broker) for broker in each.adding],
    )


async def propose_reassignment(call: Call[Propose]) -> Proposal:
    """Propose replicas on some brokers for all partitions of some topics. Changes nothing."""
    body, found = call.body, Reassignments(call.cluster)
    alive = await found.live_brokers()
    wanted = sorted(set(alive if body.brokers is None else body.brokers))
    check_brokers(wanted, alive)
    current = await found.assignments(body.topics)
    for missing in sorted(set(body.topics) - {place.topic for place in current}):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {missing!r} does not exist")
    racks = {broker: alive[broker] if body.rack_aware else None for broker in wanted}
    check_racks(racks)
    plan = keep(current, racks) if body.keep else spread(current, racks, new_random())
    changed = {place: replicas for place, replicas in plan.items() if replicas != current[place]}
    rows = await rows_of(call.cluster, (place.topic for place in changed))
    by_broker: dict[int, set[TopicPartition]] = {}
    for place in changed:
        if place in rows:
            by_broker.setdefault(rows[place].leader_id, set()).add(place)
    reported = await read_progress(call.cluster, by_broker)
    partitions = [
        ProposedPartition(
            topic=place.topic,
            partition=place.partition,
            current=current[place],
            replicas=replicas,
            adding=[broker for broker in replicas if broker not in current[place]],
            size_bytes=reported.get((rows[place].leader_id, place), NO_PROGRESS).size_bytes if place in rows else None,
        )
        for place, replicas in sorted(changed.items())
    ]
    return Proposal(
        partitions=partitions,
        unchanged=len(plan) - len(changed),
        moved_replicas=sum(len(each.adding) for each in partitions),
        moved_bytes=sum(len(each.adding) * (each.size_bytes or 0) for each in partitions),
    )


def check_brokers(wanted: Iterable[int], alive: Iterable[int]) -> None:
    """Raise KafkaError BROKER_ID_NOT_REGISTERED for a missing or fenced broker."""
    unknown = sorted(set(wanted) - set(alive))
    if unknown:
        there = ", ".join(map(str, sorted(alive)))
        raise KafkaError(
            ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {unknown[0]} is not available; available brokers: {there}"
        )


async def begin_reassignment(call: Call[Execute]) -> list[BaseModel]:
    """Start moving partitions to the replicas of a plan. `before` in the response is the plan to revert.

    With a throttle, verify until all is completed: this removes it. If the plan has log directories, each broker is
    requested to use them, for up to ten seconds if it does not have the replica yet.
    """
    body, found = call.body, Reassignments(call.cluster)
    plan, moves = body.assignment(), body.moves()
    in_progress = await found.list()
    if in_progress and not body.additional:
        message = f"{len(in_progress)} reassignments are in progress; additional=true starts this one in addition"
        raise KafkaError(ErrorCode.REASSIGNMENT_IN_PROGRESS, message)
    check_brokers((broker for replicas in plan.values() for broker in replicas), await found.live_brokers())
    current = await found.assignments(place.topic for place in plan)
    for place in sorted(plan):
        if place not in current:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {place}")
    if body.throttle_bytes_per_second is not None:
        await found.throttle(body.throttle_bytes_per_second, plan)
    if body.log_dirs_throttle_bytes_per_second is not None:
        await found.moves.throttle({replica.broker for replica in moves}, body.log_dirs_throttle_bytes_per_second)
    errors = await found.alter(plan, allow_replication_factor_change=body.allow_replication_factor_change)
    wanted = {each: path for each, path in moves.items() if TopicPartition(each.topic, each.partition) not in errors}
    begun = await begin_moves(found.moves, wanted)
    return [
        StartedPartition(
            topic=place.topic,
            partition=place.partition,
            before=current[place],
            replicas=replicas,
            **error_fields(errors.get(place)),
            log_dirs=[move for each, move in begun.items() if (each.topic, each.partition) == place],
        )
        for place, replicas in sorted(plan.items())
    ]


def error_fields(error: KafkaError | None) -> dict[str, str | None]:
    """Return Kafka's name of an error, and its message."""
    return {"error": None, "message": None} if error is None else {"error": error.code.name, "message": error.message}


async def verify_reassignment(call: Call[Verify]) -> Verified:
    """Return the progress of a plan; remove the throttles once nothing is in progress."""
    body = call.body
    progress = await Reassignments(call.cluster).verify(
        body.assignment(), body.moves(), preserve_throttles=body.preserve_throttles
    )
    return Verified(
        completed=progress.is_completed,
        partitions=[
            VerifiedPartition(
                topic=each.topic,
                partition=each.partition,
                state=each.state.value,
                replicas=[*each.replicas],
                target=[*each.target],
                log_dirs=verify_moves(each.topic_partition, progress.log_dirs),
            )
            for each in progress.partitions
        ],
        unthrottled_brokers=[*(progress.unthrottled_brokers or ())],
        unthrottled_topics=[*(progress.unthrottled_topics or ())],
    )


async def cancel_reassignments(call: Call[Cancel]) -> list[BaseModel]:
    """Cancel reassignments of some partitions, or all: the original replicas are restored.

    Named partitions without a reassignment are omitted from the response. With the last one the throttles are removed.
    """
    body, found = call.body, Reassignments(call.cluster)
    check_named(body.partitions, body.all)
    named = None
    if body.partitions is not None:
        named = [TopicPartition(topic, index) for topic, indexes in body.partitions.items() for index in indexes]
    in_progress = await found.list()
    results = await found.cancel(named)
    if results and results.keys() >= in_progress.keys() and not any(results.values()) and not body.preserve_throttles:
        await found.remove_throttles(place.topic for place in results)
    return [
        CancelledPartition(topic=place.topic, partition=place.partition, **error_fields(error))
        for place, error in results.items()
    ]


REASSIGNMENTS = "/v1/reassignments"
NOT_THERE = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "partitions",
    ErrorCode.BROKER_ID_NOT_REGISTERED: "partitions",
    ErrorCode.REASSIGNMENT_IN_PROGRESS: "additional",
}
OPERATIONS = [
    Operation.get(
        REASSIGNMENTS,
        "List reassignments with their progress",
        list_reassignments,
        ReassignmentEntry,
        many=True,
        parameters=(ONLY_TOPIC, AFTER_PARTITION, ROWS),
        command=Command(
            name="reassign list",
            examples=("", "--topic orders"),
            columns=("topic", "partition", "replicas", "adding", "removing"),
        ),
    ),
    Operation(
        method="POST",
        path=f"{REASSIGNMENTS}/propose",
        summary="Propose a reassignment",
        handle=propose_reassignment,
        audit=False,
        body=Propose,
        answer=Proposal,
        role=Role.OPERATE,
        fields={
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "topics",
            ErrorCode.BROKER_ID_NOT_REGISTERED: "brokers",
            ErrorCode.INVALID_REPLICATION_FACTOR: "brokers",
            ErrorCode.INVALID_REPLICA_ASSIGNMENT: "rack_aware",
        },
    ),
    Operation(
        method="POST",
        path=REASSIGNMENTS,
        summary="Start a reassignment",
        handle=begin_reassignment,
        body=Execute,
        answer=StartedPartition,
        many=True,
        fields=NOT_THERE,
    ),
    Operation(
        method="POST",
        path=f"{REASSIGNMENTS}/verify",
        summary="Verify a reassignment",
        handle=verify_reassignment,
        body=Verify,
        answer=Verified,
    ),
    Operation(
        method="POST",
        path=f"{REASSIGNMENTS}/cancel",
        summary="Cancel reassignments",
        handle=cancel_reassignments,
        body=Cancel,
        answer=CancelledPartition,
        many=True,
    ),
]
