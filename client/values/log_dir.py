"""Log directories of brokers, their replicas, and moves between them (KIP-113)."""

from dataclasses import dataclass
from typing import NamedTuple

from kvorum.client.wire.cluster_client import code_of
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.describe_log_dirs import DescribeLogDirsResult
from kvorum.protocol.topic_partition import TopicPartition


class TopicPartitionReplica(NamedTuple):
    """A replica of a partition on a broker."""

    topic: str
    partition: int
    broker: int

    def __str__(self) -> str:
        """Return it as Kafka writes it: orders-3-1."""
        return f"{self.topic}-{self.partition}-{self.broker}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirReplica:
    """A replica in a log directory."""

    topic: str
    partition: int
    size_bytes: int
    offset_lag: int
    """Records behind the high watermark; of a copy that moves between directories: behind the present log."""
    is_future: bool
    """A copy that will replace the log in another directory of the broker."""

    @property
    def topic_partition(self) -> TopicPartition:
        """Return its partition."""
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDir:
    """A log directory of a broker with its replicas."""

    broker: int
    path: str
    error: ErrorCode | None
    """KAFKA_STORAGE_ERROR: the directory is offline."""
    total_bytes: int | None
    """Size of its volume; None: not known."""
    usable_bytes: int | None
    """Free bytes of its volume; None: not known."""
    replicas: tuple[LogDirReplica, ...]
    """By topic and partition; a copy that moves is behind its replica."""

    @property
    def size_bytes(self) -> int:
        """Return the total size of its replicas."""
        return sum(each.size_bytes for each in self.replicas)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirMove:
    """A replica that moves to another log directory of its broker."""

    topic: str
    partition: int
    broker: int
    current: str | None
    """Its present directory; None: not known."""
    target: str
    size_bytes: int | None
    """Size in the present directory; None: not known."""
    copied_bytes: int
    offset_lag: int

    @property
    def replica(self) -> TopicPartitionReplica:
        """Return the replica."""
        return TopicPartitionReplica(self.topic, self.partition, self.broker)


def log_dir_value(broker: int, row: DescribeLogDirsResult) -> LogDir:
    """Return a directory of a DescribeLogDirs response."""
    return LogDir(
        broker=broker,
        path=row.log_dir,
        error=code_of(row.error_code) if row.error_code else None,
        total_bytes=row.total_bytes if row.total_bytes >= 0 else None,
        usable_bytes=row.usable_bytes if row.usable_bytes >= 0 else None,
        replicas=tuple(
            sorted(
                (
                    LogDirReplica(
                        topic=topic.name,
                        partition=each.partition_index,
                        size_bytes=each.partition_size,
                        offset_lag=each.offset_lag,
                        is_future=each.is_future_key,
                    )
                    for topic in row.topics
                    for each in topic.partitions
                ),
                key=lambda replica: (replica.topic_partition, replica.is_future),
            )
        ),
    )
