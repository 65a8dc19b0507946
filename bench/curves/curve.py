"""A curve: the measurement at each x value, its clusters, and the format of its stored points.

{"kvorum": commit, "machine": ..., "scale": factor, "name", "title", "x", "series": [{"name", "unit"}, ...],
 "points": [{"system", "x", "runs": {series: [figure, ...]}}, ...], "failures": [...]}
"""

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.beds import Bed
from bench.scale import Scale
from bench.svg import Panel, Points, drawing

NO_SETTINGS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A measured series: one panel of the drawing."""

    name: str
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A curve's measurement. `run` gets a cluster and an x value and returns a figure for each series."""

    name: str
    title: str
    x: str
    places: Sequence[int]
    series: tuple[Series, ...]
    run: Callable[[Bed, int], Mapping[str, float]]
    nodes: Callable[[int], int] = lambda place: 1
    """Number of the cluster's nodes at an x value: another number needs another cluster."""
    settings: Mapping[str, str] = field(default_factory=dict)
    scaled: bool = False
    """Whether the places are counts that a smaller scale makes smaller."""
    fresh: bool = False
    """Whether each x value has its own cluster, without state of the previous one."""
    kinds: tuple[str, ...] = ("kvorum", "kafka")

    def places_at(self, scale: Scale) -> list[int]:
        """Return the places, rising."""
        return sorted({scale.count(place) for place in self.places}) if self.scaled else list(self.places)


@dataclass(slots=True)
class Drawn:
    """A curve's points, as they come."""

    curve: Curve
    facts: Mapping[str, object]
    runs: dict[tuple[str, int], dict[str, list[float]]] = field(default_factory=dict)
    """{(system, place): {series: one figure a run}}."""
    failures: list[str] = field(default_factory=list)

    def add(self, kind: str, place: int, figures: Mapping[str, float]) -> None:
        """Add a run's figures."""
        found = self.runs.setdefault((kind, place), {})
        for series in self.curve.series:
            found.setdefault(series.name, []).append(figures[series.name])

    def line(self, kind: str, series: str) -> Points:
        """Return the medians of a system."""
        found = sorted((place, each[series]) for (system, place), each in self.runs.items() if system == kind)
        return [(place, statistics.median(figures)) for place, figures in found]

    def write(self, folder: Path) -> None:
        """Write NAME.json and NAME.svg."""
        folder.mkdir(parents=True, exist_ok=True)
        curve = self.curve
        points = [{"system": kind, "x": place, "runs": runs} for (kind, place), runs in sorted(self.runs.items())]
        body = {
            **self.facts,
            "name": curve.name,
            "title": curve.title,
            "x": curve.x,
            "series": [{"name": each.name, "unit": each.unit} for each in curve.series],
            "points": points,
            "failures": self.failures,
        }
        (folder / f"{curve.name}.json").write_text(json.dumps(body, indent=1) + "\n")
        (folder / f"{curve.name}.svg").write_text(self.svg())

    def svg(self) -> str:
        """Draw it."""
        kinds = sorted({kind for kind, _ in self.runs}, reverse=True)
        panels = [
            Panel(
                title=series.name,
                x=self.curve.x,
                y=series.unit,
                lines={kind: self.line(kind, series.name) for kind in kinds},
            )
            for series in self.curve.series
        ]
        return drawing(self.curve.title, panels)
