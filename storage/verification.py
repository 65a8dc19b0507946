"""Verifications of transactional producers with their coordinator (KIP-890, part 1).

Sans-IO.

Before the first batch of a transaction is appended to a partition, its leader verifies with the transaction coordinator
that the transaction is open and contains the partition (or, from Produce v12 on, has it added). A *guard* is created
with the verification and must be presented with the append. The first append of the transaction removes it, and so does
a marker: a response overtaken by a marker has no effect, and a late batch cannot leave a transaction open forever.

Source: Kafka's VerificationGuard, VerificationStateEntry and ProducerStateManager.
"""

from dataclasses import dataclass
from typing import Final

from kvorum.protocol.batch_header import NO_SEQUENCE


class VerificationGuard:
    """One verification of one producer: only the same object permits the append."""

    __slots__ = ()


UNCHECKED: Final = VerificationGuard()
"""Opens every log: presented while transaction.partition.verification.enable is false."""


@dataclass(slots=True)
class Verification:
    """One producer's, from the verification to the first append or marker.

    `started_ms` (wall) decides when it expires.

    The lowest sequence number is kept: if its batch fails and is retried, no later batch may have been appended in
    between.
    """

    guard: VerificationGuard
    started_ms: int
    lowest_sequence: int
    producer_epoch: int
    supports_epoch_bump: bool
    """The producer ends each transaction with a new epoch (transaction.version 2), which begins at sequence 0."""


class Verifications:
    """Those of one log, by producer id."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        """Start without any."""
        self._by_producer: dict[int, Verification] = {}

    def __len__(self) -> int:
        """Return how many are under way."""
        return len(self._by_producer)

    def begin(
        self, producer_id: int, producer_epoch: int, sequence: int, supports_epoch_bump: bool, now_ms: int
    ) -> VerificationGuard:
        """Return the guard to present with the append; the existing one if the verification was requested before."""
        known = self._by_producer.get(producer_id)
        if known is None:
            guard = VerificationGuard()
            known = Verification(guard, now_ms, sequence, producer_epoch, supports_epoch_bump)
            self._by_producer[producer_id] = known
        elif producer_epoch > known.producer_epoch:
            known.producer_epoch, known.lowest_sequence = producer_epoch, sequence
        elif producer_epoch == known.producer_epoch:
            known.lowest_sequence = min(known.lowest_sequence, sequence)
        return known.guard

    def get(self, producer_id: int) -> Verification | None:
        """Return the verification in progress for a producer."""
        return self._by_producer.get(producer_id)

    def opens(self, producer_id: int, guard: VerificationGuard | None) -> bool:
        """Return whether this guard permits the producer's transaction to begin here."""
        if guard is UNCHECKED:
            return True
        known = self._by_producer.get(producer_id)
        return known is not None and guard is known.guard

    def end(self, producer_id: int) -> None:
        """Invalidate the guard: the transaction has begun here."""
        self._by_producer.pop(producer_id, None)

    def marked(self, producer_id: int, producer_epoch: int) -> None:
        """Invalidate the guard: a marker of this epoch has ended the producer's transaction.

        But a marker of transaction version 2 has the epoch of the *next* transaction, whose first write may have come
        before it: a verification in that epoch continues.
        """
        known = self._by_producer.get(producer_id)
        if known is not None and not (known.supports_epoch_bump and known.producer_epoch >= producer_epoch):
            del self._by_producer[producer_id]

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Discard those without an append."""
        for producer_id, known in list(self._by_producer.items()):
            if now_ms - known.started_ms >= expiration_ms:
                del self._by_producer[producer_id]


def sequence_problem(known: Verification | None, base_sequence: int, is_new_producer: bool) -> str | None:
    """Return why a batch may not begin with this sequence number according to its verification; None if it may."""
    if known is None or base_sequence == NO_SEQUENCE:
        return None
    if known.supports_epoch_bump and is_new_producer and base_sequence != 0:
        return "an unknown producer of transaction version 2 must start at sequence 0"
    if base_sequence > known.lowest_sequence:
        return f"sequence {known.lowest_sequence} was verified but has not been appended yet"
    return None
