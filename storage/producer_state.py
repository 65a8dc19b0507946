"""State of a log's idempotent producers. Sans-IO (KIP-98; Kafka's ProducerStateManager).

Of each producer id the last five batches are kept: a retried batch is recognised and gets its original offset;
any other batch must have the next sequence number. The state is a function of the log: it is rebuilt from a snapshot
and the batches after it, and truncated with the log. Transactions: where the ongoing ones began, which bounds the last
stable offset, and which are being verified with their coordinator (see verification).

Checks come before the write (`find_duplicate`, `check_verified`, `check`), `append` after it; replication skips the
checks.
"""

from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from kvorum.protocol.batch_header import INT32_MAX, NO_PRODUCER_EPOCH, NO_SEQUENCE, BatchHeader, increment_sequence
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.storage.verification import VerificationGuard, Verifications, sequence_problem

BATCHES_KEPT: Final = 5
"""Kafka's ProducerStateEntry.NUM_BATCHES_TO_RETAIN: as many as a producer may have in flight with idempotence."""
NO_OFFSET: Final = -1
NO_COORDINATOR_EPOCH: Final = -1
TRANSACTION_VERSION_2: Final = 2
"""From here on the coordinator gives each marker a separate epoch, above that of the transaction's records."""

SNAPSHOT_VERSION: Final = 1
_SNAPSHOT_HEAD: Final = Struct(">hIi")
_SNAPSHOT_ENTRY: Final = Struct(">qhiqiqiq")
_CRC_START: Final = 6
"""The CRC covers the entries' count and the entries."""


class Origin(Enum):
    """Origin of an append, which selects the checks."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    REPLICATION = "replication"


class BatchMetadata(NamedTuple):
    """One batch of a producer, with the fields to recognise a retry."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def base_sequence(self) -> int:
        """The first record's sequence number."""
        return increment_sequence(self.last_sequence, -self.offset_delta)

    @property
    def base_offset(self) -> int:
        """The first record's offset."""
        return self.last_offset - self.offset_delta


