"""Plans are data: drawn from the seed alone, saved and read back, shrunk as long as they fail alike, told in words."""

import msgspec

from kvorum.chaos.history import Fault as FaultEvent
from kvorum.chaos.history import Metadata
from sim.changes import KINDS as CHANGES
from sim.draw import draw_plan
from sim.plan import KINDS, Fault, Plan, from_json, machines_of, to_json
from sim.shrink import Shrinker, shrink, without_pieces
from sim.story import event_lines, lines_of


def kinds_of(plan: Plan) -> list[str]:
    return [fault.kind for fault in plan.faults]


def test_a_seed_draws_the_same_plan_and_another_seed_another_one() -> None:
    assert draw_plan(7) == draw_plan(7)
    assert draw_plan(7) != draw_plan(8)


def test_plans_are_read_back_as_they_were() -> None:
    for seed in range(20):
        assert from_json(to_json(draw_plan(seed))) == draw_plan(seed)


def test_seeds_together_reach_every_size_and_every_kind_of_fault() -> None:
    plans = [draw_plan(seed) for seed in range(300)]
    assert {plan.options.controllers for plan in plans} == {1, 3, 5}
    assert {plan.options.brokers for plan in plans} == {1, 2, 3, 4, 5}
    assert {plan.options.min_isr for plan in plans} == {1, 2, 3}
    assert {(plan.options.elr, plan.options.unclean, plan.options.combined) for plan in plans} == {
        (elr, unclean, combined) for elr in (False, True) for unclean in (False, True) for combined in (False, True)
    }
    assert {fault.kind for plan in plans for fault in plan.faults} == {
        *KINDS,
        "freeze",
        "moment",
        "reassign",
        "duty",
        "move",
        "move_rate",
        "replication_rate",
        "throttled_replicas",
        "departure_rate",
        "feature",
        "dir_broken",
        "dir_lost",
        "dir_return",
        "start_cut",
        *CHANGES,
    }


def test_plans_make_sense() -> None:
    for plan in (draw_plan(seed) for seed in range(300)):
        options = plan.options
        assert 1 <= options.min_isr <= options.replication_factor <= options.brokers
        roles = machines_of(options)
        assert sum("broker" in each for each in roles.values()) == options.brokers
        assert sum("controller" in each for each in roles.values()) == options.controllers
        kinds = {*options.fault_kinds, *(() if options.coordination is None else ("moment",))}
        assert all(0 < fault.at < plan.seconds and fault.kind in kinds for fault in plan.faults)
        assert plan.faults == sorted(plan.faults, key=lambda fault: fault.at)


def plan_of(*kinds: str) -> Plan:
    faults = [Fault(at=float(place + 1), kind=kind) for place, kind in enumerate(kinds)]
    return msgspec.structs.replace(draw_plan(1, 60.0), faults=faults)


def test_shrinking_leaves_only_the_faults_that_matter() -> None:
    plan = plan_of(*["pause", "kill", "cut", "slow"] * 5, "wipe", "reset", "reset")

    def fails(candidate: Plan) -> str | None:
        kinds = kinds_of(candidate)
        return "lost" if "wipe" in kinds and "kill" in kinds and kinds.index("kill") < kinds.index("wipe") else None

    small = shrink(plan, "lost", fails)
    assert kinds_of(small) == ["kill", "wipe"]
    assert small.seconds < plan.seconds
    assert len(small.options.load.producers) == 1 and small.options.load.consumers == 0
    assert fails(small) == "lost"


def test_shrinking_does_not_take_another_violation_for_the_same() -> None:
    plan = plan_of("kill", "cut", "kill")
    small = shrink(plan, "lost", lambda candidate: "lost" if len(candidate.faults) >= 2 else "stuck")
    assert len(small.faults) == 2


def test_shrinking_keeps_necessary_parts() -> None:
    plan = plan_of("kill", "cut")
    assert shrink(plan, "lost", lambda candidate: "lost" if candidate == plan else None) == plan


def test_shrinking_keeps_to_its_limit() -> None:
    plan, runs = plan_of(*["kill"] * 40), [0]

    def fails(candidate: Plan) -> str | None:
        runs[0] += 1
        return None

    shrinker = Shrinker(plan, "lost", fails, runs_max=10)
    shrinker.drop_faults()
    shrinker.shorten()
    assert runs[0] == shrinker.runs == 10 and shrinker.plan == plan


def test_pieces_are_left_out_from_the_end() -> None:
    faults = plan_of("a", "b", "c").faults

    def rests(size: int) -> list[str]:
        return ["".join(fault.kind for fault in rest) for rest in without_pieces(faults, size)]

    assert rests(2) == ["ab", "c"]
    assert rests(1) == ["ab", "ac", "bc"]


def test_a_story_has_actor_action_and_time() -> None:
    events = [
        Metadata(t=0.1, offset=1, record={"type": "Topic", "name": "orders", "topic_id": "x"}),
        FaultEvent(t=1.5, fault="kill", id=1, phase="begin", story="kill -9 of node-1/broker, which led orders-0"),
        Metadata(
            t=2.0,
            offset=2,
            record={"type": "PartitionChange", "topic_id": "x", "partition_id": 0, "leader": 2, "isr": [2, 3]},
        ),
        Metadata(t=2.1, offset=3, record={"type": "NoOp"}),
    ]
    story = event_lines(events)
    assert story == [
        (0.1, "topic orders is created"),
        (1.5, "kill -9 of node-1/broker, which led orders-0"),
        (2.0, "orders-0: leader 2, ISR [2, 3]"),
    ]
    assert lines_of(story, lines_max=1) == ["  ... 2 earlier events", "      2.000 s  orders-0: leader 2, ISR [2, 3]"]
