"""Real-time order of appends: a send that began after another was acknowledged must follow it in the log.

If a client sends and then notifies another, which then sends, the log must have both in that order (linearizable
append). At the begin of each send the derivation stores the highest offset that any client had written or polled by
then; the send, acknowledged or of unknown outcome, must be beyond it.
"""

from collections.abc import Iterator
from heapq import nsmallest

from kvorum.chaos.checker.derive import Derivation
from kvorum.chaos.checker.logs import Finding, Log
from kvorum.chaos.checker.sends import FAIL, NOWHERE


def append_order(derivation: Derivation, logs: list[Log]) -> Iterator[Finding]:
    """Yield sends at or before an offset that was taken before they began.

    The finding's rows are the send, then the record that stood at that offset, if it is known.
    """
    sends = derivation.sends
    earliest: dict[tuple[int, int], list[int]] = {}
    for row in range(len(sends)):
        floor = sends.floor[row]
        if floor == NOWHERE or sends.kind[row] == FAIL:
            continue
        position = sends.position(row)
        if position == NOWHERE or position > floor:
            continue
        index = sends.partition[row]
        known = earliest.get((index, floor))
        if known is None:
            there = (r for r in logs[index].at(floor) if r >= 0)
            known = earliest[index, floor] = nsmallest(2, there, key=sends.evident)  # one of the two is another
        earlier = [r for r in known if r != row and sends.evident(r) <= sends.invoked[row]]
        reason = (
            f"value {sends.value[row]} is at offset {position}, but offset {floor} had been acknowledged or polled "
            f"before it was sent at {sends.invoked[row]:.3f} s"
        )
        yield Finding("realtime-order", index, (row, *earlier[:1]), position, sends.value[row], reason)
