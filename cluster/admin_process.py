"""The admin process: the HTTP API beside a node, a client of the cluster like any other."""

from contextlib import ExitStack

from aiohttp import web

from kvorum.admin.app import AdminApp, is_local
from kvorum.admin.client import ClusterClient
from kvorum.cluster import readiness
from kvorum.cluster.exits import Exit
from kvorum.cluster.hosting import Ending, Refusal, host
from kvorum.cluster.paths import NodePaths
from kvorum.cluster.process_metrics import LoopWatch, build_info
from kvorum.network.addresses import Address
from kvorum.runtime.chance import new_random
from kvorum.runtime.clock import SystemClock
from kvorum.runtime.config import Settings
from kvorum.runtime.listeners import admin_listeners, advertised_listeners, voters
from kvorum.runtime.logs import get_logger
from kvorum.runtime.metrics import Metrics

log = get_logger("admin")


def bootstrap_of(settings: Settings) -> list[Address]:
    """Return where to find a broker: this node's own client listener. Raises Refusal where the node has none."""
    found = [(endpoint.host, endpoint.port) for endpoint in advertised_listeners(settings)]
    if not found:
        raise Refusal(
            Exit.CONFIG, f"admin.listeners needs a broker on the same node; known controllers: {voters(settings)}"
        )
    return found[:1]


def run_admin(settings: Settings, paths: NodePaths) -> int:
    """Run the admin process until it is told to end; returns the exit code."""

    async def serve(ending: Ending, stack: ExitStack) -> Exit:
        cluster, metrics = ClusterClient(bootstrap_of(settings), chance=new_random()), Metrics()
        build_info(metrics, "admin", settings.int("node.id"))
        watch = LoopWatch(metrics, SystemClock())
        runner = web.AppRunner(AdminApp(cluster, metrics).build(), access_log=None, handle_signals=False)
        await runner.setup()
        watch.start()
        try:
            for endpoint in admin_listeners(settings):
                if not is_local(endpoint.host):
                    raise Refusal(
                        Exit.CONFIG, f"admin.listeners: {endpoint.url} is not loopback (no authentication yet)"
                    )
                await web.TCPSite(runner, endpoint.host, endpoint.port).start()
                log.info("admin HTTP API is up", url=endpoint.url)
            readiness.announce()
            return await ending.wait()
        finally:
            watch.close()
            await runner.cleanup()
            await cluster.close()

    return host("admin", paths, serve)
