"""Maintenance and decommission in simulated clusters: drawn, carried out, held against who may lead and have what."""

from random import Random

import msgspec
import pytest

from kvorum.protocol.uuids import Uuid
from kvorum.quorum.controller.broker_admin_state import STATE_KEY, BrokerAdminState
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.quorum.image.partition import PartitionRegistration
from kvorum.quorum.records import Config, Partition, RegisterBroker, Topic
from sim.admin_states import KIND, NOTHING, check_admin_states, find_unfinished
from sim.draw import draw_plan
from sim.ledger import Violation
from sim.plan import Fault, Options, Plan, draw_options, from_json, to_json
from sim.run import Outcome, run_plan

ORDERS = Uuid(b"o" * 16)


def stage() -> Options:
    """Four quiet brokers, a topic of four partitions on two of them each, written to all the time."""
    options = draw_options(Random(4))
    load = msgspec.structs.replace(
        options.load, producers=[(-1, True)], consumers=1, every_s=0.05, admin_every_s=1000.0, burst_s=0.0
    )
    base: dict[str, object] = {
        **{"controllers": 3, "brokers": 4, "combined": False, "partitions": 4, "replication_factor": 2, "min_isr": 1},
        **{"delay_max_s": 0.001, "load": load, "fault_kinds": [KIND], "unclean": False, "log_dirs": 1},
    }
    return msgspec.structs.replace(options, **base)


def run(*faults: Fault) -> Outcome:
    return run_plan(Plan(seed=4, seconds=8.0, options=stage(), faults=list(faults)))


def requested(at: float, broker_id: int, state: str) -> Fault:
    return Fault(at=at, kind=KIND, target=str(broker_id), detail=state)


def test_some_seeds_have_them_and_the_others_are_unchanged() -> None:
    plans = [(draw_plan(seed, throttles=False), draw_plan(seed, duties=False, throttles=False)) for seed in range(100)]
    having = [plan for plan, plain in plans if plan != plain]
    assert 10 < len(having) < 60
    for plan, plain in plans:
        assert [fault for fault in plan.faults if fault.kind != KIND] == plain.faults
    assert all(from_json(to_json(plan)) == plan for plan in having)
    wanted = {fault.detail for plan in having for fault in plan.faults if fault.kind == KIND}
    assert wanted == {*BrokerAdminState, NOTHING}


def test_a_request_is_executed_although_the_controller_dies() -> None:
    """Convergence demands it: see sim.convergence."""
    outcome = run(
        requested(1.0, 1, BrokerAdminState.MAINTENANCE),
        requested(1.5, 2, BrokerAdminState.DECOMMISSIONED),
        Fault(at=1.55, kind="kill", target="active", role="controller", length=1.0),
        requested(4.0, 1, BrokerAdminState.ACTIVE),
        Fault(at=4.05, kind="kill", target="active", role="controller", length=1.0),
        requested(6.0, 3, BrokerAdminState.MAINTENANCE),
    )
    assert outcome.kind is None, outcome.message
    answers = [text for _, text in outcome.lines if text.startswith("the operator's")]
    assert len(answers) == 4 and all(text.endswith("NONE") for text in answers), answers


# The rules, each broken once by hand and kept once just beside it.


def image(*states: tuple[int, str], fenced: int = 0, partition: PartitionRegistration | None = None) -> MetadataImage:
    """Return an image of four brokers of which this is asked, and of one partition if it is given."""
    delta = MetadataDelta(MetadataImage())
    for number in (1, 2, 3, 4):
        delta.replay(
            RegisterBroker(
                broker_id=number,
                broker_epoch=1,
                incarnation_id=Uuid(bytes(16)),
                endpoints=(),
                fenced=number == fenced,
            )
        )
    for number, state in states:
        delta.replay(Config(resource_type=4, resource_name=str(number), name=STATE_KEY, value=state))
    if partition is not None:
        delta.replay(Topic(name="orders", topic_id=ORDERS))
        delta.replay(
            Partition(
                topic_id=ORDERS,
                partition_id=0,
                replicas=partition.replicas,
                isr=partition.isr,
                leader=partition.leader,
            )
        )
    return delta.apply(0, 1)


def led_by(leader: int, isr: tuple[int, ...] = (1, 2), replicas: tuple[int, ...] = (1, 2, 3)) -> PartitionRegistration:
    return PartitionRegistration(
        replicas=replicas,
        isr=isr,
        leader=leader,
        leader_epoch=0,
        partition_epoch=0,
        leader_recovery_state=0,
        directories=(Uuid(bytes(16)),) * len(replicas),
    )


RESTING = ((1, BrokerAdminState.MAINTENANCE),)


@pytest.mark.parametrize(
    ("states", "fenced", "before", "after"),
    [
        (RESTING, 0, led_by(1), led_by(1, (1, 2, 3))),  # it led before
        (RESTING, 0, led_by(2), led_by(1, (1,))),  # nobody else is in sync
        (RESTING, 2, led_by(2), led_by(1)),  # who is in sync is fenced
        ((*RESTING, (2, BrokerAdminState.MAINTENANCE)), 0, led_by(2), led_by(1)),  # and rests, too
        ((), 0, led_by(2), led_by(1)),
    ],
)
def test_a_leader_in_maintenance_is_one_where_no_other_could(
    states: tuple[tuple[int, str], ...], fenced: int, before: PartitionRegistration, after: PartitionRegistration
) -> None:
    found = image(*states, fenced=fenced)
    check_admin_states("orders-0", (found, found), before, after)


@pytest.mark.parametrize("before", [led_by(2), led_by(-1), None], ids=["after another", "after none", "new"])
def test_a_broker_in_maintenance_that_is_elected_is_found(before: PartitionRegistration | None) -> None:
    found = image(*RESTING)
    with pytest.raises(Violation, match="NoLeaderInMaintenance"):
        check_admin_states("orders-0", (found, found), before, led_by(1))


@pytest.mark.parametrize("before", [led_by(2), None], ids=["reassigned", "new"])
def test_a_replica_added_to_a_decommissioned_broker_is_found(before: PartitionRegistration | None) -> None:
    leaving = image((4, BrokerAdminState.DECOMMISSIONED))
    after = led_by(2, replicas=(1, 2, 3, 4))
    check_admin_states("orders-0", (image(), leaving), before, after)
    check_admin_states("orders-0", (leaving, leaving), after, after)
    with pytest.raises(Violation, match="NoReplicaForWhoLeaves"):
        check_admin_states("orders-0", (leaving, leaving), before, after)


@pytest.mark.parametrize(
    ("states", "partition", "count"),
    [
        (((1, BrokerAdminState.ACTIVE),), None, 1),
        (RESTING, led_by(1), 1),
        (RESTING, led_by(1, (1,)), 0),
        (RESTING, led_by(2), 0),
        (((1, BrokerAdminState.DECOMMISSIONED),), led_by(2), 1),
        (((4, BrokerAdminState.DECOMMISSIONED),), led_by(2), 0),
        (
            ((1, BrokerAdminState.DECOMMISSIONED), (4, BrokerAdminState.DECOMMISSIONED)),
            led_by(2),
            0,
        ),  # too few are left
    ],
)
def test_remaining_work_is_reported(
    states: tuple[tuple[int, str], ...], partition: PartitionRegistration | None, count: int
) -> None:
    assert len(list(find_unfinished(image(*states, partition=partition)))) == count
