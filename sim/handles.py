"""Scheduled callbacks of a SimLoop, and the hosts (processes) they belong to."""

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any


class Host:
    """One process. A restarted process is a new Host."""

    __slots__ = ("alive", "deferred", "jobs", "name", "paused")

    def __init__(self, name: str) -> None:
        """Start alive."""
        self.name = name
        self.alive = True
        self.paused = False
        self.deferred: list[SimHandle] = []
        self.jobs: dict[int, Callable[[], object]] = {}
        """Executor work handed out and not run yet, by number."""


class SimHandle(asyncio.TimerHandle):
    """A callback, due at once or at a time, and its host; without asyncio's debugging support."""

    __slots__ = ("args", "at", "callback", "context", "host", "is_cancelled")

    def __init__(
        self,
        at: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: contextvars.Context | None,
        host: Host | None,
    ) -> None:
        """Store the callback and its time."""
        self.at = at
        self.callback = callback
        self.args = args
        self.context = contextvars.copy_context() if context is None else context
        self.host = host
        self.is_cancelled = False

    def cancel(self) -> None:
        """See asyncio."""
        self.is_cancelled = True
        self.callback = _nothing
        self.args = ()

    def cancelled(self) -> bool:
        """See asyncio."""
        return self.is_cancelled

    def when(self) -> float:
        """See asyncio."""
        return self.at

    def __hash__(self) -> int:
        """Go by the time it is due: a hash by address would order sets differently each run."""
        return hash(self.at)

    def __eq__(self, other: object) -> bool:
        """Be equal to itself alone."""
        return self is other

    def __repr__(self) -> str:
        """Describe the callback."""
        return f"<SimHandle {self.callback!r}{' cancelled' if self.is_cancelled else ''}>"


def _nothing() -> None:
    """Callback of a cancelled handle."""
