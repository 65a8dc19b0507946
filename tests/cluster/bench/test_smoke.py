"""Every measure of `make bench` on Kvorum alone, as small as it gets: that each row comes to a figure, not to which.

Measures whose cluster stays up share one of each size, with the settings of all of them. Of cases that differ in
numbers alone one is run, and at least one of each measure.
"""

import contextlib
import math
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from bench import tools
from bench.beds import Bed
from bench.registry import MEASURES
from bench.rows import Case, Measure
from bench.run import limited
from bench.scale import Scale
from bench.systems import formatted, tls_settings

SCALE = Scale(0.001)
SECONDS_MAX = 120.0
QUICK = {"group.initial.rebalance.delay.ms": "0"}
"""New groups do not wait for more members."""
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A JVM that lives for a second is not worth the better compiler."""

SHORT = {"produce-0", "consume-0", "start-0"}
"""The measures of the default run; the others are long."""

BedOf = Callable[[Measure], contextlib.AbstractContextManager[Bed]]


def cases() -> Iterator[object]:
    """Yield (measure, case), named after both."""
    seen = set()
    for measure in MEASURES:
        for number, case in enumerate(measure.cases):
            function = case.run.func if isinstance(case.run, partial) else case.run
            what = function.__module__, function.__qualname__
            if what not in seen or not number:
                seen.add(what)
                name = f"{measure.name}-{number}"
                yield pytest.param(measure, case, id=name, marks=() if name in SHORT else pytest.mark.long)


@pytest.fixture(scope="module")
def bed_of() -> Iterator[BedOf]:
    """Return what gives a measure its cluster: one of its own, not started, or the one of its size."""
    shared: dict[tuple[int, bool], Bed] = {}
    with contextlib.ExitStack() as stack:
        stack.enter_context(pytest.MonkeyPatch.context()).setenv("JAVA_TOOL_OPTIONS", QUICK_JAVA)

        @contextlib.contextmanager
        def bed_for(measure: Measure) -> Iterator[Bed]:
            if measure.fresh:
                with formatted("kvorum", measure.nodes, {**measure.settings, **QUICK}) as system:
                    yield Bed("kvorum", system, measure.nodes, SCALE)
                return
            key = measure.nodes, measure.tls
            if key not in shared:
                alike = [each for each in MEASURES if (each.nodes, each.tls) == key and not each.fresh]
                settings = {**QUICK, **(tls_settings() if measure.tls else {})}
                for each in alike:
                    settings |= each.settings
                system = stack.enter_context(formatted("kvorum", measure.nodes, settings))
                system.start()
                system.wait_ready()
                shared[key] = Bed("kvorum", system, measure.nodes, SCALE)
            yield shared[key]

        yield bed_for


@pytest.mark.parametrize(("measure", "case"), list(cases()))
def test_each_row_gets_a_figure(measure: Measure, case: Case, bed_of: BedOf) -> None:
    if case.java and (reason := tools.missing(fetch=False)):
        pytest.skip(reason)
    with limited(SECONDS_MAX), bed_of(measure) as bed:
        figures = case.run(bed)
    assert set(figures) == {row.what for row in case.rows}
    assert all(math.isfinite(figure) and figure >= 0 for figure in figures.values()), figures
