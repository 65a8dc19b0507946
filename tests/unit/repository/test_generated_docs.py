"""docs/configs.md and the tables of docs/monitoring.md and docs/command-line.md match the code."""

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
def test_a_page_is_up_to_date(page: str) -> None:
    text = (ROOT / "docs" / page).read_text()
    assert text == tool().rendered(page, text), "run python tools/generate_docs.py"


def test_every_public_config_has_a_row() -> None:
    text = (ROOT / "docs" / "configs.md").read_text()
    for each in (*BROKER.values(), *TOPIC.values(), *GROUP.values()):
        assert (f"| `{each.name}` |" in text) is not each.internal or each.name in TOPIC, each.name


def test_the_process_that_exposes_a_metric() -> None:
    """tests/cluster/test_dashboards.py checks it on a running cluster."""
    exposed_by = tool().processes_by_metric()
    assert set(exposed_by) == set(DEFINITIONS)
    assert exposed_by[names.LEADER_COUNT] == "broker"
    assert exposed_by[names.ACTIVE_CONTROLLER_COUNT] == "controller"
    assert exposed_by[names.REQUESTS] == exposed_by[names.RAFT_CURRENT_EPOCH] == "both"
