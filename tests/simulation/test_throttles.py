"""Quotas in simulated clusters: drawn, set, kept to, and tried at the end."""

import os
import subprocess
import sys
from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from kvorum.network.context import RequestContext
from kvorum.network.ip_rates import IpConnectionRates
from kvorum.network.quotas import BrokerQuotas, Mutations
from kvorum.protocol.messages.metadata import MetadataResponse
from sim import convergence, quota_probe
from sim.cluster import SimCluster
from sim.draw import draw_plan
from sim.ledger import Violation
from sim.mutants.patches import Patches
from sim.plan import Fault, Options, Plan, draw_options, from_json, to_json
from sim.quota_probe import check_in_force, limits_of
from sim.quotas import KIND, VALUES
from sim.run import Outcome, run_plan
from sim.throttles import RequestCosts, ThrottleWatch

COST_MS = 4.0


def stage(**changed: object) -> Options:
    """Three quiet brokers, a topic of one partition on all, written to and read all the time."""
    options = draw_options(Random(4))
    load = msgspec.structs.replace(
        options.load, producers=[(-1, True)], consumers=1, every_s=0.05, admin_every_s=0.5, burst_s=0.0
    )
    base: dict[str, object] = {
        **{"controllers": 1, "brokers": 3, "combined": False, "partitions": 1, "replication_factor": 3, "min_isr": 2},
        **{"delay_max_s": 0.001, "load": load, "fault_kinds": [KIND], "unclean": False, "log_dirs": 1},
        **{"request_cost_ms": COST_MS, "probes_quotas": True},
    }
    return msgspec.structs.replace(options, **{**base, **changed})


def quota(at: float, target: str, detail: str, other: str = "") -> Fault:
    return Fault(at=at, kind=KIND, target=target, other=other, detail=detail)


ALL_KINDS = [
    quota(0.5, "client-id", "request_percentage=1"),
    quota(0.6, "user", "controller_mutation_rate=0.5"),
    quota(0.7, "ip", "connection_creation_rate=3"),
    quota(0.8, "client-id", "producer_byte_rate=5000", "producer-1"),
]


def run(*others: Fault, **changed: object) -> tuple[Outcome, SimCluster]:
    """Set a quota of every kind, and run; return the cluster, too, which is over."""
    faults = sorted([*ALL_KINDS, *others], key=lambda fault: fault.at)
    clusters: list[SimCluster] = []
    look = quota_probe.look_at_quotas

    def noted(cluster: SimCluster) -> None:
        clusters.append(cluster)
        look(cluster)

    with Patches() as patches:
        patches.replace(convergence, "look_at_quotas", noted)
        outcome = run_plan(Plan(seed=4, seconds=8.0, options=stage(**changed), faults=faults))
    return outcome, clusters[0] if clusters else SimpleNamespace()  # type: ignore[return-value]


def test_some_seeds_have_them_and_the_others_are_unchanged() -> None:
    plans = [(draw_plan(seed), draw_plan(seed, quotas=False)) for seed in range(100)]
    having = [plan for plan, plain in plans if plan != plain]
    assert 10 < len(having) < 45
    for plan, plain in plans:
        assert plan.options.probes_quotas is (plan in having)
        assert [fault for fault in plan.faults if fault in plain.faults] == plain.faults
    assert all(from_json(to_json(plan)) == plan for plan in having)
    details = {fault.detail for plan in having for fault in plan.faults if fault.kind == KIND}
    wanted = {f"{key}={value}" for key, values in VALUES.items() for value in (*values, "")}
    assert details >= wanted
    costs = {plan.options.request_cost_ms for plan in having}
    assert 0.0 in costs and len(costs) == 4
    untimed = [plan for plan in having if not plan.options.request_cost_ms]
    assert not any("request_percentage=0.5" in fault.detail for plan in untimed for fault in plan.faults)


@pytest.mark.parametrize("older", [False, True])
def test_clients_are_throttled_in_every_way_while_brokers_die_and_each_way_ends(older: bool) -> None:
    outcome, cluster = run(
        Fault(at=2.0, kind="kill", target="leader:orders-0", length=0.5, role="broker"),
        Fault(at=4.0, kind="kill", target="active", length=0.5, role="controller"),
        quota(5.0, "client-id", "request_percentage="),
        quota(5.5, "client-id", "request_percentage=2"),
        older_admin=older,
    )
    assert outcome.kind is None, outcome.message
    assert cluster.throttles.throttle_count > 20 and cluster.throttles.wait_count > 20
    answers = [text for _, text in outcome.lines if text.startswith("the operator's")]
    assert len(answers) == len(ALL_KINDS) + 2 and all(text.endswith("NONE") for text in answers), answers


TRACE = """
from sim.plan import Plan
from sim.run import run_plan
from tests.simulation.test_throttles import ALL_KINDS, quota, stage
keys = ("controller_mutation_rate=50", "consumer_byte_rate=50000", "producer_byte_rate=50000")
faults = [*ALL_KINDS, *(quota(0.9, "client-id", key) for key in keys)]
print(run_plan(Plan(seed=4, seconds=2.0, options=stage(racks=2), faults=faults)).trace)
"""


