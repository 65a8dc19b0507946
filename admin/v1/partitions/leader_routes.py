"""Leadership over HTTP: partitions without their preferred leader, and moves of a leadership.

Kafka has no request to move it. A preferred election elects the first replica; so another
replica becomes the first, by a reassignment that changes only the order and completes at once.
"""

from kvorum.admin.http.operations import Call, NoBody, Operation, Role, number_of
from kvorum.admin.http.parameters import PAGE
from kvorum.admin.v1.models import INT32_MAX
from kvorum.admin.v1.reassignments.reassignment_models import Leadership, Leaderships, Led, NewLeader
from kvorum.client.reassignments.reassignments import Reassignments
from kvorum.client.wire.cluster_client import code_of
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.metadata import MetadataResponsePartition
from kvorum.protocol.topic_partition import TopicPartition

NOBODY = -1
ONLY = ("unpreferred", "leaderless")


async def list_leaders(call: Call[NoBody]) -> Leaderships:
    """List partitions not led by their preferred replica, those without a leader first, and count all.

    One response of a broker is sufficient for any number of topics.
    """
    only, limit = call.choice("only", ONLY[0], ONLY), PAGE.of(call)
    all_partitions, found = 0, []
    for topic in (await call.cluster.metadata()).topics:
        all_partitions += len(topic.partitions)
        found += [
            Leadership(
                topic=topic.name or "",
                partition=row.partition_index,
                leader=row.leader_id,
                preferred=row.replica_nodes[0] if row.replica_nodes else NOBODY,
                replicas=row.replica_nodes,
                isr=row.isr_nodes,
            )
            for row in topic.partitions
            if row.leader_id < 0 or row.leader_id != row.replica_nodes[0]
        ]
    leaderless = sum(each.leader < 0 for each in found)
    rows = [each for each in found if each.leader < 0 or only == ONLY[0]]
    rows.sort(key=lambda each: (each.leader >= 0, each.topic, each.partition))
    return Leaderships(
        partitions=all_partitions,
        unpreferred=len(found),
        leaderless=leaderless,
        more=len(rows) > limit,
        rows=rows[:limit],
    )


async def move_leader(call: Call[NewLeader]) -> Led:
    """Move leadership to an in-sync replica, which becomes the preferred leader.

    Replicas out of sync and partitions with a reassignment are rejected.
    """
    topic = await call.cluster.topic(call.path["topic"])
    place = TopicPartition(topic.name or "", number_of("partition", call.path["partition"], 0, INT32_MAX))
    row = next((each for each in topic.partitions if each.partition_index == place.partition), None)
    if row is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {place}")
    wanted, found = call.body.broker, Reassignments(call.cluster)
    check_able(place, row, wanted)
    if place in await found.under_way():
        raise KafkaError(
            ErrorCode.REASSIGNMENT_IN_PROGRESS, f"{place} is being reassigned; wait, or cancel the reassignment first"
        )
    replicas = [wanted, *(broker for broker in row.replica_nodes if broker != wanted)]
    if replicas != row.replica_nodes:
        await put_in_order(found, place, replicas)
    await elect(call, place, row, wanted)
    return Led(topic=place.topic, partition=place.partition, before=row.leader_id, leader=wanted, replicas=replicas)


def check_able(place: TopicPartition, row: MetadataResponsePartition, broker: int) -> None:
    """Raise KafkaError unless a broker can lead a partition."""
    if broker not in row.replica_nodes:
        there = ", ".join(map(str, row.replica_nodes))
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"broker {broker} has no replica of {place}; replicas are on {there}"
        )
    if broker not in row.isr_nodes:
        there = ", ".join(map(str, row.isr_nodes))
        message = f"broker {broker} is not in sync with {place}; {there or 'no broker'} is"
        raise KafkaError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, message)


async def put_in_order(found: Reassignments, place: TopicPartition, replicas: list[int]) -> None:
    """Change the order of a partition's replicas, and nothing else. Raises KafkaError."""
    refused = await found.alter({place: replicas}, may_resize=False)
    if refused:
        name, _, message = refused[place].partition(": ")
        raise KafkaError(ErrorCode[name], message or f"the replicas of {place} cannot be reordered")
    if place in await found.under_way():
        # Its replicas had changed already, and the queried broker did not know it: no data are to be copied for this.
        await found.alter({place: None})
        raise KafkaError(ErrorCode.REASSIGNMENT_IN_PROGRESS, f"the replicas of {place} changed meanwhile; retry")


async def elect(call: Call[NewLeader], place: TopicPartition, row: MetadataResponsePartition, wanted: int) -> None:
    """Elect the first replica. Raises KafkaError; an existing leader is not an error."""
    answer = await call.cluster.elect_leaders({place.topic: [place.partition]})
    for result in (each for topic in answer.replica_election_results for each in topic.partition_result):
        if result.error_code not in (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED):
            message = f"broker {wanted} is the preferred leader now, but {row.leader_id} still leads"
            raise KafkaError(code_of(result.error_code), f"{message}: {result.error_message or 'no election'}")


OPERATIONS = [
    Operation.get(
        "/v1/leaders",
        "List partitions not led by their preferred replica",
        list_leaders,
        Leaderships,
        query={"only": f"{ONLY[0]} (default; includes those without a leader) or {ONLY[1]}", **PAGE.documentation},
    ),
    Operation(
        method="POST",
        path="/v1/topics/{topic}/partitions/{partition}/leader",
        summary="Move a partition's leadership",
        handle=move_leader,
        body=NewLeader,
        answer=Led,
        role=Role.OPERATE,
        fields={
            ErrorCode.INVALID_REPLICA_ASSIGNMENT: "broker",
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "broker",
        },
    ),
]
