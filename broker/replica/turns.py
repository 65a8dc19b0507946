"""Serialises work by key: work of one key runs sequentially, in order of submission. Sans-IO.

Work starts in the submitting call, unless other work of its key is running. It reports its own end, at once or later.
The caller limits the number of submissions.
"""

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TypeAlias

Done: TypeAlias = Callable[[], None]
Work: TypeAlias = Callable[[Done], None]
"""Begins, and has `done` called once."""


@dataclass(slots=True)
class Line:
    """Those of one key."""

    works: deque[Work] = field(default_factory=deque)
    is_busy: bool = False
    is_running: bool = False
    """Whether `_run` is on the stack: work that completes before it returns continues there, not deeper."""


class Turns:
    """Serialises work by key."""

    __slots__ = ("_lines",)

    def __init__(self) -> None:
        """Start without work."""
        self._lines: dict[Hashable, Line] = {}

    def __len__(self) -> int:
        """Return how many keys have works under way."""
        return len(self._lines)

    def take(self, key: Hashable, work: Work) -> None:
        """Start work, now or after earlier work of its key."""
        line = self._lines.get(key)
        if line is not None:
            line.works.append(work)
            return
        self._lines[key] = Line(deque((work,)))
        self._run(key)

    def _run(self, key: Hashable) -> None:
        line = self._lines[key]
        line.is_running = True
        while line.works and not line.is_busy:
            line.is_busy = True
            line.works.popleft()(lambda: self._done(key, line))
        line.is_running = False
        if not line.is_busy:
            del self._lines[key]

    def _done(self, key: Hashable, line: Line) -> None:
        assert line.is_busy, "a work is done once"
        line.is_busy = False
        if not line.is_running:
            self._run(key)
