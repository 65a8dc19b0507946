"""The broker process: a BrokerServer in its event loop, from its configuration to its exit code."""

import asyncio
from contextlib import ExitStack

from kvorum.broker.metadata.lifecycle import RegistrationRefused
from kvorum.broker.server import AllLogDirectoriesOffline, BrokerServer, NotFormatted, World
from kvorum.cluster.fault_injection.interposer import open_interposer
from kvorum.cluster.http.node_pages import Process
from kvorum.cluster.http.observability import serve_observability
from kvorum.cluster.local.paths import NodePaths
from kvorum.cluster.metrics.broker_metrics import follow_broker
from kvorum.cluster.metrics.process_metrics import IDLE_NAMES, follow_certificates, watch_loop
from kvorum.cluster.process import readiness
from kvorum.cluster.process.exits import Exit, leave_full_note
from kvorum.cluster.process.hosting import Refusal, StopReason, host, report_waiting
from kvorum.network.cluster_check import WrongCluster
from kvorum.network.metrics import RegistryMetrics
from kvorum.runtime import chance
from kvorum.runtime import metric_names as names
from kvorum.runtime.clock import SystemClock
from kvorum.runtime.config import Settings
from kvorum.runtime.disk import OsDisk
from kvorum.runtime.logs import get_logger, latest
from kvorum.runtime.metrics import Metrics
from kvorum.runtime.process import age_ms
from kvorum.security.credentials import NoCredentials
from kvorum.storage.checkpoints import CheckpointError
from kvorum.storage.log_dir import DirectoryLocked

log = get_logger("broker")


def run_broker(settings: Settings, paths: NodePaths) -> int:
    """Run the broker until it receives a stop signal; return the exit code."""

    async def serve(ending: StopReason, stack: ExitStack) -> Exit:
        def fault(error: BaseException) -> None:
            if isinstance(error, RegistrationRefused):
                ending.refuse(Exit.CRASHED, str(error))
            elif isinstance(error, AllLogDirectoriesOffline):
                leave_full_note(error)
                ending.refuse(Exit.DATA_REFUSED, str(error))
            else:
                ending.fault(error, settings.str("metadata.log.dir"))

        metrics = Metrics()
        async with open_interposer(settings, "broker") as interposer:
            world = World(
                disk=OsDisk(),
                clock=SystemClock(),
                chance=chance.new_random(),
                metrics=metrics,
                network_metrics=RegistryMetrics(metrics, asyncio.get_running_loop().time),
                interposer=interposer,
                on_fault=fault,
            )
            server = BrokerServer(settings, world)
            alone = "controller" not in settings.list("process.roles")
            follow_broker(metrics, server, world.clock, exposes_raft=alone)
            follow_certificates(metrics, world.clock, server.security.certificate_ends)
            with watch_loop(metrics, world.clock, (*IDLE_NAMES, *((names.RAFT_POLL_IDLE,) if alone else ()))):
                own = Process(
                    clock=world.clock,
                    age_ms=age_ms(),
                    ring=latest,
                    listeners=lambda: server.listeners,
                    cluster_id=lambda: None if server.parts is None else server.parts.broker.cluster_id,
                    shut_down=ending.request_stop,
                    credentials=lambda: NoCredentials() if server.parts is None else server.parts.broker.credentials,
                )
                async with serve_observability("broker", settings, metrics, server.not_ready, own):
                    return await _run(server, ending)

    return host("broker", paths, serve)


async def _run(server: BrokerServer, ending: StopReason) -> Exit:
    """Start, report to the parent when the broker is unfenced, stop in order. A stop signal aborts the start."""
    starting = asyncio.get_running_loop().create_task(_start(server))
    waiting = asyncio.get_running_loop().create_task(ending.wait())
    try:
        await asyncio.wait([starting, waiting], return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            return await waiting
        starting.cancel()
        await asyncio.wait([starting])
        return await waiting
    except (NotFormatted, CheckpointError, RegistrationRefused, WrongCluster, AllLogDirectoriesOffline) as error:
        leave_full_note(error)
        raise Refusal(exit_of(error), str(error)) from error
    finally:
        waiting.cancel()
        await server.shutdown(controlled=starting.done() and not starting.cancelled() and starting.exception() is None)


async def _start(server: BrokerServer) -> None:
    async with report_waiting(log, server.not_ready):
        await server.start()
        await server.ready()
    readiness.announce()
    log.info("broker started and unfenced", broker_id=server.broker_id, ports=server.ports)


def exit_of(error: Exception) -> Exit:
    """Return the exit code of a rejected start, for the supervisor."""
    match error:
        case DirectoryLocked():
            return Exit.BUSY
        case NotFormatted():
            return Exit.CONFIG
        case CheckpointError() | AllLogDirectoriesOffline() | WrongCluster():
            return Exit.DATA_REFUSED
        case _:
            return Exit.CRASHED
