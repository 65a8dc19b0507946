"""Collects the log lines of a test."""

import pytest

from kvorum.runtime import logs


@pytest.fixture
def log_lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the lines instead of writing them."""
    lines: list[str] = []
    monkeypatch.setattr(logs.Output, "write", lambda self, line: lines.append(line))
    return lines
