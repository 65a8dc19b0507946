"""Log directories of simulated clusters that break, are replaced, taken out, put back: drawn, carried out, judged."""

from random import Random

import msgspec
import pytest

from kvorum.chaos.history import Fault as FaultEvent
from sim.cluster import SimCluster
from sim.cluster_faults import Faults
from sim.draw import draw_plan
from sim.log_dir_failures import (
    BREAKS,
    BROKEN,
    LOST,
    REMOVED,
    REPLACED,
    RETURN,
    STOPS,
    LossRequest,
    last_one,
    loss_request,
)
from sim.mutants.catalogue import apply_mutant
from sim.plan import Fault, Options, Plan, draw_options, from_json, to_json
from sim.run import Outcome, quiet, run_plan, violation_of

KINDS = {LOST, BROKEN, RETURN}


def stage(**fixed: object) -> Options:
    """Three quiet brokers with two directories each, a topic of one partition on all, written to all the time."""
    options = draw_options(Random(4))
    load = msgspec.structs.replace(
        options.load, producers=[(-1, True)], consumers=1, every_s=0.05, admin_every_s=1000.0, burst_s=0.0
    )
    base: dict[str, object] = {
        **{"controllers": 1, "brokers": 3, "combined": False, "partitions": 1, "replication_factor": 3, "min_isr": 2},
        **{"delay_max_s": 0.001, "load": load, "fault_kinds": ["kill"], "unclean": False, "log_dirs": 2, "elr": True},
        **{"flush": False, "fast_fencing": True, "session_timeout_ms": 600, "heartbeat_interval_ms": 120},
    }
    return msgspec.structs.replace(options, **{**base, **fixed})


def the_last_one(kind: str, detail: str, length: float = 1.2) -> list[Fault]:
    """Both followers are killed, the leader goes on alone, and this happens to its directory."""
    deaths = [(1.5, "follower1"), (1.6, "follower1"), (1.61, "follower2")]  # whichever of the two is left
    return [
        *(Fault(at=at, kind="kill", target=f"{who}:orders-0", length=5.0, role="broker") for at, who in deaths),
        Fault(at=3.0, kind=kind, target="leader:orders-0", role="broker", length=length, amount=0.5, detail=detail),
    ]


def run(faults: list[Fault], **fixed: object) -> Outcome:
    return run_plan(Plan(seed=4, seconds=9.0, options=stage(**fixed), faults=faults))


def test_some_seeds_have_them_and_the_others_are_unchanged() -> None:
    plans = [(draw_plan(seed), draw_plan(seed, losses=False)) for seed in range(200)]
    having = [plan for plan, plain in plans if plan != plain]
    assert 10 < len(having) < 60
    for plan, plain in plans:
        if KINDS.isdisjoint(plan.options.fault_kinds):
            assert plan == plain or plan.faults == plain.faults
    assert all(plan.options.log_dirs >= 2 and from_json(to_json(plan)) == plan for plan in having)
    requested = [loss_request(fault) for plan in having for fault in plan.faults if fault.kind in KINDS]
    assert {each.how for each in requested} == {REPLACED, REMOVED, BROKEN, RETURN}
    assert {each.stop for each in requested} == {*STOPS} and {each.breaks for each in requested} == {True, False}


def test_a_details_words_are_parsed() -> None:
    assert loss_request(Fault(at=1, kind=LOST, detail=f"orders-0 kill {REMOVED} {BREAKS}")) == LossRequest(
        "orders-0", "kill", REMOVED, True
    )
    assert loss_request(Fault(at=1, kind=LOST, detail=f"2 terminate {REPLACED}")) == LossRequest(
        "2", "terminate", REPLACED, False
    )
    assert loss_request(Fault(at=1, kind=BROKEN, detail="1 kill")) == LossRequest("1", "kill", BROKEN, False)
    assert loss_request(Fault(at=1, kind=RETURN, detail="kill")) == LossRequest("", "kill", RETURN, False)


def test_a_play_ends_all_followers_before_the_leader_loses_its_log() -> None:
    for seed in range(50):
        *deaths, lost = last_one(Random(seed), stage(), 1.0)
        assert [death.target for death in deaths] == ["follower1:orders-0", "follower2:orders-0"]
        assert lost.target == "leader:orders-0" and lost.detail.startswith("orders-0 ") and lost.kind in (LOST, BROKEN)
        assert all(death.at < lost.at < death.at + death.length for death in deaths)


