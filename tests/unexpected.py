"""Exceptions that no handler expected, as tests see them: each one fails a test that does not name it.

@pytest.mark.unexpected("ZeroDivisionError")     part of the exception's text or of its line in a node's log
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kvorum.runtime import logs

MARKER = "unexpected"


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
