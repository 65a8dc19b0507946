"""Moves of replicas between log directories, over HTTP: list, start, watch, stop.

The directory of a replica is in a plan (reassignment_routes), as in the files of Kafka's tool. The requests to the
brokers are in log_dir_moves.
"""

from collections.abc import Mapping

from pydantic import BaseModel

from kvorum.admin.http.commands import Command
from kvorum.admin.http.operations import Call, NoBody, NotInBody, Operation, Rows
from kvorum.admin.http.paging import behind, next_query
from kvorum.admin.http.parameters import ONLY_TOPIC, ROWS, BadInput, number_of, optional_text
from kvorum.admin.v1.models import INT32_MAX
from kvorum.admin.v1.reassignments.reassignment_models import (
    LogDirMove,
    MovedReplica,
    MoveReplica,
    StartedMove,
    StopMoves,
    VerifiedMove,
)
from kvorum.client.namespaces.log_dirs import LogDirs
from kvorum.client.partitions.log_dir_moves import LogDirMoves, MoveState
from kvorum.client.values.log_dir import TopicPartitionReplica
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.topic_partition import TopicPartition

BEGIN_MS = 10_000
"""Time that a broker is queried until it has the new replica, as in Kafka's tool."""

AFTER = optional_text("after", "start after this replica, as orders:3:1")


async def list_log_dir_moves(call: Call[NoBody]) -> Rows:
    """List the replicas that move between log directories of a broker, with their progress."""
    limit, topic, after = ROWS.of(call), ONLY_TOPIC.of(call), replica_after(call)
    found = [each for each in await LogDirMoves(call.cluster).list_moves() if topic in (None, each.topic)]
    page, more = behind(found, lambda move: move.replica, after, limit)
    rows: list[BaseModel] = [LogDirMove.model_validate(each, from_attributes=True) for each in page]
    return Rows(rows=rows, next_query=next_query(call, ":".join(map(str, page[-1].replica))) if more else None)


def replica_after(call: Call[NoBody]) -> TopicPartitionReplica | None:
    """Return the replica that the page begins behind, None from the first on. Raises BadInput."""
    text = AFTER.of(call)
    if text is None:
        return None
    parts = text.split(":")
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
    begun = set(started.replicas)
    return {
        replica: StartedMove(broker=replica.broker, log_dir=target, error=None if replica in begun else errors[replica])
        for replica, target in wanted.items()
    }


def verify_moves(place: TopicPartition, states: Mapping[TopicPartitionReplica, MoveState]) -> list[VerifiedMove]:
    """Return the progress of a partition's replicas."""
    return [
        VerifiedMove(broker=replica.broker, current=each.current or None, target=each.target, state=each.state)
        for replica, each in states.items()
        if (replica.topic, replica.partition) == place
    ]


async def move_replica(call: Call[MoveReplica]) -> None:
    """Start the move of a replica to another log directory of its broker (KIP-113). It continues in the background."""
    body = call.body
    replica = TopicPartitionReplica(body.topic, body.partition, body.broker)
    error = (await LogDirs(call.cluster).move({replica: body.log_dir}, timeout_ms=0))[replica]
    if error is not None:
        field = "log_dir" if error.code is ErrorCode.LOG_DIR_NOT_FOUND else "broker"
        raise NotInBody(field, error.code, f"{replica} cannot be moved to {body.log_dir}: {error}")


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
        for each in sorted({*stopped.replicas, *stopped.absent, *errors})
    ]


MOVES = "/v1/reassignments/log-dirs"
OPERATIONS = [
    Operation.get(
        MOVES,
        "List moves between log directories",
        list_log_dir_moves,
        LogDirMove,
        many=True,
        parameters=(ONLY_TOPIC, AFTER, ROWS),
        command=Command(
            name="log-dirs moves",
            examples=("", "--topic orders"),
            columns=("topic", "partition", "broker", "current", "target", "size_bytes", "copied_bytes", "offset_lag"),
        ),
    ),
    Operation(
        method="POST",
        path=MOVES,
        summary="Move a replica to another log directory",
        handle=move_replica,
        body=MoveReplica,
        status=204,
        command=Command(
            name="log-dirs move",
            examples=("orders 0 2 /disk2",),
            arguments=("topic", "partition", "broker", "log_dir"),
            complete={"topic": "topics", "broker": "brokers"},
            done="{topic}-{partition} of broker {broker} moves to {log_dir}",
        ),
    ),
    Operation(
        method="POST",
        path=f"{MOVES}/cancel",
        summary="Stop moves between log directories",
        handle=stop_log_dir_moves,
        body=StopMoves,
        answer=MovedReplica,
        many=True,
        command=Command(
            name="log-dirs cancel",
            examples=("orders:0,1", "--all"),
            arguments=("partitions",),
            columns=("topic", "partition", "broker", "error"),
        ),
    ),
]
