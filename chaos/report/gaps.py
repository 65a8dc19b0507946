"""The one figure for availability that the command, the report and the table print."""

from typing import NamedTuple

from kvorum.chaos.checker.verdict import Figures


class Gap(NamedTuple):
    """The longest time in which a partition had a waiting send and acknowledged none; no partition: no such time."""

    partition: str | None
    seconds: float
    begin: float


def worst_gap(figures: Figures) -> Gap:
    """Return the worst gap while a fault is in force, counted from the fault's begin to the next acknowledgement.

    Waits without a fault, as while clients connect to a cluster that has just started, are no availability gap.
    """
    worst = max(figures.faults, key=lambda fault: fault.unavailable, default=None)
    if worst is None or worst.unavailable_partition is None:
        return Gap(None, 0.0, 0.0)
    return Gap(worst.unavailable_partition, worst.unavailable, worst.unavailable_at)
