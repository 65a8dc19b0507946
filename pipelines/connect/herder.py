"""The manager: the operations behind the routes, a keeper per connector, and the ownership of the three topics.

There is one manager per set of topics: the one whose id is in the newest kvorum-manager record. A manager that starts
fences the earlier one and writes that record, and writes it again every HEARTBEAT_SECONDS, so that a fenced manager
notices. A manager whose write failed reads the topics: if the record is its own it fences itself and continues with
what is stored; otherwise it ends with Superseded. Workers of two managers may run at the same time until then, which
delivery guarantees do not depend on (docs/decisions/0029).

Operations run one at a time: check the state, write records, replay them. Until the manager has read the topics again
after a failed write, requests are answered with 409.
"""

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Final, TypeVar

from kvorum.pipelines.connect import catalogue
from kvorum.pipelines.connect import state as records
from kvorum.pipelines.connect.errors import ConnectError, Fenced, RunnerError, Superseded, Unavailable, conflict
from kvorum.pipelines.connect.keeper import Keeper, Report
from kvorum.pipelines.connect.runner import Runner
from kvorum.pipelines.connect.state import Condition, Connector, Json, Offsets, Record, State, Status, Target, Topic
from kvorum.pipelines.connect.store import Store
from kvorum.pipelines.connect.validation import without_secrets
from kvorum.pipelines.run import checkpoint as checkpoints
from kvorum.pipelines.spec import Pipeline

T = TypeVar("T")
OPERATIONS_MAX: Final = 1_000
"""Waiting requests and reports; further ones are rejected with 503."""
CONNECTORS_MAX: Final = 1_000
POSITIONS_SECONDS: Final = 10.0
"""Interval at which the positions of a running connector are written."""
HEARTBEAT_SECONDS: Final = 5.0
RETRY_SECONDS: Final = 2.0

log = logging.getLogger("kvorum.pipelines.connect.herder")


