"""Replicas move while no complete one is alive: what is acknowledged after an unclean election stays."""

from random import Random

import msgspec
import pytest

from sim.admin_states import KIND as DUTY
from sim.plan import Fault, Options, Plan, draw_options
from sim.reassignments import CANCEL
from sim.reassignments import KIND as REASSIGN
from sim.run import run_plan

BEGIN, CANCEL_AT, BACK = 2.6, 4.6, 6.0


def stage(*, elr: bool) -> Options:
    """Four brokers, a topic of one partition, written to all the time; its replicas are 1 and 2 from 0.5 s on."""
    options = draw_options(Random(4))
    load = msgspec.structs.replace(
        options.load, producers=[(-1, True)], consumers=1, every_s=0.05, admin_every_s=1000.0, burst_s=0.0
    )
    base: dict[str, object] = {
        **{"controllers": 1, "brokers": 4, "combined": False, "partitions": 1, "replication_factor": 2, "min_isr": 1},
        **{"delay_max_s": 0.001, "load": load, "fault_kinds": ["kill"], "unclean": True, "elr": elr, "log_dirs": 1},
        **{"session_timeout_ms": 600, "heartbeat_interval_ms": 200, "fast_fencing": True},
    }
    return msgspec.structs.replace(options, **base)


MOVES = {
    "decommission taken back": (
        Fault(at=BEGIN, kind=DUTY, target="2", detail="decommissioned"),
        Fault(at=CANCEL_AT, kind=DUTY, target="2", detail="active"),
    ),
    "decommission of the last in sync taken back": (
        Fault(at=BEGIN, kind=DUTY, target="1", detail="decommissioned"),
        Fault(at=CANCEL_AT, kind=DUTY, target="1", detail="active"),
    ),
    "reassignment cancelled": (
        Fault(at=BEGIN, kind=REASSIGN, target="0", detail="3,1"),
        Fault(at=CANCEL_AT, kind=REASSIGN, target="0", detail=CANCEL),
    ),
    "reassignment back to where it began": (
        Fault(at=BEGIN, kind=REASSIGN, target="0", detail="3,4"),
        Fault(at=CANCEL_AT, kind=REASSIGN, target="0", detail="1,2"),
    ),
    "reassignment elsewhere": (
        Fault(at=BEGIN, kind=REASSIGN, target="0", detail="3,1"),
        Fault(at=CANCEL_AT, kind=REASSIGN, target="0", detail="4,2"),
    ),
}


@pytest.mark.parametrize("elr", [False, True])
@pytest.mark.parametrize("name", MOVES)
def test_a_move_of_a_partition_without_a_leader_loses_nothing_acknowledged_since(name: str, elr: bool) -> None:
    """Both replicas are down when it begins; they come back after it was taken back."""
    begins = Fault(at=0.5, kind=REASSIGN, target="0", detail="1,2")
    deaths = ((1.6, "2"), (2.0, "1"))
    dead = [Fault(at=at, kind="kill", target=node, role="broker", length=BACK - at) for at, node in deaths]
    plan = Plan(seed=4, seconds=9.0, options=stage(elr=elr), faults=[begins, *dead, *MOVES[name]])
    outcome = run_plan(plan)
    assert outcome.kind is None, outcome.message
    moved_while_leaderless = MOVES[name][0].kind == REASSIGN
    assert any("unclean election of broker 3" in loss for loss in outcome.losses) is moved_while_leaderless
    assert outcome.counts["send ok"] > 30
