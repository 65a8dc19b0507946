"""Settings for every test. Long tests (`@pytest.mark.long`) run only with KVORUM_LONG=all: see `make test-long`."""

import os

import pytest
from hypothesis import HealthCheck, settings

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
