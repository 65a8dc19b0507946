"""Many seeds in several processes: `kvorum sim`, the soak and the acceptance run. Results are plain data.

A seed of kind `cluster` is a whole cluster (see run), one of kind `quorum` the metadata quorum alone (see
quorum_faults), which runs ten times as fast and under wilder networks.
"""

import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from kvorum.chaos.sim.loop import START_S
from kvorum.chaos.sim.plan import Plan, drawn, to_json
from kvorum.chaos.sim.quorum_faults import run_seed
from kvorum.chaos.sim.run import Outcome, run_plan
from kvorum.chaos.sim.shrink import RUNS_MAX, shrink
from kvorum.chaos.sim.story import lines_of

CLUSTER: Final = "cluster"
QUORUM: Final = "quorum"
SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one seed did. Virtual seconds, seconds of CPU; `story` is of a failure, in lines."""

    kind: str
    seed: int
    virtual_s: float
    cpu_s: float
    acked: int
    faults: dict[str, int]
    losses: int
    """Legal losses: unclean elections, and power lost by all who had the data."""
    failure: str | None = None
    options: str = ""
    story: list[str] = field(default_factory=list)
    schedule: bytes = b""
    """The (shrunk) plan as JSON, where it failed."""


def run_one(job: tuple[str, int], *, seconds: float = SECONDS, shrinks: bool = True) -> Result:
    """Run one seed of a kind; a failure is a value, shrunk if so wished."""
    kind, seed = job
    return quorum_result(seed) if kind == QUORUM else cluster_result(drawn(seed, seconds), shrinks=shrinks)


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
        options=outcome.plan.options.told(),
        story=[] if outcome.kind is None else [*lines_of(outcome.told), *outcome.cause.splitlines()],
        schedule=b"" if outcome.kind is None else to_json(outcome.plan),
    )


def shrunk(outcome: Outcome, runs_max: int = RUNS_MAX) -> Outcome:
    """Return the outcome of the smallest plan found that fails alike."""
    assert outcome.kind is not None, "it failed"

    return run_plan(shrink(outcome.plan, outcome.kind, lambda plan: run_plan(plan).kind, runs_max))


def quorum_result(seed: int) -> Result:
    """Run a seed of the quorum."""
    began = time.process_time()
    try:
        world = run_seed(seed)
    except Exception as error:  # any failure of a seed is what is looked for
        return Result(
            kind=QUORUM,
            seed=seed,
            virtual_s=0.0,
            cpu_s=time.process_time() - began,
            acked=0,
            faults={},
            losses=0,
            failure=f"{type(error).__name__}: {error}",
            story=[f"  {note}" for note in getattr(error, "__notes__", [])],
        )
    return Result(
        kind=QUORUM,
        seed=seed,
        virtual_s=world.loop.time() - START_S,
        cpu_s=time.process_time() - began,
        acked=world.acked,
        faults=world.faults,
        losses=0,
    )


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
        """Say where things stand."""
        took = max(time.monotonic() - self.began, 1e-3)
        return (
            f"{self.seeds} seeds, {self.seeds / took:.2f}/s, {self.virtual_s / 3600:.2f} virtual h "
            f"({self.virtual_s / max(self.cpu_s, 1e-3):.0f} x a core's time), {self.acked} acknowledged, "
            f"{sum(self.faults.values())} faults, {self.losses} legal losses, {len(self.failures)} violations"
        )

    def faults_line(self) -> str:
        """Say how many faults of each kind there were."""
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
    """Run jobs in order, `workers` at a time; `on_result` is told of each and returns whether to go on."""
    work = partial(run_one, seconds=seconds, shrinks=shrinks)
    if workers == 1:
        for job in jobs:
            if not on_result(work(job)):
                return
        return
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        for result in pool.imap_unordered(work, jobs):
            if not on_result(result):
                return
