"""A controller: store, active controller, periodic tasks and the router of its listener.

    server = ControllerServer(settings, disk, clock, chance, metadata_log, cluster_id=..., on_fault=..., ...)
    await server.start()            # opens the stored log, listens to the metadata log
    metadata_log.start()            # Raft loads its snapshot, takes part; whatever it applies arrives at the server
    listener = Listener(name, host, port, server.router, on_connection_closed=server.on_connection_closed, ...)
    ...
    await server.close()            # after the listener and the metadata log

Ownership: the metadata log (Raft), the listener and the process belong to the composition root; everything else is
here.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from random import Random

from kvorum.network.addresses import Address
from kvorum.network.authorizer import AllowAll, Authorizer
from kvorum.network.context import RequestContext
from kvorum.network.quota_rate import Windows
from kvorum.network.quotas import ControllerQuotas
from kvorum.network.router import Handler, HandlerFunction, Router
from kvorum.network.upgrade import Upgrade
from kvorum.protocol.api import ApiKey
from kvorum.protocol.schema import Message
from kvorum.quorum import controller_metrics
from kvorum.quorum.active import ActiveController
from kvorum.quorum.api import api_versions, envelope, fetch, fetch_snapshot
from kvorum.quorum.api.registry import PLAIN, WIRED, ServiceHandler, served_versions
from kvorum.quorum.broker_admin_states import BrokerAdminStates
from kvorum.quorum.controller.config_schema import KafkaConfigSchema
from kvorum.quorum.controller.context import ControllerSettings
from kvorum.quorum.controller.features import bootstrap_records
from kvorum.quorum.controller.heartbeats import BrokerHeartbeatManager
from kvorum.quorum.controller_tasks import ControllerTasks
from kvorum.quorum.credentials import (
    EarlyCredentials,
    MetadataCredentials,
    bootstrap_credentials,
    stored_credentials,
)
from kvorum.quorum.fencing import FastFencing, NetworkProber, Prober
from kvorum.quorum.image import MetadataImage
from kvorum.quorum.image.features import KRAFT_VERSION
from kvorum.quorum.log_trimming import LogTrimming
from kvorum.quorum.metadata_log_file import open_metadata_log
from kvorum.quorum.metadata_store import MetadataStore
from kvorum.quorum.raft.log import MetadataLog
from kvorum.quorum.raft.membership import Membership
from kvorum.quorum.raft.voters import Endpoints
from kvorum.quorum.records import Feature, MetadataRecord, NoOp
from kvorum.quorum.services import ControllerServices, Observers
from kvorum.quorum.token_hmacs import TokenHmacs
from kvorum.runtime import blocking
from kvorum.runtime.clock import Clock
from kvorum.runtime.config import Settings
from kvorum.runtime.disk import Disk
from kvorum.runtime.listeners import controller_listener_names, inter_broker_listener_name, voters
from kvorum.runtime.logs import get_logger
from kvorum.runtime.metrics import Metrics
from kvorum.security.client import PLAINTEXT, ClientSecurity

log = get_logger("quorum")


class ControllerServer:
    """A controller. `start` once, `close` once, in one event loop."""

    def __init__(
        self,
        settings: Settings,
        disk: Disk,
        clock: Clock,
        chance: Random,
        metadata_log: MetadataLog,
        *,
        cluster_id: str,
        on_fault: Callable[[BaseException], None],
        directory: str | None = None,
        authorizer: Authorizer | None = None,
        prober: Prober | None = None,
        voter_addresses: Callable[[str], Mapping[int, Address]] | None = None,
        upgrades: Mapping[int, Upgrade] | None = None,
        metrics: Metrics | None = None,
        membership: Membership | None = None,
        voter_endpoints: Callable[[], Endpoints] = Endpoints,
        security: ClientSecurity = PLAINTEXT,
        bootstrap: Sequence[MetadataRecord] = (),
    ) -> None:
        """Prepare. The log is stored below `directory` (default: metadata.log.dir), for exclusive use.

        `voter_addresses` returns the controllers' addresses at a listener, by node id (controller.quorum.voters if not
        given).
        `membership` and `voter_endpoints` are Raft's: how its voters change, and where they listen.
        `bootstrap` are the records with which this node was formatted (quorum/bootstrap_file).
        `upgrades` are what takes over connections by private key: Raft's frames. `on_fault` must end the process.
        `security` is that of connections to other controllers.
        """
        self._settings = settings
        self._disk = disk
        self._clock = clock
        self._chance = chance
        self._log = metadata_log
        self._cluster_id = cluster_id
        self._on_fault = on_fault
        self._directory = directory if directory is not None else settings.str("metadata.log.dir")
        self._authorizer = authorizer or AllowAll()
        self._prober = prober or NetworkProber()
        known = dict(voters(settings))
        self._voter_addresses = voter_addresses or (lambda listener: known)
        self._upgrades = dict(upgrades or {})
        self._metrics = metrics
        self._membership = membership
        self._voter_endpoints = voter_endpoints
        self._security = security
        self._bootstrap = bootstrap
        self._services: ControllerServices | None = None
        self._tasks: ControllerTasks | None = None
        self._broker_admin_states: BrokerAdminStates | None = None
        self._trimming: LogTrimming | None = None
        self._opened = fetch_snapshot.OpenSnapshot(metadata_log)
        self.router = self._router()

    @property
    def services(self) -> ControllerServices:
        """Services of the handlers; available once started."""
        assert self._services is not None, "the server is started first"
        return self._services

    @property
    def controller(self) -> ActiveController:
        """This node's share in being the active controller; there once started."""
        return self.services.controller

    @property
    def store(self) -> MetadataStore:
        """The committed image and the stored log; there once started."""
        return self.services.store

    async def start(self) -> None:
        """Open the stored log and listen to the metadata log. Raises LogDirectoryError, OSError."""
        assert self._services is None, "started once"
        loop = asyncio.get_running_loop()
        stored = await blocking.run(loop, open_metadata_log, self._disk, self._directory, self._settings, self._clock)
        early = bootstrap_credentials(self._bootstrap)
        if stored.log_end_offset > 0:
            early = await blocking.run(loop, stored_credentials, stored)
        store = MetadataStore(stored, self._clock)
        controller = ActiveController(
            self._log,
            store,
            self._clock,
            on_fault=self._on_fault,
            bootstrap=self._bootstrap_records,
            first_words=self._first_words,
        )
        self._services = services = self._make_services(store, controller, early)
        self._tasks = ControllerTasks(services)
        self._broker_admin_states = BrokerAdminStates(services)
        if self._metrics is not None:
            controller_metrics.follow(self._metrics, services, self._tasks, self._broker_admin_states)
        controller.add_listener(self._tasks)
        controller.add_listener(self._broker_admin_states)
        controller.add_listener(services.fencing)
        self._trimming = LogTrimming(self._log, store, self._settings, on_fault=self._on_fault)
        # In this order: the committed image, the active controller, its followers, housekeeping last.
        self._log.add_listener(store)
        self._log.add_listener(controller)
        self._log.add_listener(self._broker_admin_states)
        self._log.add_listener(self._trimming)
        self._log.set_snapshot_source(store)
        log.info("controller started", node_id=self._log.node_id, stored_end_offset=stored.log_end_offset)

    def _bootstrap_records(self) -> list[MetadataRecord]:
        """Return the first metadata of a new cluster, from this node's configuration."""
        settings = self._settings
        level = settings.int("kvorum.eligible.leader.replicas.version")
        records = bootstrap_records(level, settings.int("min.insync.replicas"))
        if self._voter_endpoints():
            records.insert(1, Feature(name=KRAFT_VERSION, level=1))
        return [*records, *self._bootstrap]

    def _first_words(self, image: MetadataImage) -> list[MetadataRecord]:
        """Return the first records of a term: the level of kraft.version, if an upgrade did not write it."""
        upgraded = self._voter_endpoints() and not image.features.level(KRAFT_VERSION)
        return [Feature(name=KRAFT_VERSION, level=1)] if upgraded else [NoOp()]

    def on_connection_closed(self, connection_id: str) -> None:
        """Record that a connection of the listener was lost: it may have been a broker's last."""
        if self._services is not None:
            self._services.fencing.on_connection_closed(connection_id)

    def not_ready(self) -> str | None:
        """Return why this controller cannot serve yet, None if it can.

        It leads or knows the leader, and has caught up with its own snapshot.
        """
        if self._services is None:
            return "the metadata log is not open"
        if self._log.leader_id is None:
            return "no active controller"
        if self._log.high_watermark < self._log.log_start_offset:
            return "the metadata snapshot is not loaded yet"
        return None

    async def close(self) -> None:
        """Stop tasks and probes, and release the stored log. The metadata log must have stopped before."""
        services = self._services
        if services is None or self._tasks is None or self._trimming is None:
            return
        services.controller.on_inactive()
        await services.fencing.close()
        await self._tasks.close()
        if self._broker_admin_states is not None:
            await self._broker_admin_states.close()
        await self._trimming.close()
        self._opened.close()
        await services.store.close()

    def _make_services(
        self, store: MetadataStore, controller: ActiveController, early: EarlyCredentials
    ) -> ControllerServices:
        settings, node_id = self._settings, self._log.node_id
        listener = next(iter(controller_listener_names(settings)), "CONTROLLER")
        controller_settings = ControllerSettings.from_settings(
            settings, self._cluster_id, frozenset(self._voter_addresses(listener))
        )
        token_hmacs = TokenHmacs(settings.optional_str("delegation.token.secret.key"))
        static = {key: entry.text for key, entry in settings.explicit().items()}
        fencing = FastFencing(
            self._prober,
            enabled=settings.str("kvorum.fast.fencing") == "auto",
            address_of=self._broker_address,
            fence=self._fence_refused,
            on_fault=self._on_fault,
        )
        return ControllerServices(
            node_id=node_id,
            cluster_id=self._cluster_id,
            settings=settings,
            clock=self._clock,
            chance=self._chance,
            authorizer=self._authorizer,
            quotas=ControllerQuotas(asyncio.get_running_loop().time, Windows.of(settings, "controller.")),
            metadata_log=self._log,
            store=store,
            controller=controller,
            heartbeats=BrokerHeartbeatManager(controller_settings.session_timeout_ms),
            controller_settings=controller_settings,
            schema=KafkaConfigSchema(static, node_id),
            fencing=fencing,
            token_hmacs=token_hmacs,
            credentials=MetadataCredentials(lambda: store.image, token_hmacs, early),
            observers=Observers(),
            listener_name=listener,
            security=self._security,
            on_fault=self._on_fault,
            voter_addresses=self._voter_addresses,
            membership=self._membership,
            voter_endpoints=self._voter_endpoints,
        )

    def _broker_address(self, broker_id: int) -> tuple[int, Address] | None:
        """Return an unfenced broker's epoch and inter-broker address as it registered it; None while inactive."""
        controller = self.controller
        if not controller.is_active():
            return None
        broker = controller.speculative_image.cluster.broker(broker_id)
        if broker is None or broker.fenced:
            return None
        name = inter_broker_listener_name(self._settings)
        endpoint = broker.endpoint(name)
        if endpoint is None:
            # Another listener's address may lead to nowhere from here: that it refuses would prove nothing.
            hint = "set the brokers' inter.broker.listener.name in this controller's configuration"
            log.warning(
                "broker is not probed, only its session timeout fences it",
                broker_id=broker_id,
                listener=name,
                hint=hint,
            )
            return None
        return broker.broker_epoch, (endpoint.host, endpoint.port)

    async def _fence_refused(self, broker_id: int, broker_epoch: int) -> None:
        assert self._tasks is not None, "probes run once started"
        await self._tasks.fence_refused(broker_id, broker_epoch)

    def _router(self) -> Router:
        """Return the router; its handlers use the services at the time of a request."""
        handles: dict[ApiKey, HandlerFunction] = {
            ApiKey.FETCH: lambda ctx, request: fetch.handle(ctx, request, self.services),
            ApiKey.API_VERSIONS: lambda ctx, request: api_versions.handle(
                ctx, request, self.services, self.router.versions()
            ),
            ApiKey.ENVELOPE: lambda ctx, request: envelope.handle(ctx, request, self.services, self.router),
            ApiKey.FETCH_SNAPSHOT: lambda ctx, request: fetch_snapshot.handle(
                ctx, request, self.services, self._opened
            ),
        }
        assert tuple(handles) == WIRED
        for key, handle in PLAIN.items():
            handles[key] = partial(self._with_services, handle)
        versions = served_versions()
        assert handles.keys() == versions.keys()
        return Router(
            [
                Handler(
                    key,
                    versions[key],
                    handle,
                    abandon=key is ApiKey.FETCH,
                    in_order=key is not ApiKey.ENVELOPE,
                )
                for key, handle in handles.items()
            ],
            upgrades=self._upgrades,
        )

    def _with_services(self, handle: ServiceHandler, ctx: RequestContext, request: Message) -> Awaitable[Message]:
        return handle(ctx, request, self.services)
