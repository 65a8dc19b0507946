"""Exceptions that no handler expected, as tests see them: each one fails a test that does not name it.

@pytest.mark.unexpected("ZeroDivisionError")     part of the exception's text or of its line in a node's log
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kvorum.cluster.local.local import unexpected_lines
from kvorum.cluster.local.paths import OWN_FOLDER, PROCESSES
from kvorum.runtime import logs

MARKER = "unexpected"
LOGS = frozenset(f"{process}.log" for process in PROCESSES)


def expected_exceptions(item: pytest.Item) -> tuple[str, ...]:
    """Return the texts of a test's marker."""
    return tuple(text for marker in item.iter_markers(MARKER) for text in marker.args)


def assert_none_unexpected(found: list[str], *expected: str) -> None:
    """Fail where an exception contains none of the expected texts."""
    wrong = [line for line in found if not any(text in line for text in expected)]
    assert not wrong, "unexpected exceptions:\n" + "\n".join(wrong)


@contextmanager
def none_unexpected(*expected: str) -> Iterator[None]:
    """Fail where this process logs an unexpected exception meanwhile that contains none of the expected texts."""
    found: list[str] = []

    def observe(where: str, error: BaseException) -> None:
        found.append(f"{where}: {type(error).__name__}: {error}: {logs.stack_of(error)}")

    with logs.observe_unexpected(observe):
        yield
    assert_none_unexpected(found, *expected)


class NodeLogs:
    """The logs of all nodes below a folder, whatever started them."""

    def __init__(self, folder: Path) -> None:
        """Begin with nothing read."""
        self._folder = folder
        self._reported: dict[str, int] = {}

    def new_exceptions(self) -> list[str]:
        """Return the lines about unexpected exceptions that were not returned before."""
        found: list[str] = []
        for folder, folders, names in os.walk(self._folder):
            if "meta.properties" in names:
                folders[:] = [OWN_FOLDER] if OWN_FOLDER in folders else []  # no partitions' folders: there may be many
            for name in LOGS.intersection(names):
                path = os.path.join(folder, name)
                lines = unexpected_lines(path)
                found += [f"{path}: {line}" for line in lines[self._reported.get(path, 0) :]]
                self._reported[path] = len(lines)
        return found