class CompletedTransaction(NamedTuple):
    """A transaction that a marker ended; `last_offset` is the marker's.

    `last_stable_offset`: up to where all was decided with it, replication aside.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool
    last_stable_offset: int


@dataclass(slots=True)
class ProducerEntry:
    """One producer id. `last_timestamp` (ms) is that of its last batch or marker and decides when it expires."""

    producer_id: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    last_timestamp: int = -1
    current_txn_first_offset: int = NO_OFFSET
    batches: deque[BatchMetadata] = field(default_factory=lambda: deque(maxlen=BATCHES_KEPT))

    @property
    def last_sequence(self) -> int:
        """The sequence number of its last record in this epoch, NO_SEQUENCE if there is none."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class ProducerState:
    """The producers of one log. `end_offset`: the state includes every batch below it."""

    __slots__ = (
        "_ongoing",
        "_unreplicated",
        "end_offset",
        "first_unstable_offset",
        "producers",
        "verifications",
    )

    def __init__(self, end_offset: int = 0) -> None:
        """Start knowing nothing, at this offset."""
        self.producers: dict[int, ProducerEntry] = {}
        self.end_offset = end_offset
        self.first_unstable_offset: int | None = None
        """Start of the earliest transaction that is open, or ended by a marker not yet below the high watermark."""
        self.verifications = Verifications()
        self._ongoing: OrderedDict[int, int] = OrderedDict()
        self._unreplicated: dict[int, int] = {}

    def clear(self, end_offset: int) -> None:
        """Reset, at this offset. Verifications continue: markers end them at any offset."""
        self.producers.clear()
        self._ongoing.clear()
        self._unreplicated.clear()
        self.end_offset = end_offset
        self.first_unstable_offset = None

    def find_duplicate(self, header: BatchHeader) -> BatchMetadata | None:
        """Return the batch kept that has this producer's epoch and the same sequence numbers."""
        entry = self.producers.get(header.producer_id)
        if entry is None or entry.producer_epoch != header.producer_epoch:
            return None
        base, last = header.base_sequence, header.last_sequence
        for batch in entry.batches:
            if batch.last_sequence == last and batch.base_sequence == base:
                return batch
        return None

    def check(self, header: BatchHeader, origin: Origin) -> None:
        """Check a data batch that is not a duplicate against the producer's previous batch.

        Raises KafkaError INVALID_PRODUCER_EPOCH (a newer epoch was seen: the producer is fenced),
        OUT_OF_ORDER_SEQUENCE_NUMBER (a gap), INVALID_TXN_STATE (a plain write within a transaction). An unknown
        producer may start at any sequence number: its records may have been deleted.
        """
        if origin is Origin.REPLICATION:
            return
        entry = self.producers.get(header.producer_id)
        if origin is Origin.CLIENT and self.verifications:
            self._check_verified_sequence(header, is_new_producer=entry is None or not entry.batches)
        if entry is None:
            return
        known = f"producer {header.producer_id}: epoch {entry.producer_epoch}, sequence {entry.last_sequence}"
        sent = f"got epoch {header.producer_epoch}, sequence {header.base_sequence}"
        if header.producer_epoch < entry.producer_epoch:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, f"{known}; {sent}")
        if origin is Origin.CLIENT and entry.producer_epoch != NO_PRODUCER_EPOCH:
            is_same_epoch = header.producer_epoch == entry.producer_epoch
            expected = next_sequence(entry.last_sequence) if is_same_epoch else 0
            if header.base_sequence != expected:
                raise KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, f"{known}; {sent}, expected {expected}")
        if entry.current_txn_first_offset != NO_OFFSET and not header.is_transactional:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, f"{known} is within a transaction; {sent} is not")

    def _check_verified_sequence(self, header: BatchHeader, is_new_producer: bool) -> None:
        verification = self.verifications.get(header.producer_id)
        problem = sequence_problem(verification, header.base_sequence, is_new_producer)
        if problem is not None:
            text = f"producer {header.producer_id} sent sequence {header.base_sequence}: {problem}"
            raise KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, text)

    def begin_verification(
        self, producer_id: int, producer_epoch: int, sequence: int, supports_epoch_bump: bool, now_ms: int
    ) -> VerificationGuard | None:
        """Return the guard for this producer's next append, after the coordinator has verified it.

        None if its transaction is already open here: then no verification is needed. Raises KafkaError
        INVALID_PRODUCER_EPOCH for an epoch older than the newest seen.
        """
        self._check_not_older(producer_id, producer_epoch)
        if self.has_ongoing_transaction(producer_id, producer_epoch):
            return None
        return self.verifications.begin(producer_id, producer_epoch, sequence, supports_epoch_bump, now_ms)

    def check_verified(self, header: BatchHeader, guard: VerificationGuard | None) -> None:
        """Check that a transactional batch, of a client or of this node's coordinator, belongs to an open transaction.

        Raises KafkaError INVALID_PRODUCER_EPOCH (older than the newest seen: the client aborts and continues),
        INVALID_TXN_STATE.
        """
        if self.has_ongoing_transaction(header.producer_id, header.producer_epoch):
            return
        self._check_not_older(header.producer_id, header.producer_epoch)
        if not header.is_control and not self.verifications.opens(header.producer_id, guard):
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, "Record was not part of an ongoing transaction")

    def has_ongoing_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Return whether the producer has a transaction open here in this epoch."""
        entry = self.producers.get(producer_id)
        return (
            entry is not None and entry.current_txn_first_offset != NO_OFFSET and entry.producer_epoch == producer_epoch
        )

    def _check_not_older(self, producer_id: int, producer_epoch: int) -> None:
        entry = self.producers.get(producer_id)
        if entry is not None and producer_epoch < entry.producer_epoch:
            text = f"producer {producer_id}: epoch {entry.producer_epoch} was seen, got {producer_epoch}"
            raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, text)

    def append(self, header: BatchHeader) -> None:
        """Take note of a data batch at its final offsets. Markers go to `append_marker`."""
        last_offset = header.last_offset
        self.end_offset = last_offset + 1
        if not header.has_producer_id:
            return
        entry = self._entry(header.producer_id)
        if header.producer_epoch != entry.producer_epoch:
            entry.producer_epoch = header.producer_epoch
            entry.batches.clear()
        delta, timestamp = header.last_offset_delta, header.max_timestamp
        entry.batches.append(BatchMetadata(header.last_sequence, last_offset, delta, timestamp))
        entry.last_timestamp = timestamp
        if header.is_transactional:
            self.verifications.end(header.producer_id)
            if entry.current_txn_first_offset == NO_OFFSET:
                entry.current_txn_first_offset = header.base_offset
                self._ongoing[header.base_offset] = header.producer_id
                self._find_first_unstable()

    def check_marker(self, header: BatchHeader, coordinator_epoch: int, transaction_version: int = 0) -> None:
        """Check an end-of-transaction marker before a leader writes it.

        From transaction version 2 on its epoch is above that of all records: an older one is late and would end another
        transaction. But the same marker again, without an open transaction, is harmless: the coordinator did not
        receive the first response (KAFKA-19999). Raises KafkaError INVALID_PRODUCER_EPOCH or
        TRANSACTION_COORDINATOR_FENCED for older epochs.
        """
        entry = self.producers.get(header.producer_id)
        if entry is None:
            return
        is_late = header.producer_epoch < entry.producer_epoch
        if transaction_version >= TRANSACTION_VERSION_2 and header.producer_epoch == entry.producer_epoch:
            is_late = entry.current_txn_first_offset != NO_OFFSET
        if is_late:
            text = f"epoch {entry.producer_epoch} was seen, the marker has {header.producer_epoch}"
            raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, text)
        if coordinator_epoch < entry.coordinator_epoch:
            raise KafkaError(ErrorCode.TRANSACTION_COORDINATOR_FENCED, f"epoch {entry.coordinator_epoch} was seen")

    def append_marker(
        self, header: BatchHeader, coordinator_epoch: int, timestamp: int, is_aborted: bool
    ) -> CompletedTransaction | None:
        """Apply an end-of-transaction marker; return the transaction it ended, None without one."""
        entry = self._entry(header.producer_id)
        self.end_offset = header.last_offset + 1
        if header.producer_epoch != entry.producer_epoch:
            entry.producer_epoch = header.producer_epoch
            entry.batches.clear()
        entry.coordinator_epoch = coordinator_epoch
        entry.last_timestamp = timestamp
        self.verifications.marked(header.producer_id, header.producer_epoch)
        first_offset = entry.current_txn_first_offset
        entry.current_txn_first_offset = NO_OFFSET
        if first_offset == NO_OFFSET:
            return None
        self._ongoing.pop(first_offset, None)
        last_offset = header.last_offset
        self._unreplicated[first_offset] = last_offset
        self._find_first_unstable()
        undecided = self.first_undecided_offset
        stable = last_offset + 1 if undecided is None else undecided
        return CompletedTransaction(header.producer_id, first_offset, last_offset, is_aborted, stable)

    def _entry(self, producer_id: int) -> ProducerEntry:
        """Return the producer's entry, a new one if need be."""
        entry = self.producers.get(producer_id)
        if entry is None:
            entry = self.producers[producer_id] = ProducerEntry(producer_id)
        return entry

    @property
    def first_undecided_offset(self) -> int | None:
        """Start of the earliest open transaction."""
        return next(iter(self._ongoing), None)

    def has_late_transaction(self, now_ms: int, lateness_ms: int) -> bool:
        """Return whether a transaction is open whose producer has not written for longer than that. O(open ones)."""
        entries = (self.producers.get(producer_id) for producer_id in self._ongoing.values())
        return any(entry is not None and 0 < entry.last_timestamp < now_ms - lateness_ms for entry in entries)

    def _find_first_unstable(self) -> None:
        """Update it: every read uses it, and only transactions change it."""
        first = self.first_undecided_offset
        if self._unreplicated:
            ended = min(self._unreplicated)
            first = ended if first is None else min(first, ended)
        self.first_unstable_offset = first

    def ended_before(self, end_offset: int) -> dict[int, int]:
        """Return the transactions {first offset: marker} that wait for the high watermark and end before this."""
        return {first: last for first, last in self._unreplicated.items() if last < end_offset}

    def note_ended(self, ended: dict[int, int]) -> None:
        """Let these ended transactions wait for the high watermark."""
        self._unreplicated.update(ended)
        self._find_first_unstable()

    def on_high_watermark(self, high_watermark: int) -> None:
        """Forget ended transactions whose markers are replicated."""
        if self._unreplicated:
            self._unreplicated = {first: last for first, last in self._unreplicated.items() if last >= high_watermark}
            self._find_first_unstable()

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forget producers idle for that long (producer.id.expiration.ms), but not within a transaction."""
        expired = [
            producer_id
            for producer_id, entry in self.producers.items()
            if entry.current_txn_first_offset == NO_OFFSET and now_ms - entry.last_timestamp >= expiration_ms
        ]
        for producer_id in expired:
            del self.producers[producer_id]
        self.verifications.expire(now_ms, expiration_ms)

    def load(self, snapshot: bytes, end_offset: int, now_ms: int, expiration_ms: int) -> None:
        """Replace the state by a snapshot taken at `end_offset`, without expired producers. Raises ValueError."""
        entries = list(decode_snapshot(snapshot))
        self.clear(end_offset)
        for entry in entries:
            self.producers[entry.producer_id] = entry
        open_here = [entry for entry in entries if entry.current_txn_first_offset != NO_OFFSET]
        for entry in sorted(open_here, key=lambda each: each.current_txn_first_offset):
            self._ongoing[entry.current_txn_first_offset] = entry.producer_id
        self._find_first_unstable()
        self.expire(now_ms, expiration_ms)

    def take_over(self, other: "ProducerState") -> None:
        """Adopt another state, which is not used any more."""
        self.producers, self.end_offset, self.verifications = other.producers, other.end_offset, other.verifications
        self._ongoing, self._unreplicated = other._ongoing, other._unreplicated
        self._find_first_unstable()

    def to_snapshot(self) -> bytes:
        """Return the `.snapshot` file of this state, in Kafka's format."""
        return encode_snapshot(self.producers)


