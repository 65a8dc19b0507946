"""What moves between brokers is throttled in simulated clusters: drawn, carried out, held, each rule broken once."""

from random import Random

import msgspec
import pytest

from kvorum.protocol.uuids import Uuid
from kvorum.quorum.controller.broker_admin_state import STATE_KEY, BrokerAdminState
from kvorum.quorum.controller.departure_throttle import FOLLOWERS, LEADERS, RATES
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.quorum.records import Config, MetadataRecord, Partition, RegisterBroker, Topic
from kvorum.runtime.config_defs import DECOMMISSION_THROTTLE
from sim import admin_states, reassignments
from sim.draw import draw_plan
from sim.ledger import Violation
from sim.mutants.catalogue import apply_mutant
from sim.plan import Fault, Options, Plan, draw_options, from_json, to_json
from sim.reassignment_throttles import (
    DEPARTURE_KIND,
    RATE_KIND,
    REMOVED,
    REPLICAS_KIND,
    add_departure_throttles,
    add_reassignment_throttles,
    check_departing,
    check_isr_in_peace,
    check_throttles,
    find_stray_throttles,
)
from sim.run import Outcome, run_plan
from sim.throttle_removal import in_the_way

ORDERS = Uuid(b"o" * 16)
KINDS = {RATE_KIND, REPLICAS_KIND, DEPARTURE_KIND}


def stage(**changed: object) -> Options:
    """Four quiet brokers, a topic of two partitions on two of them each, written to all the time."""
    options = draw_options(Random(4))
    load = msgspec.structs.replace(
        options.load, producers=[(-1, True)], consumers=1, every_s=0.05, admin_every_s=1000.0, burst_s=0.0
    )
    base: dict[str, object] = {
        **{"controllers": 1, "brokers": 4, "combined": False, "partitions": 2, "replication_factor": 2, "min_isr": 1},
        **{"delay_max_s": 0.001, "load": load, "unclean": False, "log_dirs": 1, "lag_time_ms": 500},
        **{"session_timeout_ms": 600, "heartbeat_interval_ms": 120},
    }
    return msgspec.structs.replace(options, **{**base, **changed})


def run(*faults: Fault, seconds: float = 8.0) -> Outcome:
    options = stage(fault_kinds=sorted({fault.kind for fault in faults}))
    return run_plan(Plan(seed=4, seconds=seconds, options=options, faults=sorted(faults, key=lambda each: each.at)))


def test_some_seeds_have_them_and_the_others_are_unchanged() -> None:
    plans = [(draw_plan(seed), draw_plan(seed, throttles=False)) for seed in range(100)]
    having = [plan for plan, plain in plans if plan != plain]
    assert 8 < len(having) < 40
    for plan, plain in plans:
        rest = [
            msgspec.structs.replace(each, amount=0.0) if each.kind == admin_states.KIND else each
            for each in plan.faults
        ]
        assert all(fault in rest for fault in plain.faults)
        assert {fault.kind for fault in rest if fault not in plain.faults} <= {*KINDS, admin_states.KIND}
    assert all(from_json(to_json(plan)) == plan for plan in having)
    assert any(fault.kind == admin_states.KIND and fault.amount for plan in having for fault in plan.faults)
    for kind in KINDS:
        details = {fault.detail for plan in having for fault in plan.faults if fault.kind == kind}
        assert len(details) >= 3 and (REMOVED in details) is (kind != DEPARTURE_KIND), kind


def test_without_reassignments_or_decommissions_there_are_none() -> None:
    assert add_reassignment_throttles(Random(1), stage(), [], 60.0, certain=True) == (stage(), [])
    maintenance = [Fault(at=1.0, kind=admin_states.KIND, target="1", detail=BrokerAdminState.MAINTENANCE)]
    assert add_departure_throttles(Random(1), stage(), maintenance, 60.0, certain=True) == (stage(), maintenance)


LATE_S = 7.0
"""By then there has been peace for long enough."""
SLOW = (Fault(at=LATE_S, kind=REPLICAS_KIND, detail="*"), Fault(at=LATE_S, kind=RATE_KIND, detail="1"))


def test_a_throttled_move_ends_with_the_rates_removal_and_in_sync_replicas_are_not_throttled() -> None:
    """It waits for the whole run: the rate is taken off when all is healed, and convergence demands the rest."""
    there = Fault(at=LATE_S + 0.1, kind=reassignments.KIND, target="0", detail="3,4")
    outcome = run(*SLOW, there, seconds=12.0)
    assert outcome.kind is None, outcome.message
    answers = [text for _, text in outcome.lines if text.startswith("the operator's")]
    assert len(answers) == 3 and all(text.endswith("NONE") for text in answers), answers
    with apply_mutant("hold-back-who-is-in-sync"):
        outcome = run(*SLOW, there, seconds=12.0)
    assert outcome.kind == "NobodyInSyncIsHeldBack", outcome.message


def test_a_decommission_uses_its_own_throttle_and_keeps_anothers() -> None:
    """Convergence demands that it is gone with the last replica; see left_behind."""
    faults = (
        Fault(at=0.8, kind=DEPARTURE_KIND, target="2", detail="3000"),
        Fault(at=1.0, kind=admin_states.KIND, target="1", detail=BrokerAdminState.DECOMMISSIONED, amount=20_000.0),
        Fault(at=5.0, kind=admin_states.KIND, target="2", detail=BrokerAdminState.DECOMMISSIONED),
    )
    outcome = run(*faults)
    assert outcome.kind is None, outcome.message
    with apply_mutant("end-every-throttle"):
        outcome = run(*faults)
    assert outcome.kind == "ThrottleStaysForThen", outcome.message


# The rules, each broken once by hand and kept once just beside it.


