"""docs/compatibility.md says what docs/compatibility.json says, and that what tests said that there are."""

import importlib.util
import json
import re
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.compatibility import CLIENTS, EACH, RESULTS, ROOT, TABLE, Recorder, client_of, joined

TESTS = ROOT / "tests" / "cluster"


def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("compatibility", ROOT / "tools" / "generate_compatibility.py")
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def results() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RESULTS.read_text())
    return found


def test_the_page_matches_the_tests_results() -> None:
    assert (ROOT / "docs" / "compatibility.md").read_text() == tool().rendered(results()), "make compatibility"


def test_the_results_are_of_the_tables_tests_and_of_all_of_them() -> None:
    found = results()
    reported_values = {(row["feature"], row["test"].removeprefix("tests/cluster/")) for row in found["results"]}
    assert reported_values == {(shown.feature, shown.test) for shown in TABLE}, "the table changed: make compatibility"
    assert {row["client"] for row in found["results"]} == set(found["clients"]) <= set(CLIENTS)
    for shown in TABLE:
        clients = {row["client"] for row in found["results"] if row["feature"] == shown.feature}
        assert clients == set(shown.clients) or (shown.clients == (EACH,) and len(clients) > 1), shown


@pytest.mark.parametrize("shown", TABLE, ids=lambda shown: shown.feature)
def test_a_row_names_an_existing_test_with_its_client(shown: Any) -> None:
    file, _, name = shown.test.partition("::")
    text = (TESTS / file).read_text()
    found = re.search(rf"((?:@pytest\.mark\.parametrize.*\n)*)def {name}\(", text)
    assert found is not None, shown.test
    assert bool(found[1]) is (shown.clients == (EACH,)), "EACH stands for a client that is a parameter"


def reported(nodeid: str, outcome: str) -> Any:
    return SimpleNamespace(nodeid=nodeid, outcome=outcome)


def test_a_row_is_as_good_as_the_worst_that_happened_to_it() -> None:
    recorder = Recorder()
    members = next(shown for shown in TABLE if shown.clients == (EACH,))
    for parameter, outcomes in (("confluent", ("passed", "passed", "failed")), ("aiokafka-1", ("skipped", "passed"))):
        for outcome in outcomes:
            recorder.pytest_runtest_logreport(reported(f"tests/cluster/{members.test}[{parameter}]", outcome))
    reported_values = {row["client"]: row["outcome"] for row in recorder.results()}
    assert reported_values == {"confluent-kafka": "failed", "aiokafka": "skipped"}
    page = tool().rendered({"clients": {"confluent-kafka": "1", "aiokafka": "2"}, "results": recorder.results()})
    assert f"| {members.feature} | **no** | not run |" in page.splitlines()


def test_results_of_skipped_tests_are_kept() -> None:
    first, second = TABLE[0], TABLE[1]

    def row(shown: Any, outcome: str) -> dict[str, str]:
        test = f"tests/cluster/{shown.test}"
        return {"feature": shown.feature, "client": shown.clients[0], "test": test, "outcome": outcome}

    gone = {**row(first, "passed"), "feature": "no more in the table"}
    before = [row(first, "passed"), row(second, "failed"), gone]
    assert joined(before, [row(second, "passed")]) == [row(first, "passed"), row(second, "passed")]
    assert joined(before, [row(first, "failed")]) == [row(first, "failed"), row(second, "failed")]


def test_a_test_without_a_client_as_its_parameter_is_not_guessed_at() -> None:
    assert client_of("a.py::test[kafka-python-3]") == "kafka-python"
    with pytest.raises(AssertionError, match="no parameter"):
        client_of("a.py::test[1]")
