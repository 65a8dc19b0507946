"""A connection that is held back: what it asks next waits until then (KIP-219). Sans-IO but for the loop's timer."""

import asyncio
from collections.abc import Callable


class Muting:
    """Whether a connection is held back, and until when; of several the last to end counts."""

    __slots__ = ("_loop", "_on_end", "_timer", "is_on")

    def __init__(self, loop: asyncio.AbstractEventLoop, on_end: Callable[[], None]) -> None:
        """Begin without; `on_end` is called when a hold has ended."""
        self._loop = loop
        self._on_end = on_end
        self._timer: asyncio.TimerHandle | None = None
        self.is_on = False

    def hold(self, delay_s: float) -> None:
        """Hold it back for so long from now on, or as long as it is held back already if that is longer."""
        at_s = self._loop.time() + delay_s
        if self._timer is not None:
            if self._timer.when() >= at_s:
                return
            self._timer.cancel()
        self.is_on = True
        self._timer = self._loop.call_at(at_s, self._end)

    def _end(self) -> None:
        self._timer = None
        self.is_on = False
        self._on_end()
