"""Settings for every test. Tests marked `long` run only with KVORUM_LONG: see tools/run_tests.py.

KVORUM_LONG=all      all tests
KVORUM_LONG=3/12     the third of twelve parts of the long tests, and no other tests
KVORUM_SECONDS=600   no further test starts after 600 s
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings

from tests.unexpected import NodeLogs, assert_none_unexpected, expected_exceptions, none_unexpected

# The time that an example takes depends on the machine's load, not on the code under test.
settings.register_profile("kvorum", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("kvorum")

LONG = os.environ.get("KVORUM_LONG", "")
SECONDS_MAX = float(os.environ.get("KVORUM_SECONDS", "inf"))
WITH_NODES = frozenset({"cluster", "console", "mutants"})
"""The folders whose tests start nodes that must log no unexpected exception."""
TESTS = Path(__file__).parent
STARTED = time.monotonic()


def is_selected(item: pytest.Item) -> bool:
    """Return whether KVORUM_LONG selects a test."""
    is_long = item.get_closest_marker("long") is not None
    if LONG in ("", "all"):
        return not is_long or LONG == "all"
    number, slices = map(int, LONG.split("/"))
    return is_long and crc32(item.nodeid.encode()) % slices == number - 1


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what KVORUM_LONG does not select."""
    deselected = [item for item in items if not is_selected(item)]
    if deselected:
        items[:] = [item for item in items if is_selected(item)]
        config.hook.pytest_deselected(items=deselected)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Stop the run when its time is over."""
    if time.monotonic() - STARTED > SECONDS_MAX:
        pytest.skip(f"not run: {SECONDS_MAX:.0f} s are over")


@pytest.fixture(scope="session")
def node_logs(tmp_path_factory: pytest.TempPathFactory) -> NodeLogs:
    """Return the logs of all nodes that tests start below their temporary folders."""
    return NodeLogs(tmp_path_factory.getbasetemp())


@pytest.fixture(autouse=True)
def no_unexpected_exception(request: pytest.FixtureRequest, node_logs: NodeLogs) -> Iterator[None]:
    """Fail a test that causes an exception which no handler expected, in this process or in a node's."""
    expected = expected_exceptions(request.node)
    with none_unexpected(*expected):
        yield
    if request.path.relative_to(TESTS).parts[0] in WITH_NODES:
        assert_none_unexpected(node_logs.new_exceptions(), *expected)
