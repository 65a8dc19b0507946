"""Random schedules are the seed's; targets stand for whom they say; expectations are held."""

import json
from itertools import pairwise
from random import Random
from typing import cast

import pytest

from kvorum.chaos.faults.events import ActiveFault, FaultRegister, nothing
from kvorum.chaos.faults.lab import Lab
from kvorum.chaos.faults.observer import PartitionView
from kvorum.chaos.history import HistoryWriter
from kvorum.chaos.scenario.models import RandomFaults, Step
from kvorum.chaos.scenario.schedule import DOWN, draw_steps, step_text
from kvorum.chaos.scenario.targets import Targets, UnknownTarget
from kvorum.chaos.scenario.verbs import Verbs
from kvorum.chaos.workload.recorder import Recorder

PARTITIONS = ["orders-0", "orders-1"]
KINDS = ("kill", "pause", "cut", "isolate", "slow", "freeze", "lose-responses", "clock-jump")


def plan(**more: object) -> RandomFaults:
    return RandomFaults.model_validate_json(json.dumps({"kinds": KINDS, **more}))


def test_the_same_seed_draws_the_same_schedule() -> None:
    assert draw_steps(plan(), PARTITIONS, 120, Random(7)) == draw_steps(plan(), PARTITIONS, 120, Random(7))
    assert draw_steps(plan(), PARTITIONS, 120, Random(7)) != draw_steps(plan(), PARTITIONS, 120, Random(8))


@pytest.mark.parametrize("seed", range(20))
def test_a_drawn_schedule_keeps_its_bounds(seed: int) -> None:
    steps = draw_steps(plan(hold=[1.0, 3.0], down_max=1), PARTITIONS, 100, Random(seed))
    assert steps and [step.at for step in steps] == sorted(step.at for step in steps if step.at is not None)
    down = [(step.at, step.at + step.hold) for step in steps if step.do in DOWN and step.at is not None and step.hold]
    assert all(end <= begin for (_, end), (begin, _) in pairwise(down)), "one node down at a time"
    assert all(step.hold is not None and 0.999 <= step.hold <= 3.0 for step in steps if step.do != "restart")


def test_about_a_quarter_of_the_time_is_quiet() -> None:
    steps = draw_steps(plan(every=5.0), PARTITIONS, 5000, Random(3))
    busy = {int((step.at or 0) // 5) for step in steps}
    assert 0.68 < len(busy) / 1000 < 0.82


class Cluster:
    """Three nodes; node-2 leads orders-0, whose ISR is node-2 and node-3."""

    @property
    def nodes(self) -> list[str]:
        return ["node-1", "node-2", "node-3"]

    def partitions(self) -> dict[str, PartitionView]:
        return {"orders-0": PartitionView(leader=2, leader_epoch=4, replicas=(1, 2, 3), isr=(2, 3))}

    def leader_of(self, topic: str, partition: int, timeout_seconds: float = 30.0) -> str:
        assert (topic, partition) == ("orders", 0)
        return "node-2"

    def active_controller(self, timeout_seconds: float = 30.0) -> str:
        return "node-3"

    def active_controller_now(self) -> str | None:
        return "node-3"

    def name_of(self, node_id: int) -> str:
        return f"node-{node_id}"


class Stories(Cluster):
    """A cluster that keeps the stories of what is done to it."""

    def __init__(self) -> None:
        self.reported: list[str] = []

    @property
    def processes(self) -> "Stories":
        return self

    def kill(self, name: str, *, story: str = "") -> ActiveFault:
        return self._begin("kill", name, story)

    def pause(self, name: str, *, story: str = "") -> ActiveFault:
        return self._begin("pause", name, story)

    def _begin(self, kind: str, name: str, story: str) -> ActiveFault:
        self.reported.append(story)
        return FaultRegister().begin(kind, [name], story, undo=nothing)


@pytest.mark.parametrize(
    ("do", "target", "story"),
    [
        ("kill", "node-1", "kill -9 node-1"),
        ("kill", "node-3", "kill -9 node-3, the active controller"),
        ("kill", "active-controller", "kill -9 node-3, the active controller"),
        ("kill", "leader orders-0", "kill -9 node-2 (leader orders-0)"),
        ("kill", "follower orders-0", "kill -9 node-3, the active controller (follower orders-0)"),
        ("kill", "node-3/broker", "kill -9 node-3/broker"),
        ("pause", "active-controller/controller", "SIGSTOP to node-3/controller, the active controller"),
        ("pause", "leader orders-0/broker", "SIGSTOP to node-2/broker (leader orders-0/broker)"),
    ],
)
def test_the_story_of_a_fault_names_the_active_controller(do: str, target: str, story: str) -> None:
    cluster = Stories()
    targets = Targets(cluster, Random(1), lambda: ["node-1", "node-3"], ("clients",))
    verbs = Verbs(cast(Lab, cluster), targets, Recorder(HistoryWriter()), lambda: False)
    verbs.do(Step.model_validate_json(json.dumps({"do": do, "target": target})))
    assert cluster.reported == [story]


@pytest.fixture
def targets() -> Targets:
    return Targets(Cluster(), Random(1), lambda: ["node-1", "node-3"], ("clients",))


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("node-1", ["node-1"]),
        ("node-1/controller", ["node-1/controller"]),
        ("leader orders-0", ["node-2"]),
        ("leader orders-0/broker", ["node-2/broker"]),
        ("follower orders-0", ["node-3"]),
        ("follower 2 orders-0", ["node-1"]),
        ("followers orders-0", ["node-3", "node-1"]),
        ("in-sync orders-0", ["node-2", "node-3"]),
        ("active-controller", ["node-3"]),
        ("standby-controller", ["node-1"]),
        ("not leader orders-0", ["node-1", "node-3"]),
        ("all", ["node-1", "node-2", "node-3"]),
        ("clients", ["clients"]),
        (("leader orders-0", "node-2", "node-1"), ["node-2", "node-1"]),
    ],
)
def test_a_target_resolves_to_its_nodes(targets: Targets, target: str | tuple[str, ...], expected: list[str]) -> None:
    assert targets.resolve(target) == expected


def test_a_name_keeps_its_node(targets: Targets) -> None:
    targets.remember("old", targets.resolve("leader orders-0/broker"))
    assert targets.resolve("old") == ["node-2"] and targets.resolve("not old") == ["node-1", "node-3"]


@pytest.mark.parametrize("target", ["node-9", "leader", "leader orders", "leader payments-0x", "node-1/admin", ""])
def test_an_unknown_target_is_refused(targets: Targets, target: str) -> None:
    with pytest.raises(UnknownTarget):
        targets.resolve(target)


def test_steps_read_as_sentences() -> None:
    step = Step.model_validate_json('{"do": "cut", "target": "leader orders-0", "to": "node-1", "for": 2.5}')
    assert step_text(step) == "cut leader orders-0 to node-1 for 2.5 s"
