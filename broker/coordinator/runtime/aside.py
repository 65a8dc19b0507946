"""Runs coordinators' work off the event loop, one item at a time, in order of submission.

All groups share one thread, so that other users of threads (above all fsync) find free ones. Long work is submitted
in small pieces, between which other work runs.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from kvorum.runtime import blocking

R = TypeVar("R")


class Aside:
    """See the module. One per broker."""

    def __init__(self) -> None:
        """Start without work."""
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_busy = False

    def do(self, work: Callable[[], R], done: Callable[[R], None]) -> None:
        """Run `work` in a thread, after earlier work; call back on the loop with its result.

        Exceptions of `work` are faults: they go to the loop's exception handler.
        """

        def begin() -> None:
            future = blocking.run(asyncio.get_running_loop(), work)
            future.add_done_callback(ended)

        def ended(future: "asyncio.Future[R]") -> None:
            self._is_busy = False
            self._go_on()
            if not future.cancelled():
                done(future.result())

        self._waiting.append(begin)
        self._go_on()

    def _go_on(self) -> None:
        if not self._is_busy and self._waiting:
            self._is_busy = True
            self._waiting.popleft()()
