"""Faults that end automatically after a time. Single event loop; ending a fault blocks and runs elsewhere."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from kvorum.chaos.faults.events import ActiveFault, FaultRegister
from kvorum.runtime.clock import Clock
from kvorum.runtime.logs import get_logger

log = get_logger("chaos")

Work: TypeAlias = Callable[[Callable[[], None]], Awaitable[None]]
"""Calls what blocks, in a thread."""


@dataclass(slots=True)
class FaultEnd:
    """The end of one fault."""

    fault: ActiveFault
    at_ms: int
    timer: asyncio.TimerHandle
    failure: str | None = None
    """Reason why ending it failed; the fault is still active."""


class FaultTimers:
    """Those of one server."""

    def __init__(
        self, register: FaultRegister, work: Work, clock: Clock, failed: Callable[[ActiveFault, str], None]
    ) -> None:
        """End faults of this register; `failed` is called with one that could not be ended, and the reason."""
        self._register = register
        self._failed = failed
        self._work = work
        self._clock = clock
        self._planned: dict[int, FaultEnd] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def plan(self, fault: ActiveFault, seconds: float) -> None:
        """End a fault after this time, unless it is over before."""
        loop = asyncio.get_running_loop()
        self._forget()
        timer = loop.call_later(seconds, self._begin, fault.id)
        self._planned[fault.id] = FaultEnd(fault, self._clock.wall_ms() + round(seconds * 1000), timer)

    def of(self, fault_id: int) -> FaultEnd | None:
        """Return the end that is planned for a fault in force, None where none is."""
        return self._planned.get(fault_id)

    async def close(self, *, end: bool) -> None:
        """Plan nothing more; `end`: end at once everything that was to end later, because nothing else would."""
        for planned in self._planned.values():
            planned.timer.cancel()
        self._forget()
        if not end:
            self._planned.clear()
        for fault_id in list(self._planned):
            self._begin(fault_id)
        if self._ending:
            await asyncio.wait(tuple(self._ending))

    def _begin(self, fault_id: int) -> None:
        task = asyncio.create_task(self._end(self._planned[fault_id]))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _end(self, planned: FaultEnd) -> None:
        try:
            await self._work(planned.fault.end)
        except Exception as error:  # after any exception of the undo the fault is still in force, with the reason
            planned.failure = str(error) or type(error).__name__
            self._failed(planned.fault, planned.failure)
            log.error("fault not ended", id=planned.fault.id, fault=planned.fault.kind, error=error)
        else:
            self._planned.pop(planned.fault.id, None)

    def _forget(self) -> None:
        """Discard the timers of ended faults."""
        in_force = {fault.id for fault in self._register.in_force()}
        for fault_id in [each for each in self._planned if each not in in_force]:
            self._planned.pop(fault_id).timer.cancel()
