"""A manager without a cluster and without Spark: topics in memory, workers that are what the test says."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from aiohttp.test_utils import TestClient, TestServer

from kvorum.pipelines.connect.catalogue import Cluster
from kvorum.pipelines.connect.election import Alone, Election
from kvorum.pipelines.connect.errors import Fenced, RunnerError
from kvorum.pipelines.connect.herder import Herder
from kvorum.pipelines.connect.manager import application
from kvorum.pipelines.connect.records import Record
from kvorum.pipelines.connect.runner import Worker
from kvorum.pipelines.connect.service import Service
from kvorum.pipelines.run.state import State
from kvorum.pipelines.spec import Pipeline

T = TypeVar("T")
SECONDS = 10.0


@dataclass(slots=True)
class Topics:
    """What several managers share: records, and who may write."""

    records: list[Record] = field(default_factory=list)
    epoch: int = 0


@dataclass(slots=True)
class MemoryStore:
    """A store over shared topics: who loads fences the others."""

    topics: Topics = field(default_factory=Topics)
    epoch: int = 0
    broken: Exception | None = None
    """Raised by the next append."""

    async def prepare(self) -> str:
        return "cluster"

    async def load(self) -> list[Record]:
        self.topics.epoch += 1
        self.epoch = self.topics.epoch
        return list(self.topics.records)

    async def append(self, found: Sequence[Record]) -> None:
        await asyncio.sleep(0)
        if self.epoch != self.topics.epoch:
            raise Fenced("another one leads")
        if self.broken is not None:
            error, self.broken = self.broken, None
            raise error
        self.topics.records += [
            Record(topic=each.topic, key=each.key, value=None if each.value is None else dict(each.value))
            for each in found
        ]

    async def close(self) -> None:
        pass


@dataclass(slots=True)
class FakeRunner:
    """Workers that run at once. `fails`: {name: trace} of those that fail instead."""

    workers: dict[str, Worker] = field(default_factory=dict)
    specs: dict[str, Pipeline] = field(default_factory=dict)
    fails: dict[str, str] = field(default_factory=dict)
    lasting: bool = False
    """What fails says that a new start does not help."""
    offsets: dict[str, list[Any]] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)

    async def seen(self, name: str) -> Worker | None:
        await asyncio.sleep(0)
        return self.workers.get(name)

    async def start(self, pipeline: Pipeline, revision: str) -> None:
        name = pipeline.name
        self.calls.append(("start", name))
        there = self.workers.get(name)
        if there is not None and there.alive:
            raise RunnerError(f"{name} runs already")
        self.specs[name] = pipeline
        trace = self.fails.get(name)
        state = State.RUNNING if trace is None else State.FAILED
        self.workers[name] = Worker(
            alive=trace is None, state=state, trace=trace, revision=revision, lasting=self.lasting
        )

    async def ask(self, name: str, command: str) -> Mapping[str, Any]:
        self.calls.append((command, name))
        worker = self.workers.get(name)
        if worker is None or not worker.alive:
            raise RunnerError(f"{name} does not run")
        if command == "offsets":
            return {"sources": self.offsets.get(name, [])}
        state = State.PAUSED if command == "pause" else State.RUNNING
        self.workers[name] = Worker(alive=True, state=state, revision=worker.revision)
        return {}

    async def stop(self, name: str) -> None:
        self.calls.append(("stop", name))
        worker = self.workers[name]
        self.workers[name] = Worker(alive=False, state=State.STOPPED, revision=worker.revision)

    async def end(self) -> None:
        self.calls.append(("end", ""))

    async def alive(self) -> list[str]:
        return [name for name, worker in self.workers.items() if worker.alive]

    def checkpoint(self, name: str, run: int) -> str:
        return f"/nowhere/{name}/{run}"

    def ends(self, name: str, state: State, trace: str | None = None) -> None:
        """Let a worker end."""
        self.workers[name] = Worker(alive=False, state=state, trace=trace, revision=self.workers[name].revision)


@dataclass(slots=True)
class Clock:
    """Monotonic time that stands still."""

    ms: int = 1_000_000

    def now_ms(self) -> int:
        return self.ms


@dataclass(slots=True, kw_only=True)
class Fake:
    """A manager that leads, and a client of it."""

    client: "TestClient[Any, Any]"
    herder: Herder
    store: MemoryStore
    runner: FakeRunner
    clock: Clock
    leading: "asyncio.Task[None]"

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
                for keeper in self.herder._keepers.values():
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
    store: MemoryStore | None = None,
    runner: FakeRunner | None = None,
    election: Election | None = None,
    lead: bool = True,
) -> Any:
    """Give a manager; it leads unless told otherwise."""
    store, runner, clock = store or MemoryStore(), runner or FakeRunner(), Clock()
    herder = Herder(
        store=store,
        runner=runner,
        worker_id="127.0.0.1:8083",
        folder="folder",
        cluster=Cluster(bootstrap="broker:9092"),
        now_ms=clock.now_ms,
        wall_ms=lambda: 1_700_000_000_000,
    )
    service = Service(
        herder=herder,
        election=election or Alone(),
        url="http://127.0.0.1:8083",
        bootstrap="broker:9092",
        cluster_id="cluster",
        ready=True,
    )
    async with TestClient(TestServer(application(service))) as client:
        service.session = client.session
        leading = asyncio.create_task(herder.lead() if lead else asyncio.sleep(3600))
        fake = Fake(client=client, herder=herder, store=store, runner=runner, clock=clock, leading=leading)
        try:
            async with asyncio.timeout(SECONDS):
                while lead and not herder.leading and not leading.done():  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
            yield fake
        finally:
            leading.cancel()
            await asyncio.gather(leading, return_exceptions=True)
