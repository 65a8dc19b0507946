"""Keeps one connector's worker in its target state. `decide` is pure; Keeper acts on it, one task per connector.

A worker that is not wanted, or is of another configuration, is stopped. A worker is started unless it reported a
failure, or its pipeline ended (trigger once or available-now), or the next try is not due.

A worker retries by itself what may pass (run/failures.py), so a failure that it reports is final. Only the end of its
process is retried here.
"""

import asyncio
import contextlib
import logging
import traceback
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from kvorum.pipelines.connect.errors import RunnerError
from kvorum.pipelines.connect.runner import Runner
from kvorum.pipelines.connect.state import Condition, Connector, Start, Target
from kvorum.pipelines.run.failures import Backoff
from kvorum.pipelines.run.state import State, Status
from kvorum.pipelines.spec import Pipeline

RESTARTS_MAX: Final = 5
"""Of a worker whose process ends again and again: half a minute of pauses."""
LOOK_SECONDS: Final = 1.0
STARTING_LOOK_SECONDS: Final = 0.1
"""While a worker starts: its state is reported soon after it changes."""
TRACE_CHARACTERS_MAX: Final = 16_000

log = logging.getLogger("kvorum.pipelines.connect.keeper")


Action = Enum("Action", ["NOTHING", "START", "STOP", "PAUSE", "RESUME"])


@dataclass(slots=True, kw_only=True)
class Memory:
    """Events that outlive a worker."""

    backoff: Backoff = field(default_factory=lambda: Backoff(RESTARTS_MAX))
    retry_at: float = 0.0
    trace: str | None = None
    """Of the last failure, until the worker runs again."""
    is_failed: bool = False
    is_finished: bool = False
    """The trigger was once or available-now, and all records were read."""
    restart: bool = False
    """A restart was requested."""

    def ended(self, worker: Status, now: float) -> None:
        """Note how a worker ended."""
        self.is_finished = worker.state is State.FINISHED
        if worker.state is State.FAILED and worker.died:
            self.crashed(worker.trace, now)
        elif worker.state is State.FAILED:
            self.is_failed, self.trace = True, worker.trace

    def crashed(self, trace: str | None, now: float) -> None:
        """Note that a process ended or could not be started."""
        pause = self.backoff.next(now)
        self.trace, self.is_failed, self.retry_at = trace, pause is None, now + (pause or 0.0)

    def forget(self) -> None:
        """Forget failures and the end after a change of the configuration, a resume or a restart."""
        self.backoff.failed, self.retry_at, self.trace = 0, 0.0, None
        self.is_failed = self.is_finished = False


def decide(target: Target | None, worker: Status | None, memory: Memory, *, is_changed: bool, now: float) -> Action:
    """Return the next action. `target` None: deleted; `is_changed`: the worker has another configuration."""
    if worker is None:
        waits = memory.is_failed or memory.is_finished or now < memory.retry_at
        return Action.NOTHING if target is not Target.STARTED or waits else Action.START
    if target in (None, Target.STOPPED) or memory.restart or is_changed:
        return Action.STOP
    if target is Target.PAUSED:
        return Action.PAUSE if worker.state is State.RUNNING else Action.NOTHING
    return Action.RESUME if worker.state is State.PAUSED else Action.NOTHING


@dataclass(frozen=True, slots=True)
class Report:
    """State of a connector and its task; task None: it has none."""

    connector: Condition
    task: Condition | None
    trace: str | None = None


def report(target: Target, worker: Status | None, memory: Memory) -> Report:
    """Return the state of a connector."""
    if target is Target.STOPPED:
        return Report(Condition.STOPPED, None)
    if target is Target.PAUSED:
        return Report(Condition.PAUSED, Condition.PAUSED if worker is not None else None)
    if memory.is_failed:
        return Report(Condition.RUNNING, Condition.FAILED, memory.trace)
    if worker is not None and worker.state in (State.RUNNING, State.PAUSED):
        return Report(Condition.RUNNING, Condition.RUNNING)
    if memory.is_finished:
        return Report(Condition.STOPPED, None)
    trace = memory.trace or (worker.trace if worker is not None else None)
    task = Condition.RESTARTING if trace or memory.restart else Condition.UNASSIGNED
    return Report(Condition.RUNNING, task, trace)