def next_sequence(last_sequence: int) -> int:
    """Return the next sequence number: 0 after none, and after 2^31 - 1."""
    return 0 if last_sequence in (NO_SEQUENCE, INT32_MAX) else last_sequence + 1


def encode_snapshot(producers: dict[int, ProducerEntry]) -> bytes:
    """Return Kafka's ProducerSnapshot v1: version, CRC-32C, count, and the last batch of each producer."""
    body = bytearray(len(producers).to_bytes(4, "big"))
    for entry in producers.values():
        last = entry.batches[-1] if entry.batches else BatchMetadata(NO_SEQUENCE, NO_OFFSET, 0, -1)
        body += _SNAPSHOT_ENTRY.pack(
            entry.producer_id,
            entry.producer_epoch,
            last.last_sequence,
            last.last_offset,
            last.offset_delta,
            entry.last_timestamp,
            entry.coordinator_epoch,
            entry.current_txn_first_offset,
        )
    return SNAPSHOT_VERSION.to_bytes(2, "big") + crc32c(body).to_bytes(4, "big") + bytes(body)


def decode_snapshot(data: bytes) -> Iterator[ProducerEntry]:
    """Yield the producers of a snapshot file. Raises ValueError if it is cut, damaged or of another version."""
    if len(data) < _SNAPSHOT_HEAD.size:
        raise ValueError(f"a snapshot of {len(data)} bytes is too short")
    version, crc, count = _SNAPSHOT_HEAD.unpack_from(data)
    if version != SNAPSHOT_VERSION:
        raise ValueError(f"snapshot version {version} is not known")
    if crc != crc32c(memoryview(data)[_CRC_START:]):
        raise ValueError("the snapshot's crc is wrong")
    if count < 0 or len(data) != _SNAPSHOT_HEAD.size + count * _SNAPSHOT_ENTRY.size:
        raise ValueError(f"{count} producers do not fit in {len(data)} bytes")
    for values in _SNAPSHOT_ENTRY.iter_unpack(memoryview(data)[_SNAPSHOT_HEAD.size :]):
        producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, txn_offset = values
        entry = ProducerEntry(producer_id, epoch, coordinator_epoch, timestamp, max(txn_offset, NO_OFFSET))
        if offset >= 0:
            entry.batches.append(BatchMetadata(sequence, offset, delta, timestamp))
        yield entry
