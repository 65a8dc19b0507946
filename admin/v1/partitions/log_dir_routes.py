"""Moves of replicas between log directories, over HTTP: list, start, watch, stop.

The directory of a replica is in a plan (reassignment_routes), as in the files of Kafka's tool. The requests to the
brokers are in log_dir_moves.
"""

from collections.abc import Mapping

from pydantic import BaseModel

from kvorum.admin.http.operations import BadInput, Call, NoBody, Operation, Rows, number_of
from kvorum.admin.http.paging import ROWS, behind, following
from kvorum.admin.v1.models import INT32_MAX
from kvorum.admin.v1.reassignments.reassignment_models import (
    LogDirMove,
    MovedReplica,
    StartedMove,
    StopMoves,
    VerifiedMove,
)
from kvorum.client.partitions.log_dir_moves import LogDirMoves, MoveState
from kvorum.client.values.log_dir import TopicPartitionReplica
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.topic_partition import TopicPartition

BEGIN_MS = 10_000
"""Time that a broker is queried until it has the new replica, as in Kafka's tool."""


async def list_log_dir_moves(call: Call[NoBody]) -> Rows:
    """List the replicas that move between log directories of a broker, with their progress."""
    limit, topic, after = ROWS.of(call), call.query.get("topic"), replica_after(call)
    found = [each for each in await LogDirMoves(call.cluster).moving() if topic in (None, each.topic)]
    page, more = behind(found, lambda move: move.replica, after, limit)
    rows: list[BaseModel] = [LogDirMove.model_validate(each, from_attributes=True) for each in page]
    return Rows(rows=rows, following=following(call, ":".join(map(str, page[-1].replica))) if more else None)


def replica_after(call: Call[NoBody]) -> TopicPartitionReplica | None:
    """Return the replica that the page begins behind, None from the first on. Raises BadInput."""
    if "after" not in call.query:
        return None
    parts = call.query["after"].split(":")
    if len(parts) != 3:
        raise BadInput("after", "expected TOPIC:PARTITION:BROKER")
    partition, broker = (number_of("after", each, 0, INT32_MAX) for each in parts[1:])
    return TopicPartitionReplica(parts[0], partition, broker)


async def begin_moves(
    moves: LogDirMoves, wanted: Mapping[TopicPartitionReplica, str]
) -> dict[TopicPartitionReplica, StartedMove]:
    """Start moves of replicas to their directories, including future replicas; return the result of each."""
    if not wanted:
        return {}
    started = await moves.begin(wanted, BEGIN_MS)
    errors = dict.fromkeys(wanted, str(ErrorCode.REPLICA_NOT_AVAILABLE.name))
    errors |= started.reasons
    begun = set(started.begun)
    return {
        replica: StartedMove(broker=replica.broker, log_dir=target, error=None if replica in begun else errors[replica])
        for replica, target in wanted.items()
    }


def verified_moves(place: TopicPartition, states: Mapping[TopicPartitionReplica, MoveState]) -> list[VerifiedMove]:
    """Return the progress of a partition's replicas."""
    return [
        VerifiedMove(broker=replica.broker, current=each.current or None, target=each.target, state=each.state)
        for replica, each in states.items()
        if (replica.topic, replica.partition) == place
    ]


async def stop_log_dir_moves(call: Call[StopMoves]) -> list[BaseModel]:
    """Stop moves between log directories: those of some partitions, or all. The replicas stay in their directories.

    Named partitions without a move are omitted from the response.
    """
    named = None
    if call.body.partitions is not None:
        named = {TopicPartition(topic, index) for topic, indexes in call.body.partitions.items() for index in indexes}
    stopped = await LogDirMoves(call.cluster).stop(named)
    errors = stopped.reasons
    return [
        MovedReplica(topic=each.topic, partition=each.partition, broker=each.broker, error=errors.get(each))
        for each in sorted({*stopped.begun, *stopped.absent, *errors})
    ]


MOVES = "/v1/reassignments/log-dirs"
OPERATIONS = [
    Operation.get(
        MOVES,
        "List moves between log directories",
        list_log_dir_moves,
        LogDirMove,
        many=True,
        query={"topic": "only this topic", "after": "start after this replica, as orders:3:1", **ROWS.documentation},
    ),
    Operation(
        method="POST",
        path=f"{MOVES}/cancel",
        summary="Stop moves between log directories",
        handle=stop_log_dir_moves,
        body=StopMoves,
        answer=MovedReplica,
        many=True,
    ),
]
