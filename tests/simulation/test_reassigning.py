"""Reassignments in simulated clusters: drawn, carried out, held against what may be dropped when."""

from random import Random

import msgspec
import pytest

from kvorum.quorum.image.partition import UNASSIGNED_DIRECTORY, PartitionRegistration
from sim.candidates import check_kept
from sim.draw import draw_plan
from sim.ledger import Violation
from sim.metadata_watch import check_reassignment
from sim.mutants.catalogue import apply_mutant
from sim.plan import Fault, Options, Plan, draw_options, from_json, to_json
from sim.reassignments import CANCEL, KIND, add_reassignments, add_reductions
from sim.run import Outcome, run_plan


def stage() -> Options:
    """Four quiet brokers, a topic of one partition on two of them, written to all the time."""
    options = draw_options(Random(4))
    load = msgspec.structs.replace(
        options.load, producers=[(-1, True)], consumers=1, every_s=0.05, admin_every_s=1000.0, burst_s=0.0
    )
    base: dict[str, object] = {
        **{"controllers": 1, "brokers": 4, "combined": False, "partitions": 1, "replication_factor": 2, "min_isr": 1},
        **{"delay_max_s": 0.001, "load": load, "fault_kinds": [KIND], "unclean": False, "log_dirs": 1},
    }
    return msgspec.structs.replace(options, **base)


def reassignment(at: float, detail: str) -> Fault:
    return Fault(at=at, kind=KIND, target="0", detail=detail)


def run(*details: str) -> Outcome:
    faults = [reassignment(1.0 + 1.5 * place, each) for place, each in enumerate(details)]
    return run_plan(Plan(seed=4, seconds=8.0, options=stage(), faults=faults))


def test_some_seeds_have_them_and_the_others_are_unchanged() -> None:
    plans = [
        (draw_plan(seed, throttles=False), draw_plan(seed, reassignments=False, throttles=False)) for seed in range(100)
    ]
    having = [plan for plan, plain in plans if plan != plain]
    assert 10 < len(having) < 60
    for plan, plain in plans:
        assert [fault for fault in plan.faults if fault.kind != KIND] == plain.faults
    fewer = 0
    assert all(from_json(to_json(plan)) == plan for plan in having)
    requested = [fault for plan in having for fault in plan.faults if fault.kind == KIND]
    assert any(fault.detail == CANCEL for fault in requested)
    assert any(fault.target.startswith("__consumer_offsets-") for fault in requested), "coordinators move, too"
    for plan in having:
        for fault in plan.faults:
            if fault.kind == KIND and fault.detail != CANCEL:
                replicas = [int(each) for each in fault.detail.split(",")]
                assert len(set(replicas)) == len(replicas) >= 1
                fewer += len(replicas) < plan.options.replication_factor
                assert set(replicas) <= set(range(1, plan.options.brokers + 1))
    assert 20 < fewer < len(requested) / 3


def test_some_of_these_go_below_the_replication_factor_and_the_others_are_unchanged() -> None:
    options, faults = add_reassignments(Random(3), stage(), [], 60.0, certain=True)
    assert add_reductions(Random(1), options, faults, 60.0, certain=True)[1] != faults
    same = [add_reductions(Random(seed), options, faults, 60.0)[1] == faults for seed in range(40)]
    assert 8 < sum(same) < 32
    assert add_reductions(Random(1), options, [], 60.0, certain=True) == (options, [])
    alone = msgspec.structs.replace(options, replication_factor=1)
    assert add_reductions(Random(1), alone, faults, 60.0, certain=True) == (alone, faults)


def test_replicas_move_are_cancelled_and_end_where_they_were_wanted() -> None:
    outcome = run("3,4", "1,2,3", "4,1", CANCEL)
    assert outcome.kind is None, outcome.message
    answers = [text for _, text in outcome.lines if text.startswith("the operator's")]
    assert len(answers) == 4 and all(text.endswith("NONE") for text in answers[:3]), answers
    assert answers[3].endswith(("NONE", "NO_REASSIGNMENT_IN_PROGRESS"))


def test_dropping_the_old_before_the_new_are_in_sync_is_found() -> None:
    with apply_mutant("drop-before-in-sync"):
        outcome = run("3,4", "1,2", "3,4")
    assert outcome.kind == "ReassignedInSync", outcome.message


