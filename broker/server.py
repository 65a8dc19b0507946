"""One broker, built and run: from its directories on disk to its listeners, and back down again.

Start:  open and recover the logs -> register with the active controller -> catch up with the metadata and take it over
        (cache, replicas, configs) -> open the listeners -> report lost logs that others depend on -> request to be
        unfenced. A broker registers before it reads the metadata: leaderships in them are decisions about its new
        incarnation, never about the last one.
Run:    Produce  listener -> router -> api/produce -> replica manager -> log -> (followers fetch) -> answer
        Fetch    listener -> router -> api/fetch -> session -> replica manager -> parts of the log -> listener
        Create   listener -> router -> api/create_topics -> Envelope to the controller; committed, it comes back by the
                 loader -> publisher -> replica manager, on every broker alike
        A leader dies: the loader brings the change -> publisher -> replica manager leads or follows
Stop:   controlled shutdown (the controller moves leaderships away) -> coordinators -> listeners -> registration
        -> loader -> log maintenance -> fetchers -> channels -> logs, with the mark of a clean shutdown last.

Source: Kafka's BrokerServer.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random

from kvorum.broker.metadata.features import SUPPORTED_FEATURES
from kvorum.broker.metadata.lifecycle import NO_BROKER_EPOCH, BrokerIdentity, BrokerLifecycleManager
from kvorum.broker.parts import CORDONED, Parts, Seams, build
from kvorum.broker.services import Broker
from kvorum.network.authorizer import Authorizer
from kvorum.network.connection_counts import ConnectionCounts, concerns_connections
from kvorum.network.interposer import Interposer
from kvorum.network.limits import ConnectionLimits, RequestBudget
from kvorum.network.memory import ConnectionMemory
from kvorum.network.node_security import NodeSecurity, broker_security
from kvorum.network.request_queue import RequestQueue
from kvorum.network.server import Listener
from kvorum.network.shared import NetworkMetrics
from kvorum.network.tracing import Tracing
from kvorum.protocol.messages import broker_registration
from kvorum.protocol.uuids import ZERO_UUID, Uuid
from kvorum.quorum.image import MetadataImage
from kvorum.runtime.chance import new_nonce, random_uuid_bytes
from kvorum.runtime.clock import Clock
from kvorum.runtime.config import Settings
from kvorum.runtime.disk import Disk
from kvorum.runtime.listeners import (
    Endpoint,
    advertised_listeners,
    broker_listeners,
    inter_broker_listener_name,
)
from kvorum.runtime.logs import get_logger
from kvorum.runtime.metrics import Metrics
from kvorum.runtime.trace_wish import KEY as TRACE
from kvorum.storage.checkpoints import MetaProperties, read_meta_properties
from kvorum.storage.log_dir import LogDir
from kvorum.storage.tail import TailBudget

log = get_logger("broker")

CLOSE_SECONDS_MAX = 20.0
"""A stop waits this long for each part. If all nodes stop at once, a part may wait for an answer that never comes."""
CLOSE_REPORT_SECONDS = 2.0
"""A part that takes longer to stop is logged by name."""

OnFault = Callable[[BaseException], None]
OnPorts = Callable[[Mapping[str, int]], None]


class AllLogDirectoriesOffline(Exception):
    """No log directory is left: this broker can neither keep nor serve anything."""


def can_be_read(disk: Disk, path: str) -> bool:
    """Return whether a directory exists or could be created. One with a failed disk is offline."""
    try:
        disk.listdir(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


class NotFormatted(Exception):
    """A log directory without an identity: `kvorum format` comes first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Dependencies of a broker that its host passes in: the seams, and the fault handlers."""

    disk: Disk
    clock: Clock
    chance: Random
    metrics: Metrics
    on_fault: OnFault
    """Called when the broker can no longer answer rightly (metadata lost, registration refused, no log directory left,
    our own fault): the process has to end."""
    on_ports: OnPorts | None = None
    """Called with {listener name: port} once every listener whose port was 0 has one."""
    metadata_directory: str | None = None
    """Folder of the copy of the metadata log; None: metadata.log.dir. For exclusive use."""
    network_metrics: NetworkMetrics | None = None
    interposer: Interposer | None = None
    """Hook between listeners and handlers: fault injection, if configured."""
    authorizer: Authorizer | None = None
    """None: requests of nodes are accepted from the cluster's principals, others from everyone."""
    new_nonce: Callable[[], str] = new_nonce
    """Chance of authentication."""
    tail_budget: TailBudget = field(default_factory=TailBudget)
    """Size of the log tails kept in memory: everything else is read from files."""


