"""The admin process: the HTTP API of a node, a client of the cluster."""

from contextlib import ExitStack

from aiohttp import web

from kvorum.admin.app import AdminApp
from kvorum.admin.http.access import Access, BadTokens, is_local
from kvorum.admin.http.http_server import runner_of
from kvorum.admin.v1.jobs.connect_client import ConnectClient
from kvorum.client.wire.cluster_client import ClusterClient
from kvorum.cluster.http.node_logs import NodeLogs
from kvorum.cluster.http.tokens import KEY, read_access
from kvorum.cluster.local.paths import NodePaths
from kvorum.cluster.metrics.process_metrics import build_info, watch_loop
from kvorum.cluster.process import readiness
from kvorum.cluster.process.exits import Exit
from kvorum.cluster.process.hosting import Refusal, StopReason, host
from kvorum.network.addresses import Address
from kvorum.network.cluster_check import ClusterCheck, EndpointType
from kvorum.network.node_security import admin_security
from kvorum.runtime.chance import new_nonce, new_random
from kvorum.runtime.clock import SystemClock
from kvorum.runtime.config import Settings
from kvorum.runtime.disk import Disk, OsDisk
from kvorum.runtime.listeners import (
    admin_listeners,
    advertised_listeners,
    connect_urls,
    inter_broker_listener_name,
    voters,
)
from kvorum.runtime.logs import get_logger
from kvorum.runtime.metrics import Metrics
from kvorum.storage.checkpoints import CheckpointError, read_meta_properties

log = get_logger("admin")


def bootstrap_of(settings: Settings) -> list[Address]:
    """Return a broker address: this node's inter-broker listener. Raises Refusal if the node has none."""
    name = inter_broker_listener_name(settings)
    advertised = advertised_listeners(settings)
    found = [(endpoint.host, endpoint.port) for endpoint in advertised if endpoint.listener_name == name]
    if not found:
        raise Refusal(
            Exit.CONFIG, f"admin.listeners requires a broker on the same node; known controllers: {voters(settings)}"
        )
    return found[:1]


def access_of(settings: Settings, disk: Disk) -> Access:
    """Return the access rules of the API. Raises Refusal: the file of tokens cannot be read."""
    try:
        return read_access(settings, disk)
    except (OSError, BadTokens) as error:
        raise Refusal(Exit.CONFIG, f"{KEY}: {settings.optional_str(KEY)}: {error}") from error


def check_of(disk: Disk, settings: Settings) -> ClusterCheck | None:
    """Return the check of brokers with the first readable directory of this node, None without one."""
    for folder in (settings.str("metadata.log.dir"), *settings.list("log.dirs")):
        try:
            found = read_meta_properties(disk, folder)
        except (CheckpointError, OSError):
            continue  # the broker reports it
        if found is not None:
            return ClusterCheck(found.cluster_id, EndpointType.BROKER, EndpointType.CONTROLLER)
    return None


def run_admin(settings: Settings, paths: NodePaths) -> int:
    """Run the admin process until it receives a stop signal; return the exit code."""

    async def serve(ending: StopReason, stack: ExitStack) -> Exit:
        access = access_of(settings, OsDisk())
        local = NodeLogs(OsDisk(), settings.int("node.id"), settings.list("log.dirs"))
        check = check_of(OsDisk(), settings)
        security = admin_security(settings, new_nonce)
        cluster = ClusterClient(bootstrap_of(settings), chance=new_random(), check=check, security=security)
        metrics = Metrics()
        build_info(metrics, "admin", settings.int("node.id"))
        connect = ConnectClient(connect_urls(settings))
        runner = runner_of(AdminApp(cluster, metrics, access, local=local, connect=connect).build())
        await runner.setup()
        try:
            with watch_loop(metrics, SystemClock()):
                for endpoint in admin_listeners(settings):
                    if access.tokens is None and not is_local(endpoint.host):
                        raise Refusal(
                            Exit.CONFIG,
                            f"admin.listeners: {endpoint.url} is not a loopback address and requires admin.tokens.file",
                        )
                    await web.TCPSite(runner, endpoint.host, endpoint.port).start()
                    log.info("admin HTTP API started", url=endpoint.url)
                readiness.announce()
                return await ending.wait()
        finally:
            await runner.cleanup()
            await cluster.close()

    return host("admin", paths, serve)
