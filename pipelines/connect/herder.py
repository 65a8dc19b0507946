"""Operations of the leading manager: the routes' operations, and a keeper for each connector.

All that writes runs in one task, one thing after the other, so nothing changes between a check and what relies on it:
look at the state, write records, replay them. When a write fails, whether it is in is not known: `lead` ends with the
error, and who leads begins anew from what the topics say.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

from kvorum.pipelines.connect import catalogue, offsets, records
from kvorum.pipelines.connect.catalogue import Cluster, Secrets
from kvorum.pipelines.connect.errors import ConnectError, RunnerError, bad_request, conflict, unknown_connector
from kvorum.pipelines.connect.keeper import Keeper, Report
from kvorum.pipelines.connect.records import Condition, Json, Record, Status, Target
from kvorum.pipelines.connect.runner import Runner, Worker
from kvorum.pipelines.connect.state import Connector, State
from kvorum.pipelines.connect.store import Store
from kvorum.pipelines.spec import Pipeline

T = TypeVar("T")
OPERATIONS_MAX: Final = 1_000
"""Requests and reports that wait for their turn; who comes beyond is told to come again."""
CONNECTORS_MAX: Final = 1_000
POSITIONS_MS: Final = 10_000
"""How often the positions of a running connector are written."""
RELEASE_SECONDS: Final = 90.0

log = logging.getLogger("kvorum.pipelines.connect.herder")
Operation = Callable[[], Awaitable[None]]


@dataclass(slots=True)
class Herder:
    """Executes operations on connectors while this manager leads."""

    store: Store
    runner: Runner
    worker_id: str
    folder: str
    """Names the folder of the workers, among those of all managers."""
    cluster: Cluster
    now_ms: Callable[[], int]
    wall_ms: Callable[[], int]
    state: State = field(default_factory=State)
    leading: bool = False
    generation: int = 0
    _keepers: dict[str, Keeper] = field(default_factory=dict)
    _tasks: dict[str, "asyncio.Task[None]"] = field(default_factory=dict)
    _queue: "asyncio.Queue[Operation]" = field(default_factory=lambda: asyncio.Queue(OPERATIONS_MAX))
    _makers: dict[str, tuple[Connector, Callable[[], Pipeline]]] = field(default_factory=dict)
    _waiting: "set[asyncio.Future[Any]]" = field(default_factory=set)
    _positions_at: dict[str, int] = field(default_factory=dict)

    async def lead(self, adopt: Callable[[State], Awaitable[None]] | None = None) -> None:
        """Take the leadership, then execute operations until cancelled. Raises Fenced, Unavailable."""
        self.state, self._queue = State(), asyncio.Queue(OPERATIONS_MAX)
        self.state.replay(await self.store.load())
        log.info("state read connectors=%d", len(self.state.names()))
        self.generation = self.state.generation() + 1
        if adopt is not None:
            await adopt(self.state)
        await self.write([records.leader(self.folder, self.worker_id)])
        try:
            for name in {*self.state.names(), *await self.runner.alive()}:
                self._keep(name)
            self.leading = True
            log.info("became leader generation=%d connectors=%d", self.generation, len(self.state.names()))
            while True:
                await (await self._queue.get())()
        finally:
            self.leading = False
            for done in self._waiting:
                if not done.done():
                    done.set_exception(conflict())
            await self._let_go()

    async def _let_go(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._keepers.clear()
        self._tasks.clear()

    async def release(self) -> None:
        """End all workers: another manager may start them. For who does not lead any more."""
        names = await self.runner.alive()
        async with asyncio.timeout(RELEASE_SECONDS):
            for outcome in await asyncio.gather(*(self.runner.stop(name) for name in names), return_exceptions=True):
                if isinstance(outcome, BaseException):
                    log.error("worker not stopped error=%s", outcome)
            await self.runner.end()

    async def hand_over(self) -> None:
        """End all workers and record it, so that the next leader need not wait for them. Within an operation."""
        await self._let_go()
        await self.release()
        nobody = Status(state=Condition.UNASSIGNED, worker_id="", generation=self.generation)
        gone = [
            make(name, nobody)
            for make, statuses in (
                (records.connector_status, self.state.connector_statuses),
                (records.task_status, self.state.task_statuses),
            )
            for name, status in statuses.items()
            if status.state is not Condition.STOPPED
        ]
        await self.write([*gone, records.leader(None)])

    async def submit(self, operation: Callable[[], Awaitable[T]]) -> T:
        """Do an operation when it is its turn. Raises ConnectError, also when this manager does not lead."""
        if not self.leading:
            raise conflict()
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        async def turn() -> None:
            try:
                result = await operation()
            except (ConnectError, RunnerError) as error:
                if not done.done():
                    done.set_exception(error)
            except BaseException:
                if not done.done():
                    done.set_exception(conflict())
                raise
            else:
                if not done.done():
                    done.set_result(result)

        try:
            self._queue.put_nowait(turn)
        except asyncio.QueueFull:
            raise ConnectError(503, "too many queued requests; retry later") from None
        self._waiting.add(done)
        try:
            return await done
        finally:
            self._waiting.discard(done)

    async def write(self, found: Iterable[Record]) -> None:
        """Write records and take them into the state. Only within an operation."""
        listed = list(found)
        await self.store.append(listed)
        self.state.replay(listed)

    # What keepers ask.

    def _keep(self, name: str) -> None:
        keeper = Keeper(name=name, owner=self, runner=self.runner, now_ms=self.now_ms)
        self._keepers[name] = keeper
        self._tasks[name] = asyncio.create_task(self._kept(keeper), name=f"keeper-{name}")

    async def _kept(self, keeper: Keeper) -> None:
        await keeper.run()
        if self._keepers.get(keeper.name) is keeper:
            del self._keepers[keeper.name], self._tasks[keeper.name]

    def wanted(self, name: str) -> tuple[Target | None, Callable[[], Pipeline] | None]:
        """Return what a connector should be, and what makes its pipeline: the same maker while nothing changes."""
        connector = self.state.get(name)
        if connector is None:
            self._makers.pop(name, None)
            return None, None
        made = self._makers.get(name)
        if made is None or (made[0].properties, made[0].start) != (connector.properties, connector.start):
            make = partial(
                catalogue.runnable,
                name,
                connector.properties,
                cluster=self.cluster,
                checkpoint=self.runner.checkpoint(name, connector.start.run),
                start=connector.start,
            )
            made = self._makers[name] = connector, make
        return connector.target, made[1]

    async def reported(self, name: str, told: Report, worker: Worker | None) -> None:
        """Write a connector's changed state, and periodically its offsets."""
        if not self.leading:
            return
        connector = self.state.get(name)
        if connector is None:
            return
        found = list(self._statuses(connector, told))
        if (
            told.task is Condition.RUNNING
            and self.now_ms() - self._positions_at.get(name, -POSITIONS_MS) >= POSITIONS_MS
        ):
            self._positions_at[name] = self.now_ms()
            found += await self._moved(connector)
        if found:

            async def write() -> None:
                if self.state.get(name) is not None:  # it may have been deleted meanwhile
                    await self.write(found)

            try:
                await self.submit(write)
            except ConnectError as error:
                log.info("status not written connector=%s error=%s", name, error)

    def _statuses(self, connector: Connector, told: Report) -> Iterable[Record]:
        name = connector.name
        trace = told.trace
        if trace:
            trace = Secrets.in_configuration({**self.cluster.client, **connector.properties}).hidden(trace)
        task = None if told.task is None else self._status(told.task, trace)
        own = self._status(told.connector, trace if told.connector is Condition.FAILED else None)
        if not own.same(self.state.connector_statuses.get(name)):
            yield records.connector_status(name, own)
        before = self.state.task_statuses.get(name)
        if task is None and before is not None:
            yield records.task_status(name, None)
        elif task is not None and not task.same(before):
            yield records.task_status(name, task)

    def _status(self, state: Condition, trace: str | None = None) -> Status:
        return Status(state=state, worker_id=self.worker_id, generation=self.generation, trace=trace)

    async def _moved(self, connector: Connector) -> list[Record]:
        """Return the records of the positions that are others than before, and of topics seen for the first time."""
        name = connector.name
        try:
            told = await self.runner.ask(name, "offsets")
        except RunnerError:
            return []  # it does not listen yet, or not any more
        found = offsets.of_answer(told, name)
        known = self.state.offsets.get(name, {})
        moved = [
            records.offset(name, partition, offset)
            for partition, offset in found
            if known.get(records.compact(partition)) != offset
        ]
        seen = self.state.topics.get(name, {})
        fresh = offsets.topics_of(connector.properties, found) - set(seen)
        return moved + [records.topic_status(name, topic, self.wall_ms()) for topic in sorted(fresh)]

    # What requests ask.

    def existing(self, name: str) -> Connector:
        """Return a connector. Raises ConnectError."""
        found = self.state.get(name)
        if found is None:
            raise unknown_connector(name)
        return found

    async def put(
        self,
        name: str,
        properties: Mapping[str, str],
        *,
        new: bool,
        target: Target | None = None,
        before: Mapping[str, str] | None = None,
    ) -> bool:
        """Create or change a connector; return whether it was created. Within an operation.

        `before` is the configuration that a change was made from: if it is not that any more, nothing is changed.
        """
        there = self.state.get(name)
        if before is not None and (there is None or there.properties != before):
            raise conflict()
        if new and there is not None:
            raise conflict(f"Connector {name} already exists")
        if there is None and len(self.state.names()) >= CONNECTORS_MAX:
            raise bad_request(f"limit of {CONNECTORS_MAX} connectors reached")
        written = [records.connector(name, properties)]
        if there is None:
            # A connector that was deleted while it was paused must not begin paused.
            written = [records.target(name, target or Target.STARTED), *written, records.commit(name, 1)]
        await self.write(written)
        keeper = self._keepers.get(name)
        if keeper is None:
            self._keep(name)
        else:
            keeper.wake(anew=True)
        return there is None

    async def delete(self, name: str) -> None:
        """Delete a connector; its worker ends soon. Positions stay, as Connect's do: a new one of the name goes on."""
        self.existing(name)
        gone = [records.connector(name, None), records.target(name, None), records.commit(name, None)]
        gone += [records.connector_status(name, None), records.task_status(name, None)]
        gone += [records.topic_status(name, topic, None) for topic in self.state.topics.get(name, {})]
        await self.write(gone)
        if name in self._keepers:
            self._keepers[name].wake()

    async def target(self, name: str, wanted: Target) -> None:
        """Ask a connector to be paused, stopped, or to run."""
        if self.existing(name).target is not wanted:
            await self.write([records.target(name, wanted)])
        self._keepers[name].wake(anew=wanted is Target.STARTED and not self._runs(name))

    def _runs(self, name: str) -> bool:
        task = self.state.task_statuses.get(name)
        return task is not None and task.state is Condition.RUNNING

    async def restart(self, name: str, *, only_failed: bool = False) -> None:
        """End a connector's worker and start it again; with `only_failed` one that failed."""
        if self.existing(name).target is not Target.STARTED:
            return
        task = self.state.task_statuses.get(name)
        if only_failed and (task is None or task.state is not Condition.FAILED):
            return
        again = self._status(Condition.RESTARTING)
        await self.write([records.connector_status(name, again), records.task_status(name, again)])
        self._keepers[name].wake(restart=True)

    async def positions(self, name: str) -> list[tuple[Json, Json]]:
        """Return the positions of a connector: of its worker, or as they were last written."""
        connector = self.existing(name)
        if self._runs(name):
            try:
                return offsets.of_answer(await self.runner.ask(name, "offsets"), name)
            except RunnerError:
                pass
        kept = offsets.of_checkpoint(self.checkpoint_of(connector), name)
        return kept if kept else self.state.positions(name)

    def checkpoint_of(self, connector: Connector) -> str:
        """Return the folder of a connector's checkpoint."""
        given = connector.properties.get("kvorum.checkpoint")
        if given is None:
            return self.runner.checkpoint(connector.name, connector.start.run)
        return f"{given.rstrip('/')}-{connector.start.run}" if connector.start.run else given

    async def move(self, name: str, wanted: offsets.Offsets | None) -> None:
        """Set positions of a stopped connector; None: all from the beginning. It is a new run of the connector."""
        connector = self.existing(name)
        self._stopped(connector)
        before = await self.positions(name)
        after = [] if wanted is None else offsets.merged(before, wanted)
        written = [records.start(name, connector.start.run + 1, after)]
        written += [records.offset(name, partition, None) for partition, _ in self.state.positions(name)]
        written += [records.offset(name, partition, value) for partition, value in after if value is not None]
        await self.write(written)

    def _stopped(self, connector: Connector) -> None:
        task = self.state.task_statuses.get(connector.name)
        if connector.target is not Target.STOPPED or task is not None:
            raise bad_request(
                "Connectors must be in the STOPPED state before their offsets can be modified. This can be done "
                f"for the specified connector by issuing a 'PUT' request to the '/connectors/{connector.name}/stop' "
                "endpoint"
            )

    async def forget_topics(self, name: str) -> None:
        """Forget which topics a connector was seen to use."""
        await self.write([records.topic_status(name, topic, None) for topic in self.state.topics.get(name, {})])


def as_text(value: Any) -> str:
    """Return a configuration's value as Connect reads it out of JSON: all are strings."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return value
        case _:
            return records.compact(value)
