"""What an operator's steps ask, and how long they go on asking."""

from pathlib import Path
from random import Random
from typing import cast

import pytest

from kvorum.chaos.faults.lab import LabError
from kvorum.chaos.faults.observer import PartitionView
from kvorum.chaos.history import OperationValue
from kvorum.chaos.scenario import operating, operator_steps
from kvorum.chaos.scenario.files import ScenarioError, load
from kvorum.chaos.scenario.models import Condition, Step
from kvorum.chaos.scenario.operating import Refused, _operate
from kvorum.chaos.scenario.operator_steps import OPERATIONS, OperatorSteps
from kvorum.chaos.scenario.runner import NO_FAULTS
from kvorum.chaos.scenario.targets import Seen, Targets
from kvorum.client.wire.cluster_client import ClusterClient, Unreachable
from kvorum.protocol.errors import ErrorCode, KafkaError

NOWHERE = "127.0.0.1:1"
SPECIAL = "name: mine\ntitle: Mine\ntopics: {orders: {}}\nworkload: [{kind: send}]\n"


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits between two tries."""
    monkeypatch.setattr(operating, "RETRY_SECONDS", 0.0)


def answers(*outcomes: Exception | str) -> "tuple[list[Exception | str], operating.Callable[..., object]]":
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


@pytest.mark.parametrize("code", sorted(operating.FINAL))
def test_non_retriable_errors_fail_at_once(code: ErrorCode) -> None:
    left, ask = answers(refused(code), "never")
    with pytest.raises(Refused, match=code.name):
        _operate(NOWHERE, ask)
    assert left == ["never"]


@pytest.mark.parametrize("code", sorted(operating.REACHED))
def test_an_already_reached_state_counts_as_done_after_an_earlier_request(code: ErrorCode) -> None:
    assert _operate(NOWHERE, answers(Unreachable("no answer"), refused(code))[1]) is None
    left, ask = answers(refused(code), refused(code), "never")
    assert _operate(NOWHERE, ask) is None and left == ["never"]


def test_requests_have_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operating, "OPERATE_SECONDS", -1.0)
    with pytest.raises(Refused, match="nobody is there"):
        _operate(NOWHERE, answers(Unreachable("nobody is there"), "never")[1])


class Three:
    """Three brokers, of which 1 leads the only partition and 2 follows."""

    bootstrap = NOWHERE
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
    monkeypatch.setattr(operating, "reassign", lambda bootstrap, name, ids: found.append((name, ids)))
    monkeypatch.setattr(operating, "set_levels", lambda bootstrap, levels: found.append(dict(levels)))
    monkeypatch.setattr(operating, "reassigned", lambda bootstrap: {"orders-0"})
    return found


def steps(reported: list[OperationValue]) -> OperatorSteps:
    cluster = Three()
    targets = Targets(cast(Seen, cluster), Random(1), lambda: [], ())

    def record(value: OperationValue, work: operator_steps.Callable[[], object]) -> None:
        reported.append(value)
        work()

    return OperatorSteps(cluster, targets, record)


def test_replicas_are_targets_in_their_order(requested: list[object]) -> None:
    reported: list[OperationValue] = []
    wanted = ("not in-sync orders-0", "leader orders-0")
    steps(reported).do(Step(do="reassign", partition="orders-0", replicas=wanted), [])
    steps(reported).do(Step(do="cancel-reassignment", partition="orders-0"), [])
    steps(reported).do(Step(do="features", levels={"group.version": 0}), [])
    assert requested == [("orders-0", [3, 1]), ("orders-0", None), {"group.version": 0}]
    assert reported == [
        ["reassign", "orders-0", "node-3", "node-1"],
        ["cancel-reassignment", "orders-0"],
        ["features", "group.version=0"],
    ]


def test_the_unmet_condition_is_reported(requested: list[object]) -> None:
    found = steps([])
    assert found.missing(Condition(reassigned=("orders-1",), empty="node-3")) == ""
    assert found.missing(Condition(reassigned=("orders-0",))) == "orders-0 not being reassigned"
    assert found.missing(Condition(empty="node-2")) == "node-2 without replicas: it has orders-0"


def test_voters_are_those_of_the_labs_own_cluster() -> None:
    for verb in ("add-controller", "remove-controller"):
        with pytest.raises(LabError, match="a lab cluster"):
            steps([]).do(Step.model_validate({"do": verb, "target": "node-1"}), ["node-1"])


def test_an_operator_breaks_nothing() -> None:
    assert OPERATIONS <= NO_FAULTS


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
