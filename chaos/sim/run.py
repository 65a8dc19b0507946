"""Run one plan of a simulated cluster to its end: boot, load and faults, peace, and the checker's verdict."""

import gc
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b

import msgspec

from kvorum.chaos.checker import check
from kvorum.chaos.history import AnyEvent
from kvorum.chaos.sim.cluster import SimCluster
from kvorum.chaos.sim.cluster_faults import Faults
from kvorum.chaos.sim.convergence import settle
from kvorum.chaos.sim.ledger import Violation
from kvorum.chaos.sim.plan import Plan
from kvorum.chaos.sim.story import told
from kvorum.runtime import logs


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a run did. `kind` and `message` are of the violation, None if there was none."""

    plan: Plan
    kind: str | None
    message: str | None
    at: float
    """Virtual seconds when it ended."""
    events: int
    trace: str
    """A digest of everything that happened: the same plan gives the same."""
    told: list[tuple[float, str]]
    """The faults and what the cluster made of them, in words."""
    counts: dict[str, int] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=dict)
    losses: list[str] = field(default_factory=list)
    cause: str = ""
    """Where an exception of production came from, as Python tells it."""


@contextmanager
def quiet() -> Iterator[None]:
    """Silence production's logs, whose times would be of no use, and the collector, whose moments are nobody's seed."""
    before, collects = logs.get_level(), gc.isenabled()
    logs.set_level(logs.Level.OFF)
    gc.disable()
    try:
        yield
    finally:
        logs.set_level(before)
        if collects:
            gc.enable()


def run_plan(plan: Plan) -> Outcome:
    """Run a plan; a violation is a value of the outcome."""
    with quiet(), warnings.catch_warnings():
        # Processes that died left coroutines behind that never began: Python would warn of each when it is collected.
        warnings.simplefilter("ignore", RuntimeWarning)
        outcome = run_cluster(plan)
        gc.collect()
        return outcome


def run_cluster(plan: Plan) -> Outcome:
    """Build a cluster, run it and sum it up; nothing of it is left behind."""
    cluster = SimCluster(plan)
    faults = Faults(cluster)
    found: Violation | None = None
    try:
        cluster.boot()
        cluster.start_load()
        faults.schedule()
        cluster.run_for(plan.seconds)
        settle(cluster, faults)
        judge(cluster)
    except Violation as violation:
        found = violation
    except AssertionError as error:
        found = Violation("Assertion", str(error))
        found.__cause__ = error
    finally:
        cluster.loop.close()
    return outcome_of(cluster, faults, found)


def judge(cluster: SimCluster) -> None:
    """Have the checker judge the history; what it finds in partitions that lost something legally is explained."""
    verdict = check(cluster.history.events)
    lossy = cluster.lossy_partitions()
    for violation in verdict.violations:
        if violation.partition in lossy:
            continue
        story = " ".join(violation.story[-3:])
        raise Violation(
            f"checker: {violation.anomaly}",
            f"{violation.partition} values {violation.values[:5]}: {violation.reason} {story}",
        )


def outcome_of(cluster: SimCluster, faults: Faults, found: Violation | None) -> Outcome:
    """Sum a run up."""
    return Outcome(
        plan=cluster.plan,
        kind=None if found is None else found.kind,
        message=None if found is None else str(found),
        at=cluster.now(),
        events=cluster.loop.events,
        trace=trace_of(cluster.history.events, cluster.loop.events),
        told=told(cluster.history.events),
        counts=cluster.recorder.counts,
        faults=faults.counts,
        losses=[loss for losses in cluster.lossy_partitions().values() for loss in losses],
        cause=cause_of(found),
    )


def cause_of(found: Violation | None) -> str:
    """Return the traceback of what is behind a violation, as text: the objects in it are let go."""
    cause = None if found is None else found.__cause__
    return "" if cause is None else "".join(traceback.format_exception(cause))


def trace_of(events: list[AnyEvent], count: int) -> str:
    """Return a digest of the whole history and of how many events the loop ran."""
    digest = blake2b(str(count).encode(), digest_size=16)
    encoder = msgspec.json.Encoder()
    for event in events:
        digest.update(encoder.encode(event))
    return digest.hexdigest()
