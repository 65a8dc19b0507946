"""Composition of a broker: each part is created once and passed to its users. `broker.server` starts them."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from kvorum.broker.api import registry
from kvorum.broker.api.local import LocalRequests
from kvorum.broker.api.produce_lane import ProduceLane
from kvorum.broker.channels import ControllerChannels, PeerChannels, open_channels
from kvorum.broker.cleaner_figures import follow_cleaner
from kvorum.broker.coordinator.parts import Coordinators, Ground, World, make_coordinators
from kvorum.broker.fetch_session import FetchSessionCache
from kvorum.broker.log_maintenance import LogMaintenance
from kvorum.broker.metadata.auto_topic_creation import AutoTopicCreation
from kvorum.broker.metadata.cache import MetadataCache
from kvorum.broker.metadata.dynamic_config import DynamicConfig
from kvorum.broker.metadata.lifecycle import NO_BROKER_EPOCH, BrokerLifecycleManager
from kvorum.broker.metadata.metadata_log import MetadataLogReader
from kvorum.broker.metadata.peer_watch import PeerWatch
from kvorum.broker.metadata.producer_ids import ProducerIdManager
from kvorum.broker.metadata.publisher import BrokerMetadataPublisher
from kvorum.broker.metadata.quota_publisher import QuotaPublisher
from kvorum.broker.metadata.replication_throttles import ReplicationThrottles
from kvorum.broker.metadata.stray_logs import StrayLogs
from kvorum.broker.quota_figures import follow_quotas
from kvorum.broker.replica.directory_assignments import DirectoryAssignments
from kvorum.broker.replica.manager import ReplicaManager
from kvorum.broker.replica.move_figures import follow_moves
from kvorum.broker.replica.selector import selector_of
from kvorum.broker.services import Broker
from kvorum.broker.telemetry.figures import follow_client_metrics
from kvorum.broker.telemetry.manager import ClientMetricsManager
from kvorum.network.addresses import Address
from kvorum.network.authorizer import Authorizer
from kvorum.network.channel import Channel
from kvorum.network.cluster_check import ClusterCheck, EndpointType
from kvorum.network.dial import ChannelError
from kvorum.network.ip_rates import IpConnectionRates
from kvorum.network.quota_rate import Windows
from kvorum.network.quotas import BrokerQuotas
from kvorum.network.router import Router
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.controller_channel import ControllerNodes
from kvorum.quorum.credentials import MetadataCredentials
from kvorum.quorum.forwarder import Forwarder
from kvorum.quorum.loader import MetadataLoader
from kvorum.quorum.token_hmacs import TokenHmacs
from kvorum.runtime import metric_names
from kvorum.runtime.chance import random_uuid_bytes
from kvorum.runtime.clock import Clock
from kvorum.runtime.config import Settings
from kvorum.runtime.disk import Disk
from kvorum.runtime.listeners import inter_broker_listener_name
from kvorum.runtime.metrics import Metrics
from kvorum.runtime.quantiles import Quantiles
from kvorum.security.client import PLAINTEXT, ClientSecurity
from kvorum.storage.cleaner.manager import LogCleaner
from kvorum.storage.log_manager import LogManager
from kvorum.storage.tail import TailBudget

PROBE_TIMEOUT_MS = 500
"""Time limit of one probe of a suspected broker: for the connection, and for its answer."""
CORDONED = "cordoned.log.dirs"
FETCH_SESSION_EVICTION_MS = 120_000
"""A fetch session that is unused for this time may be evicted (Kafka's MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS)."""


@dataclass(slots=True)
class Registration:
    """This broker's place in the cluster: there from the moment it registers."""

    lifecycle: BrokerLifecycleManager | None = None

    def broker_epoch(self) -> int:
        """Return the epoch of the newest registration, -1 before the first."""
        return NO_BROKER_EPOCH if self.lifecycle is None else self.lifecycle.broker_epoch

    def metadata_moved(self) -> None:
        """Notify the lifecycle that more metadata have been applied."""
        if self.lifecycle is not None:
            self.lifecycle.metadata_moved()


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """All of one broker, made and not yet started."""

    broker: Broker
    channels: ControllerChannels
    registration: Registration
    log_manager: LogManager
    log_maintenance: LogMaintenance
    replica_manager: ReplicaManager
    coordinators: Coordinators
    quota_publisher: QuotaPublisher
    loader: MetadataLoader
    router: Router


@dataclass(frozen=True, slots=True, kw_only=True)
class Seams:
    """Dependencies that are passed in from outside."""

    disk: Disk
    clock: Clock
    chance: Random
    metrics: Metrics
    authorizer: Authorizer
    ip_rates: IpConnectionRates
    """Connection limits per address for the listeners."""
    on_fault: Callable[[BaseException], None]
    on_offline: Callable[[str, Exception], None]
    """Called with a log directory whose disk failed."""
    metadata_directory: str
    """Folder of this broker's copy of the metadata log."""
    tail_budget: TailBudget
    peer_security: ClientSecurity = PLAINTEXT
    """Security of connections to other brokers."""
    controller_security: ClientSecurity = PLAINTEXT


def build(settings: Settings, seams: Seams, *, cluster_id: str, directory_id: Uuid) -> Parts:
    """Create all parts. Nothing is opened, connected or started. Raises ConfigError."""
    broker_id = settings.int("node.id")
    registration = Registration()
    channels = open_channels(settings, cluster_id, seams.chance, seams.controller_security)
    check = ClusterCheck(cluster_id, EndpointType.BROKER)
    cache = MetadataCache(broker_id, lambda: channels.nodes.leader_id, seams.chance)
    configs = DynamicConfig(settings, broker_id)
    log_manager, cleaner = make_logs(settings, seams, configs, cluster_id)
    loader = make_loader(settings, seams, channels.nodes, cluster_id, directory_id)
    peers = watch_peers(settings, cache, seams)
    open_channel = PeerChannels(
        settings, cache, check, seams.chance, peers.connection_lost, security=seams.peer_security
    ).open
    replica_manager = make_replicas(settings, seams, channels, cache, configs, log_manager, open_channel, registration)
    producer_ids = ProducerIdManager(broker_id, registration.broker_epoch, channels.lifecycle)
    world = world_of(settings, seams, cache, check, producer_ids, LocalRequests(lambda: broker))
    ground = ground_of(settings, seams, replica_manager, cache)
    coordinators = make_coordinators(ground, channels.coordinators, lambda: configs.settings, world)
    replica_manager.on_reopened(coordinators.replica_reopened)
    replica_manager.transactions.verifier = coordinators.transactions.verifier
    quotas = make_quotas(settings, seams.metrics)
    quota_publisher = QuotaPublisher(quotas, seams.ip_rates)
    forwarder = Forwarder(channels.forwarding, loader, settings)
    token_hmacs = TokenHmacs(settings.optional_str("delegation.token.secret.key"))
    broker = Broker(
        broker_id=broker_id,
        cluster_id=cluster_id,
        clock=seams.clock,
        disk=seams.disk,
        metadata=cache,
        configs=configs,
        replica_manager=replica_manager,
        log_manager=log_manager,
        fetch_sessions=open_fetch_sessions(settings, seams),
        controller=forwarder,
        auto_topics=AutoTopicCreation(forwarder, lambda: configs.settings, coordinators.internal_topics.create),
        producer_ids=producer_ids,
        metadata_log=MetadataLogReader(lambda: loader.readable_log, lambda: cache.image.offset + 1),
        peers=peers,
        authorizer=seams.authorizer,
        quotas=quotas,
        internal_topics=coordinators.internal_topics,
        groups=coordinators.groups,
        transactions=coordinators.transactions.coordinator,
        group_transactions=coordinators.groups,
        telemetry=receive_telemetry(settings, seams),
        credentials=MetadataCredentials(lambda: cache.image, token_hmacs),
        token_hmacs=token_hmacs,
    )
    loader.install(
        StrayLogs(broker_id, log_manager), make_publisher(broker, registration, coordinators, quota_publisher)
    )
    return Parts(
        broker=broker,
        channels=channels,
        registration=registration,
        log_manager=log_manager,
        log_maintenance=LogMaintenance(log_manager, lambda: configs.settings, seams.clock, cleaner),
        replica_manager=replica_manager,
        coordinators=coordinators,
        quota_publisher=quota_publisher,
        loader=loader,
        router=Router(registry.handlers(broker), lane=ProduceLane(broker, broker.replica_manager), quotas=quotas),
    )


def make_replicas(
    settings: Settings,
    seams: Seams,
    channels: ControllerChannels,
    cache: MetadataCache,
    configs: DynamicConfig,
    log_manager: LogManager,
    open_channel: Callable[[int], Channel],
    registration: Registration,
) -> ReplicaManager:
    """Create the replica manager, and the reporter of replica directories to the controller."""
    broker_id = settings.int("node.id")
    replica_manager = ReplicaManager(
        broker_id=broker_id,
        settings=settings,
        clock=seams.clock,
        log_manager=log_manager,
        cluster=cache,
        controller=channels.isr,
        broker_epoch=registration.broker_epoch,
        open_channel=open_channel,
        topic_config=configs.log_config,
        metrics=seams.metrics,
        current_settings=lambda: configs.settings,
        select=selector_of(settings, cache.live_rack),
    )
    follow_moves(seams.metrics, replica_manager.moves)
    replica_manager.tell_directories(
        DirectoryAssignments(
            broker_id=broker_id,
            broker_epoch=registration.broker_epoch,
            controller=channels.directories,
            cluster=cache,
        )
    )
    return replica_manager


def make_logs(
    settings: Settings, seams: Seams, configs: DynamicConfig, cluster_id: str
) -> tuple[LogManager, LogCleaner]:
    """Make what holds the logs, and what compacts them."""
    log_manager = LogManager(
        seams.disk,
        seams.clock,
        settings,
        topic_config=configs.log_config,
        on_offline=seams.on_offline,
        on_flush=count_flushes(seams.metrics, seams.clock),
        cluster_id=cluster_id,
        tail_budget=seams.tail_budget,
    )
    cleaner = log_manager.make_cleaner(settings, seams.chance)
    configs.subscribe(lambda changed, _: cleaner.configure(changed))
    log_manager.cordon(settings.list(CORDONED))
    configs.subscribe(lambda changed, _: log_manager.cordon(changed.list(CORDONED)))
    follow_cleaner(seams.metrics, cleaner, log_manager, seams.clock)
    return log_manager, cleaner


def make_publisher(
    broker: Broker, registration: Registration, coordinators: Coordinators, quotas: QuotaPublisher
) -> BrokerMetadataPublisher:
    """Make what takes the metadata over, in its order."""
    return BrokerMetadataPublisher(
        cache=broker.metadata,
        replicas=broker.replica_manager,
        configs=broker.configs,
        followers=tuple(coordinators.followers),
        behind_configs=(
            ReplicationThrottles(broker.broker_id, broker.replica_manager.quotas, broker.replica_manager.moves.quota),
            *(() if broker.telemetry is None else (broker.telemetry,)),
            quotas,
        ),
        changed=(broker.peers.image_changed,),
        moved=(broker.metadata_log.wake, registration.metadata_moved, broker.peers.metadata_moved),
    )


def make_quotas(settings: Settings, metrics: Metrics) -> BrokerQuotas:
    """Make what keeps clients to their quotas, on the running loop."""
    now_s = asyncio.get_running_loop().time
    quotas = BrokerQuotas(now_s, Windows.of(settings))
    follow_quotas(metrics, quotas, now_s)
    return quotas


def receive_telemetry(settings: Settings, seams: Seams) -> ClientMetricsManager | None:
    """Create the receiver of client metrics, which are exposed on /metrics; None if it is disabled."""
    if not settings.bool("kvorum.client.metrics.enable"):
        return None
    manager = ClientMetricsManager(settings.int("telemetry.max.bytes"), lambda: Uuid(random_uuid_bytes(seams.chance)))
    follow_client_metrics(seams.metrics, manager, seams.clock.monotonic_ms)
    return manager


def ground_of(settings: Settings, seams: Seams, replica_manager: ReplicaManager, cache: MetadataCache) -> Ground:
    """Return the parts that coordinators use."""
    return Ground(
        broker_id=settings.int("node.id"),
        settings=settings,
        clock=seams.clock,
        chance=seams.chance,
        replicas=replica_manager,
        image=lambda: cache.image,
        on_fault=seams.on_fault,
        metrics=seams.metrics,
    )


def world_of(
    settings: Settings,
    seams: Seams,
    cache: MetadataCache,
    check: ClusterCheck,
    producer_ids: ProducerIdManager,
    local: LocalRequests,
) -> World:
    """Return the peers of the coordinators."""

    def channels(purpose: str) -> Callable[[int], Channel]:
        security = seams.peer_security
        return PeerChannels(settings, cache, check, seams.chance, purpose=purpose, security=security).open

    return World(
        producer_ids=producer_ids,
        open_channel=channels("transactions"),
        open_lag_channel=channels("lag"),
        local=local,
    )


def make_loader(
    settings: Settings, seams: Seams, nodes: ControllerNodes, cluster_id: str, directory_id: Uuid
) -> MetadataLoader:
    """Create the parts that follow the metadata log."""
    return MetadataLoader(
        settings,
        seams.disk,
        seams.clock,
        nodes,
        node_id=settings.int("node.id"),
        cluster_id=cluster_id,
        chance=seams.chance,
        on_fault=seams.on_fault,
        directory=seams.metadata_directory,
        directory_id=directory_id,
    )


def open_fetch_sessions(settings: Settings, seams: Seams) -> FetchSessionCache:
    """Make the cache of fetch sessions, counted."""
    slots = settings.int("max.incremental.fetch.session.cache.slots")
    sessions = FetchSessionCache(slots, FETCH_SESSION_EVICTION_MS, seams.chance)
    gauge, evictions = seams.metrics.gauge, seams.metrics.counter(metric_names.FETCH_SESSION_EVICTIONS)
    gauge(metric_names.FETCH_SESSIONS).labels().follow(lambda: len(sessions))
    gauge(metric_names.FETCH_SESSION_PARTITIONS).labels().follow(lambda: sessions.cached_partitions)
    evictions.sample(lambda: [((), sessions.evictions)])
    return sessions


def count_flushes(metrics: Metrics, clock: Clock) -> Callable[[float], None]:
    """Return what counts the syncs of logs and the seconds each took (Kafka's LogFlushRateAndTimeMs)."""
    took_ms = Quantiles()
    metrics.summary(metric_names.LOG_FLUSH_TIME).follow(took_ms, clock.monotonic_ms)
    seconds = metrics.histogram(metric_names.LOG_FLUSH_SECONDS).labels()

    def flushed(took_seconds: float) -> None:
        took_ms.add(took_seconds * 1000, clock.monotonic_ms())
        seconds.observe(took_seconds)

    return flushed


def watch_peers(settings: Settings, cache: MetadataCache, seams: Seams) -> PeerWatch:
    """Create the detector of failed brokers: a broker is probed at its own address, not at a test's proxy."""
    listener = inter_broker_listener_name(settings)
    client_id = f"broker-{settings.int('node.id')}-probe"

    def direct(broker_id: int) -> Address | None:
        node = cache.node(broker_id, listener)
        return None if node is None else (node.host, node.port)

    async def answers(address: Address) -> bool:
        channel = Channel(
            *address,
            client_id=client_id,
            chance=seams.chance,
            setup_timeout_ms=PROBE_TIMEOUT_MS,
            security=seams.peer_security,
        )
        try:
            await channel.connect()  # sends ApiVersions
        except ChannelError:
            return False
        finally:
            await channel.close()
        return True

    return PeerWatch(
        cache,
        # Without fast fencing the election takes longer than the hold time.
        hold_ms=settings.int("kvorum.metadata.hold.ms") if settings.str("kvorum.fast.fencing") == "auto" else 0,
        linger_ms=settings.int("kvorum.metadata.fenced.linger.ms"),
        address_of=direct,
        answers=answers,
    )