def test_going_to_fewer_replicas_while_those_that_stay_are_behind_is_found() -> None:
    away = Fault(at=1.5, kind="pause", target="2", role="broker", length=3.0)
    faults = [reassignment(1.0, "3,2,1"), away, reassignment(4.2, "3,2")]
    plan = Plan(seed=4, seconds=8.0, options=stage(), faults=faults)
    assert (outcome := run_plan(plan)).kind is None, outcome.message
    with apply_mutant("reduce-before-in-sync"):
        outcome = run_plan(plan)
    assert outcome.kind == "ReassignedInSync", outcome.message


def registration(replicas: tuple[int, ...], isr: tuple[int, ...], **others: tuple[int, ...]) -> PartitionRegistration:
    return PartitionRegistration(
        replicas=replicas,
        isr=isr,
        leader=isr[0] if isr else -1,
        leader_epoch=0,
        partition_epoch=0,
        leader_recovery_state=0,
        directories=(UNASSIGNED_DIRECTORY,) * len(replicas),
        **others,
    )


WHOLE = registration((1, 2, 3), (1, 2, 3))
PARTLY = registration((1, 2, 3), (1, 3))
REDUCING = registration((1, 2, 3), (1, 3), removing_replicas=(3,))
SWAPPING = registration((4, 1, 2, 3), (4, 1, 3), adding_replicas=(4,), removing_replicas=(2, 3))
UNDER_WAY = registration((3, 4, 1, 2), (1, 2, 3), adding_replicas=(3, 4), removing_replicas=(1, 2))


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        (registration((1, 2), (1, 2)), UNDER_WAY, "JoinsAsReplica"),
        (UNDER_WAY, registration((3, 4), (3, 4)), None),
        (UNDER_WAY, registration((3, 4), (3,)), "ReassignedInSync"),
        (UNDER_WAY, registration((1, 2), (1, 2)), None),
        (UNDER_WAY, registration((1, 2), ()), "ReassignedInSync"),
        (UNDER_WAY, registration((1, 2), (), elr=(1,)), None),
        (WHOLE, registration((1, 2), (1, 2)), None),  # more leave than come: who stays is in sync
        (PARTLY, REDUCING, None),
        (PARTLY, registration((1, 2), (1,)), "ReassignedInSync"),
        (REDUCING, registration((1, 2), (1,)), "ReassignedInSync"),
        (REDUCING, registration((1, 2), (1, 2)), None),
        (SWAPPING, registration((4, 1), (4, 1)), None),
        (SWAPPING, registration((4, 1), (4,)), "ReassignedInSync"),
        (SWAPPING, registration((1, 2, 3), (1, 3)), None),  # taken back: nobody who had it leaves
    ],
)
def test_valid_replica_changes(before: PartitionRegistration, after: PartitionRegistration, kind: str | None) -> None:
    if kind is None:
        check_reassignment("a-0", before, after)
        return
    with pytest.raises(Violation) as caught:
        check_reassignment("a-0", before, after)
    assert caught.value.kind == kind


@pytest.mark.parametrize(
    ("before", "after", "is_unclean", "is_kept"),
    [
        (registration((1, 2), (1, 2)), registration((1, 2), (2,)), False, True),
        (registration((3, 1, 2), (3,), adding_replicas=(3,)), registration((1, 2), (1,)), False, False),
        (registration((3, 1, 2), (3,), adding_replicas=(3,)), registration((3, 1, 2), (1,)), True, True),
        (
            registration((3, 1), (1,), adding_replicas=(3,), removing_replicas=(1,)),
            registration((3,), (3,)),
            False,
            True,
        ),
        (registration((2, 1, 3), (1, 3), removing_replicas=(1, 3)), registration((2,), (2,)), False, True),
        (
            registration((2, 1, 3), (1, 3), removing_replicas=(1,)),
            registration((2, 1, 3), (2,), removing_replicas=(1,)),
            False,
            False,
        ),
        (registration((1, 2), (), elr=(2,)), registration((1, 2), (2,)), False, True),
        (registration((1, 2), (), elr=(2,)), registration((1, 2), (1,)), False, False),
    ],
)
def test_only_an_unclean_election_replaces_all_candidates(
    before: PartitionRegistration, after: PartitionRegistration, is_unclean: bool, is_kept: bool
) -> None:
    if is_kept:
        check_kept("orders-0", before, after, is_unclean=is_unclean)
    else:
        with pytest.raises(Violation, match="CandidatesKept"):
            check_kept("orders-0", before, after, is_unclean=is_unclean)
