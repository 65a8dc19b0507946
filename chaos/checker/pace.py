"""Results of operations over time, in a bounded number of buckets whose width grows with the run."""

from typing import Final, Literal, TypeAlias

from kvorum.chaos.checker.verdict import Pace

BUCKETS_MAX: Final = 240
"""The maximum number of buckets of a run: a few pixels each on a screen."""
WIDTH_MIN: Final = 0.05
"""Seconds of a bucket, of a run that is short enough."""

Kind: TypeAlias = Literal["ok", "fail", "info"]


class PaceCounter:
    """Counts the ends of operations. Times are seconds since the start of the run; any order is accepted."""

    def __init__(self) -> None:
        """Create it without operations."""
        self._width = WIDTH_MIN
        self._counts: dict[str, list[int]] = {"ok": [], "fail": [], "info": []}

    def take(self, t: float, kind: Kind) -> None:
        """Count the end of an operation."""
        at = int(max(t, 0.0) / self._width)
        while at >= BUCKETS_MAX:
            self._widen()
            at = int(max(t, 0.0) / self._width)
        counts = self._counts[kind]
        if at >= len(counts):
            counts.extend([0] * (at + 1 - len(counts)))
        counts[at] += 1

    def pace(self) -> Pace:
        """Return the counts; the lists of all kinds have the same length."""
        length = max(map(len, self._counts.values()))
        ok, fail, info = (each + [0] * (length - len(each)) for each in self._counts.values())
        return Pace(width=self._width, ok=ok, fail=fail, info=info)

    def _widen(self) -> None:
        """Make one bucket of two."""
        self._width *= 2
        for kind, counts in self._counts.items():
            self._counts[kind] = [sum(counts[at : at + 2]) for at in range(0, len(counts), 2)]
