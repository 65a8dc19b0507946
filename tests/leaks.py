"""Resources that a test leaves to the garbage collector: sockets, files, loops. The test that made them fails.

pytest turns the ResourceWarning of a collected resource into an error of the test that runs at that moment. Most are
collected when their test ends. A resource in a reference cycle waits for the collector, so it runs here after each test
(young objects) and after the last test of each module (all objects made since the collection of tests).
"""

import gc
from collections.abc import Iterator

import pytest


def pytest_collection_finish(session: pytest.Session) -> None:
    """Exempt what the import of tests made from collections, which would take a second each."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def no_leak_in_module() -> Iterator[None]:
    """Collect all that the tests of a module left."""
    yield
    gc.collect()


@pytest.fixture(autouse=True)
def no_leak() -> Iterator[None]:
    """Collect young objects that a test left."""
    yield
    gc.collect(1)