class BrokerServer:
    """A broker. `start` once, then `shutdown` once."""

    def __init__(self, settings: Settings, world: World) -> None:
        """Prepare; only the stores of certificates are read. Raises ConfigError for invalid listeners."""
        self.broker_id = settings.int("node.id")
        self._settings = settings
        self._world = world
        self._incarnation_id = Uuid(random_uuid_bytes(world.chance))
        self._listeners: dict[str, Listener] = {}
        self._endpoints = broker_listeners(settings)
        self._inter_broker_listener = inter_broker_listener_name(settings)
        self._security = broker_security(settings, world.new_nonce)
        self._stores = self._security.watch_stores(settings)
        self._limits = ConnectionLimits.of(settings)
        self._counts = ConnectionCounts.of(settings, self._listener_names)
        self._budget = RequestBudget(settings.int("queued.max.request.bytes"))
        self._queue = RequestQueue(settings.int("queued.max.requests"))
        self._memory = ConnectionMemory()
        self._tracing = Tracing()
        self._tracing.configure(settings.str(TRACE))
        self._started: Parts | None = None
        self.stopping: str | None = None
        """The part that `shutdown` waits for."""
        self.not_stopped: list[str] = []
        """Parts that did not stop in time."""

    @property
    def _listener_names(self) -> list[str]:
        return [endpoint.listener_name for endpoint in self._endpoints]

    @property
    def _parts(self) -> Parts:
        assert self._started is not None, "start comes first"
        return self._started

    @property
    def parts(self) -> Parts | None:
        """The parts of this broker, for metrics; None before `start`."""
        return self._started

    @property
    def disk(self) -> Disk:
        """Disk of the log directories."""
        return self._world.disk

    @property
    def security(self) -> NodeSecurity:
        """Return the security of this process."""
        return self._security

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """Return those that are open."""
        return tuple(self._listeners.values())

    @property
    def queued_requests(self) -> int:
        """Return how many requests were received and not answered yet. O(connections)."""
        return sum(listener.queued_requests for listener in self._listeners.values())

    @property
    def queued_request_bytes(self) -> int:
        """Return the bytes of requests that were read and not handled yet."""
        return self._budget.taken

    @property
    def broker(self) -> Broker:
        """Services of the request handlers; available after `start`."""
        return self._parts.broker

    @property
    def ports(self) -> dict[str, int]:
        """Return {listener name: port} of the listeners that are open."""
        return {name: listener.port for name, listener in self._listeners.items()}

    @property
    def advertised_address(self) -> str | None:
        """Advertised HOST:PORT of the first listener; None while its port is not chosen."""
        endpoint = advertised_listeners(self._settings)[0]
        port = endpoint.port or self.ports.get(endpoint.listener_name)
        return None if port is None else f"{endpoint.host}:{port}"

    async def start(self) -> None:
        """Start everything, without waiting to be unfenced.

        Raises:
            NotFormatted, CheckpointError: directories that are not formatted yet, or belong to another process, node or
            cluster. RegistrationRefused, WrongCluster: the controllers reject this broker. AllLogDirectoriesOffline,
            OSError: no disk is readable, or an address cannot be bound.
        """
        parts = self._started = self._build()
        if self._stores is not None:
            self._stores.start()
        await parts.log_manager.start()
        if not any(directory.is_online for directory in parts.log_manager.dirs):
            raise offline(parts.log_manager.dirs)
        await self._open_listeners(unchosen_ports=True)
        lifecycle = parts.registration.lifecycle = self._lifecycle_manager()
        lifecycle.start()
        await lifecycle.wait_registered()

        def knows_us(image: MetadataImage) -> bool:
            registered = image.cluster.broker(self.broker_id)
            return registered is not None and registered.broker_epoch >= lifecycle.broker_epoch

        await parts.loader.start(knows_us)
        await parts.loader.wait_for_offset(lifecycle.broker_epoch)
        parts.replica_manager.start()
        parts.log_maintenance.start()
        problem = self._security.missing_credential(self.broker.credentials)
        if problem is not None:
            log.error("brokers cannot connect to each other", reason=problem)
        await self._open_listeners(unchosen_ports=False)
        await parts.replica_manager.wait_lost_reported()
        lifecycle.set_ready_to_unfence()
        log.info("broker started", broker_id=self.broker_id, offset=parts.loader.offset)

    async def ready(self) -> None:
        """Wait until the controller has unfenced this broker: clients see it now. Raises RegistrationRefused."""
        lifecycle = self._parts.registration.lifecycle
        assert lifecycle is not None, "start comes first"
        await lifecycle.wait_unfenced()

    def not_ready(self) -> str | None:
        """Return why clients do not see this broker, None if they do."""
        lifecycle = None if self._started is None else self._started.registration.lifecycle
        if lifecycle is None:
            return "opening its logs"
        if lifecycle.broker_epoch == NO_BROKER_EPOCH:
            return f"waiting for {self._parts.channels.nodes.missing()}"
        return "fenced" if lifecycle.is_fenced else None

    async def shutdown(self, controlled: bool = True) -> None:
        """Stop all, from any point of the start; `controlled`: have the leaderships moved away first."""
        parts = self._started
        if parts is None:
            return
        lifecycle = parts.registration.lifecycle
        has_logs = any(directory.is_online for directory in parts.log_manager.dirs)
        if controlled and has_logs and lifecycle is not None and self._settings.bool("controlled.shutdown.enable"):
            with self._waiting_for("the controlled shutdown"):
                allowed = await lifecycle.controlled_shutdown()
            log.info("controlled shutdown", broker_id=self.broker_id, allowed=allowed)
        for name, close in (
            ("coordinators", parts.coordinators.close),
            *((f"listener {name}", listener.close) for name, listener in self._listeners.items()),
            *(() if lifecycle is None else (("registration", lifecycle.close),)),
            ("connections to brokers", parts.broker.peers.close),
            ("automatic topic creation", parts.broker.auto_topics.close),
            ("producer ids", parts.broker.producer_ids.close),
            ("metadata loader", parts.loader.close),
            ("quotas", parts.quota_publisher.close),
            *(() if self._stores is None else (("key stores", self._stores.close),)),
            ("log maintenance", parts.log_maintenance.close),
            ("replicas", parts.replica_manager.shutdown),
            ("connections to controllers", parts.channels.close),
        ):
            with self._waiting_for(name):
                if not await close_within_limit(name, close):
                    self.not_stopped.append(name)
        # Last, since it marks the directories: all earlier appends are in the logs and synced. If a part still runs, it
        # may append in between: then there is no mark, and the next start recovers.
        with self._waiting_for("logs"):
            await parts.log_manager.shutdown(parts.registration.broker_epoch(), is_clean=not self.not_stopped)
        log.info("broker stopped", broker_id=self.broker_id)

    @contextmanager
    def _waiting_for(self, part: str) -> Iterator[None]:
        """Record the part that `shutdown` waits for; log it after CLOSE_REPORT_SECONDS."""
        self.stopping = part
        report = partial(log.info, "the broker's stop waits", part=part, broker_id=self.broker_id)
        timer = asyncio.get_running_loop().call_later(CLOSE_REPORT_SECONDS, report)
        try:
            yield
        finally:
            self.stopping = None
            timer.cancel()

    def _build(self) -> Parts:
        """Make the parts, for the cluster whose identity the directories bear."""
        world, settings = self._world, self._settings
        metadata_directory = world.metadata_directory or settings.str("metadata.log.dir")
        own = read_meta_properties(world.disk, metadata_directory)
        found = dict(self._identities())
        formatted = [each for each in (own, *found.values()) if each is not None]
        if not formatted:
            raise NotFormatted(
                f"{metadata_directory} has no meta.properties: check first that its disk is mounted "
                f"(findmnt -T {metadata_directory}); only a new node is formatted (kvorum format)"
            )
        for path, identity in found.items():
            if identity is None and path != metadata_directory and can_be_read(world.disk, path):
                raise NotFormatted(
                    f"{path} has no meta.properties, the node's other directories have: check first that its disk is "
                    f"mounted (findmnt -T {path}); only if the disk was replaced, see docs/operate/disks.md"
                )
        seams = Seams(
            disk=world.disk,
            clock=world.clock,
            chance=world.chance,
            metrics=world.metrics,
            authorizer=world.authorizer or self._security.authorizer,
            ip_rates=self._counts.ip_rates,
            on_fault=world.on_fault,
            on_offline=self._log_dir_failed,
            metadata_directory=metadata_directory,
            tail_budget=world.tail_budget,
            peer_security=self._security.peers,
            controller_security=self._security.controllers,
        )
        directory_id = ZERO_UUID if own is None else own.directory_id
        parts = build(settings, seams, cluster_id=formatted[0].cluster_id, directory_id=directory_id)
        parts.broker.configs.subscribe(self._configs_changed)
        parts.broker.stores = self._stores
        if world.interposer is not None:
            parts.router.interpose(world.interposer.around)
        return parts

    def _identities(self) -> Iterator[tuple[str, MetaProperties | None]]:
        """Yield (path, content of meta.properties) of the log directories; an unreadable one will be offline."""
        for path in self._settings.list("log.dirs"):
            try:
                yield path, read_meta_properties(self._world.disk, path)
            except OSError as error:
                log.error("log directory not readable", dir=path, error=error)

    def _lifecycle_manager(self) -> BrokerLifecycleManager:
        """Return the registration of this broker: ports known, logs open."""
        parts, settings = self._parts, self._settings
        identity = BrokerIdentity(
            broker_id=self.broker_id,
            cluster_id=parts.broker.cluster_id,
            incarnation_id=self._incarnation_id,
            listeners=tuple(registered(endpoint, self.ports) for endpoint in advertised_listeners(settings)),
            features=tuple(
                broker_registration.Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in SUPPORTED_FEATURES.items()
            ),
            rack=settings.optional_str("broker.rack"),
            log_dirs=tuple(sorted(each.directory_id for each in parts.log_manager.dirs if each.is_online)),
            previous_broker_epoch=parts.log_manager.previous_broker_epoch,
        )
        return BrokerLifecycleManager(
            identity,
            parts.channels.lifecycle,
            metadata_offset=lambda: parts.loader.offset,
            cordoned_log_dirs=parts.log_manager.cordoned_ids,
            heartbeat_interval_ms=settings.int("broker.heartbeat.interval.ms"),
            session_timeout_ms=settings.int("broker.session.timeout.ms"),
            registration_timeout_ms=settings.int("initial.broker.registration.timeout.ms"),
            on_fault=self._world.on_fault,
        )

    async def _open_listeners(self, *, unchosen_ports: bool) -> None:
        """Open the listeners whose port is chosen now (before the registration, which names it), or the others."""
        opened: dict[str, int] = {}
        telemetry, security, world = self.broker.telemetry, self._security, self._world
        for endpoint in self._endpoints:
            if (endpoint.port == 0) is not unchosen_ports:
                continue
            listener = Listener(
                endpoint.listener_name,
                endpoint.host,
                endpoint.port,
                self._parts.router,
                security_protocol=endpoint.security_protocol,
                limits=self._limits,
                counts=self._counts,
                budget=self._budget,
                queue=self._queue,
                memory=self._memory,
                tracing=self._tracing,
                metrics=self._world.network_metrics,
                quotas=self.broker.quotas,
                protected=endpoint.listener_name == self._inter_broker_listener,
                on_connection_closed=None if telemetry is None else telemetry.connection_closed,
                tls=security.tls.get(endpoint.listener_name),
                sasl=security.sasl(
                    endpoint.listener_name, self.broker.credentials, world.clock.wall_ms, world.new_nonce
                ),
            )
            opened[endpoint.listener_name] = await listener.start()
            self._listeners[endpoint.listener_name] = listener
            if self._world.interposer is not None:
                self._world.interposer.add_listener(listener)
        if unchosen_ports and opened and self._world.on_ports is not None:
            self._world.on_ports(opened)

    def _configs_changed(self, settings: Settings, keys: frozenset[str]) -> None:
        """Take over what listeners hold of the configuration."""
        if any(concerns_connections(key) for key in keys):
            self._counts.configure(settings, self._listener_names)
        lifecycle = self._parts.registration.lifecycle
        if CORDONED in keys and lifecycle is not None:
            lifecycle.cordoned_changed()
        if self._stores is not None:
            self._stores.take_over(settings, keys)
        if TRACE in keys:
            self._tracing.configure(settings.str(TRACE))

    def _log_dir_failed(self, path: str, error: Exception) -> None:
        """Take a log directory offline with its replicas, and report it to the controller."""
        parts = self._parts
        parts.replica_manager.log_dir_failed(path)
        for directory in parts.log_manager.dirs:
            if directory.path == path and parts.registration.lifecycle is not None:
                parts.registration.lifecycle.log_dir_failed(directory.directory_id)
        if not any(directory.is_online for directory in parts.log_manager.dirs):
            self._world.on_fault(offline(parts.log_manager.dirs))


