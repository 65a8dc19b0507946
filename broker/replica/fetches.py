"""Fetch on the replicas here: read what is there, answer at once or park. The broker's hottest read path.

Each target gets its row of the wire's answer directly (PartitionData), its records as parts that still lie in the log.
A row's struct fields that say nothing are shared and never written to. Source: ReplicaManager.fetchMessages,
readFromLog.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from kvorum.broker.replica.delayed_fetch import DelayedFetch
from kvorum.broker.replica.figures import Figures
from kvorum.broker.replica.hosted import HostedPartitions, Outbox
from kvorum.broker.replica.partition_reads import fetch_records
from kvorum.broker.replica.purgatory import Parked
from kvorum.broker.replica.types import UNKNOWN_OFFSET, FetchParams, FetchTarget, LogRead
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.fetch import (
    EpochEndOffset,
    LeaderIdAndEpoch,
    PartitionData,
    SnapshotId,
)
from kvorum.protocol.uuids import ZERO_UUID
from kvorum.storage.names import TopicPartition

FetchRows: TypeAlias = list[tuple[FetchTarget, PartitionData]]
FetchDone: TypeAlias = Callable[[FetchRows], None]

# Shared by all rows that have none of their own.
_NO_EPOCH = EpochEndOffset()
_NO_LEADER = LeaderIdAndEpoch()
_NO_SNAPSHOT = SnapshotId()


@dataclass(slots=True)
class Fetches:
    """What consumers and followers read. `_now_ms` is monotonic."""

    _hosted: HostedPartitions
    _outbox: Outbox
    _now_ms: Callable[[], int]
    _figures: Figures

    def fetch_records(self, params: FetchParams, targets: Sequence[FetchTarget], on_done: FetchDone) -> Parked | None:
        """Read each target and call `on_done` with a row for each, in their order: now, or when enough is there.

        At once if it wants no wait, min bytes are there, or any row is an error or a diverging epoch. Else the answer
        is parked (cancel it when the connection closes) and read anew when it is due.
        """
        now_ms = self._now_ms()
        rows, size, urgent = self._read_all(params, targets, now_ms, first_time=True)
        if urgent or size >= params.min_bytes or params.max_wait_ms <= 0 or not targets:
            self._count(params, rows)
            on_done(rows)
            return None

        def answer() -> None:
            rows, _, _ = self._read_all(params, targets, self._now_ms(), first_time=False)
            self._count(params, rows)
            on_done(rows)

        waiting = DelayedFetch(self._hosted, params, targets, answer)
        return self._outbox.fetches.park(waiting, waiting.keys, now_ms + params.max_wait_ms)

    def _read_all(
        self, params: FetchParams, targets: Sequence[FetchTarget], now_ms: int, first_time: bool
    ) -> tuple[FetchRows, int, bool]:
        """Return rows, their bytes, and whether one must be told at once.

        The first record batch goes out whatever its size, so that a reader with small limits still gets on (KIP-74).
        """
        rows: FetchRows = []
        left = params.max_bytes
        total = 0
        urgent = False
        by_name = self._hosted.by_name
        for target in targets:
            partition = by_name.get((target.topic, target.partition))  # type: ignore[call-overload]  # an equal tuple
            try:
                if partition is None:
                    partition = self._hosted.partition_or_raise(TopicPartition(target.topic, target.partition))
                if target.topic_id != partition.topic_id and target.topic_id != ZERO_UUID:
                    raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID, "the replica here belongs to another topic id")
                read = fetch_records(partition, target, params, left, total == 0, now_ms, first_time)
            except KafkaError as error:
                urgent = True
                rows.append((target, error_row(target.partition, error.code)))
                continue
            if partition.effects is not None:
                self._outbox.settle(partition)
            total += read.size
            left = left - read.size if left > read.size else 0
            urgent = urgent or read.diverging_epoch is not None
            rows.append((target, data_row(target.partition, read)))
        return rows, total, urgent

    def _count(self, params: FetchParams, rows: FetchRows) -> None:
        self._figures.fetched(params.is_from_follower, rows)


def data_row(partition_index: int, read: LogRead) -> PartitionData:
    """Return the row of a read that went well."""
    diverging = read.diverging_epoch
    return PartitionData(
        partition_index=partition_index,
        error_code=0,
        high_watermark=read.high_watermark,
        last_stable_offset=read.last_stable_offset,
        log_start_offset=read.log_start_offset,
        diverging_epoch=(
            _NO_EPOCH if diverging is None else EpochEndOffset(epoch=diverging.epoch, end_offset=diverging.end_offset)
        ),
        current_leader=_NO_LEADER,
        snapshot_id=_NO_SNAPSHOT,
        aborted_transactions=None if read.aborted_transactions is None else list(read.aborted_transactions),
        records=read.parts,
    )


def error_row(partition_index: int, code: ErrorCode) -> PartitionData:
    """Return the row of a refusal. `current_leader` is the row's own: the handler may fill in whom to ask."""
    return PartitionData(
        partition_index=partition_index,
        error_code=code,
        high_watermark=UNKNOWN_OFFSET,
        aborted_transactions=None,
        records=b"",
    )
