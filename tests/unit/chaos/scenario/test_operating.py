"""What an operator's steps ask, and how long they go on asking."""

from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from kvorum.chaos.client_access import ClientAccess
from kvorum.chaos.faults.observer import PartitionView
from kvorum.chaos.history import HistoryWriter, Invoke
from kvorum.chaos.scenario import operator_requests
from kvorum.chaos.scenario.conditions import describe_unmet_condition
from kvorum.chaos.scenario.files import ScenarioError, load
from kvorum.chaos.scenario.models import ACTIONS, FAULT_VERBS, Condition, Step
from kvorum.chaos.scenario.operator_requests import RequestError, _operate
from kvorum.chaos.scenario.operator_steps import OperatorSteps, StepError
from kvorum.chaos.scenario.targets import Targets
from kvorum.chaos.workload.recorder import Recorder
from kvorum.client.wire.cluster_client import ClusterClient, Unreachable
from kvorum.protocol.errors import ErrorCode, KafkaError

NOWHERE = ClientAccess("127.0.0.1:1")
SPECIAL = "name: mine\ntitle: Mine\ntopics: {orders: {}}\nworkload: [{kind: send}]\n"


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits between two tries."""
    monkeypatch.setattr(operator_requests, "RETRY_SECONDS", 0.0)


def answers(*outcomes: Exception | str) -> "tuple[list[Exception | str], operator_requests.Callable[..., object]]":
    """Return what is left of them, and an ask that brings the next each time."""
    left = list(outcomes)

    async def ask(cluster: ClusterClient) -> str:
        outcome = left.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return left, ask


def refused(code: ErrorCode) -> KafkaError:
    return KafkaError(code, "no")


def test_retriable_errors_are_retried() -> None:
    left, ask = answers(refused(ErrorCode.NOT_CONTROLLER), Unreachable("nobody"), "done", "never")
    assert _operate(NOWHERE, ask) == "done" and left == ["never"]


@pytest.mark.parametrize("code", sorted(operator_requests.FINAL))
def test_non_retriable_errors_fail_at_once(code: ErrorCode) -> None:
    left, ask = answers(refused(code), "never")
    with pytest.raises(RequestError, match=code.name):
        _operate(NOWHERE, ask)
    assert left == ["never"]


@pytest.mark.parametrize("code", sorted(operator_requests.REACHED))
def test_an_already_reached_state_counts_as_done_after_an_earlier_request(code: ErrorCode) -> None:
    assert _operate(NOWHERE, answers(Unreachable("no answer"), refused(code))[1]) is None
    left, ask = answers(refused(code), refused(code), "never")
    assert _operate(NOWHERE, ask) is None and left == ["never"]


def test_requests_have_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator_requests, "OPERATE_SECONDS", -1.0)
    with pytest.raises(RequestError, match="nobody is there"):
        _operate(NOWHERE, answers(Unreachable("nobody is there"), "never")[1])


class Three:
    """Three brokers, of which 1 leads the only partition and 2 follows."""

    access = NOWHERE
    nodes = ("node-1", "node-2", "node-3")

    def id_of(self, name: str) -> int:
        return int(name.partition("-")[2])

    def name_of(self, node_id: int) -> str:
        return f"node-{node_id}"

    def leader_of(self, topic: str, partition: int, timeout_seconds: float = 0.0) -> str:
        return "node-1"

    def partitions(self) -> dict[str, PartitionView]:
        return {"orders-0": PartitionView(1, 0, (1, 2), (1, 2))}


@pytest.fixture
def requested(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What would have been asked of the cluster."""
    found: list[object] = []
    monkeypatch.setattr(operator_requests, "reassign", lambda access, name, ids: found.append((name, ids)))
    monkeypatch.setattr(operator_requests, "set_levels", lambda access, levels: found.append(dict(levels)))
    monkeypatch.setattr(operator_requests, "active_reassignments", lambda access: {"orders-0"})
    return found


def three() -> tuple[Any, Targets]:
    cluster = Three()
    return cluster, Targets(cast(Any, cluster), Random(1), lambda: [], ())


def steps() -> tuple[OperatorSteps, HistoryWriter]:
    writer = HistoryWriter()
    return OperatorSteps(*three(), Recorder(writer)), writer


def test_replicas_are_targets_in_their_order(requested: list[object]) -> None:
    operator, writer = steps()
    wanted = ("not in-sync orders-0", "leader orders-0")
    operator.do(Step(do="reassign", partition="orders-0", replicas=wanted), [])
    operator.do(Step(do="cancel-reassignment", partition="orders-0"), [])
    operator.do(Step(do="features", levels={"group.version": 0}), [])
    assert requested == [("orders-0", [3, 1]), ("orders-0", None), {"group.version": 0}]
    assert [event.value for event in writer.events if isinstance(event, Invoke)] == [
        ["reassign", "orders-0", "node-3", "node-1"],
        ["cancel-reassignment", "orders-0"],
        ["features", "group.version=0"],
    ]


def test_the_unmet_condition_is_reported(requested: list[object]) -> None:
    def unmet(**wanted: object) -> str:
        return describe_unmet_condition(*three(), Condition.model_validate(wanted), 0)

    assert unmet(reassigned=("orders-1",), empty="node-3") == ""
    assert unmet(reassigned=("orders-0",)) == "orders-0 not being reassigned"
    assert unmet(empty="node-2") == "node-2 without replicas: it has orders-0"


def test_voters_are_those_of_the_labs_own_cluster() -> None:
    for verb in ("add-controller", "remove-controller"):
        with pytest.raises(StepError, match="a lab cluster"):
            steps()[0].do(Step.model_validate({"do": verb, "target": "node-1"}), ["node-1"])


def test_an_action_is_not_a_fault() -> None:
    assert not ACTIONS.keys() & FAULT_VERBS.keys()


@pytest.mark.parametrize(
    ("step", "reported"),
    [
        ("{do: reassign, partition: orders-0}", "reassign needs replicas"),
        ("{do: reassign, partition: orders-0, replicas: [leader orders-3]}", "partition orders-3 does not exist"),
        ("{do: cancel-reassignment}", "cancel-reassignment needs partition"),
        ("{do: features}", "features needs levels"),
        ("{do: add-controller}", "add-controller needs target"),
        ("{do: wait, until: {reassigned: [orders-1]}}", "partition orders-1 does not exist"),
    ],
)
def test_slips_are_reported_before_the_run(tmp_path: Path, step: str, reported: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(SPECIAL + f"steps: [{step}]")
    with pytest.raises(ScenarioError, match=reported):
        load(path)
