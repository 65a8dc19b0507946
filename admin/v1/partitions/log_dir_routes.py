"""Moves of replicas between log directories, over HTTP: list, start, watch, stop.

The directory of a replica is in a plan (reassignment_routes), as in the files of Kafka's tool. The requests to the
brokers are in log_dir_moves.
"""

import asyncio
from collections.abc import Iterable, Mapping

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
from kvorum.client.partitions.log_dir_moves import LogDirMoves, MoveState, Replica
from kvorum.client.partitions.log_dirs import log_dirs_at
from kvorum.client.wire.cluster_client import ClusterClient, Unreachable
from kvorum.network.addresses import Address
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.describe_log_dirs import DescribeLogDirsResult
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.runtime.logs import get_logger

BEGIN_MS = 10_000
"""Time that a broker is queried until it has the new replica, as in Kafka's tool."""

log = get_logger("admin")


def moves_in(broker: int, directories: Iterable[DescribeLogDirsResult]) -> list[LogDirMove]:
    """Return the moves on one broker."""
    current: dict[TopicPartition, tuple[str, int]] = {}
    future: dict[TopicPartition, tuple[str, int, int]] = {}
    for directory in directories:
        for topic in directory.topics:
            for row in topic.partitions:
                place = TopicPartition(topic.name, row.partition_index)
                if row.is_future_key:
                    future[place] = (directory.log_dir, row.partition_size, row.offset_lag)
                else:
                    current[place] = (directory.log_dir, row.partition_size)
    found = []
    for place, (target, copied, lag) in sorted(future.items()):
        lies, size = current.get(place, (None, None))
        found.append(
            LogDirMove(
                topic=place.topic,
                partition=place.partition,
                broker=broker,
                current=lies,
                target=target,
                size_bytes=size,
                copied_bytes=copied,
                offset_lag=lag,
            )
        )
    return found


async def moving(cluster: ClusterClient) -> list[LogDirMove]:
    """Return the moves on all responding brokers, by partition and broker. Raises KafkaError, Unreachable."""

    async def of(broker: int, address: Address) -> list[LogDirMove]:
        try:
            return moves_in(broker, await log_dirs_at(cluster, address, timeout_ms=cluster.part_ms))
        except (KafkaError, Unreachable) as error:
            log.info("replica moves between log directories not available from broker", broker=broker, error=error)
            return []

    brokers = (await cluster.metadata([])).brokers
    found = await asyncio.gather(*(of(each.node_id, (each.host, each.port)) for each in brokers))
    return sorted((move for moves in found for move in moves), key=replica_key)


def replica_key(move: LogDirMove) -> tuple[TopicPartition, int]:
    """Return where a move is in the order."""
    return TopicPartition(move.topic, move.partition), move.broker


async def list_log_dir_moves(call: Call[NoBody]) -> Rows:
    """List the replicas that move between log directories of a broker, with their progress."""
    limit, topic, after = ROWS.of(call), call.query.get("topic"), replica_after(call)
    found = [each for each in await moving(call.cluster) if topic in (None, each.topic)]
    page, more = behind(found, replica_key, after, limit)
    rows: list[BaseModel] = [*page]
    return Rows(rows=rows, following=following(call, replica_text(page[-1])) if more else None)


def replica_text(move: LogDirMove) -> str:
    """Return what `replica_after` reads."""
    return f"{move.topic}:{move.partition}:{move.broker}"


def replica_after(call: Call[NoBody]) -> tuple[TopicPartition, int] | None:
    """Return the replica that the page begins behind, None from the first on. Raises BadInput."""
    if "after" not in call.query:
        return None
    parts = call.query["after"].split(":")
    if len(parts) != 3:
        raise BadInput("after", "expected TOPIC:PARTITION:BROKER")
    partition, broker = (number_of("after", each, 0, INT32_MAX) for each in parts[1:])
    return TopicPartition(parts[0], partition), broker


async def begin_moves(moves: LogDirMoves, wanted: Mapping[Replica, str]) -> dict[Replica, StartedMove]:
    """Start moves of replicas to their directories, including future replicas; return the result of each."""
    if not wanted:
        return {}
    started = await moves.begin(wanted, BEGIN_MS)
    errors = dict.fromkeys(wanted, str(ErrorCode.REPLICA_NOT_AVAILABLE.name))
    errors |= started.refused
    begun = set(started.begun)
    return {
        replica: StartedMove(broker=replica.broker, log_dir=target, error=None if replica in begun else errors[replica])
        for replica, target in wanted.items()
    }


def verified_moves(place: TopicPartition, states: Mapping[Replica, MoveState]) -> list[VerifiedMove]:
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
    wanted = {
        Replica(each.topic, each.partition, each.broker): each.current
        for each in await moving(call.cluster)
        if each.current is not None and (named is None or TopicPartition(each.topic, each.partition) in named)
    }
    refused = (await LogDirMoves(call.cluster).ask(wanted)).refused if wanted else {}
    return [
        MovedReplica(topic=each.topic, partition=each.partition, broker=each.broker, error=refused.get(each))
        for each in sorted(wanted)
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
