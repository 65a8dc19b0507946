"""Settings for every test. selection.py says which tests run.

KVORUM_SECONDS=600   no further test starts after 600 s
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.leaks import no_leak, no_leak_in_module, pytest_collection_finish
from tests.selection import pytest_collection_modifyitems
from tests.unexpected import NodeLogs, assert_none_unexpected, expected_exceptions, none_unexpected

# The time that an example takes depends on the machine's load, not on the code under test.
settings.register_profile("kvorum", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("kvorum")

__all__ = ["no_leak", "no_leak_in_module", "pytest_collection_finish", "pytest_collection_modifyitems"]
SECONDS_MAX = float(os.environ.get("KVORUM_SECONDS", "inf"))
WITH_NODES = frozenset({"cluster", "console", "mutants"})
"""The folders whose tests start nodes that must log no unexpected exception."""
TESTS = Path(__file__).parent
STARTED = time.monotonic()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Stop the run when its time is over."""
    if time.monotonic() - STARTED > SECONDS_MAX:
        pytest.skip(f"not run: {SECONDS_MAX:.0f} s are over")


@pytest.fixture(scope="session")
def node_logs(tmp_path_factory: pytest.TempPathFactory) -> NodeLogs:
    """Return the logs of all nodes that tests start below their temporary folders."""
    return NodeLogs(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="session")
def toxiproxy_program() -> str:
    """Return the path of Toxiproxy's server; without one, tests of faults on links are skipped with the reason."""
    from kvorum.chaos.faults.toxiproxy_binary import NoToxiproxy, find_or_build

    try:
        return find_or_build()
    except NoToxiproxy as error:
        pytest.skip(str(error))


@pytest.fixture(autouse=True)
def no_unexpected_exception(request: pytest.FixtureRequest, node_logs: NodeLogs) -> Iterator[None]:
    """Fail a test that causes an exception which no handler expected, in this process or in a node's."""
    expected = expected_exceptions(request.node)
    with none_unexpected(*expected):
        yield
    if request.path.relative_to(TESTS).parts[0] in WITH_NODES:
        assert_none_unexpected(node_logs.new_exceptions(), *expected)
