"""All nodes of a simulated cluster are told to stop: each process ends in time, whatever order the others end in."""

import asyncio
import warnings
from contextlib import closing
from random import Random

import msgspec
import pytest

from kvorum.broker.replica.fetcher_manager import FetcherManager
from kvorum.cluster.process.controller_node import ControllerNode
from sim.cluster import SimCluster
from sim.ledger import Violation
from sim.plan import Options, Plan, draw_options
from sim.run import quiet
from sim.shutdown import NO_MAJORITY, RESTART, stop_all

SESSION_MS = 2_000


def stage(seed: int, combined: bool) -> Options:
    """Three controllers and three brokers that are written to."""
    options = draw_options(Random(seed))
    fixed: dict[str, object] = {
        **{"controllers": 3, "brokers": 3, "combined": combined, "partitions": 4, "replication_factor": 3},
        **{"min_isr": 2, "session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": 500, "fault_kinds": ["kill"]},
    }
    return msgspec.structs.replace(options, **fixed)


def stopped(seed: int, combined: bool, before: str, stagger_s: float) -> float:
    """Return the virtual seconds that the stop took. Raises Violation."""
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        cluster = SimCluster(Plan(seed=seed, seconds=3.0, options=stage(seed, combined), faults=[]))
        with closing(cluster.loop):
            cluster.boot()
            cluster.start_load()
            cluster.run_for(1.0 + Random(seed).random())
            return stop_all(cluster, Random(seed), before=before, stagger_s=stagger_s)


@pytest.mark.parametrize("combined", [True, False])
@pytest.mark.parametrize("before", ["", RESTART, NO_MAJORITY])
def test_every_process_ends_in_time(before: str, combined: bool) -> None:
    for seed, stagger_s in enumerate((0.0, 0.05, 0.5, 3.0)):
        stopped(seed, combined, before, stagger_s)


def test_controllers_wait_for_brokers_that_stop_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it the last broker has no controller that lets it go, and waits for one for a whole session."""

    def longest() -> float:
        return max(stopped(seed, True, "", 0.2) for seed in range(3))

    assert longest() < SESSION_MS / 1000

    async def wait_for_none(self: ControllerNode) -> None: ...

    monkeypatch.setattr(ControllerNode, "wait_for_brokers", wait_for_none)
    assert longest() > SESSION_MS / 1000


def test_a_part_that_never_stops_is_found_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(self: FetcherManager) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(FetcherManager, "close", never)
    with pytest.raises(Violation, match="replicas"):
        stopped(1, True, "", 0.0)
