"""A manager without a cluster and without Spark: topics in memory, workers that do what the test says."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from aiohttp.test_utils import TestClient, TestServer

from kvorum.pipelines.connect.catalogue import Cluster
from kvorum.pipelines.connect.errors import Fenced, RunnerError, Unavailable
from kvorum.pipelines.connect.herder import Herder
from kvorum.pipelines.connect.routes import application
from kvorum.pipelines.connect.state import Record
from kvorum.pipelines.run.state import State, Status
from kvorum.pipelines.spec import Pipeline

T = TypeVar("T")
SECONDS = 10.0


@dataclass(slots=True)
class Topics:
    """Shared by the stores of all managers: records, and the epoch of the transactional id."""

    records: list[Record] = field(default_factory=list)
    epoch: int = 0


@dataclass(slots=True)
class MemoryStore:
    """A store over shared topics."""

    topics: Topics = field(default_factory=Topics)
    epoch: int | None = None
    broken: Exception | None = None
    """Raised by the next append."""

    async def prepare(self) -> str:
        return "cluster"

    async def read(self) -> list[Record]:
        return list(self.topics.records)

    async def fence(self) -> None:
        self.topics.epoch += 1
        self.epoch = self.topics.epoch

    async def append(self, found: Sequence[Record]) -> None:
        await asyncio.sleep(0)
        if self.epoch is None:
            raise Unavailable("not fenced since the last failure")
        if self.epoch != self.topics.epoch:
            self.epoch = None
            raise Fenced("another manager")
        if self.broken is not None:
            error, self.broken, self.epoch = self.broken, None, None
            raise error
        self.topics.records += [
            Record(each.topic, each.key, None if each.value is None else dict(each.value)) for each in found
        ]


def status(name: str, state: State, trace: str | None = None, *, died: bool = False) -> Status:
    return Status(name=name, state=state, trace=trace, pid=1, since_ms=0, died=died)


@dataclass(slots=True)
class FakeRunner:
    """Workers that run at once."""

    workers: dict[str, Status] = field(default_factory=dict)
    specs: dict[str, Pipeline] = field(default_factory=dict)
    fails: dict[str, str] = field(default_factory=dict)
    """{name: trace} of workers that fail at once."""
    died: bool = False
    """Their processes end; otherwise they report the failure."""
    offsets: dict[str, list[Any]] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)

    async def seen(self, name: str) -> Status | None:
        await asyncio.sleep(0)
        return self.workers.get(name)

    async def start(self, pipeline: Pipeline) -> None:
        name = pipeline.name
        self.calls.append(("start", name))
        assert name not in self.workers or not self.workers[name].alive
        self.specs[name] = pipeline
        trace = self.fails.get(name)
        state = State.RUNNING if trace is None else State.FAILED
        self.workers[name] = status(name, state, trace, died=trace is not None and self.died)

    async def ask(self, name: str, command: str) -> Mapping[str, Any]:
        self.calls.append((command, name))
        if name not in self.workers or not self.workers[name].alive:
            raise RunnerError(f"{name} does not run")
        if command == "offsets":
            return {"sources": self.offsets.get(name, [])}
        self.workers[name] = status(name, State.PAUSED if command == "pause" else State.RUNNING)
        return {}

    async def stop(self, name: str) -> None:
        self.calls.append(("stop", name))
        self.workers[name] = status(name, State.STOPPED)

    async def end(self) -> None:
        self.calls.append(("end", ""))
        for name, worker in self.workers.items():
            if worker.alive:
                self.workers[name] = status(name, State.STOPPED)

    def checkpoint(self, name: str, run: int) -> str:
        return f"/nowhere/{name}/{run}"

    def ends(self, name: str, state: State, trace: str | None = None, *, died: bool = False) -> None:
        """Let a worker end."""
        self.workers[name] = status(name, state, trace, died=died)


@dataclass(slots=True)
class Clock:
    """Monotonic time that stands still."""

    seconds: float = 1000.0

    def now(self) -> float:
        return self.seconds


@dataclass(slots=True, kw_only=True)
class Fake:
    """A manager, and a client of it."""

    client: "TestClient[Any, Any]"
    herder: Herder
    store: MemoryStore
    runner: FakeRunner
    clock: Clock
    running: "asyncio.Task[None]"

    async def call(self, method: str, path: str, body: object = None, **more: Any) -> tuple[int, Any]:
        """Return the status and the JSON of an answer; None without a body."""
        if body is not None:
            more["json"] = body
        async with self.client.request(method, path, **more) as answer:
            text = await answer.text()
            return answer.status, await answer.json() if text else None

    async def until(self, check: Callable[[], Awaitable[T] | T], what: str) -> T:
        """Return the first true value."""
        async with asyncio.timeout(SECONDS):
            while True:
                found = check()
                value = await found if isinstance(found, Awaitable) else found
                if value:
                    return value
                for keeper in self.herder.keepers.values():
                    keeper.wake()
                await asyncio.sleep(0.005)
        raise AssertionError(what)

    async def until_states(self, name: str, connector: str, *tasks: str) -> Any:
        """Wait until a connector and its tasks are in these states; return the status."""

        async def right() -> Any:
            status, found = await self.call("GET", f"/connectors/{name}/status")
            states = [task["state"] for task in found.get("tasks", ())]
            return found if status == 200 and [found["connector"]["state"], *states] == [connector, *tasks] else None

        return await self.until(right, f"{name}: {connector} {tasks}")


@asynccontextmanager
async def manager(
    store: MemoryStore | None = None, runner: FakeRunner | None = None, checkpoints: str = "folder", **more: Any
) -> Any:
    """Give a manager that runs."""
    store, runner, clock = store or MemoryStore(), runner or FakeRunner(), Clock()
    herder = Herder(
        store=store,
        runner=runner,
        worker_id="127.0.0.1:8083",
        checkpoints=checkpoints,
        cluster=Cluster(bootstrap="broker:9092"),
        now=clock.now,
        wall_ms=lambda: 1_700_000_000_000,
        **more,
    )
    async with TestClient(TestServer(application(herder))) as client:
        running = asyncio.create_task(herder.run())
        fake = Fake(client=client, herder=herder, store=store, runner=runner, clock=clock, running=running)
        try:
            async with asyncio.timeout(SECONDS):
                while not herder.ready and not running.done():  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
            yield fake
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
