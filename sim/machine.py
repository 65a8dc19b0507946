"""Machines of a simulated cluster and their processes: starts and ends production's broker and controller.

A machine has an address and one or two roles; each role has its own disk, which stays, and a process, which starts and
ends. The machine acts on a process as an operating system does: kill -9 (writes are kept), power loss (unsynced writes
are lost), SIGSTOP and SIGCONT, SIGTERM, and a supervisor that restarts processes that ended by themselves.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from enum import Enum
from random import Random
from typing import Any, Final

from kvorum.broker.server import AllLogDirectoriesOffline, BrokerServer, World
from kvorum.cluster.local.formatting import controller_directory, raft_directory
from kvorum.cluster.process.controller_node import ControllerDependencies, ControllerNode
from kvorum.cluster.process.controller_process import open_quorum
from kvorum.cluster.process.identity import identity_of, lock_directory
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.raft.opening import format_raft
from kvorum.runtime.chance import random_uuid_bytes
from kvorum.runtime.config import Settings
from kvorum.runtime.listeners import voters
from kvorum.runtime.metrics import Metrics
from kvorum.storage.checkpoints import MetaProperties, write_meta_properties
from kvorum.storage.tail import TailBudget
from sim.clock import SimClock
from sim.disk import PowerLoss, SimDisk
from sim.loop import Host, SimLoop
from sim.streams import StreamNetwork
from sim.throttles import RequestCosts

BROKER: Final = "broker"
CONTROLLER: Final = "controller"
RESTART_S: Final = 0.3
"""Time after which the supervisor restarts a process that ended by itself."""


class ProcessEnd(SystemExit):
    """Raised where production code calls os._exit: no later code runs."""


class State(Enum):
    """State of a process."""

    DOWN = "down"
    RUNNING = "running"
    STOPPING = "stopping"


class SimProcess:
    """One role's process on one machine, over all its lives."""

    def __init__(self, machine: "Machine", role: str, rng: Random, disk: SimDisk, settings: Settings) -> None:
        """Start down."""
        self.machine = machine
        self.role = role
        self.name = f"node-{machine.node_id}/{role}"
        self.disk = disk
        self.settings = settings
        self.clock = SimClock(machine.loop)
        self.state = State.DOWN
        self.host = Host("")
        self.host.alive = False
        self.broker: BrokerServer | None = None
        self.controller: ControllerNode | None = None
        self.disk_faulted = False
        """An I/O error was injected in this life: ending itself is no fault of the process then."""
        self.all_log_dirs = settings.list("log.dirs") if role == BROKER else []
        self.log_dirs = list(self.all_log_dirs)
        """Those that its settings have now."""
        self.vouches = True
        """Whether a clean end of this life would be believed: none of its directories failed or is new."""
        self._starting: asyncio.Task[None] | None = None
        self.lives = 0
        self.fault: BaseException | None = None
        """Reason why it ended."""
        self.on_controller: Callable[[SimProcess, ControllerNode], None] = lambda process, controller: None
        """Called with each new controller before it starts: the observer of the metadata log."""
        self.on_ended: Callable[[SimProcess, BaseException], None] = lambda process, error: None
        """Called when it ends itself, with the reason."""
        self.on_restart: Callable[[SimProcess], None] = lambda process: None
        """Called at the begin of each life."""
        self._rng = rng
        self._stack = ExitStack()

    @property
    def is_running(self) -> bool:
        """Whether it lives, paused or not."""
        return self.state is not State.DOWN

    def start(self) -> None:
        """Start a new process with new randomness, unless one runs or its machine is off."""
        if self.is_running or self.machine.dark:
            return
        self.lives += 1
        self.state = State.RUNNING
        self.fault = None
        self.disk.repair()
        self.disk_faulted = self.disk.capacity is not None or bool(self.disk.broken)
        self.broker = self.controller = None
        self.host = Host(f"{self.machine.address}/{self.role}")
        self._stack = ExitStack()
        self.on_restart(self)
        self._do(self._serve_broker if self.role == BROKER else self._serve_controller)

    def kill(self) -> None:
        """End it like kill -9: all writes are kept."""
        if self.is_running:
            self._end()
            self._run_partially()
            self.disk.kill()

    def lose_power(self) -> None:
        """End it with the machine: unsynced data is lost."""
        if self.is_running:
            self._end()
            self._run_partially()
        self.disk.crash()

    def terminate(self) -> None:
        """Stop it in order, like SIGTERM."""
        if self.state is State.RUNNING and not self.host.paused:
            self.state = State.STOPPING
            self._do(self._stop)

    def pause(self) -> None:
        """Stop it, as SIGSTOP does."""
        if self.is_running:
            self.host.paused = True

    def resume(self) -> None:
        """Resume it."""
        if self.is_running and self.host.paused:
            self.machine.loop.resume(self.host)

    def _do(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        loop = self.machine.loop
        loop.call_at_host(self.host, loop.time(), lambda: loop.create_task(work()))

    def _chance(self) -> Random:
        return Random(self._rng.getrandbits(64))

    async def _serve_broker(self) -> None:
        world = World(
            disk=self.disk,
            clock=self.clock,
            chance=self._chance(),
            metrics=Metrics(),
            on_fault=self._on_fault,
            tail_budget=TailBudget(appends_max=0) if self.machine.reads_files else TailBudget(),
            interposer=RequestCosts(self.machine.request_cost_ms) if self.machine.request_cost_ms else None,
        )
        broker = self.broker = BrokerServer(self.settings, world)
        await self._run_start(broker.start)

    async def _serve_controller(self) -> None:
        await self._run_start(self._start_controller)

    async def _start_controller(self) -> None:
        settings, disk = self.settings, self.disk
        folder = controller_directory(settings)
        identity = identity_of(disk, settings, folder)
        lock_directory(disk, folder, self._stack)
        world = ControllerDependencies(
            disk=disk, clock=self.clock, chance=self._chance, metrics=Metrics(), on_fatal=self._on_fault
        )
        opened = open_quorum(disk, settings, identity.cluster_id)
        controller = self.controller = ControllerNode(settings, opened, world, cluster_id=identity.cluster_id)
        self.on_controller(self, controller)
        await controller.start()

    async def _run_start(self, start: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start; a refusal ends the process, as its host does. A SIGTERM cancels the start."""
        self._starting = asyncio.current_task()
        try:
            await start()
        except Exception as error:  # any error at the start of a process ends it; `fault` decides on the blame
            self._on_fault(error)

    async def _stop(self) -> None:
        if self._starting is not None and not self._starting.done():
            self._starting.cancel()
            await asyncio.wait([self._starting])
        if self.broker is not None:
            await self.broker.shutdown(controlled=self.broker.not_ready() is None)
        if self.controller is not None:
            await self.controller.wait_for_brokers()
            await self.controller.resign()
            await self.controller.close()
        self._end()
        self.disk.kill()

    def _on_fault(self, error: BaseException) -> None:
        """End at once, as production's host does; a broker without any log directory ends in order."""
        if not self.host.alive:
            raise ProcessEnd
        self.fault = self.fault or error
        self.on_ended(self, error)
        if isinstance(error, AllLogDirectoriesOffline) and self.state is State.RUNNING:
            self.state = State.STOPPING
            self._do(self._stop)
            return
        self._end()
        self.disk.kill()
        raise ProcessEnd

    def _end(self) -> None:
        self.state = State.DOWN
        self.machine.network.kill(self.host)

    def _run_partially(self) -> None:
        """Execute a random part of the work that was in a thread."""
        for number in sorted(self.host.jobs):
            job = self.host.jobs[number]
            if self._rng.random() < 0.7:
                self.disk.power(self._rng.randint(0, 3))
                try:
                    job()
                except (PowerLoss, Exception):  # its caller is dead; its writes remain
                    pass
                finally:
                    self.disk.power(None)
        self.host.jobs.clear()
        self.host.deferred.clear()


class Machine:
    """A node's machine: its address, its processes, and whether it has power."""

    def __init__(
        self, node_id: int, roles: list[str], loop: SimLoop, network: StreamNetwork, rng: Random, settings: Settings
    ) -> None:
        """Build it with empty disks; `format` and `start` follow."""
        self.node_id = node_id
        self.address = address_of(node_id)
        self.loop = loop
        self.network = network
        self.dark = False
        self.reads_files = False
        self.request_cost_ms = 0.0
        """See Options."""
        self._rng = rng
        self.processes: dict[str, SimProcess] = {}
        for role in roles:
            disk = SimDisk(Random(rng.getrandbits(64)))
            self.processes[role] = SimProcess(self, role, Random(rng.getrandbits(64)), disk, settings)

    def format(self, role: str, cluster_id: str, directories: dict[int, Uuid] | None) -> None:
        """Format a role's empty disk; `directories` are those of all voters if one command formats them all."""
        process = self.processes[role]
        settings = process.settings
        if role == BROKER:
            folders = dict.fromkeys((settings.str("metadata.log.dir"), *settings.list("log.dirs")))
        else:
            folders = dict.fromkeys((controller_directory(settings),))
        for folder in folders:
            self.format_directory(process, folder, cluster_id, directories)

    def format_directory(
        self, process: SimProcess, folder: str, cluster_id: str, directories: dict[int, Uuid] | None
    ) -> None:
        """Format one directory of a process; see `format`."""
        settings, disk = process.settings, process.disk
        disk.mkdir(folder)
        disk.sync_dir("")
        directory_id = Uuid(random_uuid_bytes(self._rng))
        if process.role == CONTROLLER:
            directory_id = directory_id if directories is None else directories[self.node_id]
            format_raft(
                disk,
                raft_directory(settings),
                cluster_id=cluster_id,
                node_id=self.node_id,
                directory_id=directory_id,
                voter_ids=sorted(voters(settings)),
                directories=dict(directories) if directories is not None else None,
            )
        write_meta_properties(disk, folder, MetaProperties(cluster_id, self.node_id, directory_id))

    def start(self) -> None:
        """Start all processes."""
        for process in self.processes.values():
            process.start()

    def lose_power(self, *, silent: bool) -> None:
        """Lose power silently: peers get no reset, and connects get no response until it is on again."""
        if silent and not self.dark:
            self.dark = True
            self.network.power_off(self.address)
        for process in self.processes.values():
            process.lose_power()

    def power_on(self) -> None:
        """Come back after a silent loss of power; the processes are started apart."""
        if self.dark:
            self.dark = False
            self.network.power_on(self.address)


def address_of(node_id: int) -> str:
    """Return a node's address."""
    assert 0 < node_id < 256, f"node {node_id}: the simulator has addresses for 255 nodes"
    return f"10.0.0.{node_id}"
