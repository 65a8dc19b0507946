"""The table of faults, and the faces that read it: steps, HTTP, the fixture, the checker and the report."""

import inspect
import json

import pytest

from kvorum.chaos.checker.timeline import LINK_FAULTS
from kvorum.chaos.faults.fault_kinds import FAULTS, FaultKind
from kvorum.chaos.faults.link_faults import LINK_KINDS
from kvorum.chaos.pytest.cluster import KvorumCluster
from kvorum.chaos.report.palette import LINKS
from kvorum.chaos.scenario.models import ACTIONS, FAULT_VERBS, Step
from kvorum.chaos.serve.models import FaultRequest

FIXTURE = ("kill", "terminate", "pause", "cut", "cut_one_way", "slow", "isolate")
VALUES = {"what": "orders-0", "delay_ms": 5, "directory": 2, "offset_ms": 1, "latency_ms": 7, "kind": "latency"}
VALUES |= {"api": "PRODUCE", "code": 6, "listener": "CLIENTS", "arm": "x=kill"}


def required(kind: FaultKind) -> list[str]:
    return [name for name, field in kind.options.model_fields.items() if field.is_required()]


def test_http_lists_the_faults_of_the_table() -> None:
    assert FaultRequest.model_json_schema()["properties"]["fault"]["enum"] == list(FAULTS)


@pytest.mark.parametrize("kind", FAULTS.values(), ids=lambda kind: kind.name)
def test_each_fault_is_a_step_with_its_options_and_targets(kind: FaultKind) -> None:
    ends = dict(zip(("target", "to"), ("node-1", "node-2"), strict=True))
    given = {"do": kind.verb, **dict(list(ends.items())[: kind.targets[0]])}
    options = {name: VALUES[name] for name in required(kind)}
    step = Step.model_validate_json(json.dumps(given | options))
    assert step.fault is kind and step.options == kind.options.model_validate(options)
    for needed in [*given.keys() - {"do"}, *options]:
        less = {name: value for name, value in (given | options).items() if name != needed}
        with pytest.raises(ValueError, match=f"do: {kind.verb} needs {needed}"):
            Step.model_validate_json(json.dumps(less))


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ({"do": "slow", "ms": 3, "jitter": 1}, {"latency_ms": 3, "jitter_ms": 1}),
        ({"do": "bandwidth", "rate": 20, "one_way": True}, {"kb_per_second": 20, "one_way": True, "share": 1.0}),
        ({"do": "cut", "how": "freeze"}, {"kind": "freeze"}),
        ({"do": "flip-bits", "partition": "journal"}, {"what": "journal", "count": 1, "position": None}),
        ({"do": "failpoint", "arm": "x=kill"}, {"arm": "x=kill"}),
        ({"do": "refuse-inside"}, {"listener": "INTERNAL", "cut": True}),
    ],
)
def test_steps_have_shorter_spellings(given: dict[str, object], options: dict[str, object]) -> None:
    step = Step.model_validate_json(json.dumps({"target": "node-1", "to": "node-2", **given}))
    assert step.options.model_dump() == options


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"do": "slow", "ms": 0}, "do: slow: ms: Input should be greater than or equal to 1"),
        ({"do": "slow", "jiter": 1, "ms": 1}, "do: slow: unknown key jiter"),
        ({"do": "kill", "ms": 1}, "do: kill: unknown key ms"),
        ({"do": "start", "ms": 1}, "do: start: unknown key ms"),
    ],
)
def test_a_wrong_option_of_a_step_is_reported(given: dict[str, object], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Step.model_validate_json(json.dumps({"target": "node-1", "to": "node-2", **given}))


def test_a_verb_is_either_a_fault_or_an_action() -> None:
    assert not FAULT_VERBS.keys() & ACTIONS.keys()


@pytest.mark.parametrize("name", FIXTURE)
def test_the_methods_of_the_fixture_have_the_targets_and_options_of_the_table(name: str) -> None:
    parameters = list(inspect.signature(getattr(KvorumCluster, name)).parameters)[1:]
    assert len(parameters) == FAULTS[name].targets[0] + len(required(FAULTS[name]))


def test_faults_of_links_are_known_to_the_checker_and_the_report() -> None:
    raw = {name for name, kind in FAULTS.items() if name in LINK_KINDS and kind.needs == "links"}
    assert raw == {*LINK_KINDS} - {"drop"}, "as a cut: `drop` is the name of another fault"
    assert {*LINK_KINDS} <= LINK_FAULTS and {*LINK_KINDS} <= LINKS
