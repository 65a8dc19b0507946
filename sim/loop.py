"""SimLoop: an asyncio event loop in virtual time, one seed per run; production code runs in it unmodified.

Nothing waits: when no callback is ready, time jumps to the next timer. `run_in_executor` runs its function on the
loop at a later time drawn from the seed, so off-loop work takes time and a crash can interrupt it.

A callback belongs to the *host* (process) whose callback scheduled it; callbacks of a dead host never run, those
of a paused one run in order when it resumes, as after SIGSTOP and SIGCONT.
"""

import asyncio
import contextvars
import random
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from heapq import heappop, heappush
from typing import Any, Protocol, TypeVar, cast

from typing_extensions import TypeVarTuple

from sim.handles import Host as Host
from sim.handles import SimHandle

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
START_S = 1000.0
"""Virtual time begins here, away from zero."""
LAST_CLAUSES_MAX = 8
"""Finally clauses of one coroutine, one in another, that wait for something as it ends."""


class Streams(Protocol):
    """Backend of create_server and create_connection: a StreamNetwork."""

    def listen(self, factory: Callable[[], asyncio.BaseProtocol], host: str | None, port: int | None) -> object:
        """Listen."""
        ...

    async def connect(
        self, factory: Callable[[], asyncio.BaseProtocol], name: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Connect."""
        ...


class Stuck(AssertionError):
    """No callback is left, and the awaited event has not happened."""


class SimLoop(asyncio.BaseEventLoop):
    """See the module. `rng` draws the duration of off-loop work."""

    def __init__(self, rng: random.Random) -> None:
        """Start at START_S with nothing to do."""
        super().__init__()
        self._now = START_S
        self._ready: deque[SimHandle] = deque()
        self._timers: list[tuple[float, int, SimHandle]] = []
        self._count = 0
        self._closed = False
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._stopping = False
        self._running = False
        self.rng = rng
        self.host: Host | None = None
        """Host of the running callback."""
        self.events = 0
        self.after_event: Callable[[Host], None] | None = None
        """Called after each callback of a host: where invariants are checked."""
        self.errors: list[dict[str, Any]] = []
        """Log messages: exceptions in callbacks, never retrieved ones."""
        self.streams: Streams | None = None
        """Servers and connections; set by StreamNetwork."""
        self.executor_delay: Callable[[], float] = lambda: 0.0001 + 0.0004 * self.rng.random()

    def __del__(self) -> None:
        """Warn of nothing: there is nothing to release."""

    # Time and callbacks.

    def time(self) -> float:
        """Return virtual seconds."""
        return self._now

    def get_debug(self) -> bool:
        """Return False, always."""
        return False

    def set_debug(self, enabled: bool) -> None:
        """Change nothing."""

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """See asyncio."""
        handle = SimHandle(self._now, callback, args, context, self.host)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """See asyncio; there are no other threads."""
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """See asyncio."""
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """See asyncio."""
        timer = SimHandle(when, callback, args, context, self.host)
        self._count += 1
        heappush(self._timers, (when, self._count, timer))
        return timer

    def call_at_host(
        self,
        host: Host | None,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Schedule a callback that belongs to `host`: how the network reaches another process."""
        timer = SimHandle(when, callback, args, context, host)
        self._count += 1
        heappush(self._timers, (when, self._count, timer))
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Leave it in the heap; it is skipped when it comes up."""

    # Futures, tasks, executor.

    def create_future(self) -> asyncio.Future[Any]:
        """See asyncio."""
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]  # exactly asyncio's parameters
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[T]:
        """See asyncio. A task is kept alive until it is done: garbage collection would not depend on the seed."""
        task: asyncio.Task[T] = asyncio.Task(coro, loop=self, name=name, context=context)
        self._tasks[task] = None
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.pop(task, None)

    def run_in_executor(  # type: ignore[override]  # one executor: the loop itself
        self, executor: object, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Run `func` on the loop at a later instant; a host that dies before may leave it undone, or half done."""
        future: asyncio.Future[T] = self.create_future()
        host = self.host
        self._count += 1
        number = self._count
        if host is not None:
            host.jobs[number] = lambda: func(*args)

        def work() -> None:
            if host is not None:
                del host.jobs[number]
            if future.cancelled():
                return
            try:
                result = func(*args)
            except Exception as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        self.call_at(self._now + self.executor_delay(), work)
        return future

    # Servers and connections.

    async def create_server(  # type: ignore[override]  # what Kvorum's listener passes
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        *,
        ssl: None = None,
        **options: object,
    ) -> asyncio.AbstractServer:
        """Listen on the running process's machine."""
        assert self.streams is not None and ssl is None, "a StreamNetwork, and no TLS"
        return cast(asyncio.AbstractServer, self.streams.listen(protocol_factory, host, port))

    async def create_connection(  # type: ignore[override]  # what Kvorum's channel passes
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        *,
        ssl: None = None,
        **options: object,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Connect from the running process to a machine by its name."""
        assert self.streams is not None and ssl is None, "a StreamNetwork, and no TLS"
        return await self.streams.connect(protocol_factory, host, port)

    # Running.

    def step(self) -> bool:
        """Run one callback, moving time if none is ready; False if there is nothing at all."""
        ready = self._ready
        if not ready:
            timers = self._timers
            while timers and timers[0][2].is_cancelled:
                heappop(timers)
            if not timers:
                return False
            when, _, timer = heappop(timers)
            if when > self._now:
                self._now = when
            ready.append(timer)
        handle = ready.popleft()
        if handle.is_cancelled:
            return True
        host = handle.host
        if host is None:
            self.events += 1
            self._call(handle)
            return True
        if not host.alive:
            return True
        if host.paused:
            host.deferred.append(handle)
            return True
        self.host = host
        self.events += 1
        try:
            self._call(handle)
            if self.after_event is not None:
                self.after_event(host)
        except SystemExit:
            # A process that ended itself in the middle of something, as os._exit would.
            if host.alive:
                raise
        finally:
            self.host = None
        return True

    def _call(self, handle: SimHandle) -> None:
        """Behave as asyncio's Handle: store a callback's exception, propagate those that end the process."""
        try:
            handle.context.run(handle.callback, *handle.args)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            self.call_exception_handler({"message": f"exception in {handle!r}", "exception": error, "handle": handle})

    def resume(self, host: Host) -> None:
        """Resume a paused host: all overdue callbacks run now, in order."""
        host.paused = False
        deferred, host.deferred = host.deferred, []
        self._ready.extend(deferred)

    def run_until(self, until: Callable[[], bool], *, limit_s: float) -> bool:
        """Run until the condition holds (True), or this number of virtual seconds has passed (False)."""
        end, step, ready = self._now + limit_s, self.step, self._ready
        self._enter()
        try:
            while not until():
                if not ready and (not self._timers or self._timers[0][0] > end):
                    self._now = end
                    return until()
                step()
        finally:
            self._leave()
        return True

    def run_for(self, seconds: float) -> None:
        """Run for this number of virtual seconds."""
        self.run_until(lambda: False, limit_s=seconds)

    def run_until_complete(self, future: Generator[Any, None, T] | Awaitable[T]) -> T:
        """See asyncio. Raises Stuck if no callback is left before the future is done."""
        self._enter()
        try:
            task: asyncio.Future[T] = asyncio.ensure_future(cast(Awaitable[T], future), loop=self)
            while not task.done():
                if not self.step():
                    raise Stuck("nothing left to run")
        finally:
            self._leave()
        return task.result()

    def run_forever(self) -> None:
        """See asyncio."""
        self._enter()
        try:
            while not self._stopping and self.step():
                pass
            self._stopping = False
        finally:
            self._leave()

    def _enter(self) -> None:
        asyncio._set_running_loop(self)
        self._running = True

    def _leave(self) -> None:
        self._running = False
        asyncio._set_running_loop(None)

    def stop(self) -> None:
        """See asyncio."""
        self._stopping = True

    def is_running(self) -> bool:
        """See asyncio."""
        return self._running

    def is_closed(self) -> bool:
        """See asyncio."""
        return self._closed

    def close(self) -> None:
        """Forget everything. Coroutines that are left end here: the collector would end them outside of any loop."""
        self._closed = True
        self._enter()
        try:
            while self._tasks:
                task, _ = self._tasks.popitem()
                _end(cast(Coroutine[Any, Any, Any], task.get_coro()))
        finally:
            self._leave()
        self._ready.clear()
        self._timers.clear()

    async def shutdown_asyncgens(self) -> None:
        """Nothing is tracked."""

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ASYNC109  # asyncio's
        """There is no executor."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Store the error for the test; an error of a task that died with its host is ignored."""
        if context.get("exception") is not None:
            self.errors.append(context)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """See call_exception_handler."""
        self.call_exception_handler(context)


def _end(coroutine: Coroutine[Any, Any, Any]) -> None:
    """End a coroutine whose process is dead; ignore errors and awaits of its finally clauses."""
    for _ in range(LAST_CLAUSES_MAX):
        try:
            coroutine.close()
        except (Exception, SystemExit):  # "ignored GeneratorExit": a finally clause waits for something
            continue
        return
