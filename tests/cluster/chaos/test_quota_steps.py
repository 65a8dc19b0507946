"""Quotas and racks in scenarios: the steps that set them, what a window may see, the shipped scenarios with them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pydantic
import pytest

from kvorum.chaos.client_access import ClientAccess
from kvorum.chaos.faults.toxiproxy_binary import NoToxiproxy, find_or_build
from kvorum.chaos.scenario import operator_requests
from kvorum.chaos.scenario.models import Scenario, Step, Topic
from kvorum.chaos.scenario.operator_requests import RequestError, alter_quota
from kvorum.chaos.scenario.outcome import failed_expectations
from kvorum.chaos.scenario.schedule import Window
from kvorum.chaos.workload.members import member_settings
from kvorum.chaos.workload.plan import AssignClients, SubscribeClients
from kvorum.chaos.workload.recorder import AckedSend
from kvorum.protocol.errors import ErrorCode, KafkaError
from tests.cluster.chaos.test_runs import assert_broken_and_used, assert_compared, run
from tests.unit.chaos.scenario.test_outcome import verdict

ACKED = [AckedSend("a-0", 1.0, t, "all") for t in (4.0, 5.0, 6.0)]


@pytest.mark.parametrize(
    ("begin", "end", "reported"), [(4.5, 7, None), (3, 5.5, None), (3, 7, "3 sends were acknowledged")]
)
def test_a_window_limits_acknowledgements_independent_of_their_begin(
    begin: float, end: float, reported: str | None
) -> None:
    step = Step.model_validate_json('{"do": "window", "for": 1, "acked_max": 2}')
    scenario = Scenario(name="x", title="y", topics={"a": Topic(), "b": Topic()}, workload=())
    found = failed_expectations(scenario, verdict(), ACKED, [Window(begin, end, step)], True)
    assert (not found) if reported is None else (len(found) == 1 and reported in found[0]), found


@pytest.mark.parametrize(("given", "missing"), [('"quota": {"ip": ""}', "configs"), ('"configs": {"k": "1"}', "quota")])
def test_a_quota_step_has_entity_and_configs(given: str, missing: str) -> None:
    with pytest.raises(pydantic.ValidationError, match=f"do: alter-quota needs {missing}"):
        Step.model_validate_json(f'{{"do": "alter-quota", {given}}}')


NOWHERE = ClientAccess("127.0.0.1:1")


class Cluster:
    """Answers as a test says, and notes what it is asked."""

    def __init__(self, *answers: Exception | None) -> None:
        self.answers = list(answers)
        self.requested: list[tuple[dict[str, str | None], dict[str, float], list[str]]] = []

    def of(self, client: Any) -> "Cluster":
        return self

    async def alter(
        self, entity: Mapping[str, str | None], values: Mapping[str, float], *, remove: Sequence[str]
    ) -> None:
        self.requested.append((dict(entity), dict(values), list(remove)))
        answer = self.answers.pop(0)
        if answer is not None:
            raise answer


def test_an_empty_name_is_the_default_and_an_empty_value_removes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator_requests, "RETRY_SECONDS", 0.0)
    cluster = Cluster(KafkaError(ErrorCode.NOT_CONTROLLER), None)
    monkeypatch.setattr(operator_requests, "Quotas", cluster.of)
    alter_quota(NOWHERE, {"user": "ann", "client-id": ""}, {"producer_byte_rate": "5", "request_percentage": ""})
    requested = ({"user": "ann", "client-id": None}, {"producer_byte_rate": 5.0}, ["request_percentage"])
    assert cluster.requested == [requested] * 2


def test_an_invalid_quota_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator_requests, "RETRY_SECONDS", 0.0)
    cluster = Cluster(KafkaError(ErrorCode.INVALID_REQUEST, "not so"))
    monkeypatch.setattr(operator_requests, "Quotas", cluster.of)
    with pytest.raises(RequestError, match="not so"):
        alter_quota(NOWHERE, {"ip": ""}, {"connection_creation_rate": "1"})
    with pytest.raises(RequestError, match="a quota is a number"):
        alter_quota(NOWHERE, {"ip": ""}, {"connection_creation_rate": "fast"})


def test_readers_have_a_rack_if_their_library_supports_it() -> None:
    subscribed = SubscribeClients(kind="subscribe", group_id="g", rack="b")
    assert member_settings(subscribed, NOWHERE, "read_committed")["client.rack"] == "b"
    assert AssignClients(kind="assign", rack="b").rack == "b"
    with pytest.raises(pydantic.ValidationError, match="aiokafka does not support racks"):
        AssignClients(kind="assign", client="aiokafka", rack="b")


def test_every_leader_enforces_the_clients_quotas(tmp_path: Path) -> None:
    outcome = run("quotas", tmp_path)
    assert outcome.verdict is not None and outcome.verdict.figures.faults_by_kind == {"kill": 2}
    assert_compared(outcome, replicas=9)


@pytest.mark.long
def test_consumers_read_from_followers_that_lag_are_cut_off_and_die(tmp_path: Path) -> None:
    try:
        find_or_build()
    except NoToxiproxy as error:
        pytest.skip(str(error))
    outcome = run("racks", tmp_path)
    assert_broken_and_used(outcome, {"kill": 2, "latency": 1, "black_hole": 1}, 500)
    assert_compared(outcome, replicas=9)
