"""A controller, composed: Raft's journal and transport, the metadata log, the server, and the CONTROLLER listeners.

    node = ControllerNode(settings, opened, ControllerDependencies(...), cluster_id=...)
    await node.start()          # serves; `not_ready` says what is missing until a leader is known
    await node.close()          # resigns first if it leads

Its host (a process, or the simulator) provides the seams and decides on the consequence of a fatal error.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from kvorum.cluster.local.formatting import controller_directory, own_endpoints
from kvorum.cluster.local.quorum_presence import QuorumPresence
from kvorum.cluster.metrics.controller_metrics import follow_quorum
from kvorum.cluster.metrics.process_metrics import follow_certificates
from kvorum.network.addresses import Address, AddressBook
from kvorum.network.cluster_check import WrongCluster, missing_peers, wrong_cluster
from kvorum.network.connection_counts import ConnectionCounts
from kvorum.network.dial import ChannelError
from kvorum.network.interposer import Interposer
from kvorum.network.limits import ConnectionLimits, RequestBudget
from kvorum.network.memory import ConnectionMemory
from kvorum.network.node_security import controller_security
from kvorum.network.request_queue import RequestQueue
from kvorum.network.server import Listener
from kvorum.network.shared import NetworkMetrics
from kvorum.network.tracing import Tracing
from kvorum.quorum.controller_configs import ControllerConfigs
from kvorum.quorum.raft.opening import Opened
from kvorum.quorum.raft.replicated import RaftMetadataLog
from kvorum.quorum.raft.settings import raft_settings
from kvorum.quorum.raft.transport import RaftTransport
from kvorum.quorum.raft.voters import address_at, dial_address
from kvorum.quorum.records import MetadataRecord
from kvorum.quorum.server import ControllerServer
from kvorum.runtime.chance import new_nonce
from kvorum.runtime.clock import Clock
from kvorum.runtime.config import Settings
from kvorum.runtime.disk import Disk
from kvorum.runtime.listeners import (
    bootstrap_servers,
    controller_listener_names,
    controller_listeners,
    peer_addresses,
    voters,
)
from kvorum.runtime.logs import get_logger
from kvorum.runtime.metrics import Metrics
from kvorum.runtime.trace_wish import KEY as TRACE

log = get_logger("quorum")

BROKERS_STOP_SECONDS_MAX = 5.0
"""Time that a stopping controller waits for brokers. Their leaderships usually move within a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerDependencies:
    """Dependencies that the host of a controller passes in."""

    disk: Disk
    clock: Clock
    chance: Callable[[], Random]
    """Makes a source of chance; each part gets its own."""
    metrics: Metrics
    on_fatal: Callable[[BaseException], None]
    """Called when further answers could be wrong: the process must end."""
    network_metrics: NetworkMetrics | None = None
    interposer: Interposer | None = None
    """Hook between listeners and handlers: fault injection, if configured."""
    new_nonce: Callable[[], str] = new_nonce
    """Chance of authentication."""


