"""docs/configs.md and the tables of docs/monitoring.md and docs/command-line.md are what the code says."""

import importlib.util
from types import ModuleType

import pytest

from kvorum.runtime import metric_names as names
from kvorum.runtime.config_defs import BROKER, GROUP, TOPIC
from kvorum.runtime.metric_definitions import DEFINITIONS
from tests.monitoring import ROOT


def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_docs", ROOT / "tools" / "generate_docs.py")
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.mark.parametrize("page", ["configs.md", "monitoring.md", "command-line.md"])
def test_a_page_is_what_its_tool_writes(page: str) -> None:
    text = (ROOT / "docs" / page).read_text()
    assert text == tool().rendered(page, text), "run python tools/generate_docs.py"


def test_every_config_that_is_for_operators_has_its_row() -> None:
    text = (ROOT / "docs" / "configs.md").read_text()
    for each in (*BROKER.values(), *TOPIC.values(), *GROUP.values()):
        assert (f"| `{each.name}` |" in text) is not each.internal or each.name in TOPIC, each.name


def test_a_metric_is_said_to_be_told_by_who_tells_it() -> None:
    """Held to a running cluster in tests/cluster/test_dashboards.py."""
    tellers = tool().tellers_of_names()
    assert set(tellers) == set(DEFINITIONS)
    assert tellers[names.LEADER_COUNT] == "broker"
    assert tellers[names.ACTIVE_CONTROLLER_COUNT] == "controller"
    assert tellers[names.REQUESTS] == tellers[names.RAFT_CURRENT_EPOCH] == "both"
