"""Log directories of brokers, and moves of replicas between them (KIP-113)."""

from collections.abc import Collection, Mapping, Sequence

from kvorum.client.partitions.log_dir_moves import LogDirMoves, MoveStart
from kvorum.client.partitions.log_dirs import describe_log_dirs
from kvorum.client.values.log_dir import LogDir, LogDirMove, TopicPartitionReplica
from kvorum.client.wire.cluster_client import ClusterClient
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.topic_partition import TopicPartition

BEGIN_MS = 10_000
"""Time that a broker is queried until it has the new replica, as in Kafka's tool."""


class LogDirs:
    """Log directories of a cluster. All methods raise KafkaError and Unreachable."""

    def __init__(self, client: ClusterClient) -> None:
        """Use this client."""
        self._client = client
        self._moves = LogDirMoves(client)

    async def list(self, broker_ids: Sequence[int] | None = None) -> Sequence[LogDir]:
        """Return the log directories of some brokers, or of all (None). Raises KafkaError BROKER_ID_NOT_REGISTERED."""
        if broker_ids is not None and not broker_ids:
            return []
        found = await describe_log_dirs(self._client, broker_ids or ())
        return [each for directories in found.values() for each in directories]

    async def moves(self) -> Sequence[LogDirMove]:
        """Return the present moves on all brokers that respond, by partition and broker."""
        return await self._moves.list_moves()

    async def move(
        self, targets: Mapping[TopicPartitionReplica, str], *, timeout_ms: int = BEGIN_MS
    ) -> dict[TopicPartitionReplica, KafkaError | None]:
        """Start moves of replicas to directories of their brokers; return the error of each.

        A broker that has no such replica yet is queried again until the timeout: REPLICA_NOT_AVAILABLE.
        """
        return errors_of(await self._moves.begin(targets, timeout_ms))

    async def cancel_moves(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartitionReplica, KafkaError | None]:
        """Cancel the moves of partitions (None: all); return the error of each move that existed."""
        return errors_of(await self._moves.stop(partitions))


def errors_of(started: MoveStart) -> dict[TopicPartitionReplica, KafkaError | None]:
    """Return the error of each replica."""
    absent = KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE)
    return {**dict.fromkeys(started.replicas), **dict.fromkeys(started.absent, absent), **started.errors}
