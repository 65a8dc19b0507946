"""Definition of measured figures: name, unit, direction and targets.

A ratio is always Kvorum's median divided by Apache Kafka's: if more is better it must be at least `must`, else at most.
With `of` "own" Kvorum's own median is compared with the same two numbers.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from bench.beds import Bed

Figures = Mapping[str, float]
"""{a row's `what`: its figure in one run}."""
Better = Literal["more", "less"]
Of = Literal["ratio", "own"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table. `what` is its unique name."""

    what: str
    unit: str
    better: Better
    must: float | None = None
    """None: it is reported without a target."""
    aim: float | None = None
    of: Of = "ratio"


def more(what: str, unit: str, must: float | None = None, aim: float | None = None, of: Of = "ratio") -> Row:
    """Return a row of which more is better."""
    return Row(what=what, unit=unit, better="more", must=must, aim=aim, of=of)


def less(what: str, unit: str, must: float | None = None, aim: float | None = None, of: Of = "ratio") -> Row:
    """Return a row of which less is better."""
    return Row(what=what, unit=unit, better="less", must=must, aim=aim, of=of)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The work of one run, and the rows for which it has a figure."""

    name: str
    rows: tuple[Row, ...]
    run: Callable[[Bed], Figures]
    java: bool = False
    """Whether its client is one of Kafka's own tools."""


def nothing(bed: Bed) -> None:
    """Prepare nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """Cases that are run on clusters made alike.

    `fresh`: each run has a new cluster, formatted and not started, and there is no warm-up. Otherwise both clusters
    stay up from the first case to the last, and each case is run once on both before it counts.
    """

    name: str
    cases: tuple[Case, ...]
    nodes: int = 1
    settings: Mapping[str, str]
    """Configs of every node, in addition to the system's defaults."""
    tls: bool = False
    """Whether clients and brokers connect by TLS."""
    prepare: Callable[[Bed], None] = nothing
    """Called on each cluster that is not fresh, as soon as it is ready."""
    fresh: bool = False
    rounds_max: int = 1_000
    """For what takes long and hardly differs from one run to the next."""

    @property
    def rows(self) -> tuple[Row, ...]:
        """All rows, in their order."""
        return tuple(row for case in self.cases for row in case.rows)


def value_of(of: Of, own: Sequence[float], other: Sequence[float]) -> float | None:
    """Return the figure that is compared with must and aim; None if it is unknown."""
    if not own or (of == "ratio" and not other):
        return None
    if of == "own":
        return statistics.median(own)
    reference = statistics.median(other)
    return statistics.median(own) / reference if reference else None


def holds(value: float, limit: float, better: Better) -> bool:
    """Return whether a value is as good as a limit."""
    return value >= limit if better == "more" else value <= limit


def reached(row: Row, value: float | None) -> str:
    """Return the reached target: "aim", "must", "no"; "-" without a target or a figure."""
    if value is None or row.must is None:
        return "-"
    if row.aim is not None and holds(value, row.aim, row.better):
        return "aim"
    return "must" if holds(value, row.must, row.better) else "no"


def spread(figures: Sequence[float]) -> float:
    """Return the spread of the runs, as a share of their median."""
    middle = statistics.median(figures)
    return (max(figures) - min(figures)) / abs(middle) if middle else 0.0
