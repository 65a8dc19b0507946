"""Time slices for long work on the event loop, by elapsed time instead of a count.

On a busy machine a step may take ten times as long as on a quiet one; a count does not adapt.
"""

import asyncio
from typing import Final, TypeVar

from kvorum.quorum.steps import Steps, step

T = TypeVar("T")

SLICE_S: Final = 0.005
"""Checked between two steps: with the current one the event loop is blocked for less than 10 ms."""


class Slices:
    """Consecutive slices, from the creation on. Of the task that does the work."""

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
