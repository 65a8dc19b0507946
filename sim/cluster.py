"""A whole cluster under simulation: production's brokers and controllers, clients, and what watches them.

    cluster = SimCluster(plan)
    cluster.boot()                 formatted, started, the topic made
    Faults(cluster).schedule()     see cluster_faults
    cluster.run_for(seconds)       raises Violation as soon as something does not hold
    settle(cluster)                see convergence

Nothing of production is replaced but loop, disk, clock and chance. Everything is drawn from the plan's seed.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from functools import partial
from ipaddress import IPv4Address
from random import Random
from typing import Any, Final

from kvorum.broker.metadata.lifecycle import RegistrationRefused
from kvorum.broker.server import AllLogDirectoriesOffline
from kvorum.chaos.history import ClusterShape, HistoryWriter, NodeShape, Note, Start, TopicShape
from kvorum.cluster.process.controller_node import ControllerNode
from kvorum.cluster.process.hosting import is_harmless
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kvorum.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.controller.features import SUPPORTED, UpgradeType
from kvorum.quorum.image import MetadataImage
from kvorum.quorum.image.features import ELIGIBLE_LEADER_REPLICAS_VERSION
from kvorum.runtime.chance import random_uuid_bytes
from sim.admin import Admin
from sim.client import NoAnswer, SimClient
from sim.consumer import ConsistentReads, Consumer
from sim.coordination import OFFSETS, SINK, SOURCE, TRANSACTIONS
from sim.group_work import group_clients
from sim.invariants import Invariants
from sim.ledger import Ledger, Violation
from sim.loop import START_S, Host, SimLoop
from sim.machine import BROKER, CONTROLLER, RESTART_S, Machine, SimProcess
from sim.metadata_watch import MetadataWatch
from sim.node_settings import settings_of
from sim.plan import Plan, machines_of
from sim.racks import ReadWatch
from sim.streams import StreamNetwork
from sim.throttles import ThrottleWatch
from sim.workload import Producer, Recorder

CLUSTER_ID: Final = "c2ltdWxhdGVkY2x1c3Rlcg"
TOPIC: Final = "orders"
BOOT_LIMIT_S: Final = 30.0
FIRST_CLIENTS_NETWORK: Final = IPv4Address("10.0.1.0")
CLIENTS_END: Final = 255 * 256
"""Addresses from 10.0.1.1 to 10.0.255.255; brokers and controllers have 10.0.0.1 to 10.0.0.255."""


class SimCluster:
    """See the module."""

    def __init__(self, plan: Plan) -> None:
        """Build machines, network and watchers; nothing runs yet."""
        self.plan = plan
        self.options = options = plan.options
        self.rng = Random(f"kvorum cluster run {plan.seed}")
        self.loop = SimLoop(Random(self.rng.getrandbits(64)))
        self.network = StreamNetwork(
            self.loop, Random(self.rng.getrandbits(64)), delay_max_s=max(0.0002, options.delay_max_s)
        )
        self.history = HistoryWriter()
        self.machines: dict[int, Machine] = {}
        self.processes: list[SimProcess] = []
        for node_id, roles in machines_of(options).items():
            settings = settings_of(options, node_id, roles)
            rng = Random(self.rng.getrandbits(64))
            machine = self.machines[node_id] = Machine(node_id, roles, self.loop, self.network, rng, settings)
            machine.reads_files = options.reads_files
            machine.request_cost_ms = options.request_cost_ms
            self.processes += machine.processes.values()
        first = next(iter(self.machines.values()))
        self.metadata = MetadataWatch(self.history, self.now, next(iter(first.processes.values())).settings)
        self.metadata.departures_alone = "reassign" not in options.fault_kinds
        self.invariants = Invariants(self.metadata, options, self.now)
        self.recorder = Recorder(self.history, self.now)
        self.reads = ConsistentReads(lambda partition: partition in self.lossy_partitions(), self.begins_at)
        self.violation: Violation | None = None
        self.healing = False
        self.disks_failed: set[int] = set()
        """Nodes whose disk ever failed or was full: they may have been registered without it."""
        self.clients: dict[str, Host] = {}
        self.working: set[str] = set()
        """Clients that still work."""
        self.throttles = ThrottleWatch(self.loop.time)
        self.read_watch = ReadWatch(options.racks, self.end_of_committed)
        self.consumers: list[Consumer] = []
        self.admin: Admin | None = None
        self.restarts: dict[str, int] = {}
        self._checks: dict[Host, Callable[[], None]] = {}
        for process in self.processes:
            process.on_controller = self._on_controller
            process.on_ended = self._on_process_end
            process.on_restart = self._began
        self.loop.after_event = self._after_event

    def now(self) -> float:
        """Return virtual seconds since the begin."""
        return self.loop.time() - START_S

    def note(self, text: str) -> None:
        """Add a line to the story."""
        self.history.write(Note(t=self.now(), text=text))

    # Life.

    def boot(self) -> None:
        """Format and start all nodes, and create the topic. Raises Violation on a timeout."""
        options = self.options
        quorum = [node for node, machine in self.machines.items() if CONTROLLER in machine.processes]
        directories = {node: Uuid(random_uuid_bytes(self.rng)) for node in quorum}
        for machine in self.machines.values():
            for role in machine.processes:
                machine.format(role, CLUSTER_ID, directories if options.known_directories else None)
            machine.start()
        nodes = {
            f"node-{node}": NodeShape(id=node, roles=list(machine.processes)) for node, machine in self.machines.items()
        }
        shape = TopicShape(
            partitions=options.partitions,
            replication_factor=options.replication_factor,
            configs={"min.insync.replicas": str(options.min_isr)},
        )
        configs = {
            "min.insync.replicas": str(options.min_isr),
            "unclean.leader.election.enable": str(options.unclean).lower(),
        }
        self.history.write(
            Start(
                t=0.0,
                scenario="simulation",
                seed=self.plan.seed,
                cluster=ClusterShape(nodes=nodes, configs=configs),
                topics={TOPIC: shape},
            )
        )
        self._wait(self._are_brokers_unfenced, BOOT_LIMIT_S, "Boot", "not all brokers are unfenced")
        made: list[bool] = []
        self.start_client("maker", lambda client: self._make_topic(client, made))
        self._wait(lambda: bool(made), BOOT_LIMIT_S, "Boot", "the topic cannot be created")

    def start_load(self) -> None:
        """Start producers, consumers and metadata changes."""
        load, options = self.options.load, self.options
        for number, (acks, idempotent) in enumerate(load.producers, 1):
            self.start_client(
                f"producer-{number}",
                lambda client, number=number, acks=acks, idempotent=idempotent: Producer(  # type: ignore[misc]  # bound now
                    f"producer-{number}",
                    client,
                    self.recorder,
                    acks=acks,
                    idempotent=idempotent,
                    in_flight=load.in_flight,
                    topic=TOPIC,
                    partitions=options.partitions,
                    on_ack=self._check_acknowledgement,
                ).run(load.every_s, load.burst_s, lambda: self.healing),
            )
        for number in range(1, load.consumers + 1):
            self.start_client(
                f"consumer-{number}",
                lambda client, number=number: self._consumer(client, number).run(load.every_s, lambda: self.healing),  # type: ignore[misc]  # bound now
            )
        self.start_client("admin", self._administer)
        drawn = options.coordination
        if drawn is not None:
            for name, work in group_clients(drawn, self.recorder):
                self.start_client(name, lambda client, work=work: work(client, lambda: self.healing))  # type: ignore[misc]  # bound now

    def _administer(self, client: SimClient) -> Coroutine[Any, Any, None]:
        options = self.options
        self.admin = Admin(
            client,
            self.recorder,
            options.replication_factor,
            self._check_acknowledgement,
            image_at=self._image_at,
            older=options.older_admin,
        )
        return self.admin.run(options.load.admin_every_s, lambda: self.healing)

    def _image_at(self, host: str) -> MetadataImage | None:
        """Return the broker's published state on a host, None if it is not ready."""
        machine = next(each for each in self.machines.values() if each.address == host)
        server = machine.processes[BROKER].broker
        if server is None or server.not_ready() is not None or server.parts is None:
            return None
        return server.parts.broker.metadata.image

    def _consumer(self, client: SimClient, number: int) -> Consumer:
        partitions = list(range(self.options.partitions))
        consumer = Consumer(f"consumer-{number}", client, self.recorder, self.reads, TOPIC, partitions)
        self.consumers.append(consumer)
        return consumer

    def start_client(self, name: str, work: Callable[[SimClient], Coroutine[Any, Any, None]]) -> None:
        """Start a client on its own machine."""
        host = self.clients[name] = Host(f"{client_address(len(self.clients) + 1)}/client")
        rng = Random(self.rng.getrandbits(64))
        brokers = [machine.address for machine in self.machines.values() if BROKER in machine.processes]

        async def run() -> None:
            try:
                await work(SimClient(name, brokers, rng, self.throttles, self.read_watch))
            except Violation as found:
                self.violation = self.violation or found
            except Exception as error:  # the simulator's own fault, or an answer that no client can read
                violation = Violation("Client", f"{name}: {type(error).__name__}: {error}")
                violation.__cause__ = error
                self.violation = self.violation or violation
            finally:
                self.working.discard(name)

        self.working.add(name)
        self.loop.call_at_host(host, self.loop.time(), lambda: self.loop.create_task(run()))

    async def _make_topic(self, client: SimClient, made: list[bool]) -> None:
        options = self.options
        sizes = {TOPIC: options.partitions}
        if options.coordination is not None:
            sizes |= dict.fromkeys((SOURCE, SINK), options.coordination.partitions)
        topics = [
            CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=options.replication_factor,
                configs=[CreatableTopicConfig(name="min.insync.replicas", value=str(options.min_isr))],
            )
            for name, partitions in sizes.items()
        ]
        while True:
            try:
                response = await client.ask_any(CreateTopicsRequest(topics=topics), CreateTopicsResponse)
            except NoAnswer:
                await asyncio.sleep(0.1)
                continue
            made_codes = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
            if all(each.error_code in made_codes for each in response.topics):
                break
            await asyncio.sleep(0.1)
        await self._choose_elr(client)
        made.append(True)

    async def _choose_elr(self, client: SimClient) -> None:
        """Set eligible.leader.replicas.version as the plan has it, where this release knows the feature."""
        wanted = 1 if self.options.elr else 0
        name = ELIGIBLE_LEADER_REPLICAS_VERSION
        known = SUPPORTED[name]
        while known.max_supported >= 1 and self.metadata.newest.features.level(name) != wanted:
            kind = UpgradeType.UPGRADE if wanted else UpgradeType.UNSAFE_DOWNGRADE
            update = FeatureUpdateKey(feature=name, max_version_level=wanted, upgrade_type=kind)
            with contextlib.suppress(NoAnswer):
                await client.ask_any(UpdateFeaturesRequest(feature_updates=[update]), UpdateFeaturesResponse)
            await asyncio.sleep(0.1)

    def _are_brokers_unfenced(self) -> bool:
        return all(
            process.broker is not None and process.broker.not_ready() is None
            for process in self.processes
            if process.role == BROKER
        )

    def run_for(self, seconds: float) -> None:
        """Run for this number of virtual seconds. Raises Violation."""
        self.loop.run_until(lambda: self.violation is not None, limit_s=seconds)
        if self.violation is not None:
            raise self.violation

    def run_until(self, condition: Callable[[], bool], limit_s: float) -> bool:
        """Run until the condition holds (True) or the time is over (False). Raises Violation."""
        done = self.loop.run_until(lambda: self.violation is not None or condition(), limit_s=limit_s)
        if self.violation is not None:
            raise self.violation
        return done

    def _wait(self, condition: Callable[[], bool], limit_s: float, kind: str, what: str) -> None:
        if not self.run_until(condition, limit_s):
            raise Violation(kind, f"{what} within {limit_s:g} s")

    # Observers.

    def lossy_partitions(self) -> dict[str, list[str]]:
        """Return the partitions that lost something legally, and what."""
        return {ledger.name: ledger.losses for ledger in self.invariants.ledgers.values() if ledger.losses}

    def has_coordination_losses(self) -> bool:
        """Return whether the logs of groups and transactions had legal losses, so that their guarantees do not hold."""
        rests_on = (OFFSETS, TRANSACTIONS, SOURCE, SINK)
        return any(name.rpartition("-")[0] in rests_on for name in self.lossy_partitions())

    def begins_at(self, partition: str) -> int:
        """Return the offset of a partition below which records may be deleted."""
        ledger = self._ledger_of(partition)
        return 0 if ledger is None else ledger.starts.highest

    def first_lost_offset(self, partition: str) -> int | None:
        """Return the lowest offset of a partition's legal losses, None without one."""
        ledger = self._ledger_of(partition)
        return None if ledger is None else ledger.lost_from

    def end_of_committed(self, topic: str, partition: int) -> int | None:
        """Return one past the last committed offset; None if there is none yet, or after a legal loss."""
        ledger = self._ledger_of(f"{topic}-{partition}")
        return None if ledger is None or ledger.losses else ledger.end

    def _ledger_of(self, partition: str) -> Ledger | None:
        name, _, number = partition.rpartition("-")
        topic = self.metadata.newest.topics.topic(name)
        return None if topic is None else self.invariants.ledgers.get((topic.topic_id, int(number)))

    def _began(self, process: SimProcess) -> None:
        self.restarts[process.name] = process.lives
        if process.role == BROKER:
            self.invariants.incarnations.record_start(process.machine.node_id, vouches=process.vouches)
            process.vouches = not process.disk.broken
            self._checks[process.host] = partial(self.invariants.check_broker, process)

    def _on_controller(self, process: SimProcess, controller: ControllerNode) -> None:
        watcher = self.metadata.watcher(process.name, controller)
        controller.metadata_log.add_listener(watcher)
        self._checks[process.host] = watcher.look

    def _after_event(self, host: Host) -> None:
        check = self._checks.get(host)
        if check is not None:
            check()
        if self.loop.errors:
            self._judge_errors(host)

    def _judge_errors(self, host: Host) -> None:
        """Production ends a process whose callback raised; here that is a violation at once."""
        errors, self.loop.errors = self.loop.errors, []
        for context in errors:
            error = context["exception"]
            if isinstance(error, Violation):
                raise error
            if is_harmless(str(context.get("message")), error) or isinstance(error, SystemExit):
                continue
            raise unexpected_violation(host.name, "event loop", error) from error

    def record_unexpected(self, where: str, error: BaseException) -> None:
        """Store an exception that production code logged as unexpected (see runtime.logs.observe_unexpected)."""
        name = "no process" if self.loop.host is None else self.loop.host.name
        if self.violation is None:
            self.violation = error if isinstance(error, Violation) else unexpected_violation(name, where, error)

    def _on_process_end(self, process: SimProcess, error: BaseException) -> None:
        """Judge why a process ended itself, and start it again as a supervisor does."""
        self.invariants.end_peace()
        if process.role == BROKER:
            self.invariants.incarnations.record_kill(process.machine.node_id)
        if isinstance(error, Violation):
            self.violation = self.violation or error
        elif is_bug(error) or not (process.disk_faulted or isinstance(error, RegistrationRefused)):
            found = Violation("ProcessEnded", f"{process.name} ended itself: {type(error).__name__}: {error}")
            found.__cause__ = error
            self.violation = self.violation or found
        self.note(f"{process.name} ended itself: {type(error).__name__}: {error}")
        if not isinstance(error, AllLogDirectoriesOffline):
            self.loop.call_at_host(None, self.loop.time() + RESTART_S, process.start)

    def _check_acknowledgement(self, topic_id: Uuid, partition: int, offset: int, crc: int) -> None:
        """An acks=all was answered: that batch must be committed, now."""
        ledger = self.invariants.ledgers[topic_id, partition]
        wrong = ledger.check_acknowledgement(offset, crc)
        if wrong is not None and not ledger.losses:
            message = f"{ledger.name} offset {offset} was acknowledged, but {wrong}"
            self.violation = self.violation or Violation("AcknowledgedIsCommitted", message)


def client_address(number: int) -> str:
    """Return the address of a client's machine: 10.0.1.1 for the first, 10.0.2.0 for the 256th."""
    assert 0 < number < CLIENTS_END, f"client {number}: the simulator has addresses for {CLIENTS_END - 1} clients"
    return str(FIRST_CLIENTS_NETWORK + number)


def unexpected_violation(host: str, where: str, error: BaseException) -> Violation:
    """Return the violation for an exception that no handler expected."""
    violation = Violation("UnexpectedException", f"in {host} ({where}): {type(error).__name__}: {error}")
    violation.__cause__ = error
    return violation


def is_bug(error: BaseException) -> bool:
    """Return whether Python itself raised it, and no disk or network: no injected fault explains that."""
    return type(error).__module__ == "builtins" and not isinstance(error, OSError)
