"""Changes larger than a batch, visible completely or not at all (KIP-868). Sans-IO.

Both sides that replay (controller and broker) pass every record of the log through a TransactionBuffer, in order; its
output goes to a MetadataDelta.

    outside --BeginTransaction--> inside          inside --EndTransaction--> outside, the held records are returned
    outside --other--> returned at once          inside --AbortTransaction--> outside, they are dropped
                                                  inside --other--> held

Begin inside, End or Abort outside are errors of the log. A new active controller that finds one open writes
AbortTransaction first: its predecessor will not end it.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Final

from kvorum.quorum.records import (
    AbortTransaction,
    BeginTransaction,
    EndTransaction,
    MetadataRecord,
    encode,
)

TRANSACTION_RECORDS_MAX: Final = 2_000_000
"""Records held: some twenty times the 100,000 partitions we plan for; more is a runaway."""

MARKER_SIZE: Final = 256
"""Bytes left free in a batch for a marker and its framing."""


class InvalidTransaction(Exception):
    """The log's transaction markers do not pair, or one grew past TRANSACTION_RECORDS_MAX: the node stops."""


class TransactionBuffer:
    """Holds back the records of an open transaction."""

    __slots__ = ("_held", "_name", "_open_since")

    def __init__(self) -> None:
        """Start outside a transaction, as at the beginning of a log or after a snapshot."""
        self._held: list[tuple[int, MetadataRecord]] = []
        self._open_since: int | None = None
        self._name = ""

    @property
    def open_since(self) -> int | None:
        """The offset of the BeginTransaction of the open transaction, None outside one.

        A snapshot must not be taken at or after it.
        """
        return self._open_since

    def open_records(self) -> Iterator[MetadataRecord]:
        """Return the records of the open transaction, its marker first; none outside one.

        Can be read at any time, in any thread: later records do not change it.
        """
        if self._open_since is None:
            return iter(())
        held = islice(self._held, len(self._held))
        return chain((BeginTransaction(name=self._name),), (record for _, record in held))

    def feed(self, offset: int, record: MetadataRecord) -> Sequence[tuple[int, MetadataRecord]]:
        """Process the next record of the log; return the records to replay now, as (offset, record), in order.

        Raises:
            InvalidTransaction: the markers do not pair.
        """
        match record:
            case BeginTransaction():
                if self._open_since is not None:
                    raise InvalidTransaction(
                        f"transaction begins at {offset} inside the transaction of {self._open_since}"
                    )
                self._open_since, self._name = offset, record.name
                return ()
            case EndTransaction() | AbortTransaction():
                if self._open_since is None:
                    raise InvalidTransaction(f"transaction end at {offset} without a begin")
                held, self._held, self._open_since = self._held, [], None
                return held if isinstance(record, EndTransaction) else ()
        if self._open_since is None:
            return ((offset, record),)
        if len(self._held) >= TRANSACTION_RECORDS_MAX:
            raise InvalidTransaction(
                f"transaction {self._name!r} of {self._open_since} exceeds {TRANSACTION_RECORDS_MAX} records"
            )
        self._held.append((offset, record))
        return ()

    def feed_batch(self, base_offset: int, batch: Iterable[MetadataRecord]) -> list[tuple[int, MetadataRecord]]:
        """Apply a batch of the log whose first record is at `base_offset`; see `feed`."""
        ready: list[tuple[int, MetadataRecord]] = []
        for offset, record in enumerate(batch, base_offset):
            ready.extend(self.feed(offset, record))
        return ready


def split_into_batches(
    values: Sequence[bytes], records_max: int, bytes_max: int, name: str = ""
) -> Iterator[list[bytes]]:
    """Divide one change, its records encoded, into batches of limited size, in records and in bytes of values.

    A change that fits one batch stays unchanged; a larger one gets BeginTransaction first and EndTransaction last,
    counted in. No records: no batch.
    """
    assert records_max >= 2 and bytes_max > 2 * MARKER_SIZE, "a batch takes a marker and a record"
    if len(values) <= records_max and sum(map(len, values)) <= bytes_max:
        if values:
            yield list(values)
        return
    batch = [encode(BeginTransaction(name=name[: MARKER_SIZE // 4]))]
    size = MARKER_SIZE
    for value in values:
        assert len(value) + MARKER_SIZE <= bytes_max, f"a record of {len(value)} bytes fits no batch"
        if len(batch) + 1 > records_max or size + len(value) > bytes_max:
            yield batch
            batch, size = [], 0
        batch.append(value)
        size += len(value)
    if len(batch) + 1 > records_max or size + MARKER_SIZE > bytes_max:
        yield batch
        batch = []
    batch.append(encode(EndTransaction()))
    yield batch
