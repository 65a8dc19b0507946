"""Lost values.

lost-write (Jepsen): a value that was certainly committed is missing although the reads passed its position. If the
final reads started at the beginning they decide: they must contain values polled earlier. Otherwise the bound is the
highest first position of a polled value, compared with the last position of the missing one, so that conflicting
offsets alone never cause a loss. A value that was polled once and is beyond the end of the final reads is also lost.
unseen: acknowledged, never polled, and beyond the end of all reads, or without a known position: a lost tail, a stale
or a stuck consumer. It needs a final phase.
"""

from collections.abc import Iterator

from kvorum.chaos.checker.derive import Derivation
from kvorum.chaos.checker.logs import Finding
from kvorum.chaos.checker.partitions import Partition
from kvorum.chaos.checker.sends import NOWHERE, OK, READ_COMMITTED, READ_FINAL, READ_OK


def find_lost_values(derivation: Derivation, partition: Partition, committed: bytearray) -> Iterator[Finding]:
    """Yield values that must have committed and are missing; each finding has one row."""
    sends = derivation.sends
    final = partition.final_from_start
    needed = READ_FINAL if final else READ_OK
    elsewhere: dict[int, list[int]] = {}
    for row, offset in partition.elsewhere:
        elsewhere.setdefault(row, []).append(offset)
    bound = partition.final_max if final else _first_place_max(derivation, partition, elsewhere)
    for row in partition.writers.values():
        if not committed[row] or sends.read_flags[row] & needed:
            continue
        value = sends.value[row]
        places = [*elsewhere.get(row, ()), sends.acked_offset[row], sends.read_offset[row]]
        last = max(places)
        if last != NOWHERE and last <= bound:
            before = f", where op {sends.first_reader[row]} had polled it" if sends.read_offset[row] != NOWHERE else ""
            what = "the final reads" if final else "the reads"
            reason = f"value {value} at offset {last}{before} is missing: {what} reached offset {bound} without it"
            yield Finding("lost-write", partition.index, (row,), last, value, reason)
        elif derivation.final_reads and sends.kind[row] != OK:
            wanted = READ_COMMITTED if sends.transactional[row] else READ_OK
            if final and sends.read_flags[row] & wanted:  # else it is of unknown outcome, and may have been anywhere
                reason = (
                    f"value {value} is missing at offset {last}, where op {sends.first_reader[row]} had polled it: "
                    f"the final reads {_reach(bound)}"
                )
                yield Finding("lost-write", partition.index, (row,), last, value, reason)
        elif derivation.final_reads:
            where = f"offset {last}" if last != NOWHERE else "an unknown offset"
            reason = (
                f"value {value} was acknowledged at {where} but not found at the end: the final reads {_reach(bound)}"
            )
            yield Finding("unseen", partition.index, (row,), last, value, reason)


def _reach(bound: int) -> str:
    return f"reached offset {bound}" if bound != NOWHERE else "returned no record of this partition"


def _first_place_max(derivation: Derivation, partition: Partition, elsewhere: dict[int, list[int]]) -> int:
    """Return the highest of the lowest offsets of the values that were polled."""
    sends = derivation.sends
    highest = NOWHERE
    for row in partition.writers.values():
        if not sends.read_flags[row] & READ_OK:
            continue
        first = sends.read_offset[row]
        acked = sends.acked_offset[row]
        if acked != NOWHERE and acked < first:
            first = acked
        if row in elsewhere:
            first = min(first, *elsewhere[row])
        if first > highest:
            highest = first
    return highest
