"""Which tests run: KVORUM_LONG and KVORUM_QUARANTINE select by marker.

KVORUM_LONG=all          all tests
KVORUM_LONG=3/12         the third of twelve parts of the long tests, and no other tests
KVORUM_QUARANTINE=all    tests in quarantine, too

A test that failed and passed unchanged may be marked `@pytest.mark.quarantine("reason")` until its cause is found.
"""

import os
from zlib import crc32

import pytest

LONG = os.environ.get("KVORUM_LONG", "")
QUARANTINE = os.environ.get("KVORUM_QUARANTINE", "")


def is_selected(item: pytest.Item) -> bool:
    """Return whether a test runs."""
    if item.get_closest_marker("quarantine") is not None and QUARANTINE != "all":
        return False
    is_long = item.get_closest_marker("long") is not None
    if LONG in ("", "all"):
        return not is_long or LONG == "all"
    number, slices = map(int, LONG.split("/"))
    return is_long and crc32(item.nodeid.encode()) % slices == number - 1


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what the environment does not select."""
    deselected = [item for item in items if not is_selected(item)]
    if deselected:
        items[:] = [item for item in items if is_selected(item)]
        config.hook.pytest_deselected(items=deselected)
