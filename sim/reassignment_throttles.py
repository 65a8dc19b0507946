"""Throttles of moving replicas during a seed (KIP-73), and their invariants.

Sans-IO.

It has its own random generator: seeds without these stay the same, and saved plans replay unchanged. Entries of the
schedule:

    replication_rate    cluster-wide, of leaders and followers: `detail` is bytes per second, or REMOVED
    throttled_replicas  of the topic, both sides: `detail` is `*`, PARTITION:BROKER,... or REMOVED
    departure_rate      kvorum.decommission.throttle of the broker `target`: `detail` is bytes per second

The rate is set before a decommission, after it, or in the same request (`amount` of the change `duty`). Throttled
replicas move when the rate is removed, at the latest when all faults end; replicas in sync are never throttled.
"""

from collections.abc import Iterator
from random import Random
from typing import Final

import msgspec

from kvorum.quorum.controller.broker_admin_state import BrokerAdminState, is_leaving
from kvorum.quorum.controller.departure_throttle import FOLLOWERS, LEADERS, RATES, throttles_in
from kvorum.quorum.image import MetadataImage
from kvorum.quorum.image.configs import CLUSTER_DEFAULT, ResourceType
from kvorum.runtime.config_defs import DECOMMISSION_THROTTLE
from sim import admin_states, reassignments
from sim.ledger import Violation
from sim.plan import Fault, Options
from sim.schedule_entries import merge_entries

RATE_KIND: Final = "replication_rate"
REPLICAS_KIND: Final = "throttled_replicas"
DEPARTURE_KIND: Final = "departure_rate"
SHARE: Final = 0.5
"""Share of throttled ones among seeds with reassignments, or with decommissions."""
PLAYS: Final = 0.6
"""Share of a seed's reassignments that are throttled."""
REMOVED: Final = ""
EVERY_REPLICA: Final = "*"
LOW_RATES: Final = ("1", "300", "2000")
BYTES_A_SECOND: Final = (*LOW_RATES, "20000", "1000000")
"""Below the write rate, about equal, and above: 1 permits a single response until its removal."""
DEPARTURES: Final = ("300", "2000", "50000")
AHEAD: Final = 0.3
"""Probability that another broker, not yet decommissioned, gets one; and that two are decommissioned in sequence."""
PEACE_S: Final = 5.0
"""Time after the last fault when a session, a lag and a restart are over, in addition to their configs."""


def add_reassignment_throttles(
    rng: Random, options: Options, faults: list[Fault], seconds: float, *, certain: bool = False
) -> tuple[Options, list[Fault]]:
    """Throttle some reassignments of a seed that has some (`certain`: always), or none."""
    reassigned = [
        fault for fault in faults if fault.kind == reassignments.KIND and fault.detail != reassignments.CANCEL
    ]
    if not reassigned or (not certain and rng.random() >= SHARE):
        return options, faults
    drawn: list[Fault] = []
    for fault in reassigned:
        if rng.random() < PLAYS:
            drawn += play(rng, options, fault)
    return merge_entries(options, faults, drawn, seconds)


def play(rng: Random, options: Options, fault: Fault) -> list[Fault]:
    """Draw a reassignment's throttle, as Kafka's tool does: marks and rate are set first and removed later."""
    marks = EVERY_REPLICA
    if rng.random() < 0.6 and fault.target.isdigit():
        marks = ",".join(f"{fault.target}:{broker_id}" for broker_id in range(1, options.brokers + 1))
    at, over = fault.at - 0.1 * rng.random(), fault.at + 0.5 + 6.0 * rng.random()
    return [
        Fault(at=round(at, 3), kind=REPLICAS_KIND, detail=marks),
        Fault(at=round(at, 3), kind=RATE_KIND, detail=rng.choice(BYTES_A_SECOND)),
        Fault(at=round(over, 3), kind=RATE_KIND, detail=REMOVED),
        *([Fault(at=round(over, 3), kind=REPLICAS_KIND, detail=REMOVED)] if rng.random() < 0.5 else []),
    ]


def add_departure_throttles(
    rng: Random, options: Options, faults: list[Fault], seconds: float, *, certain: bool = False
) -> tuple[Options, list[Fault]]:
    """Throttle some decommissions of a seed that has some (`certain`: always), or none."""
    left = [
        fault for fault in faults if fault.kind == admin_states.KIND and fault.detail == BrokerAdminState.DECOMMISSIONED
    ]
    if not left or (not certain and rng.random() >= SHARE):
        return options, faults
    drawn: list[Fault] = []
    together: dict[Fault, Fault] = {}
    for fault in left:
        way = rng.choice(("ahead", "with", "after", "without"))
        rate = rng.choice(DEPARTURES)
        if way == "with":
            together[fault] = msgspec.structs.replace(fault, amount=float(rate))
        elif way != "without":
            moved = -2.0 if way == "ahead" else 0.5
            at = max(0.0, round(fault.at + moved * rng.random(), 3))
            drawn.append(Fault(at=at, kind=DEPARTURE_KIND, target=fault.target, detail=rate))
        if rng.random() < AHEAD:
            other = str(rng.randint(1, options.brokers))
            drawn.append(Fault(at=fault.at, kind=DEPARTURE_KIND, target=other, detail=rng.choice(DEPARTURES)))
    if options.brokers > 2 and (certain or rng.random() < AHEAD):
        drawn += two_departures(rng, options, seconds * 0.5 * rng.random())
    return merge_entries(options, [together.get(fault, fault) for fault in faults], drawn, seconds)


