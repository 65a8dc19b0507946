"""Fetch on the replicas here: read the available records, answer at once or park.

The broker's hottest read path.

Each target gets its row of the wire response directly (PartitionData), its records as parts of the log's files. Struct
fields without content are shared between rows and never written to. Source: ReplicaManager.fetchMessages, readFromLog.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from kvorum.broker.replica.delayed_fetch import DelayedFetch
from kvorum.broker.replica.figures import Figures
from kvorum.broker.replica.hosted import HostedPartitions, Outbox
from kvorum.broker.replica.partition import Partition
from kvorum.broker.replica.partition_reads import fetch_records, send_elsewhere
from kvorum.broker.replica.purgatory import Parked
from kvorum.broker.replica.replication_quota import ReplicationQuota
from kvorum.broker.replica.resting import Rest, RestingTarget, begin_rest
from kvorum.broker.replica.selector import NO_PREFERENCE, Select
from kvorum.broker.replica.types import UNKNOWN_OFFSET, FetchParams, FetchTarget, LogRead
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.fetch import EpochEndOffset, PartitionData
from kvorum.protocol.parts import part_size
from kvorum.protocol.source import default_of
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.protocol.uuids import ZERO_UUID

FetchRows: TypeAlias = list[tuple[FetchTarget, PartitionData]]
FetchDone: TypeAlias = Callable[[FetchRows], None]

# Shared by all rows without own values.
_NOTHING = default_of(PartitionData)
_NO_EPOCH, _NO_LEADER, _NO_SNAPSHOT = _NOTHING.diverging_epoch, _NOTHING.current_leader, _NOTHING.snapshot_id


@dataclass(slots=True)
class Fetches:
    """Reads by consumers and followers. `_now_ms` is monotonic; `_select` may redirect consumers to followers."""

    _hosted: HostedPartitions
    _outbox: Outbox
    _now_ms: Callable[[], int]
    _figures: Figures
    _quota: ReplicationQuota
    _select: Select | None = None

    def fetch_records(
        self, params: FetchParams, targets: Sequence[FetchTarget], on_done: FetchDone, has_resting: bool = False
    ) -> "ParkedFetch | None":
        """Read each target and call `on_done` with a row for each, in order: now, or with enough data.

        Immediately if max wait is 0, min bytes are available, any row is an error, a diverging epoch or names another
        replica, or nothing is fetched: neither `targets` nor resting ones (`has_resting`). Else the request is parked
        (cancel it when the connection closes) and read again when it is due.
        """
        now_ms = self._now_ms()
        wanted = list(targets)
        rows, size, urgent = self._read_all(params, wanted, now_ms, first_time=True)
        if urgent or size >= params.min_bytes or params.max_wait_ms <= 0 or not (wanted or has_resting):
            self._count(params, rows)
            on_done(rows)
            return None
        answer = partial(self._answer, params, wanted, on_done)
        held_back = self._holds_back if params.is_from_follower and self._quota.throttled else None
        waiting = DelayedFetch(self._hosted, params, wanted, answer, held_back)
        parked = self._outbox.fetches.park(waiting, waiting.keys, now_ms + params.max_wait_ms)
        return None if parked is None else ParkedFetch(parked, waiting, wanted)

    def _answer(self, params: FetchParams, wanted: Sequence[FetchTarget], on_done: FetchDone) -> None:
        """Read again and answer a fetch that was parked."""
        rows, _, _ = self._read_all(params, wanted, self._now_ms(), first_time=False)
        self._count(params, rows)
        on_done(rows)

    def rest(self, params: FetchParams, target: RestingTarget) -> Rest | None:
        """Return the rest of an answered session target; None if it must be read next time.

        A consumer that may be redirected to another replica does not rest: no event reports that the other one is in
        sync now.
        """
        if self._select is not None and params.rack_id:
            return None
        partition = self._hosted.by_name.get((target.topic, target.partition))  # type: ignore[call-overload]
        return None if partition is None else begin_rest(partition, params, target)

    def _read_all(
        self, params: FetchParams, targets: Sequence[FetchTarget], now_ms: int, first_time: bool
    ) -> tuple[FetchRows, int, bool]:
        """Return rows, their bytes, and whether one must be returned at once.

        The first record batch goes out whatever its size, so that a reader with small limits still gets on (KIP-74).
        """
        rows: FetchRows = []
        left = params.max_bytes
        total = 0
        urgent = False
        by_name = self._hosted.by_name
        throttling = params.is_from_follower and bool(self._quota.throttled) and self._quota.is_exceeded(now_ms)
        select = self._select
        for target in targets:
            partition = by_name.get((target.topic, target.partition))  # type: ignore[call-overload]  # an equal tuple
            try:
                if partition is None:
                    partition = self._hosted.partition_or_raise(TopicPartition(target.topic, target.partition))
                if target.topic_id != partition.topic_id and target.topic_id != ZERO_UUID:
                    raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID, "the local replica has another topic id")
                elsewhere = NO_PREFERENCE if select is None else select(partition, params, target.fetch_offset)
                if elsewhere != NO_PREFERENCE:
                    read = send_elsewhere(partition, target, elsewhere)
                elif throttling and self._is_throttled(partition, params.replica_id):
                    # All but the records: the fetch itself counts, and reports the follower's position.
                    read = fetch_records(partition, target, params, 0, False, now_ms, first_time)
                else:
                    read = fetch_records(partition, target, params, left, total == 0, now_ms, first_time)
            except KafkaError as error:
                urgent = True
                rows.append((target, error_row(target.partition, error.code)))
                continue
            if partition.effects is not None:
                self._outbox.settle(partition)
            total += read.size
            left = left - read.size if left > read.size else 0
            urgent = urgent or read.diverging_epoch is not None or elsewhere != NO_PREFERENCE
            rows.append((target, data_row(target.partition, read)))
        return rows, total, urgent

    def _is_throttled(self, partition: Partition, replica_id: int) -> bool:
        """Return whether a follower's records may be withheld: never those of an ISR member."""
        return self._quota.is_throttled(*partition.topic_partition) and replica_id not in partition.isr

    def _holds_back(self, partition: Partition, replica_id: int) -> bool:
        return self._is_throttled(partition, replica_id) and self._quota.is_exceeded(self._now_ms())

    def _count(self, params: FetchParams, rows: FetchRows) -> None:
        self._figures.fetched(params.is_from_follower, rows)
        if params.is_from_follower and (self._quota.throttled or self._hosted.adding):
            self._count_moved(params.replica_id, rows)

    def _count_moved(self, replica_id: int, rows: FetchRows) -> None:
        """Count bytes sent to throttled replicas, and to replicas that are being added."""
        throttled = added = 0
        for target, row in rows:
            size = sum(map(part_size, row.records)) if isinstance(row.records, tuple) else 0
            if size and self._quota.is_throttled(target.topic, target.partition):
                throttled += size
            if size and replica_id in self._hosted.adding.get(TopicPartition(target.topic, target.partition), ()):
                added += size
        if throttled:
            self._quota.note(throttled, self._now_ms())
        if added:
            self._figures.reassignment_bytes_out.add(added)


