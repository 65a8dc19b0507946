"""Run one plan of a simulated cluster to its end: boot, load and faults, peace, the checker's verdict, and a stop."""

import gc
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from random import Random
from typing import Final

import msgspec

from kvorum.chaos import checker
from kvorum.chaos.checker import check
from kvorum.chaos.history import AnyEvent, Ok
from kvorum.runtime import logs
from sim.cluster import SimCluster
from sim.cluster_faults import Faults
from sim.convergence import settle
from sim.coordination import SINK, SOURCE
from sim.ledger import Violation
from sim.plan import Plan
from sim.shutdown import stop_drawn
from sim.story import event_lines

OF_COORDINATORS: Final = frozenset(
    {
        *("two-owners", "stale-commit", "offset-lost", "aborted-offset", "open-offset", "unknown-offset"),
        *("offset-regression", "processed-twice", "never-processed", "copy-order", "bank-sum", "torn-transaction"),
        *("open-read", "hanging-transaction", "aborted-read"),
    }
)
"""The checker's names for broken guarantees of groups and transactions, which a legal loss may cause."""
ABSENCES: Final = frozenset({"lost-write", "unseen", "missing-on-replica"})
"""Findings of the checker about missing records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Outcome of a run. `kind` and `message` are those of the violation, None without one."""

    plan: Plan
    kind: str | None
    message: str | None
    at: float
    """Virtual seconds when it ended."""
    events: int
    trace: str
    """A digest of everything that happened: the same plan gives the same."""
    lines: list[tuple[float, str]]
    """The faults and the cluster's events, in words."""
    counts: dict[str, int] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=dict)
    losses: list[str] = field(default_factory=list)
    cause: str = ""
    """Traceback of an exception of production code."""


@contextmanager
def quiet() -> Iterator[None]:
    """Silence production's logs, whose times would be useless, and the garbage collector, which ignores the seed."""
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
    with closing(cluster.loop), faults.crash_points.observe(), logs.observe_unexpected(cluster.record_unexpected):
        return outcome_of(cluster, faults, violation_of(cluster, faults))


def violation_of(cluster: SimCluster, faults: Faults) -> Violation | None:
    """Run a cluster to its end; return the violation, None without one."""
    try:
        cluster.boot()
        cluster.start_load()
        faults.schedule()
        cluster.run_for(cluster.plan.seconds)
        settle(cluster, faults)
        judge(cluster)
        stop_drawn(cluster, Random(f"{cluster.plan.seed} stop"))
    except Violation as violation:
        return violation
    except AssertionError as error:
        found = Violation("Assertion", str(error))
        found.__cause__ = error
        return found
    return None


def judge(cluster: SimCluster) -> None:
    """Run the checker on the history; of its findings only possible losses are permitted."""
    for violation in check(cluster.history.events, values_max=sys.maxsize).violations:
        if may_be_gone(cluster, violation):
            continue
        story = " ".join(violation.story[-3:])
        raise Violation(
            f"checker: {violation.anomaly}",
            f"{violation.partition} values {violation.values[:5]}: {violation.reason} {story}",
        )


def may_be_gone(cluster: SimCluster, violation: checker.Violation) -> bool:
    """Whether all missing records were where deletion is permitted, by DeleteRecords or retention, or lost legally.

    The ledgers know more legal losses than a history, such as unsynced data of a disk.
    """
    partition = violation.partition
    theirs = violation.anomaly in OF_COORDINATORS or (partition or "").rpartition("-")[0] in (SOURCE, SINK)
    if theirs and cluster.has_coordination_losses():
        return True
    if partition is None or violation.anomaly not in ABSENCES or violation.count > len(violation.values):
        return False
    begins_at, lost_from = cluster.begins_at(partition), cluster.first_lost_offset(partition)
    offsets = offsets_of(cluster.history.events, partition)
    for value in violation.values:
        offset = offsets.get(value)
        if offset is None:  # a value without a returned offset (a duplicate's) may have been there
            if not begins_at and lost_from is None:
                return False
        elif offset >= begins_at and (lost_from is None or offset < lost_from):
            return False
    return True


def offsets_of(events: list[AnyEvent], partition: str) -> dict[int, int]:
    """Return where the values of a partition were, by what producers were answered and consumers saw."""
    found: dict[int, int] = {}
    for event in events:
        if isinstance(event, Ok) and event.f in ("send", "poll"):
            for each in event.value:
                if not isinstance(each, list):
                    continue
                if each[0] == "send" and each[1] == partition and len(each) > 3:
                    value, offset = each[2:4]
                    if isinstance(value, int) and isinstance(offset, int):
                        found[value] = offset
                elif each[0] == "poll" and isinstance(each[1], dict):
                    found.update((record[1], record[0]) for record in each[1].get(partition, ()))
    return found


def outcome_of(cluster: SimCluster, faults: Faults, found: Violation | None) -> Outcome:
    """Sum a run up."""
    return Outcome(
        plan=cluster.plan,
        kind=None if found is None else found.kind,
        message=None if found is None else str(found),
        at=cluster.now(),
        events=cluster.loop.events,
        trace=trace_of(cluster.history.events, cluster.loop.events),
        lines=event_lines(cluster.history.events),
        counts=cluster.recorder.counts,
        faults=faults.counts,
        losses=[loss for losses in cluster.lossy_partitions().values() for loss in losses],
        cause=cause_of(found),
    )


def cause_of(found: Violation | None) -> str:
    """Return the traceback of a violation's cause, as text: its objects are released."""
    cause = None if found is None else found.__cause__
    return "" if cause is None else "".join(traceback.format_exception(cause))


def trace_of(events: list[AnyEvent], count: int) -> str:
    """Return a digest of the whole history and of how many events the loop ran."""
    digest = blake2b(str(count).encode(), digest_size=16)
    encoder = msgspec.json.Encoder()
    for event in events:
        digest.update(encoder.encode(event))
    return digest.hexdigest()
