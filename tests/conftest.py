"""Settings for every test. Long tests (`@pytest.mark.long`) run only with KVORUM_LONG=all: see `make test-long`."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.unexpected import NodeLogs, assert_none_unexpected, expected_exceptions, none_unexpected

# The time that an example takes depends on the machine's load, not on the code under test.
settings.register_profile("kvorum", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("kvorum")

RUN_LONG = os.environ.get("KVORUM_LONG") == "all"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the long tests unless KVORUM_LONG=all."""
    if RUN_LONG:
        return
    long = [item for item in items if item.get_closest_marker("long")]
    if long:
        items[:] = [item for item in items if not item.get_closest_marker("long")]
        config.hook.pytest_deselected(items=long)


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
    if request.node.get_closest_marker("cluster"):
        assert_none_unexpected(node_logs.new_exceptions(), *expected)
