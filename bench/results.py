"""The figures of a run as they are kept: build/bench/results.json, from which tables and plots are made.

{"kvorum": commit, "kafka": version, "machine": ..., "limits": {what: figure},
 "measures": [{"name", "commit", "machine", "rounds", "scale", "begun", "seconds", "load": [before, after],
               "rows": [{"what", "unit", "better", "of", "must", "aim", "runs": {system: [figure, ...]}}, ...],
               "peer": its name and version, if one was measured beside the two,
               "event_loop_lag": {case: [[p99, greatest], ...]},
               "failures": [...], "skipped": [...]}, ...]}
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.own_metrics import Lag
from bench.rows import Row, reached, value_of
from bench.systems import PEER

Json = dict[str, Any]


@dataclass(slots=True)
class RowResult:
    """A row and its runs."""

    row: Row
    runs: dict[str, list[float]] = field(default_factory=dict)

    @property
    def own(self) -> Sequence[float]:
        """Kvorum's figures."""
        return self.runs.get("kvorum", ())

    @property
    def other(self) -> Sequence[float]:
        """Apache Kafka's."""
        return self.runs.get("kafka", ())

    @property
    def peer(self) -> Sequence[float]:
        """Those of a peer beside the two, which no ratio is of."""
        return self.runs.get(PEER, ())

    @property
    def value(self) -> float | None:
        """The figure that is compared with must and aim."""
        return value_of(self.row.of, self.own, self.other)

    @property
    def ratio(self) -> float | None:
        """Kvorum's median over Apache Kafka's."""
        return value_of("ratio", self.own, self.other)

    @property
    def reached(self) -> str:
        """See bench.rows."""
        return reached(self.row, self.value)


@dataclass(slots=True)
class MeasureResult:
    """A measure and its results."""

    name: str
    rows: list[RowResult]
    facts: Json = field(default_factory=dict)
    """Commit, machine, rounds, scale, times, load: measures of one file may be of several days."""
    event_loop_lag: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    """{case: (p99, greatest) of each run}, in ms, the worst of Kvorum's processes, one that is new since its start."""
    failures: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def add(self, kind: str, figures: Mapping[str, float]) -> None:
        """Add the figures of a run."""
        for found in self.rows:
            if found.row.what in figures:
                found.runs.setdefault(kind, []).append(figures[found.row.what])

    def add_lag(self, case: str, lag: Lag | None) -> None:
        """Add the event loop delays of a run, if known."""
        if lag is not None:
            self.event_loop_lag.setdefault(case, []).append((lag.p99_ms, lag.greatest_ms))


@dataclass(slots=True)
class Results:
    """All of it."""

    facts: Json = field(default_factory=dict)
    """Machine and versions."""
    limits: dict[str, float] = field(default_factory=dict)
    """Limits of the machine; see bench.limits."""
    measures: list[MeasureResult] = field(default_factory=list)

    def put(self, result: MeasureResult, order: Sequence[str]) -> None:
        """Replace an older result of the measure."""
        kept = [each for each in self.measures if each.name != result.name]
        self.measures = sorted([*kept, result], key=lambda each: order.index(each.name) if each.name in order else -1)

    def of(self, name: str) -> MeasureResult:
        """Return a measure's result."""
        return next(each for each in self.measures if each.name == name)

    @property
    def rows(self) -> list[RowResult]:
        """All rows."""
        return [row for measure in self.measures for row in measure.rows]

    @property
    def failures(self) -> list[str]:
        """All that came to nothing."""
        return [failure for measure in self.measures for failure in measure.failures]


def write(results: Results, path: Path) -> None:
    """Write them, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(encoded(results), indent=1) + "\n")
    partial.replace(path)


def encoded(results: Results) -> Json:
    """Return them as JSON."""
    measures = [
        {
            "name": measure.name,
            **measure.facts,
            "rows": [row_encoded(row) for row in measure.rows],
            "event_loop_lag": measure.event_loop_lag,
            "failures": measure.failures,
            "skipped": measure.skipped,
        }
        for measure in results.measures
    ]
    return {**results.facts, "limits": results.limits, "measures": measures}


def row_encoded(found: RowResult) -> Json:
    """Return a row as JSON."""
    row = found.row
    named = {"what": row.what, "unit": row.unit, "better": row.better, "of": row.of, "must": row.must, "aim": row.aim}
    return {**named, "ratio": found.ratio, "reached": found.reached, "runs": found.runs}


def read(path: Path) -> Results:
    """Read what `write` wrote."""
    body = json.loads(path.read_text())
    measures = [measure_decoded(each) for each in body.pop("measures")]
    return Results(limits=body.pop("limits"), measures=measures, facts=body)


def measure_decoded(body: Json) -> MeasureResult:
    """Return a measure from its JSON."""
    return MeasureResult(
        name=body.pop("name"),
        rows=[row_decoded(each) for each in body.pop("rows")],
        event_loop_lag={
            case: [(p99, most) for p99, most in runs] for case, runs in body.pop("event_loop_lag", {}).items()
        },
        failures=body.pop("failures"),
        skipped=body.pop("skipped"),
        facts=body,
    )


def row_decoded(body: Json) -> RowResult:
    """Return a row from its JSON."""
    row = Row(**{key: body[key] for key in ("what", "unit", "better", "of", "must", "aim")})
    return RowResult(row, body["runs"])