@pytest.mark.parametrize("min_isr", [1, 2])
@pytest.mark.parametrize("how", [f"{REMOVED} {BREAKS}", REMOVED, f"{REPLACED} {BREAKS}", REPLACED])
@pytest.mark.parametrize("stop", STOPS)
def test_no_replica_leads_with_an_empty_log_without_an_operators_request(stop: str, how: str, min_isr: int) -> None:
    outcome = run(the_last_one(LOST, f"orders-0 {stop} {how}"), min_isr=min_isr)
    assert outcome.kind is None, outcome.message
    assert outcome.faults == {"kill": 2, LOST: 1}
    assert outcome.losses[0].startswith("orders-0: unclean election"), "by the operator, when all was over"


@pytest.mark.parametrize("elr", [True, False])
@pytest.mark.parametrize("stop", STOPS)
def test_a_directory_that_works_again_has_lost_nothing(stop: str, elr: bool) -> None:
    outcome = run(the_last_one(BROKEN, f"orders-0 {stop}", length=2.5), elr=elr)
    assert outcome.kind is None and outcome.losses == [], outcome.message
    assert outcome.faults == {"kill": 2, BROKEN: 1}


def test_without_elr_the_last_in_sync_replica_leads_with_its_remaining_log() -> None:
    outcome = run(the_last_one(LOST, f"orders-0 kill {REMOVED}"), elr=False)
    assert outcome.kind is None, outcome.message
    assert "committed records lost: all of" in outcome.losses[0]


def test_the_loss_of_a_directory_does_not_affect_partitions_in_others() -> None:
    plan = Plan(
        seed=4, seconds=9.0, options=stage(partitions=4), faults=the_last_one(LOST, f"orders-0 kill {REPLACED}")
    )
    with quiet():
        cluster = SimCluster(plan)
        assert violation_of(cluster, Faults(cluster)) is None
        cluster.loop.close()
    reported = [event for event in cluster.history.events if isinstance(event, FaultEvent) and event.fault == LOST]
    begun, ended = reported
    assert (begun.lossy, begun.partitions) == (False, []) and ended.lossy
    assert "orders-0" in ended.partitions and len(ended.partitions) < 4
    assert set(cluster.lossy_partitions()) <= set(ended.partitions)


def test_a_directory_that_is_put_back_with_an_old_log_in_it_does_no_harm() -> None:
    faults = [
        Fault(at=1.0, kind=LOST, target="1", role="broker", length=0.4, detail=f"orders-0 terminate {REMOVED}"),
        Fault(at=3.0, kind=RETURN, target="1", role="broker", length=0.4, detail="kill"),
        Fault(at=5.0, kind=LOST, target="1", role="broker", length=0.4, detail=f"orders-0 kill {REMOVED}"),
        Fault(at=6.0, kind=RETURN, target="1", role="broker", length=0.4, detail="terminate"),
    ]
    outcome = run(faults)
    assert outcome.kind is None and outcome.losses == [], outcome.message
    assert outcome.faults == {LOST: 2, RETURN: 2}


@pytest.mark.parametrize(
    ("mutant", "kind", "detail", "fixed", "found"),
    [
        ("stay-in-a-failed-directory", BROKEN, "orders-0 kill", {"min_isr": 1}, "InIsrWithoutDirectory"),
        ("vouch-for-a-lost-directory", LOST, f"orders-0 terminate {REMOVED}", {}, "EligibleByALostLog"),
        ("elect-another-log", LOST, f"orders-0 kill {REPLACED}", {"min_isr": 1}, "EligibleByALostLog"),
        ("make-an-empty-log", BROKEN, "orders-0 kill", {"elr": False}, "LeaderCandidateCompleteness"),
    ],
)
def test_each_mistake_about_them_is_found(
    mutant: str, kind: str, detail: str, fixed: dict[str, object], found: str
) -> None:
    with apply_mutant(mutant):
        assert run(the_last_one(kind, detail, 2.5), **fixed).kind == found