def two_departures(rng: Random, options: Options, at: float) -> list[Fault]:
    """Draw a broker that is decommissioned with a throttle while another broker's is set; that one follows later."""
    first, second = map(str, rng.sample(range(1, options.brokers + 1), 2))
    left_at, back_at = at + 0.1, at + 3.0 + 3.0 * rng.random()
    fast = float(DEPARTURES[-1])
    return [
        Fault(at=round(at, 3), kind=DEPARTURE_KIND, target=second, detail=rng.choice(DEPARTURES)),
        Fault(
            at=round(left_at, 3),
            kind=admin_states.KIND,
            target=first,
            detail=BrokerAdminState.DECOMMISSIONED,
            amount=fast,
        ),
        Fault(at=round(back_at, 3), kind=admin_states.KIND, target=first, detail=BrokerAdminState.ACTIVE),
        Fault(
            at=round(back_at + 0.1, 3), kind=admin_states.KIND, target=second, detail=BrokerAdminState.DECOMMISSIONED
        ),
        Fault(at=round(back_at + 4.0, 3), kind=admin_states.KIND, target=second, detail=admin_states.NOTHING),
    ]


# Invariants.


def check_throttles(
    before: MetadataImage, after: MetadataImage, removed_by_operator: frozenset[int] = frozenset()
) -> None:
    """Check changes of throttles. `removed_by_operator`: those whose throttle was removed. Raises Violation."""
    for broker_id in ({*before.cluster.brokers} & {*after.cluster.brokers}) - removed_by_operator:
        name = str(broker_id)
        had, has = (DECOMMISSION_THROTTLE in each.configs.of(ResourceType.BROKER, name) for each in (before, after))
        if had and not has and not is_leaving(before.configs, broker_id) and not is_leaving(after.configs, broker_id):
            raise Violation("ThrottleStaysForThen", f"the throttle of {name}, not decommissioned yet, was removed")


def check_departing(name: str, before: MetadataImage, after: MetadataImage) -> None:
    """Check a partition that the controller has begun to move off a broker against that broker's throttle.

    Only without an operator's reassignments: they cannot be distinguished. Raises Violation.
    """
    topic_name, _, number = name.rpartition("-")
    was, now = before.topics.topic(topic_name), after.topics.topic(topic_name)
    partition = None if now is None else now.partition(int(number))
    old = None if was is None else was.partition(int(number))
    if partition is None or (old is not None and old.is_reassigning) or not partition.is_reassigning:
        return
    if not throttles_in(before).keys() & {*partition.removing_replicas}:
        return
    rates = after.configs.of(ResourceType.BROKER, CLUSTER_DEFAULT)
    marked = after.configs.topic(topic_name).get(FOLLOWERS, "").split(",")
    wanted = {f"{number}:{broker_id}" for broker_id in partition.adding_replicas}
    if not {*RATES} <= rates.keys() or not (EVERY_REPLICA in marked or wanted <= {*marked}):
        raise Violation("MovesByItsThrottle", f"{name} leaves {partition.removing_replicas}, and nothing throttles it")


def find_stray_throttles(image: MetadataImage) -> Iterator[str]:
    """Return remaining throttles of decommissions, if no operator sets rates: there should be none.

    Without a leaving broker there are no rates, and only marks of reassignments.
    """
    if throttles_in(image):
        return
    rates = image.configs.of(ResourceType.BROKER, CLUSTER_DEFAULT)
    yield from (f"{key} is still {rates[key]}" for key in RATES if key in rates)
    for topic in image.topics.by_name.values():
        for key in (LEADERS, FOLLOWERS):
            for mark in filter(None, image.configs.topic(topic.name).get(key, "").split(",")):
                partition = topic.partition(int(mark.partition(":")[0]))
                if partition is None or not partition.is_reassigning:
                    yield f"{key} of {topic.name} still has {mark}"


def check_isr_in_peace(
    name: str, before: frozenset[int], after: frozenset[int], replicas: frozenset[int], peace_s: float, need_s: float
) -> None:
    """Check a shrinking ISR against the time without failures.

    Raises Violation.

    `before` and `after` are ISRs, `replicas` the remaining ones. A reachable replica in sync stays in sync, with any
    throttle.
    """
    gone = (before - after) & replicas
    if gone and peace_s > need_s + PEACE_S:
        raise Violation("NobodyInSyncIsHeldBack", f"{name}: {sorted(gone)} fell out of sync, {peace_s:.1f} s in peace")
