"""Turns for the event loop in the middle of long work, by the time it took and not by what was done.

On a busy machine a step may take ten times as long as on a quiet one; the clock knows, a count does not.
"""

import asyncio
from typing import Final, TypeVar

from kvorum.quorum.steps import Steps, step

T = TypeVar("T")

SLICE_S: Final = 0.005
"""Looked at between two steps: with the one in hand the event loop is held for less than 10 ms."""


class Slices:
    """One after another, from its making on. Of the task that does the work."""

    __slots__ = ("_loop", "_until")

    def __init__(self) -> None:
        """Begin a slice."""
        self._loop = asyncio.get_running_loop()
        self._until = self._loop.time() + SLICE_S

    async def breathe(self) -> None:
        """Let others run if this slice is used up."""
        if self._loop.time() >= self._until:
            await asyncio.sleep(0)
            self._until = self._loop.time() + SLICE_S

    async def run(self, steps: Steps[T]) -> T:
        """Drive a piece of work to its end; return its result. Cancelled in the middle, the work is closed."""
        try:
            while (done := step(steps)) is None:
                await self.breathe()
            return done[0]
        finally:
            steps.close()
