"""Keeps one connector's worker in its target state. `decide` is pure; Keeper acts on it, one task per connector.

wanted    worker               action
STARTED   none, stopped        START (after the back-off, if it failed)
          failed               note the failure; START after a back-off; after FAILURES_MAX in a row, or if the
                               worker says that a new start does not help: give up
          other configuration  STOP, then START
          paused               RESUME
          finished             nothing: its trigger has nothing left to do
PAUSED    running              PAUSE; without a worker nothing: what does not run is paused
STOPPED   alive                STOP
deleted   alive                STOP, and the keeper ends
"""

import asyncio
import logging
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, Protocol

from kvorum.pipelines.connect.errors import RunnerError
from kvorum.pipelines.connect.records import Condition, Target
from kvorum.pipelines.connect.runner import Runner, Worker, revision_of
from kvorum.pipelines.run.state import State
from kvorum.pipelines.spec import Pipeline

BACKOFF_MS: Final = 1_000
BACKOFF_MS_MAX: Final = 60_000
FAILURES_MAX: Final = 6
"""In a row: half a minute of back-off. What passes by itself the worker tries again itself, and for longer."""
STEADY_MS: Final = 300_000
"""Who ran so long is well: what failed before is forgotten."""
LOOK_SECONDS: Final = 1.0
STARTING_LOOK_SECONDS: Final = 0.1
"""While a worker starts: its state is reported soon after it changes."""
TRACE_CHARACTERS_MAX: Final = 16_000

log = logging.getLogger("kvorum.pipelines.connect.keeper")


class Action(Enum):
    """Next action."""

    NOTHING = auto()
    START = auto()
    STOP = auto()
    PAUSE = auto()
    RESUME = auto()


@dataclass(slots=True, kw_only=True)
class Memory:
    """Failures of a worker."""

    failures: int = 0
    retry_at_ms: int = 0
    gave_up: bool = False
    running_since_ms: int | None = None
    trace: str | None = None
    counted: bool = False
    """The present failure is in `failures`."""
    restart: bool = False
    """Somebody asked for a restart."""

    def failed(self, trace: str | None, now_ms: int, *, lasting: bool = False) -> None:
        """Note a failure, once each. `lasting`: a new start does not help."""
        if self.counted:
            return
        self.counted, self.running_since_ms, self.trace = True, None, trace
        self.failures += 1
        self.gave_up = lasting or self.failures >= FAILURES_MAX
        self.retry_at_ms = now_ms + backoff_ms(self.failures)

    def runs(self, now_ms: int) -> None:
        """Note that the worker runs; after a while it is well."""
        self.counted = False
        if self.running_since_ms is None:
            self.running_since_ms = now_ms
        elif now_ms - self.running_since_ms >= STEADY_MS:
            self.failures, self.trace = 0, None

    def forget(self) -> None:
        """Reset the failures after a change of the configuration or a restart."""
        self.failures, self.retry_at_ms, self.gave_up = 0, 0, False
        self.running_since_ms, self.trace, self.counted = None, None, True


def backoff_ms(failures: int) -> int:
    """Return how long to wait after so many failures in a row."""
    return min(BACKOFF_MS << min(failures - 1, 20), BACKOFF_MS_MAX)


def decide(wanted: Target | None, revision: str | None, worker: Worker | None, memory: Memory, now_ms: int) -> Action:
    """Return what is to be done. `wanted` None: deleted; `revision` None: its configuration makes no pipeline."""
    alive = worker is not None and worker.alive
    if wanted is None or wanted is Target.STOPPED or (memory.restart and alive):
        return Action.STOP if alive else Action.NOTHING
    if worker is not None and alive and worker.revision != revision:
        return Action.STOP
    if wanted is Target.PAUSED:
        return Action.PAUSE if worker is not None and alive and worker.state is State.RUNNING else Action.NOTHING
    if worker is not None and alive:
        return Action.RESUME if worker.state is State.PAUSED else Action.NOTHING
    if memory.gave_up or now_ms < memory.retry_at_ms:
        return Action.NOTHING
    finished = worker is not None and worker.state is State.FINISHED and worker.revision == revision
    return Action.NOTHING if finished and not memory.restart else Action.START


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """State of a connector and its task; task None: it has none."""

    connector: Condition
    task: Condition | None
    trace: str | None = None


def report(wanted: Target, worker: Worker | None, memory: Memory) -> Report:
    """Return the state of a connector."""
    alive = worker is not None and worker.alive
    if wanted is Target.STOPPED:
        return Report(connector=Condition.STOPPED, task=None)
    if wanted is Target.PAUSED:
        return Report(connector=Condition.PAUSED, task=Condition.PAUSED if alive else None)
    if memory.gave_up:
        return Report(connector=Condition.RUNNING, task=Condition.FAILED, trace=memory.trace)
    if worker is not None and alive and worker.state in (State.RUNNING, State.PAUSED):
        return Report(connector=Condition.RUNNING, task=Condition.RUNNING)
    if worker is not None and not alive and worker.state is State.FINISHED:
        return Report(connector=Condition.STOPPED, task=None)
    if memory.failures or memory.restart or (worker is not None and alive and worker.trace):
        trace = memory.trace or (worker.trace if worker is not None else None)
        return Report(connector=Condition.RUNNING, task=Condition.RESTARTING, trace=trace)
    return Report(connector=Condition.RUNNING, task=Condition.UNASSIGNED)