@dataclass(slots=True)
class Keeper:
    """Supervision of one connector."""

    name: str
    runner: Runner
    wanted: Callable[[], Connector | None]
    make: Callable[[Connector], Pipeline]
    """Makes its pipeline. Raises RunnerError."""
    reported: Callable[[str, Report], Awaitable[None]]
    now: Callable[[], float]
    """Monotonic time in seconds."""
    memory: Memory = field(default_factory=Memory)
    _woken: asyncio.Event = field(default_factory=asyncio.Event)
    _pipeline: Pipeline | None = None
    _made_of: tuple[Mapping[str, str], Start] | None = None
    _broken: str | None = None
    _started: Pipeline | None = None
    """The worker's; None without a worker."""
    _pause_seconds: float = LOOK_SECONDS

    def wake(self, *, forget: bool = False, restart: bool = False) -> None:
        """Check at once. `forget`: forget failures and the end; `restart`: stop the worker and start it again."""
        if forget or restart:
            self.memory.forget()
        self.memory.restart = self.memory.restart or restart
        self._woken.set()

    async def run(self) -> None:
        """Supervise until the connector is deleted and its worker has ended."""
        while await self._looked():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._pause_seconds):  # wait_for may lose a cancellation in Python 3.11
                    await self._woken.wait()
            self._woken.clear()

    async def _looked(self) -> bool:
        """Check; an unexpected exception fails this connector only."""
        try:
            return await self.look()
        except Exception as error:
            log.exception("connector supervision failed connector=%s", self.name)
            trace = "".join(traceback.format_exception(error))[-TRACE_CHARACTERS_MAX:]
            await self.reported(self.name, Report(Condition.FAILED, Condition.FAILED, trace))
            return True

    async def look(self) -> bool:
        """See, decide, act, report. Return False when the connector is deleted and its worker has ended."""
        connector = self.wanted()
        target = None if connector is None else connector.target
        worker = await self._worker()
        self.memory.restart = self.memory.restart and worker is not None and target is Target.STARTED
        if connector is not None and target is Target.STARTED:
            self._prepare(connector)
        is_changed = self._started is not self._pipeline
        action = decide(target, worker, self.memory, is_changed=is_changed, now=self.now())
        if target is Target.STARTED and self._broken is not None and action is not Action.STOP:
            await self.reported(self.name, Report(Condition.FAILED, Condition.FAILED, self._broken))
            return True
        if action is not Action.NOTHING:
            await self._act(action)
            worker = await self._worker()
        is_starting = worker is not None and worker.state is State.STARTING
        self._pause_seconds = STARTING_LOOK_SECONDS if is_starting else LOOK_SECONDS
        connector = self.wanted()
        if connector is None:
            return worker is not None
        await self.reported(self.name, report(connector.target, worker, self.memory))
        if action is Action.STOP:
            self._woken.set()  # the next action follows at once
        return True

    async def _worker(self) -> Status | None:
        """Return the status of the running worker; note how it ended, if it did."""
        worker = None if self._started is None else await self.runner.seen(self.name)
        if worker is not None and worker.alive:
            self.memory.trace = None if worker.state is State.RUNNING else self.memory.trace
            return worker
        if worker is not None:
            self.memory.ended(worker, self.now())
        self._started = None
        return None

    def _prepare(self, connector: Connector) -> None:
        """Make the pipeline, once per configuration."""
        made_of = (connector.properties, connector.start)
        if self._broken is not None or made_of != self._made_of:
            self._made_of = made_of
            try:
                self._pipeline, self._broken = self.make(connector), None
            except RunnerError as error:
                self._pipeline, self._broken = None, str(error)

    async def _act(self, action: Action) -> None:
        try:
            match action:
                case Action.START:
                    assert self._pipeline is not None
                    log.info("connector starts connector=%s", self.name)
                    await self.runner.start(self._pipeline)
                    self._started = self._pipeline
                case Action.STOP:
                    log.info("connector stops connector=%s", self.name)
                    await self.runner.stop(self.name)
                    self._started, self.memory.restart = None, False
                case _:
                    await self.runner.ask(self.name, action.name.lower())
        except RunnerError as error:
            log.warning("connector action failed connector=%s action=%s error=%s", self.name, action.name, error)
            if action is Action.START:
                self.memory.crashed(str(error), self.now())
