"""Starts of simulated brokers that are interrupted at a step: drawn, carried out, and a mistake that they find."""

import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from random import Random

import msgspec
import pytest

from kvorum.protocol.records import Record, build_batch
from kvorum.storage.log_dir import LogDir
from kvorum.storage.names import parse_folder
from sim.cluster import SimCluster
from sim.cluster_faults import Faults
from sim.convergence import settle
from sim.draw import draw_plan
from sim.interrupted_starts import INTERRUPTIONS, START_CUT, add_interrupted_starts
from sim.ledger import Violation
from sim.plan import Fault, Options, Plan, draw_options, from_json, to_json
from sim.run import Outcome, quiet, run_plan

TORN = bytes(build_batch([Record(value=b"torn" * 100, timestamp=1)]))[:200]


def stage(**fixed: object) -> Options:
    """Three quiet brokers, a topic of two partitions on all, written to all the time."""
    options = draw_options(Random(4))
    load = msgspec.structs.replace(
        options.load, producers=[(-1, True)], consumers=1, every_s=0.05, admin_every_s=1000.0, burst_s=0.0
    )
    base: dict[str, object] = {
        **{"controllers": 1, "brokers": 3, "combined": False, "partitions": 2, "replication_factor": 3, "min_isr": 2},
        **{"delay_max_s": 0.001, "load": load, "fault_kinds": ["power"], "unclean": False, "elr": True},
        **{"flush": False, "fast_fencing": True, "session_timeout_ms": 600, "heartbeat_interval_ms": 120},
    }
    return msgspec.structs.replace(options, **{**base, **fixed})


def run(end: str, interruption: str, steps: range) -> Outcome:
    """One broker after the other, each interrupted a few operations later in its start."""
    faults = [
        Fault(
            at=1.0 + place,
            kind=START_CUT,
            target=str(1 + place % 3),
            amount=float(step),
            length=0.7,
            detail=f"{end} {interruption}",
        )
        for place, step in enumerate(steps)
    ]
    return run_plan(Plan(seed=4, seconds=2.0 + len(steps), options=stage(), faults=faults))


@contextmanager
def marked_though_not_loaded() -> Iterator[None]:
    """The old mistake: an orderly end marks the directory, however far the start came."""
    opened = LogDir.open

    def open_(self: LogDir, cluster_id: str | None, node_id: int | None) -> None:
        opened(self, cluster_id, node_id)
        self.is_loaded = True

    LogDir.open = open_  # type: ignore[method-assign]
    try:
        yield
    finally:
        LogDir.open = opened  # type: ignore[method-assign]


def test_some_seeds_have_them_and_the_others_are_unchanged() -> None:
    plans = [(draw_plan(seed), draw_plan(seed, starts=False)) for seed in range(200)]
    having = [plan for plan, plain in plans if plan != plain]
    assert 20 < len(having) < 70
    for plan, plain in plans:
        assert [each for each in plan.faults if each.kind != START_CUT] == plain.faults
    assert all(from_json(to_json(plan)) == plan for plan in having)
    words = {word for plan in having for each in plan.faults if each.kind == START_CUT for word in each.detail.split()}
    assert words == {*INTERRUPTIONS}


def test_they_add_no_power_failure_to_a_seed_without() -> None:
    options, faults = add_interrupted_starts(Random(1), stage(fault_kinds=["kill"]), [], 60.0, certain=True)
    assert faults
    assert not any("power" in each.detail for each in faults)
    assert START_CUT in options.fault_kinds


@pytest.mark.parametrize(
    ("end", "interruption"),
    [("power", "terminate"), ("kill", "terminate"), ("terminate", "terminate"), ("kill", "kill")],
)
def test_starts_are_interrupted_at_steps_from_the_first_on(end: str, interruption: str) -> None:
    outcome = run(end, interruption, range(1, 90, 9))
    assert outcome.kind is None, outcome.message
    assert outcome.faults[START_CUT] == 10
    assert sum("is interrupted" in text for _, text in outcome.lines) >= 10


def torn_and_interrupted(step: int) -> Violation | None:
    """A broker loses power, half a batch is left at the end of each log; its start is stopped at a step, and redone."""
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        cluster = SimCluster(Plan(seed=4, seconds=4.0, options=stage(partitions=4), faults=[]))
        with closing(cluster.loop):
            cluster.boot()
            cluster.start_load()
            cluster.run_for(3.0)
            process = cluster.machines[1].processes["broker"]
            cluster.invariants.incarnations.record_power_loss(1)
            process.lose_power()
            for name in process.disk.listdir(process.log_dirs[0]):
                if parse_folder(name) is not None:
                    folder = f"{process.log_dirs[0]}/{name}"
                    active = max(each for each in process.disk.listdir(folder) if each.endswith(".log"))
                    file = process.disk.open(f"{folder}/{active}")
                    file.pwrite(TORN, file.size())
            process.disk.alarm = (step, process.terminate)
            process.start()
            cluster.run_until(lambda: not process.is_running, 2.0)
            process.disk.alarm = None
            process.start()
            try:
                cluster.run_for(3.0)
                settle(cluster, Faults(cluster))
            except Violation as found:
                return found
    return None


STEPS = (5, 15, 40)


def test_a_mark_after_half_a_start_is_found() -> None:
    assert not any(torn_and_interrupted(step) for step in STEPS)
    with marked_though_not_loaded():
        assert any(torn_and_interrupted(step) for step in STEPS)
