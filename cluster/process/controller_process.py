"""The controller process: Raft, the metadata log, the active controller, and the CONTROLLER listener around them."""

import asyncio
from contextlib import ExitStack

from kvorum.cluster.fault_injection.interposer import open_interposer
from kvorum.cluster.http.node_pages import Process
from kvorum.cluster.http.observability import serve_observability
from kvorum.cluster.local.formatting import controller_directory, raft_directory
from kvorum.cluster.local.paths import NodePaths
from kvorum.cluster.metrics.process_metrics import IDLE_NAMES, follow_volume, watch_loop
from kvorum.cluster.process import readiness
from kvorum.cluster.process.controller_node import ControllerDependencies, ControllerNode
from kvorum.cluster.process.exits import Exit
from kvorum.cluster.process.hosting import Refusal, StopReason, host, report_waiting
from kvorum.cluster.process.identity import identity_of, lock_directory
from kvorum.network.cluster_check import WrongCluster
from kvorum.network.metrics import RegistryMetrics
from kvorum.quorum.bootstrap_file import read_bootstrap
from kvorum.quorum.raft.journal_format import JournalCorrupt
from kvorum.quorum.raft.opening import Opened, check_identity, open_raft
from kvorum.quorum.raft.snapshot import SnapshotCorrupt
from kvorum.quorum.records import MetadataRecord, UnknownRecord
from kvorum.runtime import chance
from kvorum.runtime import metric_names as names
from kvorum.runtime.clock import SystemClock
from kvorum.runtime.config import Settings
from kvorum.runtime.disk import Disk, OsDisk
from kvorum.runtime.listeners import voters
from kvorum.runtime.logs import get_logger, latest
from kvorum.runtime.metrics import Metrics
from kvorum.runtime.process import age_ms

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


def bootstrap_of(disk: Disk, settings: Settings) -> list[MetadataRecord]:
    """Return the records with which the node was formatted. Raises Refusal: a damaged file."""
    try:
        return read_bootstrap(disk, controller_directory(settings))
    except UnknownRecord as error:
        raise Refusal(Exit.DATA_REFUSED, f"{error}; move the file away, or format a new node again") from error


def end(ending: StopReason, error: BaseException, folder: str) -> None:
    """End the process: in order where the operator has to correct something, at once otherwise."""
    if isinstance(error, WrongCluster):
        ending.refuse(Exit.DATA_REFUSED, str(error))
    else:
        ending.fault(error, folder)


def run_controller(settings: Settings, paths: NodePaths) -> int:
    """Run the controller until it receives a stop signal; return the exit code."""

    async def serve(ending: StopReason, stack: ExitStack) -> Exit:
        disk, clock, metrics = OsDisk(), SystemClock(), Metrics()
        folder = controller_directory(settings)
        identity = identity_of(disk, settings, folder)
        lock_directory(disk, folder, stack)
        opened = open_quorum(disk, settings, identity.cluster_id)
        async with open_interposer(settings, "controller") as interposer:
            world = ControllerDependencies(
                disk=disk,
                clock=clock,
                chance=chance.new_random,
                metrics=metrics,
                on_fatal=lambda error: end(ending, error, folder),
                network_metrics=RegistryMetrics(metrics, asyncio.get_running_loop().time),
                interposer=interposer,
            )
            bootstrap = bootstrap_of(disk, settings)
            node = ControllerNode(settings, opened, world, cluster_id=identity.cluster_id, bootstrap=bootstrap)
            alone = "broker" not in settings.list("process.roles")
            idle_names = (names.CONTROLLER_AVG_IDLE, names.RAFT_POLL_IDLE, *(IDLE_NAMES if alone else ()))
            follow_volume(metrics, disk, folder)
            with watch_loop(metrics, clock, idle_names):
                try:
                    await node.start()
                    own = Process(
                        clock=clock,
                        age_ms=age_ms(),
                        ring=latest,
                        listeners=lambda: node.listeners,
                        cluster_id=lambda: identity.cluster_id,
                        snapshot=node.metadata_log.snapshot_now,
                        credentials=lambda: node.server.services.credentials,
                    )
                    async with serve_observability("controller", settings, metrics, node.not_ready, own):
                        readiness.announce()
                        async with report_waiting(log, node.not_ready, node.server.store.leader_changed):
                            code = await ending.wait()
                        await node.wait_for_brokers()
                        await node.resign()
                        return code
                finally:
                    await node.close()

    return host("controller", paths, serve)
