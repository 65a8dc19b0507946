"""Transaction state of the cleaner during a pass over a log (Kafka's CleanedTransactionMetadata). Sans-IO.

It never reads beyond the last stable offset, so the outcome of each transaction is known in advance. Data of an aborted
one are removed at once; a marker may be removed when no batch of its transaction is left, which is known at the marker:
no batch of its producer since the previous one.
"""

from dataclasses import dataclass, field
from heapq import heappop, heappush

from kvorum.storage.txn_index import AbortedTransaction


@dataclass(slots=True)
class _Aborted:
    """An aborted transaction whose marker is not reached yet; whether any batch of it was met."""

    entry: AbortedTransaction
    has_batches: bool = False


@dataclass(slots=True)
class CleanedTransactions:
    """Carried through all segments of one cleaning, in order."""

    _committed: set[int] = field(default_factory=set)
    _aborted: dict[int, _Aborted] = field(default_factory=dict)
    _upcoming: list[tuple[int, int, AbortedTransaction]] = field(default_factory=list)
    _count: int = 0

    def expect(self, entries: list[AbortedTransaction]) -> None:
        """Use the aborted transactions that overlap the next read."""
        for entry in entries:
            self._count += 1
            heappush(self._upcoming, (entry.first_offset, self._count, entry))

    def on_batch(self, last_offset: int, producer_id: int, is_transactional: bool) -> bool:
        """Take note of a data batch; return whether its transaction was aborted, so that its records go."""
        self._begin_aborted(last_offset)
        if not is_transactional:
            return False
        aborted = self._aborted.get(producer_id)
        if aborted is None:
            self._committed.add(producer_id)
            return False
        aborted.has_batches = True
        return True

    def on_empty_marker(self, last_offset: int) -> None:
        """Record a control batch that has lost its record: it is not needed any more."""
        self._begin_aborted(last_offset)

    def on_commit(self, last_offset: int, producer_id: int) -> bool:
        """Record a commit marker; return whether it is not needed any more."""
        self._begin_aborted(last_offset)
        is_needed = producer_id in self._committed
        self._committed.discard(producer_id)
        return not is_needed

    def on_abort(self, last_offset: int, producer_id: int) -> AbortedTransaction | None:
        """Record an abort marker; return the entry to keep in the transaction index.

        None if the marker is not needed any more.
        """
        self._begin_aborted(last_offset)
        aborted = self._aborted.pop(producer_id, None)
        return aborted.entry if aborted is not None and aborted.has_batches else None

    def _begin_aborted(self, offset: int) -> None:
        """Activate the aborted transactions that began up to this offset."""
        while self._upcoming and self._upcoming[0][0] <= offset:
            _, _, entry = heappop(self._upcoming)
            self._aborted.setdefault(entry.producer_id, _Aborted(entry))
