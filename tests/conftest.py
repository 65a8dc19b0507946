"""What holds for every test: a loaded machine fails none; which of those on Spark are left to `make pipelines-test`."""

import os

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says how busy the machine is, not whether the code is right.
settings.register_profile("kvorum", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("kvorum")

# Together some twenty minutes; docs/skipped.md says that they are left out.
LONG_ON_SPARK = {
    "bridge/test_executor_kills.py",
    "cdc/test_pipeline.py",
    "connect/test_cluster.py",
    "jobs/test_jobs.py",
    "mirror/test_migration.py",
    "run/test_commands.py",
    "run/test_connectors.py",
    "streams/test_streams_cluster.py",
    "streams/test_streams_examples.py",
    "streams/test_streams_kills.py",
    "streams/test_streams_operators.py",
    "checker/test_spark_check.py",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the long ones out unless they are asked for."""
    if os.environ.get("KVORUM_PIPELINES") == "all":
        return
    for item in items:
        if item.get_closest_marker("pipelines") and "/".join(item.path.parts[-2:]) in LONG_ON_SPARK:
            item.add_marker(pytest.mark.skip(reason="long, run by `make pipelines-test` (KVORUM_PIPELINES=all)"))