def test_quotas_and_racks_are_the_same_in_any_process() -> None:
    traces = []
    for hash_seed in ("1", "2", "3"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            [sys.executable, "-c", TRACE], env=environment, capture_output=True, text=True, timeout=240
        )
        assert done.returncode == 0, done.stderr
        traces.append(done.stdout)
    assert traces[0] == traces[1] == traces[2]


# What is done wrong is found.


def who_is_refused_is_served(patches: Patches) -> None:
    record = Mutations.record

    def as_of_an_older_client(self: Mutations, count: int) -> None:
        self._strict = False
        record(self, count)

    patches.replace(Mutations, "record", as_of_an_older_client)


def changes_are_not_counted(patches: Patches) -> None:
    patches.replace(Mutations, "record", lambda self, count: None)


def nobody_connects_too_fast(patches: Patches) -> None:
    patches.replace(IpConnectionRates, "throttle_ms", lambda self, address, now_s: 0)


def nobody_connects_twice(patches: Patches) -> None:
    patches.replace(IpConnectionRates, "throttle_ms", lambda self, address, now_s: 500 if self.limits else 0)


def time_is_not_counted(patches: Patches) -> None:
    patches.replace(BrokerQuotas, "_count_time", lambda self, ctx, now_ms: 0)


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        (who_is_refused_is_served, "MutationQuota"),
        (changes_are_not_counted, "ThrottleTold"),
        (nobody_connects_too_fast, "ConnectionRate"),
        (nobody_connects_twice, "ConnectionRate"),
        (time_is_not_counted, "ThrottleTold"),
    ],
)
def test_a_kind_of_quota_that_is_not_kept_is_found(wrong: Callable[[Patches], None], kind: str) -> None:
    plan = Plan(seed=4, seconds=3.0, options=stage(), faults=ALL_KINDS)
    with Patches() as patches:
        wrong(patches)
        outcome = run_plan(plan)
    assert outcome.kind == kind, outcome.message


def test_a_node_that_keeps_to_other_quotas_than_the_metadata_have_is_found() -> None:
    found: list[str] = []
    look = quota_probe.look_at_quotas

    def broken(cluster: SimCluster) -> None:
        parts = [process.broker.parts for process in cluster.processes if process.broker is not None]
        publisher = parts[1].quota_publisher  # type: ignore[union-attr]
        for change in (lambda: publisher.quotas.update([]), lambda: publisher.ip_rates.update(7.0, [])):
            change()
            with pytest.raises(Violation, match="QuotasInForce: node-2/broker") as caught:
                check_in_force(cluster)
            found.append(str(caught.value))
            entities = cluster.metadata.newest.client_quotas.sorted_entities()
            publisher.quotas.update(entities)
            publisher.ip_rates.update(*limits_of(entities)[:1], limits_of(entities)[1].items())
        look(cluster)

    with Patches() as patches:
        patches.replace(convergence, "look_at_quotas", broken)
        outcome = run_plan(Plan(seed=4, seconds=3.0, options=stage(), faults=ALL_KINDS))
    assert outcome.kind is None, outcome.message
    assert len(found) == 2


# The rule, broken once by hand and kept once just beside it.


class Told:
    """A client that asks over connections whose names a test gives."""

    def __init__(self) -> None:
        self.now = 10.0
        self.watch = ThrottleWatch(lambda: self.now)

    def answered(self, asked_s: float, throttle_ms: int = 0, *, before: Any = None, after: Any = None) -> None:
        response = MetadataResponse(throttle_time=throttle_ms)
        self.watch.check_response("app", (before, after), asked_s, response)


class Connection:
    usable = True


def connection() -> Any:
    return Connection()


def test_an_answer_in_the_time_of_a_throttle_is_found() -> None:
    client, one, other = Told(), connection(), connection()
    client.answered(9.9, 1_000, after=one)
    client.now = 10.5
    client.answered(9.95, before=one, after=one)  # asked before it was told
    client.answered(10.1, before=other, after=other)  # over another connection
    client.answered(10.1, before=None, after=other)  # over one that it had to make
    with pytest.raises(Violation, match=r"ThrottleKept: app was answered MetadataResponse 0\.400 s before"):
        client.answered(10.1, before=one, after=one)
    assert client.watch.wait_count == 0
    client.now = 10.9
    client.answered(10.1, before=one, after=one)
    assert (client.watch.throttle_count, client.watch.wait_count) == (1, 1)


def test_the_longest_reported_throttle_counts_and_a_lost_connection_is_discarded() -> None:
    client, one, other = Told(), connection(), connection()
    client.answered(10.0, 3_000, after=one)
    client.answered(10.0, 1_000, before=None, after=one)
    client.now = 12.0
    with pytest.raises(Violation):
        client.answered(11.5, before=one, after=one)
    one.usable = False
    client.answered(12.0, 10, after=other)
    client.answered(12.0, before=one, after=one)
    assert client.watch.throttle_count == 3


def test_a_request_has_the_configured_cost() -> None:
    ctx = RequestContext(received_ms=100.0)
    handle = RequestCosts(8.0).around(3, lambda ctx, request: request)
    assert handle(ctx, "asked") == "asked" and ctx.received_ms == 92.0
