"""Drivers that tests may kill, and the standalone cluster they may run on."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.bridge.kills import Drivers, drivers_in
from tests.spark.bridge.standalone import Standalone


@pytest.fixture(scope="session")
def java() -> None:
    """Skip with the reason where Java is not on the machine."""
    if shutil.which("java") is None:
        pytest.skip("missing tool: java (17 or 21)")


@pytest.fixture
def drivers(java: None, tmp_path: Path) -> Iterator[Drivers]:
    """Return a function that prepares a driver; nothing of it is left at the end."""
    with drivers_in(tmp_path) as make:
        yield make


@pytest.fixture
def standalone(java: None, tmp_path: Path) -> Iterator[Standalone]:
    """Return a running master and two workers of Spark's own cluster; nothing of it is left at the end."""
    cluster = Standalone(tmp_path / "standalone")
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()
