"""A cluster of somebody else's: hooks are run with the node's name and id, their faults are told, failures too."""

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest

from kvorum.chaos.client_access import ClientAccess
from kvorum.chaos.faults.events import FaultRegister
from kvorum.chaos.faults.observer import Observer, PartitionView
from kvorum.chaos.faults.target_cluster import LabError
from kvorum.chaos.history import Fault, HistoryWriter, Note
from kvorum.chaos.scenario.external import ExternalCluster, HookError, ProcessHooks
from kvorum.chaos.workload.recorder import Recorder
from kvorum.chaos.workload.sampler import ControllerWatch


class Views:
    """An observer that sees what it is told."""

    def __init__(self) -> None:
        self.seen: dict[str, PartitionView] = {"orders-0": PartitionView(2, 5, (1, 2), (1, 2))}

        self.leader: int | None = 2

    def partitions(self) -> dict[str, PartitionView]:
        return self.seen

    def active_controller(self, timeout_ms: int = 0) -> int | None:
        return self.leader


@pytest.fixture
def views() -> Views:
    return Views()


@pytest.fixture
def events() -> list[Fault]:
    return []


def cluster(hooks: Mapping[str, str], views: Views, events: list[Fault]) -> ExternalCluster:
    register = FaultRegister(events.append)
    return ExternalCluster(
        access=ClientAccess("nowhere:1"),
        processes=ProcessHooks({"node-1": 1, "node-2": 2}, hooks, register),
        register=register,
        observer=cast(Observer, views),
        topics=frozenset({"orders"}),
    )


def test_a_hook_gets_the_nodes_name_and_id(tmp_path: Path, views: Views, events: list[Fault]) -> None:
    log = tmp_path / "log"
    found = cluster(
        {verb: f"echo {verb} {{node}} {{id}} >> {log}" for verb in ("kill", "start", "pause", "resume")}, views, events
    )
    found.processes.kill("node-2", story="kill -9 of it")
    found.processes.pause("node-1")
    found.processes.resume("node-1")
    found.processes.start()
    assert log.read_text().splitlines() == ["kill node-2 2", "pause node-1 1", "resume node-1 1", "start node-2 2"]
    assert [(event.fault, event.phase, event.targets) for event in events] == [
        ("kill", "begin", ["node-2"]),
        ("pause", "begin", ["node-1"]),
        ("pause", "end", ["node-1"]),
        ("kill", "end", ["node-2"]),
    ]


def test_a_failed_hook_is_reported_with_its_output(views: Views, events: list[Fault]) -> None:
    found = cluster({"kill": "echo no such container >&2; exit 3", "start": "true"}, views, events)
    with pytest.raises(HookError, match="ended with 3: no such container"):
        found.processes.kill("node-1")
    assert [event.phase for event in events] == ["begin", "end"]


def test_a_verb_without_a_hook_or_without_its_way_back_does_nothing(views: Views, events: list[Fault]) -> None:
    with pytest.raises(HookError, match="--resume-hook"):
        cluster({"pause": "true"}, views, events).processes.pause("node-1")
    with pytest.raises(HookError, match="--kill-hook"):
        cluster({"start": "true"}, views, events).processes.kill("node-1")
    assert [event.phase for event in events] == ["begin", "end"], "only the second came so far"


def test_health_is_that_of_the_runs_own_topics(views: Views, events: list[Fault]) -> None:
    found = cluster({}, views, events)
    views.seen["others-0"] = PartitionView(-1, 1, (1, 2), ())
    found.wait_until_healthy(0)
    views.seen["orders-0"] = PartitionView(2, 5, (1, 2), (2,))
    with pytest.raises(LabError, match=r"orders-0 has ISR \[2\] of \[1, 2\]"):
        found.wait_until_healthy(0)
    assert found.leader_of("orders", 0) == "node-2"
    views.seen.clear()
    with pytest.raises(LabError, match="topic orders does not exist"):
        found.wait_until_healthy(0)


def test_the_active_controller_is_the_quorums_leader_and_only_a_broker_can_be_broken(views: Views) -> None:
    found = cluster({}, views, [])
    found.has_quorum = True
    assert (found.active_controller_now(), found.active_controller(0)) == ("node-2", "node-2")
    views.leader = 3000
    assert found.active_controller_now() == "node-3000"
    with pytest.raises(LabError, match="node-3000, which is not a broker: hooks apply to node-1, node-2"):
        found.active_controller(0)
    views.leader = None
    with pytest.raises(LabError, match="no active controller"):
        found.active_controller(0)


def test_the_active_controller_is_noted_when_it_is_another_one() -> None:
    writer = HistoryWriter()
    answers = iter(["node-1", None])

    def look() -> str | None:
        found = next(answers)
        if found is None:
            watch._stop.set()
        return found

    watch = ControllerWatch(look, Recorder(writer))
    watch.start()
    watch._thread.join(10)
    watch.stop()
    assert [event.text for event in writer.events if isinstance(event, Note)] == ["active controller: node-1"]
