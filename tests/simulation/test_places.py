"""Racks in simulated clusters: drawn, followed by consumers, held against what followers may show."""

from random import Random

import msgspec
import pytest

from kvorum.protocol.messages.fetch import PartitionData
from sim import run as runs
from sim.cluster import SimCluster
from sim.draw import draw_plan
from sim.ledger import Violation
from sim.mutants.plans import coordination
from sim.node_settings import settings_of
from sim.plan import Fault, Options, Plan, draw_options, from_json, to_json
from sim.racks import PREFERENCE_AGE_S, ReadReplicas, ReadWatch, add_racks, rack_of
from sim.run import Outcome, run_plan

ORDERS = ("orders", 0)


def stage(**changed: object) -> Options:
    """Three quiet brokers in three racks, a topic of one partition on all, written to and read all the time."""
    options = draw_options(Random(4))
    load = msgspec.structs.replace(
        options.load, producers=[(-1, True), (-1, False)], consumers=3, every_s=0.03, admin_every_s=1000.0, burst_s=0.0
    )
    base: dict[str, object] = {
        **{"controllers": 1, "brokers": 3, "combined": False, "partitions": 1, "replication_factor": 3, "min_isr": 2},
        **{"delay_max_s": 0.005, "load": load, "fault_kinds": ["kill"], "unclean": False, "log_dirs": 1, "racks": 3},
    }
    return msgspec.structs.replace(options, **{**base, **changed})


def test_some_seeds_have_racks_and_the_others_are_unchanged() -> None:
    plans = [(draw_plan(seed), draw_plan(seed, racks=False)) for seed in range(100)]
    having = [plan for plan, plain in plans if plan != plain]
    assert 10 < len(having) < 45
    assert {plan.options.racks for plan in having} == {2, 3}
    for plan, plain in plans:
        assert msgspec.structs.replace(plan.options, racks=0) == plain.options and plan.faults == plain.faults
    assert all(from_json(to_json(plan)) == plan for plan in having)
    alone = msgspec.structs.replace(stage(racks=0), replication_factor=1)
    assert add_racks(Random(1), alone, [], 60.0, certain=True) == (alone, [])


def test_only_brokers_of_a_seed_with_racks_have_one() -> None:
    options = stage(racks=2)
    found = [settings_of(options, node, ["broker"]).optional_str("broker.rack") for node in (1, 2, 3)]
    assert found == ["rack-2", "rack-1", "rack-2"] == [rack_of(node, 2) for node in (1, 2, 3)]
    assert settings_of(options, 4, ["controller"]).optional_str("broker.rack") is None
    plain = settings_of(stage(racks=0), 1, ["broker"])
    assert plain.optional_str("broker.rack") is None and plain.optional_str("replica.selector.class") is None


@pytest.mark.parametrize("transactions", [False, True])
def test_consumers_read_from_followers_that_die_lag_and_lead(
    transactions: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clusters: list[SimCluster] = []

    def noted(plan: Plan) -> SimCluster:
        clusters.append(SimCluster(plan))
        return clusters[0]

    monkeypatch.setattr(runs, "SimCluster", noted)
    drawn_work = coordination(watchers=2, partitions=1) if transactions else None
    faults = [
        Fault(at=1.5, kind="kill", target="follower1:orders-0", length=0.6, role="broker"),
        Fault(at=3.0, kind="slow", target="leader:orders-0", other="brokers", ways="out", amount=0.2, length=1.0),
        Fault(at=4.5, kind="kill", target="leader:orders-0", length=0.6, role="broker"),
        Fault(at=6.0, kind="isolate", target="follower0:orders-0", other="brokers", length=2.0, role="broker"),
    ]
    outcome: Outcome = run_plan(Plan(seed=4, seconds=9.0, options=stage(coordination=drawn_work), faults=faults))
    assert outcome.kind is None, outcome.message
    assert clusters[0].read_watch.from_followers > 100


# The rules, each broken once by hand and kept once just beside it.


def test_a_read_above_the_committed_offset_is_found() -> None:
    watch = ReadWatch(0, lambda topic, partition: 10 if topic == "orders" else None)
    watch.check_read("app", 1, 1, ORDERS, 10)
    watch.check_read("app", 2, 1, ORDERS, 10)
    watch.check_read("app", 2, 1, ("lossy", 0), 99)
    assert watch.from_followers == 2
    with pytest.raises(Violation, match=r"ReadIsCommitted: app has read orders-0 up to 11 from broker 2 \(broker 1"):
        watch.check_read("app", 2, 1, ORDERS, 11)


@pytest.mark.parametrize(
    ("racks", "rack_id", "broker_id"),
    [(3, "rack-1", 2), (3, "", 3), (3, "rack-2", 1), (0, "rack-1", 3)],
    ids=["another rack", "no rack", "the leader", "a cluster without"],
)
def test_a_consumer_that_is_sent_to_the_wrong_replica_is_found(racks: int, rack_id: str, broker_id: int) -> None:
    ReadWatch(3, lambda *_: None).check_redirect("app", "rack-1", 1, 3, ORDERS)
    with pytest.raises(Violation, match=f"PreferredReplica: broker 1 sends app.*to broker {broker_id}"):
        ReadWatch(racks, lambda *_: None).check_redirect("app", rack_id, 1, broker_id, ORDERS)


def test_a_client_reads_where_it_is_sent_until_that_is_old_or_fails() -> None:
    now = [10.0]
    places = ReadReplicas("app", "rack-1", None, lambda: now[0])
    assert places.choose("orders", 0, 1) == 1
    assert not places.is_elsewhere("orders", 0, 1, PartitionData(preferred_read_replica=-1))
    assert places.is_elsewhere("orders", 0, 1, PartitionData(preferred_read_replica=3))
    assert (places.choose("orders", 0, 1), places.choose("orders", 1, 1)) == (3, 1)
    now[0] += PREFERENCE_AGE_S
    assert places.choose("orders", 0, 1) == 1
    assert places.is_elsewhere("orders", 0, 1, PartitionData(preferred_read_replica=3))
    assert places.forget("orders", 0) and not places.forget("orders", 0)
    assert places.choose("orders", 0, 1) == 1
