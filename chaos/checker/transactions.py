"""Transactions: all values are visible or none, none before its end, and none is open at the end.

torn-transaction: some of a transaction's values are visible at read_committed and others are not, although the reads
passed their positions. All values of a committed one must be visible; of one with unknown outcome all or none; an
aborted one that is visible is an aborted read. open-read: a reader at read_committed got a value of a transaction
before its end had been requested. hanging-transaction: after the final wait, a partition's last stable offset is still
below its high watermark.
"""

from collections.abc import Iterator

from kvorum.chaos.checker.derive import Derivation
from kvorum.chaos.checker.facts import Fact
from kvorum.chaos.checker.logs import Finding
from kvorum.chaos.checker.sends import FAIL, NOWHERE, READ_COMMITTED, READ_FINAL
from kvorum.chaos.history import Stable


def find_torn_transactions(derivation: Derivation, final_reads: bool) -> Iterator[Finding]:
    """Yield transactions that are visible in part.

    The rows of the finding are the missing values.

    A missing value counts if the partition's final reads lack it, or, without final reads, if a known offset is below
    polled ones.
    """
    sends = derivation.sends
    for transaction in derivation.transactions:
        if transaction.outcome == FAIL:
            continue
        visible = [row for row in transaction.rows if sends.read_flags[row] & READ_COMMITTED]
        if not visible or len(visible) == len(transaction.rows):
            continue
        missing = tuple(
            row
            for row in transaction.rows
            if not sends.read_flags[row] & READ_COMMITTED and _must_show(derivation, row, final_reads)
        )
        if missing:
            shown = ", ".join(str(sends.value[row]) for row in visible)
            hidden = ", ".join(str(sends.value[row]) for row in missing)
            reason = f"of the transaction of op {transaction.op}, values {shown} are visible and {hidden} are not"
            index = sends.partition[missing[0]]
            yield Finding("torn-transaction", index, missing, NOWHERE, sends.value[missing[0]], reason)


def _must_show(derivation: Derivation, row: int, final_reads: bool) -> bool:
    """Return whether the reads would have returned this value if it existed."""
    sends = derivation.sends
    partition = derivation.partitions[sends.partition[row]]
    offset = sends.acked_offset[row]
    if partition.final_from_start or (final_reads and partition.final_max != NOWHERE):
        return not sends.read_flags[row] & READ_FINAL
    return offset != NOWHERE and offset < partition.read_max


def open_reads(derivation: Derivation) -> Iterator[Finding]:
    """Yield values that were read at read_committed while their transaction was open."""
    sends = derivation.sends
    for row, (t, op) in sorted(derivation.committed_reads.items()):
        ended = derivation.ended.get(sends.op[row])
        if ended is not None and t < ended:
            value, at = sends.value[row], sends.read_offset[row]
            reason = (
                f"op {op} received value {value} at read_committed by {t:.3f} s, but the end of its transaction (op "
                f"{sends.op[row]}) was requested at {ended:.3f} s"
            )
            yield Finding("open-read", sends.partition[row], (row,), at, value, reason)


def find_hanging_transactions(stable: dict[str, Stable]) -> Iterator[Fact]:
    """Yield partitions whose last stable offset is below the high watermark at the end."""
    for name, event in sorted(stable.items()):
        if event.last_stable_offset < event.high_watermark:
            reason = (
                f"the last stable offset of {name} is {event.last_stable_offset}, its high watermark "
                f"{event.high_watermark}, although all faults have ended: a transaction hangs"
            )
            yield Fact("hanging-transaction", name, None, event.t, reason, ((event.t, "no open transaction expected"),))
