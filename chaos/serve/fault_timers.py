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
        self._on_failure = failed
        self._work = work
        self._clock = clock
        self._ends: dict[int, FaultEnd] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def plan(self, fault: ActiveFault, seconds: float) -> None:
        """End a fault after this time, unless it is over before."""
        loop = asyncio.get_running_loop()
        self._forget()
        timer = loop.call_later(seconds, self._begin, fault.id)
        self._ends[fault.id] = FaultEnd(fault, self._clock.wall_ms() + round(seconds * 1000), timer)

    def of(self, fault_id: int) -> FaultEnd | None:
        """Return the end that is planned for a fault in force, None where none is."""
        return self._ends.get(fault_id)

    async def close(self, *, end: bool) -> None:
        """Plan nothing more; `end`: end at once everything that was to end later, because nothing else would."""
        for planned in self._ends.values():
            planned.timer.cancel()
        self._forget()
        if not end:
            self._ends.clear()
        for fault_id in list(self._ends):
            self._begin(fault_id)
        if self._tasks:
            await asyncio.wait(tuple(self._tasks))

    def _begin(self, fault_id: int) -> None:
        task = asyncio.create_task(self._end(self._ends[fault_id]))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _end(self, planned: FaultEnd) -> None:
        try:
            await self._work(planned.fault.end)
        except Exception as error:  # after any exception of the undo the fault is still in force, with the reason
            planned.failure = str(error) or type(error).__name__
            self._on_failure(planned.fault, planned.failure)
            log.error("fault not ended", id=planned.fault.id, fault=planned.fault.kind, error=error)
        else:
            self._ends.pop(planned.fault.id, None)

    def _forget(self) -> None:
        """Discard the timers of ended faults."""
        in_force = {fault.id for fault in self._register.in_force()}
        for fault_id in [each for each in self._ends if each not in in_force]:
            self._ends.pop(fault_id).timer.cancel()