class ParkedFetch:
    """A fetch that waits."""

    __slots__ = ("_parked", "_waiting", "_wanted")

    def __init__(self, parked: Parked, waiting: DelayedFetch, wanted: list[FetchTarget]) -> None:
        """`wanted` is what will be read for the response."""
        self._parked = parked
        self._waiting = waiting
        self._wanted = wanted

    def cancel(self) -> None:
        """Stop waiting, without a response. Idempotent."""
        self._parked.cancel()

    def add(self, target: FetchTarget) -> None:
        """Wait for another partition and include it in the response: it was idle, and is about to change."""
        self._wanted.append(target)
        self._waiting.add(target)
        self._parked.watch(TopicPartition(target.topic, target.partition))


def data_row(partition_index: int, read: LogRead) -> PartitionData:
    """Return the row of a successful read."""
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
        preferred_read_replica=read.preferred_read_replica,
        aborted_transactions=None if read.aborted_transactions is None else list(read.aborted_transactions),
        records=read.parts,
    )


def error_row(partition_index: int, code: ErrorCode) -> PartitionData:
    """Return an error row. `current_leader` belongs to the row: the handler may fill it in."""
    return PartitionData(
        partition_index=partition_index,
        error_code=code,
        high_watermark=UNKNOWN_OFFSET,
        aborted_transactions=None,
        records=b"",
    )