def config(kind: int, name: str, **values: str) -> list[MetadataRecord]:
    return [
        Config(resource_type=kind, resource_name=name, name=key.replace("_", "."), value=value)
        for key, value in values.items()
    ]


def image(*records: MetadataRecord, brokers: tuple[int, ...] = (1, 2, 3)) -> MetadataImage:
    """Return an image of these brokers and a topic of one partition on 1 and 2, and what else is said."""
    delta = MetadataDelta(MetadataImage())
    for number in brokers:
        incarnation = Uuid(bytes(16))
        delta.replay(RegisterBroker(broker_id=number, broker_epoch=1, incarnation_id=incarnation, endpoints=()))
    delta.replay(Topic(name="orders", topic_id=ORDERS))
    for record in records:
        delta.replay(record)
    return delta.apply(0, 1)


def placed(*replicas: int, **more: tuple[int, ...]) -> Partition:
    return Partition(topic_id=ORDERS, partition_id=0, replicas=replicas, isr=replicas[-1:], leader=replicas[-1], **more)


AHEAD = config(4, "1", **{DECOMMISSION_THROTTLE: "500"})
LEAVING = config(4, "1", **{STATE_KEY: BrokerAdminState.DECOMMISSIONED})
RATED = config(4, "", **dict.fromkeys(RATES, "500"))
MOVING = placed(3, 1, 2, adding_replicas=(3,), removing_replicas=(1,))


@pytest.mark.parametrize(
    ("before", "after", "asked_off", "kept"),
    [
        ([*AHEAD], [*AHEAD], (), True),
        ([*AHEAD], [], (), False),
        ([*AHEAD], [], (1,), True),
        ([*AHEAD, *LEAVING], [*LEAVING], (), True),  # it has nothing left
        ([*AHEAD, *LEAVING], [], (), True),  # taken back
        ([], [*AHEAD], (), True),
    ],
)
def test_a_throttle_set_ahead_stays(
    before: list[MetadataRecord], after: list[MetadataRecord], asked_off: tuple[int, ...], kept: bool
) -> None:
    images = image(*before), image(*after)
    if kept:
        check_throttles(*images, frozenset(asked_off))
        check_throttles(images[0], image(*after, brokers=(2, 3)), frozenset())
        return
    with pytest.raises(Violation, match="ThrottleStaysForThen"):
        check_throttles(*images, frozenset(asked_off))


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        ([*AHEAD, *LEAVING], [*RATED, *config(2, "orders", **{FOLLOWERS: "0:3"})], True),
        ([*AHEAD, *LEAVING], [*RATED, *config(2, "orders", **{FOLLOWERS: "*"})], True),
        ([*AHEAD, *LEAVING], [*RATED], False),
        ([*AHEAD, *LEAVING], [*RATED, *config(2, "orders", **{FOLLOWERS: "0:2"})], False),
        ([*AHEAD, *LEAVING], [*config(2, "orders", **{FOLLOWERS: "0:3"})], False),
        ([*LEAVING], [], True),
        ([*AHEAD], [], True),
        ([*AHEAD, *LEAVING, MOVING], [], True),  # it was on its way before the throttle
    ],
)
def test_replicas_of_a_throttled_decommission_are_marked(
    before: list[MetadataRecord], after: list[MetadataRecord], kept: bool
) -> None:
    images = image(placed(1, 2), *before), image(MOVING, *after)
    if kept:
        check_departing("orders-0", *images)
        return
    with pytest.raises(Violation, match="MovesByItsThrottle"):
        check_departing("orders-0", *images)


@pytest.mark.parametrize(
    ("records", "count"),
    [
        ([placed(1, 2)], 0),
        ([placed(1, 2), *RATED], 2),
        ([placed(1, 2), *RATED, *AHEAD], 2),
        ([placed(1, 2), *RATED, *AHEAD, *LEAVING], 0),
        ([placed(1, 2), *config(2, "orders", **{LEADERS: "0:1,0:2"})], 2),
        ([MOVING, *config(2, "orders", **{LEADERS: "0:1,0:2"})], 0),
        ([MOVING, *config(2, "orders", **{LEADERS: "1:1"})], 1),
    ],
)
def test_remaining_throttles_are_reported(records: list[MetadataRecord], count: int) -> None:
    assert len(list(find_stray_throttles(image(*records)))) == count


@pytest.mark.parametrize(
    ("after", "replicas", "peace_s", "kept"),
    [
        ({1, 2}, {1, 2, 3}, 100.0, True),
        ({1}, {1, 2, 3}, 100.0, False),
        ({1}, {1, 3}, 100.0, True),  # it was removed
        ({1}, {1, 2, 3}, 6.0, True),  # something had just failed
        ({1, 2, 3}, {1, 2, 3}, 100.0, True),
    ],
)
def test_in_sync_replicas_stay_in_sync_without_faults(
    after: set[int], replicas: set[int], peace_s: float, kept: bool
) -> None:
    reported = "orders-0", frozenset({1, 2}), frozenset(after), frozenset(replicas), peace_s, 1.1
    if kept:
        check_isr_in_peace(*reported)
        return
    with pytest.raises(Violation, match="NobodyInSyncIsHeldBack"):
        check_isr_in_peace(*reported)


def test_throttles_that_would_delay_moves_are_removed_at_the_end_of_faults() -> None:
    found = image(*AHEAD, *LEAVING, *config(4, "2", **{DECOMMISSION_THROTTLE: "9"}), *RATED)
    assert in_the_way(found, rates=False) == [("1", DECOMMISSION_THROTTLE)], "that of 2 is set ahead"
    assert in_the_way(found, rates=True)[1:] == [("", key) for key in RATES]
