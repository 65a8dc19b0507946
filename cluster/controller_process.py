"""The controller process: Raft, the metadata log, the active controller, and the CONTROLLER listener around them."""

from contextlib import ExitStack

from kvorum.cluster import readiness
from kvorum.cluster.controller_metrics import follow_quorum
from kvorum.cluster.exits import Exit
from kvorum.cluster.formatting import controller_directory, raft_directory
from kvorum.cluster.hosting import Ending, Refusal, host
from kvorum.cluster.identity import identity_of, lock_directory
from kvorum.cluster.observability import observed
from kvorum.cluster.paths import NodePaths
from kvorum.network.addresses import AddressBook
from kvorum.network.limits import ConnectionCounts, ConnectionLimits, RequestBudget
from kvorum.network.metrics import RegistryMetrics
from kvorum.network.server import Listener
from kvorum.quorum.raft.journal_format import JournalCorrupt
from kvorum.quorum.raft.opening import Opened, check_identity, open_raft
from kvorum.quorum.raft.replicated import RaftMetadataLog
from kvorum.quorum.raft.settings import raft_settings
from kvorum.quorum.raft.snapshot import SnapshotCorrupt
from kvorum.quorum.raft.transport import RaftTransport
from kvorum.quorum.server import ControllerServer
from kvorum.runtime import chance
from kvorum.runtime.clock import Clock, SystemClock
from kvorum.runtime.config import Settings
from kvorum.runtime.disk import Disk, OsDisk
from kvorum.runtime.listeners import controller_listeners, peer_addresses, voters
from kvorum.runtime.logs import get_logger
from kvorum.runtime.metrics import Metrics

log = get_logger("quorum")


def open_quorum(disk: Disk, settings: Settings, cluster_id: str) -> Opened:
    """Open the journal and snapshots. Raises Refusal: damaged, or formatted for other voters."""
    try:
        opened = open_raft(disk, raft_directory(settings))
        check_identity(
            opened.voters.state,
            cluster_id=cluster_id,
            node_id=settings.int("node.id"),
            voter_ids=sorted(voters(settings)),
        )
    except (JournalCorrupt, SnapshotCorrupt, FileNotFoundError) as error:
        raise Refusal(Exit.DATA_REFUSED, str(error)) from error
    return opened


def run_controller(settings: Settings, paths: NodePaths) -> int:
    """Run the controller until it is told to end; returns the exit code."""

    async def serve(ending: Ending, stack: ExitStack) -> Exit:
        disk, clock, metrics = OsDisk(), SystemClock(), Metrics()
        folder = controller_directory(settings)
        identity = identity_of(disk, settings, folder)
        lock_directory(disk, folder, stack)
        opened = open_quorum(disk, settings, identity.cluster_id)
        node_id, known = settings.int("node.id"), voters(settings)
        addresses = AddressBook(known, peer_addresses(settings))
        transport = RaftTransport(
            node_id=node_id,
            cluster_id=identity.cluster_id,
            addresses=addresses,
            peers=[voter for voter in known if voter != node_id],
            chance=chance.new_random(),
        )
        fatal = lambda error: ending.fatal(f"{type(error).__name__}: {error}")  # noqa: E731
        metadata_log = RaftMetadataLog(
            opened,
            link=transport,
            settings=raft_settings(settings),
            clock=clock,
            rng=chance.new_random(),
            on_fatal=fatal,
        )
        transport.attach(metadata_log.node)
        server = ControllerServer(
            settings,
            disk,
            clock,
            chance.new_random(),
            metadata_log,
            cluster_id=identity.cluster_id,
            on_fault=fatal,
            directory=folder,
            voter_addresses=lambda: known,
            upgrades=transport.upgrades,
            metrics=metrics,
        )
        return await _serve(settings, metadata_log, transport, server, metrics, clock, ending)

    return host("controller", paths, serve)


async def _serve(
    settings: Settings,
    metadata_log: RaftMetadataLog,
    transport: RaftTransport,
    server: ControllerServer,
    metrics: Metrics,
    clock: Clock,
    ending: Ending,
) -> Exit:
    """Start everything in order, wait for the end, stop everything in the opposite order."""
    limits, counts, budget = (
        ConnectionLimits.of(settings),
        ConnectionCounts.of(settings),
        RequestBudget(settings.int("queued.max.request.bytes")),
    )
    network_metrics = RegistryMetrics(metrics)
    listeners: list[Listener] = []
    await server.start()
    try:
        follow_quorum(metrics, metadata_log, transport, clock)
        metadata_log.start()
        for endpoint in controller_listeners(settings):
            listener = Listener(
                endpoint.listener_name,
                endpoint.host,
                endpoint.port,
                server.router,
                security_protocol=endpoint.security_protocol,
                limits=limits,
                counts=counts,
                budget=budget,
                metrics=network_metrics,
                protected=True,
                on_connection_closed=server.on_connection_closed,
            )
            await listener.start()
            listeners.append(listener)
        transport.start()
        async with observed("controller", settings, metrics, server.not_ready):
            readiness.announce()
            code = await ending.wait()
            if metadata_log.is_active():
                await metadata_log.resign()
            return code
    finally:
        for listener in listeners:
            await listener.close()
        await transport.close()
        metadata_log.stop()
        await server.close()