def offline(directories: list[LogDir]) -> AllLogDirectoriesOffline:
    """Return the error with the reason of each offline log directory; its cause is the last failure."""
    failures = {directory.path: directory.failure for directory in directories}
    text = "; ".join(f"{path}: {failure}" for path, failure in failures.items())
    error = AllLogDirectoriesOffline(f"all log directories are offline: {text}")
    error.__cause__ = next((failure for failure in reversed(failures.values()) if failure is not None), None)
    return error


def registered(endpoint: Endpoint, ports: Mapping[str, int]) -> broker_registration.Listener:
    """Return an advertised endpoint as the registration has it; port 0 is the one its listener was given."""
    known = endpoint if endpoint.port else replace(endpoint, port=ports[endpoint.listener_name])
    return broker_registration.Listener(
        name=known.listener_name,
        host=known.host,
        port=known.port,
        security_protocol=known.security_protocol,
    )


async def close_within_limit(name: str, close: Callable[[], Awaitable[None] | None]) -> bool:
    """Close one part and return True. One that does not end in time is left behind with a warning: False."""
    try:
        async with asyncio.timeout(CLOSE_SECONDS_MAX) as limit:
            closing = close()
            if closing is not None:
                await closing
    except TimeoutError:
        if not limit.expired():
            raise
        log.warning("broker component did not stop in time", part=name, seconds=CLOSE_SECONDS_MAX)
        return False
    return True
