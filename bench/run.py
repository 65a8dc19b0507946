"""Runs measures on the systems alternately: A-B-B-A, after a warm-up of each; a stalled run fails, the rest continue.

The clusters of a measure run from its first case to its last, so that JIT and page cache stay warm over all
rounds; the others are idle. A cluster on which a run failed is replaced by a new one.
"""

import contextlib
import dataclasses
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType

from bench.beds import Bed
from bench.own_metrics import Lag, lag_text, lags_between, look
from bench.peer import MEASURES as MEASURES_OF_PEER
from bench.results import MeasureResult, RowResult
from bench.rows import Case, Figures, Measure
from bench.scale import Scale
from bench.stalled import StalledError
from bench.systems import PEER, formatted, tls_settings

FAILURES_MAX = 2
"""The maximum number of failures of a case on a system; then its other rounds are skipped."""
SHOWN_FIGURE_MIN = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Options of the run."""

    kinds: Sequence[str]
    rounds: int = 5
    scale: Scale
    seconds_max: float = 900.0
    """Timeout of one run."""
    warm_up: bool = True
    without_java: str | None = None
    """Reason for skipping cases with Kafka's own tools."""


class Beds:
    """The clusters of a measure, created on first use."""

    def __init__(self, measure: Measure, plan: Plan) -> None:
        self._measure, self._plan = measure, plan
        self._stacks: dict[str, contextlib.ExitStack] = {}
        self._beds: dict[str, Bed] = {}
        self._maxima: dict[str, float] = {}

    def get(self, kind: str) -> Bed:
        """Return a system's bed: prepared, or, if each run is to have a fresh one, formatted."""
        if kind not in self._beds:
            measure = self._measure
            stack = self._stacks[kind] = contextlib.ExitStack()
            settings = {**measure.settings, **tls_settings()} if measure.tls else measure.settings
            system = stack.enter_context(formatted(kind, measure.nodes, settings))
            bed = Bed(kind, system, measure.nodes, self._plan.scale, self._maxima)
            if not measure.fresh:
                system.start()
                system.wait_ready()
                measure.prepare(bed)
            self._beds[kind] = bed
        return self._beds[kind]

    def end(self, kind: str, error: Exception | None = None) -> None:
        """End a system's cluster, if there is one; its logs are kept if it is for an error."""
        self._beds.pop(kind, None)
        with contextlib.suppress(Exception), self._stacks.pop(kind, contextlib.ExitStack()):
            if error is not None:
                raise error

    def close(self) -> None:
        """End all."""
        for kind in tuple(self._stacks):
            self.end(kind)


def run_measure(measure: Measure, plan: Plan, say: Callable[[str], None]) -> MeasureResult:
    """Run all cases of a measure."""
    result = MeasureResult(measure.name, [RowResult(row) for row in measure.rows])
    plan = dataclasses.replace(plan, kinds=kinds_for(measure, plan.kinds))
    began, load = time.time(), os.getloadavg()[0]
    beds = Beds(measure, plan)
    try:
        for case in measure.cases:
            if case.java and plan.without_java:
                result.skipped.append(f"{case.name}: {plan.without_java}")
                say(f"  skipped {result.skipped[-1]}")
            else:
                run_case(measure, case, plan, beds, result, say)
    finally:
        beds.close()
    result.facts |= {
        "rounds": min(plan.rounds, measure.rounds_max),
        "scale": plan.scale.factor,
        "begun": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began)),
        "seconds": round(time.time() - began, 1),
        "load": [round(load, 2), round(os.getloadavg()[0], 2)],
    }
    return result


def kinds_for(measure: Measure, kinds: Sequence[str]) -> list[str]:
    """Return the systems that a measure is for: a peer beside the two has not all that they have."""
    return [kind for kind in kinds if kind != PEER or measure.name in MEASURES_OF_PEER]


def run_case(
    measure: Measure, case: Case, plan: Plan, beds: Beds, result: MeasureResult, say: Callable[[str], None]
) -> None:
    """Warm up, and run the rounds."""
    failures = dict.fromkeys(plan.kinds, 0)
    warm_up = [(0, kind) for kind in plan.kinds] if plan.warm_up and not measure.fresh else []
    for number, kind in (*warm_up, *alternating(plan.kinds, min(plan.rounds, measure.rounds_max))):
        if failures[kind] >= FAILURES_MAX:
            continue
        try:
            with limited(plan.seconds_max):
                bed = beds.get(kind)
                os.sync()  # pending writes of one system must not be written during the other's run
                before = look(bed.system)
                figures = case.run(bed)
                lag = Lag.worst(lags_between(before, look(bed.system)).values())
        except Exception as error:  # any error belongs to this run only: the others continue
            failures[kind] += 1
            result.failures.append(f"{case.name}, round {number}, {kind}: {type(error).__name__}: {error}")
            say(f"  FAILED {result.failures[-1]}")
            beds.end(kind, error)
        else:
            if number:
                result.add(kind, figures)
                result.add_lag(case.name, lag)
            say(result_line(case, number, kind, figures, lag))
            if measure.fresh:
                beds.end(kind)


def alternating(kinds: Sequence[str], rounds: int) -> Iterator[tuple[int, str]]:
    """Return (round, system) from round 1 on: A-B-B-A-A-B, so that what drifts with time falls on both."""
    for number in range(1, rounds + 1):
        for kind in kinds if number % 2 else reversed(kinds):
            yield number, kind


def result_line(case: Case, number: int, kind: str, figures: Figures, lag: Lag | None = None) -> str:
    """Return a line with the results of a run."""
    units = {row.what: row.unit for row in case.rows}
    parts = [
        f"{what.removeprefix(case.name).lstrip(':, ') or 'figure'} "
        f"{figure:,.{0 if figure >= SHOWN_FIGURE_MIN else 3}f} {units[what]}"
        for what, figure in figures.items()
    ]
    which = f"round {number}" if number else "warm-up"
    return f"  {kind:7} {which}: {'; '.join(parts)}{lag_text(lag)}   (load {os.getloadavg()[0]:.2f})"


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Have StalledError raised, wherever the main thread is, after so long."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise StalledError(f"no end after {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
