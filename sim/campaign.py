"""Many seeds in several processes: `python -m sim`, the soak and the acceptance run. Results are plain data.

A seed of kind `cluster` is a whole cluster (see run), one of kind `quorum` the metadata quorum alone (see
quorum_faults), which runs ten times as fast and under wilder networks; one of kind `voters` that, while its voters
change (see quorum_options).
"""

import multiprocessing
import os
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import msgspec

from kvorum.runtime.process import die_with_parent
from sim.draw import draw_plan
from sim.ledger import Violation
from sim.plan import Plan, from_json, to_json
from sim.quorum import QuorumSimulation
from sim.quorum_faults import QuorumRun
from sim.quorum_options import of_voters
from sim.quorum_plan import Kind, QuorumPlan
from sim.run import Outcome, run_plan
from sim.shrink import RUNS_MAX, shrink, shrink_quorum
from sim.story import lines_of

CLUSTER: Final = "cluster"
QUORUM: Final = "quorum"
VOTERS: Final = "voters"
"""The quorum alone, with voters that come and go and move, static at first or dynamic."""
SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Result of one seed. Virtual seconds, seconds of CPU; `story` describes a failure, in lines."""

    kind: str
    seed: int
    virtual_s: float
    cpu_s: float
    acked: int
    faults: dict[str, int]
    losses: int
    """Legal losses: unclean elections, and power failures of all nodes that had the data."""
    failure: str | None = None
    options: str = ""
    story: list[str] = field(default_factory=list)
    schedule: bytes = b""
    """The (shrunk) plan as JSON, where it failed."""


def run_one(job: tuple[str, int], *, seconds: float = SECONDS, shrinks: bool = True) -> Result:
    """Run one seed of a kind; a failure is a value, shrunk if so wished."""
    kind, seed = job
    if kind in (QUORUM, VOTERS):
        fixed = of_voters(seed) if kind == VOTERS else {}
        return quorum_result(QuorumRun(QuorumSimulation(seed, None, **fixed)), kind, shrinks=shrinks)
    return cluster_result(draw_plan(seed, seconds), shrinks=shrinks)


def cluster_result(plan: Plan, *, shrinks: bool) -> Result:
    """Run a plan of a cluster."""
    began = time.process_time()
    outcome = run_plan(plan)
    if outcome.kind is not None and shrinks:
        outcome = shrunk(outcome)
    return Result(
        kind=CLUSTER,
        seed=plan.seed,
        virtual_s=outcome.at,
        cpu_s=time.process_time() - began,
        acked=outcome.counts.get("send ok", 0),
        faults=outcome.faults,
        losses=len(outcome.losses),
        failure=outcome.message,
        options=outcome.plan.options.text(),
        story=[] if outcome.kind is None else [*lines_of(outcome.lines), *outcome.cause.splitlines()],
        schedule=b"" if outcome.kind is None else to_json(outcome.plan),
    )


def shrunk(outcome: Outcome, runs_max: int = RUNS_MAX) -> Outcome:
    """Return the outcome of the smallest plan found that fails alike."""
    assert outcome.kind is not None, "it failed"

    return run_plan(shrink(outcome.plan, outcome.kind, lambda plan: run_plan(plan).kind, runs_max))


def quorum_result(run: QuorumRun, named: str = QUORUM, *, shrinks: bool) -> Result:
    """Run the quorum, by seed or plan; a failure is a value, shrunk if so wished."""
    began = time.process_time()
    error = failure_of(run)
    kind = kind_of(error)
    if kind is not None and shrinks:
        log_class = run.world.options.log_class

        def fails(plan: QuorumPlan) -> str | None:
            return kind_of(failure_of(QuorumRun.of_plan(plan, log_class)))

        small = QuorumRun.of_plan(shrink_quorum(run.plan, kind, fails), log_class)
        again = failure_of(small)
        if kind_of(again) == kind:  # else the plan does not repeat its seed's run, and only the seed is known
            run, error = small, again
    world, plan = run.world, run.plan
    story = [] if error is None else [*lines_of(world.lines), *traceback_of(error)]
    return Result(
        kind=named,
        seed=plan.seed,
        virtual_s=world.now(),
        cpu_s=time.process_time() - began,
        acked=world.acked,
        faults=world.faults,
        losses=0,
        failure=None if error is None else f"{type(error).__name__}: {error}",
        options=plan.options.text(),
        story=story,
        schedule=b"" if error is None else msgspec.json.format(msgspec.json.encode(plan), indent=1) + b"\n",
    )


def failure_of(run: QuorumRun) -> Exception | None:
    """Run the quorum to its end; return the violation."""
    try:
        run.run()
    except Exception as error:  # any failure of a seed counts
        return error
    return None


def kind_of(error: Exception | None) -> str | None:
    """Return the name of the violation: the invariant's, or the exception's."""
    if error is None:
        return None
    return error.kind if isinstance(error, Violation) else type(error).__name__


def traceback_of(error: Exception) -> list[str]:
    """Return the source of an exception that no invariant raised, with its notes."""
    notes = [f"  {note}" for note in getattr(error, "__notes__", [])]
    return notes if isinstance(error, Violation) else [*notes, *"".join(traceback.format_exception(error)).splitlines()]


def read_plan(data: bytes) -> Plan | QuorumPlan:
    """Read a saved plan of either kind. Raises msgspec.ValidationError, msgspec.DecodeError."""
    kind = msgspec.json.decode(data, type=Kind).kind
    return msgspec.json.decode(data, type=QuorumPlan) if kind == QUORUM else from_json(data)


def plan_result(plan: Plan | QuorumPlan, *, shrinks: bool = False) -> Result:
    """Run a plan of either kind."""
    if isinstance(plan, QuorumPlan):
        return quorum_result(QuorumRun.of_plan(plan), shrinks=shrinks)
    return cluster_result(plan, shrinks=shrinks)


class Tally:
    """Adds results up."""

    def __init__(self) -> None:
        """Begin at nothing, now."""
        self.began = time.monotonic()
        self.seeds = 0
        self.virtual_s = 0.0
        self.cpu_s = 0.0
        self.acked = 0
        self.losses = 0
        self.faults: Counter[str] = Counter()
        self.failures: list[Result] = []

    def add(self, result: Result) -> None:
        """Add one."""
        self.seeds += 1
        self.virtual_s += result.virtual_s
        self.cpu_s += result.cpu_s
        self.acked += result.acked
        self.losses += result.losses
        self.faults.update(result.faults)
        if result.failure is not None:
            self.failures.append(result)

    def line(self) -> str:
        """Print the progress."""
        took = max(time.monotonic() - self.began, 1e-3)
        return (
            f"{self.seeds} seeds, {self.seeds / took:.2f}/s, {self.virtual_s / 3600:.2f} virtual h "
            f"({self.virtual_s / max(self.cpu_s, 1e-3):.0f} x a core's time), {self.acked} acknowledged, "
            f"{sum(self.faults.values())} faults, {self.losses} legal losses, {len(self.failures)} violations"
        )

    def faults_line(self) -> str:
        """Print the number of faults of each kind."""
        return ", ".join(f"{name} {count}" for name, count in sorted(self.faults.items()))


def jobs_of(kinds: Iterable[str], seeds: Iterable[int]) -> Iterator[tuple[str, int]]:
    """Go over all jobs, seed by seed."""
    kinds = tuple(kinds)
    return ((kind, seed) for seed in seeds for kind in kinds)


def run_campaign(
    jobs: Iterable[tuple[str, int]],
    on_result: Callable[[Result], bool],
    *,
    workers: int,
    seconds: float = SECONDS,
    shrinks: bool = True,
) -> None:
    """Run jobs in order with `workers` processes; `on_result` gets each result and returns whether to continue."""
    work = partial(run_one, seconds=seconds, shrinks=shrinks)
    if workers == 1:
        for job in jobs:
            if not on_result(work(job)):
                return
        return
    with multiprocessing.get_context("spawn").Pool(workers, die_with_parent, (os.getpid(),)) as pool:
        for result in pool.imap_unordered(work, jobs):
            if not on_result(result):
                return