class ControllerNode:
    """A controller: Raft, metadata log and server. `start` once, `close` once, in one event loop."""

    def __init__(
        self,
        settings: Settings,
        opened: Opened,
        world: ControllerDependencies,
        *,
        cluster_id: str,
        bootstrap: Sequence[MetadataRecord] = (),
    ) -> None:
        """Connect the parts; nothing runs yet.

        `opened` is the opened and checked Raft directory, `bootstrap` are the records of a new cluster's format.
        """
        node_id, known = settings.int("node.id"), voters(settings)
        self._settings = settings
        self._world = world
        self._listeners: list[Listener] = []
        self._tracing = Tracing()
        self._cluster_id = cluster_id
        self._known = known
        self._endpoints = own_endpoints(settings)
        opened.voters.listens_at = self._endpoints
        self.security = controller_security(settings, world.new_nonce)
        self._stores = self.security.watch_stores(settings)
        self.transport = RaftTransport(
            node_id=node_id,
            cluster_id=cluster_id,
            addresses=AddressBook(known, peer_addresses(settings, "controller", "controller")),
            peers=[voter for voter in known if voter != node_id],
            chance=world.chance(),
            listens_at=self._endpoints,
            dynamic=opened.voters.dynamic,
            authorizer=self.security.authorizer,
            security=self.security.controllers,
        )
        self.transport.on_dynamic = self._begin_presence
        self.transport.on_foreign = self._check_own_cluster
        self.metadata_log = RaftMetadataLog(
            opened,
            link=self.transport,
            settings=raft_settings(settings),
            clock=world.clock,
            rng=world.chance(),
            on_fatal=world.on_fatal,
        )
        self.transport.attach(self.metadata_log.node)
        self.presence: QuorumPresence | None = None
        self.server = ControllerServer(
            settings,
            world.disk,
            world.clock,
            world.chance(),
            self.metadata_log,
            cluster_id=cluster_id,
            on_fault=world.on_fatal,
            directory=controller_directory(settings),
            voter_addresses=self._voter_addresses,
            upgrades=self.transport.upgrades,
            metrics=world.metrics,
            authorizer=self.security.authorizer,
            security=self.security.controllers,
            membership=self.metadata_log.membership,
            voter_endpoints=self.metadata_log.voter_endpoints,
            bootstrap=bootstrap,
        )

    def _voter_addresses(self, listener: str) -> dict[int, Address]:
        """Return the address of each voter at a listener: peers learn addresses of the one that they connect to.

        A static quorum has the addresses of the default listener in its configuration.
        """
        is_default = listener == controller_listener_names(self._settings)[0]
        endpoints = self.metadata_log.voter_endpoints()
        if not endpoints and is_default:
            return self._known
        endpoints = endpoints or self.metadata_log.reported_endpoints()
        find = dial_address if is_default else address_at
        found = {node_id: find(each, listener) for node_id, each in endpoints.items()}
        return {node_id: address for node_id, address in found.items() if address is not None}

    def _begin_presence(self) -> None:
        """The quorum is a dynamic one, from the start or by an upgrade: find the others, and be found."""
        self.presence = QuorumPresence(
            self.metadata_log,
            self.transport,
            cluster_id=self._cluster_id,
            bootstrap=bootstrap_servers(self._settings),
            endpoints=self._endpoints,
            chance=self._world.chance(),
            on_fault=self._world.on_fatal,
            security=self.security.controllers,
        )
        self.transport.on_voters = self.presence.on_voters_changed
        self.presence.start()

    def _check_own_cluster(self) -> None:
        """End a controller that was formatted for another cluster than all its peers, before it ever took part."""
        transport = self.transport
        if transport.is_proven or self.metadata_log.epoch > 0:
            return
        reason = wrong_cluster(self._cluster_id, transport.failures(), transport.names())
        if reason is not None:
            self._world.on_fatal(WrongCluster(reason))

    async def start(self) -> None:
        """Start everything in order. Raises LogDirectoryError, OSError; then `close` releases the resources."""
        settings, world = self._settings, self._world
        if world.interposer is not None:
            self.server.router.interpose(world.interposer.around)
        if self._stores is not None:
            self._stores.start()
        await self.server.start()
        problem = self.security.missing_credential(self.server.services.credentials)
        if problem is not None:
            raise problem
        self._tracing.configure(settings.str(TRACE))
        self.metadata_log.add_listener(
            ControllerConfigs(settings, lambda: self.server.store.image, self._configs_changed)
        )
        follow_quorum(world.metrics, self.metadata_log, self.transport, world.clock)
        follow_certificates(world.metrics, world.clock, self.security.certificate_ends)
        self.metadata_log.start()
        endpoints = controller_listeners(settings)
        limits, counts, budget, queue, memory = (
            ConnectionLimits.of(settings),
            ConnectionCounts.of(settings, [endpoint.listener_name for endpoint in endpoints]),
            RequestBudget(settings.int("queued.max.request.bytes")),
            RequestQueue(settings.int("queued.max.requests")),
            ConnectionMemory(),
        )
        for endpoint in endpoints:
            listener = Listener(
                endpoint.listener_name,
                endpoint.host,
                endpoint.port,
                self.server.router,
                security_protocol=endpoint.security_protocol,
                limits=limits,
                counts=counts,
                budget=budget,
                queue=queue,
                memory=memory,
                tracing=self._tracing,
                metrics=world.network_metrics,
                protected=True,
                on_connection_closed=self.server.on_connection_closed,
                tls=self.security.tls.get(endpoint.listener_name),
                sasl=self.security.sasl(
                    endpoint.listener_name, self.server.services.credentials, world.clock.wall_ms, world.new_nonce
                ),
            )
            await listener.start()
            self._listeners.append(listener)
            if world.interposer is not None:
                world.interposer.add_listener(listener)
        self.transport.start()

    def _configs_changed(self, settings: Settings, keys: frozenset[str]) -> None:
        """Take over the dynamic configs of this process."""
        if TRACE in keys:
            self._tracing.configure(settings.str(TRACE))
        if self._stores is not None:
            self._stores.take_over(settings, keys)

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """Return those that are open."""
        return tuple(self._listeners)

    def not_ready(self) -> str | None:
        """Return why this controller cannot serve yet, None if it can."""
        reason = self.server.not_ready()
        failures: Mapping[str, ChannelError] = {}
        if self.metadata_log.leader_id is None:
            failures = self.transport.failures() or (self.presence.failures if self.presence is not None else {})
        return f"{reason}; waiting for controllers {missing_peers(failures)}" if failures else reason

    async def wait_for_brokers(self) -> None:
        """Wait until no broker needs a controller for its controlled shutdown, BROKERS_STOP_SECONDS_MAX at most.

        If all nodes stop at once, the last broker would otherwise lose the quorum before it may leave, and then wait
        for a whole session.
        """
        brokers = self._stopping_brokers()
        if brokers:
            log.info("controller waits for stopping brokers", brokers=",".join(map(str, brokers)))
        try:
            async with asyncio.timeout(BROKERS_STOP_SECONDS_MAX):
                while brokers:
                    await self.server.store.changed()
                    brokers = self._stopping_brokers()
        except TimeoutError:
            log.warning("controller stops before the stopping brokers", brokers=",".join(map(str, brokers)))

    def _stopping_brokers(self) -> list[int]:
        """Return the brokers that wait for the active controller's leave; none where none is active."""
        if self.metadata_log.leader_id is None:
            return []
        every = self.server.store.image.cluster.sorted_brokers()
        return [each.broker_id for each in every if each.in_controlled_shutdown and not each.fenced]

    async def resign(self) -> None:
        """Hand leadership over, if it is ours: the others need not wait for an election timeout."""
        if self.metadata_log.is_active():
            await self.metadata_log.resign()

    async def close(self) -> None:
        """Stop everything in the opposite order, from any point of the start."""
        self.transport.on_dynamic = self.transport.on_voters = self.transport.on_foreign = None
        if self.presence is not None:
            await self.presence.close()
        if self._stores is not None:
            await self._stores.close()
        for listener in self._listeners:
            await listener.close()
        await self.transport.close()
        self.metadata_log.stop()
        await self.server.close()
