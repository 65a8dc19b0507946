"""A deadline that each heartbeat puts off. Sans-IO.

Its timer is left where it is and looks, when it comes due, whether the deadline has moved on: a heartbeat costs an
assignment, not a timer.
"""

from collections.abc import Callable
from typing import Protocol

from kvorum.runtime.timers import Timer


class SessionDesk(Protocol):
    """Interface of the shard for a session."""

    def now_ms(self) -> int:
        """Return the monotonic time."""
        ...

    def after(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        """Call back after this time."""
        ...


class Session:
    """A member's session, renewed without a timer per heartbeat."""

    __slots__ = ("_deadline_ms", "_desk", "_on_end", "_timer")

    def __init__(self, desk: SessionDesk, timeout_ms: int, on_end: Callable[[], None]) -> None:
        """Call `on_end` once no request arrived for this time."""
        self._desk = desk
        self._on_end = on_end
        self._deadline_ms = desk.now_ms() + timeout_ms
        self._timer = desk.after(timeout_ms, self._due)

    def renew(self, timeout_ms: int) -> None:
        """Restart the session, also after it has expired without a removal."""
        self._deadline_ms = self._desk.now_ms() + timeout_ms
        if self._timer.callback is None or self._deadline_ms < self._timer.deadline_ms:
            self._timer.cancel()
            self._timer = self._desk.after(timeout_ms, self._due)

    def cancel(self) -> None:
        """Never end. Idempotent."""
        self._timer.cancel()

    def _due(self) -> None:
        left_ms = self._deadline_ms - self._desk.now_ms()
        if left_ms > 0:
            self._timer = self._desk.after(left_ms, self._due)
        else:
            self._on_end()
