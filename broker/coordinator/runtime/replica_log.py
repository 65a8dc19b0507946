"""The log of a partition led here, as its coordinator writes and reads it: the replica manager's, narrowed down."""

from collections.abc import Callable
from typing import Final, Protocol

from kvorum.broker.coordinator.runtime.words import Terms
from kvorum.broker.replica.log_view import ReplicaLog
from kvorum.broker.replica.partition import Partition
from kvorum.broker.replica.types import NO_EPOCH
from kvorum.protocol.parts import FileSlice
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.storage.verification import VerificationGuard

WHOLE: Final = 2**63 - 1


class CoordinatorAppend(Protocol):
    """Appends as the coordinator of this epoch (ReplicaManager.append_as_coordinator)."""

    def __call__(
        self,
        key: TopicPartition,
        batch: memoryview,
        leader_epoch: int,
        guard: VerificationGuard | None,
        transaction_version: int,
    ) -> int:
        """Return the first offset. Raises KafkaError; then no record was appended."""
        ...


class PartitionLog:
    """See words.CoordinatorLog."""

    __slots__ = ("_append", "_key", "_partition")

    def __init__(
        self,
        key: TopicPartition,
        partition: Callable[[TopicPartition], Partition],
        append: CoordinatorAppend,
    ) -> None:
        """`partition` answers the replica here, or raises KafkaError."""
        self._key = key
        self._partition = partition
        self._append = append

    def _log(self) -> ReplicaLog:
        return self._partition(self._key).log_or_raise(NO_EPOCH, require_leader=True)

    def start_offset(self) -> int:
        """See CoordinatorLog."""
        return self._log().log_start_offset

    def end_offset(self) -> int:
        """See CoordinatorLog."""
        return self._log().log_end_offset

    def high_watermark(self) -> int:
        """See CoordinatorLog."""
        return self._log().high_watermark

    def read(self, offset: int, max_bytes: int) -> bytes:
        """See CoordinatorLog. Usually from the page cache; the loader checks the clock between two batches."""
        read = self._log().read(offset, max_bytes, WHOLE, True)
        return b"".join(
            part.file.pread(part.size, part.position) if isinstance(part, FileSlice) else bytes(part)
            for part in read.parts
        )

    def append(self, batch: bytearray, epoch: int, terms: Terms) -> int:
        """See CoordinatorLog."""
        return self._append(self._key, memoryview(batch), epoch, terms.guard, terms.transaction_version)

    def batch_bytes_max(self) -> int:
        """See CoordinatorLog."""
        return self._log().config.max_message_bytes
