"""How operations ended as time went by: counted in buckets that grow with the run, so that there are never many."""

from typing import Final, Literal, TypeAlias

from kvorum.chaos.checker.verdict import Pace

BUCKETS_MAX: Final = 240
"""Of a run, however long: a few pixels each, on a screen."""
WIDTH_MIN: Final = 0.05
"""Seconds of a bucket, of a run that is short enough."""

Kind: TypeAlias = Literal["ok", "fail", "info"]


class Paced:
    """Takes the end of every operation. Times are seconds since the run began; the order does not matter."""

    def __init__(self) -> None:
        """Begin with nothing ended."""
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
        """Return what was counted, each kind for as long as any."""
        length = max(map(len, self._counts.values()))
        ok, fail, info = (each + [0] * (length - len(each)) for each in self._counts.values())
        return Pace(width=self._width, ok=ok, fail=fail, info=info)

    def _widen(self) -> None:
        """Make one bucket of two."""
        self._width *= 2
        for kind, counts in self._counts.items():
            self._counts[kind] = [sum(counts[at : at + 2]) for at in range(0, len(counts), 2)]