class Owner(Protocol):
    """Interface of a keeper's owner."""

    def wanted(self, name: str) -> tuple[Target | None, Callable[[], Pipeline] | None]:
        """Return what a connector should be, and what makes its pipeline (raises RunnerError)."""
        ...

    async def reported(self, name: str, told: Report, worker: Worker | None) -> None:
        """Take what a connector is now."""
        ...


@dataclass(slots=True)
class Keeper:
    """One connector's task."""

    name: str
    owner: Owner
    runner: Runner
    now_ms: Callable[[], int]
    memory: Memory = field(default_factory=lambda: Memory(counted=True))
    """A failure from before this keeper is not counted: a new connector or leader starts the worker."""
    _woken: asyncio.Event = field(default_factory=asyncio.Event)
    _pipeline: Pipeline | None = None
    _revision: str | None = None
    _made_of: object = None
    _broken: str | None = None
    _pause_seconds: float = LOOK_SECONDS

    def wake(self, *, anew: bool = False, restart: bool = False) -> None:
        """Check at once. `anew`: reset the failures; `restart`: stop the worker and start it again."""
        if anew or restart:
            self.memory.forget()
        self.memory.restart = self.memory.restart or restart
        self._woken.set()

    async def run(self) -> None:
        """Keep until the connector is deleted and its worker gone."""
        while await self._looked():
            try:
                async with asyncio.timeout(self._pause_seconds):
                    await self._woken.wait()
            except TimeoutError:
                pass
            self._woken.clear()

    async def _looked(self) -> bool:
        """Check; an unexpected exception fails this connector only."""
        try:
            return await self.look()
        except Exception as error:
            log.exception("connector supervision failed connector=%s", self.name)
            trace = "".join(traceback.format_exception(error))[-TRACE_CHARACTERS_MAX:]
            told = Report(connector=Condition.FAILED, task=Condition.FAILED, trace=trace)
            await self.owner.reported(self.name, told, None)
            return True

    async def look(self) -> bool:
        """See, decide, act, report. Return whether there is something left to keep."""
        wanted, make = self.owner.wanted(self.name)
        worker = await self.runner.seen(self.name)
        self._remember(worker)
        self.memory.restart = self.memory.restart and wanted is Target.STARTED
        if make is not None and wanted is Target.STARTED:
            self._prepare(make)
        action = decide(wanted, self._revision, worker, self.memory, self.now_ms())
        if wanted is Target.STARTED and self._broken is not None and action is not Action.STOP:
            told = Report(connector=Condition.FAILED, task=Condition.FAILED, trace=self._broken)
            await self.owner.reported(self.name, told, worker)
            return True
        if action is not Action.NOTHING:
            try:
                await self._act(action)
            except RunnerError as error:
                log.warning("connector action failed connector=%s action=%s error=%s", self.name, action.name, error)
                if action is Action.START:
                    self.memory.counted = False
                    self.memory.failed(str(error), self.now_ms())
            worker = await self.runner.seen(self.name)
        is_starting = worker is not None and worker.alive and worker.state is State.STARTING
        self._pause_seconds = STARTING_LOOK_SECONDS if is_starting else LOOK_SECONDS
        now_wanted, _ = self.owner.wanted(self.name)
        if now_wanted is None:
            return worker is not None and worker.alive
        await self.owner.reported(self.name, report(now_wanted, worker, self.memory), worker)
        if action is Action.STOP:
            self._woken.set()  # what follows a stop is decided at once
        return True

    def _remember(self, worker: Worker | None) -> None:
        if worker is None:
            return
        if worker.alive:
            self.memory.counted = False
            if worker.state in (State.RUNNING, State.PAUSED):
                self.memory.runs(self.now_ms())
        elif not worker.alive and worker.state not in (State.STOPPED, State.FINISHED) and worker.revision is not None:
            trace = (worker.trace or "")[:TRACE_CHARACTERS_MAX]  # the reason is first
            self.memory.failed(trace, self.now_ms(), lasting=worker.lasting)

    def _prepare(self, make: Callable[[], Pipeline]) -> None:
        """Make the pipeline, once for each configuration."""
        if make is self._made_of and self._broken is None:
            return
        self._made_of = make
        try:
            self._pipeline = make()
            self._revision, self._broken = revision_of(self._pipeline), None
        except RunnerError as error:
            self._pipeline, self._revision, self._broken = None, None, str(error)

    async def _act(self, action: Action) -> None:
        match action:
            case Action.START:
                assert self._pipeline is not None and self._revision is not None
                self.memory.restart = self.memory.counted = False
                log.info("connector starts connector=%s failures=%d", self.name, self.memory.failures)
                await self.runner.start(self._pipeline, self._revision)
            case Action.STOP:
                log.info("connector stops connector=%s", self.name)
                await self.runner.stop(self.name)
            case Action.PAUSE:
                await self.runner.ask(self.name, "pause")
            case Action.RESUME:
                await self.runner.ask(self.name, "resume")
            case Action.NOTHING:
                pass