@dataclass(slots=True)
class Herder:
    """Executes operations on connectors."""

    store: Store
    runner: Runner
    worker_id: str
    checkpoints: str
    """See state.Manager."""
    cluster: catalogue.Cluster
    now: Callable[[], float]
    """Monotonic time in seconds."""
    wall_ms: Callable[[], int]
    may_move: bool = False
    """Start although the checkpoints of the previous manager are elsewhere."""
    cluster_id: str = ""
    """Empty until the cluster has responded."""
    ready: bool = False
    state: State = field(default_factory=State)
    generation: int = 0
    keepers: dict[str, Keeper] = field(default_factory=dict)
    _id: str = field(default_factory=lambda: str(uuid.uuid4()))
    _tasks: "set[asyncio.Task[None]]" = field(default_factory=set)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _waiting: int = 0
    _failed: asyncio.Event = field(default_factory=asyncio.Event)
    _positions_at: dict[str, float] = field(default_factory=dict)

    # Ownership.

    async def run(self) -> None:
        """Manage connectors until cancelled. Raises Superseded."""
        is_owner = False
        try:
            while True:
                try:
                    async with self._turn:
                        await self._own(is_owner=is_owner)
                    is_owner = True
                    for name in self.state.names():
                        self._keep(name)
                    self.ready = True
                    log.info("manager ready generation=%d connectors=%d", self.generation, len(self.state.names()))
                    await self._beat()
                except (Fenced, Unavailable) as error:
                    log.warning("topics not accessible, tried again error=%s", error)
                    await asyncio.sleep(RETRY_SECONDS)
                finally:
                    self.ready = False
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _own(self, *, is_owner: bool) -> None:
        """Take the topics, or find them still owned. Raises Superseded, Fenced, Unavailable."""
        self._failed.clear()
        self.cluster_id = await self.store.prepare()
        await self._read(is_owner=is_owner)
        await self.store.fence()
        self.state = await self._read(is_owner=is_owner)
        written = [self._own_record()]
        if not is_owner:
            await self.runner.end()
            self.generation = self.state.generation() + 1
            unassigned = Status(state=Condition.UNASSIGNED, worker_id="", generation=self.generation)
            for name, each in self.state.connectors.items():  # workers ended with their manager
                if each.status is not None and not each.is_stopped:
                    written.append(records.connector_status(name, unassigned))
                if each.task is not None and each.task.state is not Condition.STOPPED:
                    written.append(records.task_status(name, unassigned))
        await self.write(written)

    async def _read(self, *, is_owner: bool) -> State:
        """Return the state in the topics. Raises Superseded if this manager must not own them."""
        state = State()
        state.replay(await self.store.read())
        other = state.manager
        if is_owner and (other is None or other.id != self._id):
            where = f"at {other.worker_id} " if other is not None else ""
            raise Superseded(f"another manager {where}took over the topics; the connectors here were stopped")
        if not (is_owner or self.may_move or other is None or other.checkpoints == self.checkpoints):
            raise Superseded(
                f"the checkpoints of the connectors are in {other.checkpoints} (manager at {other.worker_id}): start "
                "the manager there, or set --checkpoints to a folder that has them (or to an empty one: connectors "
                "then start as configured)"
            )
        return state

    def _own_record(self) -> Record:
        found = records.Manager(id=self._id, worker_id=self.worker_id, checkpoints=self.checkpoints)
        return Record(Topic.CONFIGS, records.MANAGER, asdict(found))

    async def _beat(self) -> None:
        """Write the manager's record again and again. Raises Fenced, Unavailable, also after another failed write."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(HEARTBEAT_SECONDS):  # wait_for may lose a cancellation in Python 3.11
                    await self._failed.wait()
            async with self._turn:
                await self.write([self._own_record()])

    async def submit(self, operation: Callable[[], Awaitable[T]]) -> T:
        """Run an operation in its turn. Raises ConnectError."""
        if not self.ready:
            raise conflict()
        if self._waiting >= OPERATIONS_MAX:
            raise ConnectError(503, "too many waiting requests; retry later")
        self._waiting += 1
        try:
            async with self._turn:
                if not self.ready:  # a write has failed meanwhile
                    raise conflict()
                return await operation()
        except (Fenced, Unavailable) as error:
            log.warning("write failed error=%s", error)
            raise conflict() from error
        finally:
            self._waiting -= 1

    async def write(self, found: Iterable[Record]) -> None:
        """Write records and replay them. Within an operation only. Raises Fenced, Unavailable."""
        listed = list(found)
        try:
            await self.store.append(listed)
        except BaseException:
            self.ready = False
            self._failed.set()
            raise
        self.state.replay(listed)

    # Keepers.

    def _keep(self, name: str) -> None:
        if name in self.keepers:
            return
        keeper = Keeper(name, self.runner, lambda: self.state.get(name), self._pipeline, self.reported, self.now)
        keeper.memory.is_finished = self.existing(name).is_stopped
        self.keepers[name] = keeper

        async def keep() -> None:
            await keeper.run()
            del self.keepers[name]
            self._positions_at.pop(name, None)

        task = asyncio.create_task(keep(), name=f"keeper-{name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _pipeline(self, connector: Connector) -> Pipeline:
        checkpoint = self.runner.checkpoint(connector.name, connector.start.run)
        return catalogue.runnable(connector, self.cluster, checkpoint)

    async def reported(self, name: str, found: Report) -> None:
        """Write a connector's changed state, and periodically its positions."""
        connector, trace = self.state.get(name), found.trace
        if connector is None or not self.ready:
            return
        if trace:
            trace = without_secrets(trace, {**self.cluster.client, **connector.properties})
        task = None if found.task is None else self._status(found.task, trace)
        own = self._status(found.connector, trace if found.connector is Condition.FAILED else None)
        written = [] if own == connector.status else [records.connector_status(name, own)]
        written += [] if task == connector.task else [records.task_status(name, task)]
        is_due = self.now() - self._positions_at.get(name, -POSITIONS_SECONDS) >= POSITIONS_SECONDS
        if found.task is Condition.RUNNING and is_due:
            self._positions_at[name] = self.now()
            written += await self._moved(connector)

        async def write() -> None:
            if self.state.get(name) is not None:  # it may have been deleted meanwhile
                await self.write(written)

        if written:
            try:
                await self.submit(write)
            except ConnectError as error:
                log.info("status not written connector=%s error=%s", name, error.message)

    def _status(self, state: Condition, trace: str | None = None) -> Status:
        return Status(state=state, worker_id=self.worker_id, generation=self.generation, trace=trace)

    async def _moved(self, connector: Connector) -> list[Record]:
        """Return records of changed positions, and of topics in use for the first time."""
        name = connector.name
        try:
            found = records.positions_of(await self.runner.ask(name, "offsets"), name)
        except RunnerError:
            return []  # it is starting or stopping
        known = connector.offsets
        moved = [records.offset(name, at, value) for at, value in found if known.get(records.compact(at)) != value]
        new = records.topics_of(connector.properties, found) - set(connector.topics)
        return moved + [records.topic_status(name, topic, self.wall_ms()) for topic in sorted(new)]

    # Operations.

    def existing(self, name: str, missing: str = "Connector {} not found") -> Connector:
        """Return a connector. Raises ConnectError."""
        found = self.state.get(name)
        if found is None:
            raise ConnectError(404, missing.format(name))
        return found

    async def put(
        self,
        name: str,
        properties: Mapping[str, str],
        *,
        new: bool,
        target: Target = Target.STARTED,
        before: Mapping[str, str] | None = None,
    ) -> bool:
        """Create or change a connector; return whether it was created. Within an operation.

        `before` is the configuration that a change was made from: if it has changed meanwhile, nothing is written.
        """
        connector = self.state.get(name)
        if before is not None and (connector is None or connector.properties != before):
            raise conflict()
        if new and connector is not None:
            raise conflict(f"Connector {name} already exists")
        written = [records.connector(name, properties)]
        if connector is None:
            if len(self.state.names()) >= CONNECTORS_MAX:
                raise ConnectError(400, f"limit of {CONNECTORS_MAX} connectors reached")
            # The target is written too: that of a deleted connector of this name may exist.
            written = [
                records.target(name, target),
                *written,
                Record(Topic.CONFIGS, records.COMMIT + name, {"tasks": 1}),
            ]
        is_changed = connector is None or connector.properties != properties
        if connector is not None and is_changed and connector.target is Target.STARTED:
            written += self._again(connector)
        await self.write(written)
        self._keep(name)
        keeper = self.keepers[name]
        keeper.wake(forget=is_changed or keeper.memory.is_failed)
        return connector is None

    def _again(self, connector: Connector) -> list[Record]:
        """Return the status of a connector that starts again after it had finished or was stopped."""
        status = self._status(Condition.UNASSIGNED)
        return [records.connector_status(connector.name, status)] if connector.is_stopped else []

    async def delete(self, name: str) -> None:
        """Delete a connector; its worker ends soon. Positions stay, as in Connect."""
        topics = self.existing(name).topics
        gone = [Record(Topic.CONFIGS, key + name) for key in (records.CONNECTOR, records.TARGET, records.COMMIT)]
        gone += [records.connector_status(name, None), records.task_status(name, None)]
        gone += [records.topic_status(name, topic, None) for topic in topics]
        await self.write(gone)
        self.keepers[name].wake()

    async def target(self, name: str, wanted: Target) -> None:
        """Pause, stop or resume a connector."""
        connector = self.existing(name, "Unknown connector {}")
        written = [records.target(name, wanted)] if connector.target is not wanted else []
        if wanted is Target.STARTED:
            written += self._again(connector)
        await self.write(written)
        runs = connector.task is not None and connector.task.state is Condition.RUNNING
        self.keepers[name].wake(forget=wanted is Target.STARTED and not runs)

    async def restart(self, name: str, *, only_failed: bool = False) -> None:
        """Stop a connector's worker and start it again; with `only_failed` only one that failed."""
        connector = self.existing(name)
        is_failed = connector.task is not None and connector.task.state is Condition.FAILED
        if connector.target is not Target.STARTED or (only_failed and not is_failed):
            return
        again = self._status(Condition.RESTARTING)
        await self.write([records.connector_status(name, again), records.task_status(name, again)])
        self.keepers[name].wake(restart=True)

    async def positions(self, name: str) -> list[tuple[Json, Json]]:
        """Return a connector's positions: its worker's, else those of the checkpoint, else the last written ones."""
        connector = self.existing(name)
        if connector.task is not None and connector.task.state is Condition.RUNNING:
            with contextlib.suppress(RunnerError):
                return records.positions_of(await self.runner.ask(name, "offsets"), name)
        given, run = connector.properties.get("kvorum.checkpoint"), connector.start.run
        checkpoint = self.runner.checkpoint(name, run) if given is None else catalogue.checkpoint_of_run(given, run)
        found = list[tuple[Json, Json]]()
        with contextlib.suppress(OSError, ValueError):  # it is elsewhere, or does not exist
            found = records.positions_of(checkpoints.committed(checkpoint), name)
        return found or connector.positions()

    async def move(self, name: str, wanted: Offsets | None) -> None:
        """Set positions of a stopped connector; None: start as configured. Either is a new run of the connector."""
        connector = self.existing(name)
        if connector.target is not Target.STOPPED or connector.task is not None:
            raise ConnectError(
                400,
                "Connectors must be in the STOPPED state before their offsets can be modified. This can be done "
                f"for the specified connector by issuing a 'PUT' request to the '/connectors/{name}/stop' endpoint",
            )
        after = [] if wanted is None else records.merged_positions(await self.positions(name), wanted)
        listed = [{"partition": partition, "offset": offset} for partition, offset in after]
        start = {"run": connector.start.run + 1, "offsets": listed}
        written = [Record(Topic.CONFIGS, records.START + name, start)]
        written += [records.offset(name, partition, None) for partition, _ in connector.positions()]
        written += [records.offset(name, partition, value) for partition, value in after if value is not None]
        await self.write(written)

    async def forget_topics(self, name: str) -> None:
        """Delete the list of topics that a connector uses."""
        found = self.state.get(name)
        await self.write([records.topic_status(name, topic, None) for topic in (found.topics if found else ())])
