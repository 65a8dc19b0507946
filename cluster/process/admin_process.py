"""The admin process: the HTTP API of a node, a client of the cluster."""

from contextlib import ExitStack

from kvorum.admin.app import AdminApp
from kvorum.admin.http.access import is_local
from kvorum.admin.http.http_server import Runner, TlsSite, runner_of
from kvorum.admin.v1.jobs.connect_client import ConnectClient
from kvorum.client.credentials import ClusterCredentials
from kvorum.client.wire.cluster_client import ClusterClient
from kvorum.cluster.http.http_security import HttpSecurity, http_security, read_tokens
from kvorum.cluster.http.node_logs import NodeLogs
from kvorum.cluster.local.paths import NodePaths
from kvorum.cluster.metrics.process_metrics import build_info, follow_certificates, watch_loop
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
    HttpEndpoint,
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


async def start_site(runner: Runner, endpoint: HttpEndpoint, http: HttpSecurity) -> None:
    """Listen at an address. Raises Refusal, OSError."""
    if not http.access.is_guarded and not is_local(endpoint.host):
        reason = "is not a loopback address and requires kvorum.admin.roles or kvorum.admin.tokens.file"
        raise Refusal(Exit.CONFIG, f"admin.listeners: {endpoint.url} {reason}")
    await TlsSite(runner, endpoint.host, endpoint.port, http.tls if endpoint.is_tls else None).start()


def run_admin(settings: Settings, paths: NodePaths) -> int:
    """Run the admin process until it receives a stop signal; return the exit code."""

    async def serve(ending: StopReason, stack: ExitStack) -> Exit:
        tokens, endpoints, clock = read_tokens(settings, OsDisk()), admin_listeners(settings), SystemClock()
        local = NodeLogs(OsDisk(), settings.int("node.id"), settings.list("log.dirs"))
        check = check_of(OsDisk(), settings)
        security = admin_security(settings, new_nonce)
        cluster = ClusterClient(bootstrap_of(settings), chance=new_random(), check=check, security=security)
        http = http_security(settings, tokens, clock, endpoints, ClusterCredentials(cluster).find)
        metrics = Metrics()
        follow_certificates(metrics, clock, http.certificate_ends)
        build_info(metrics, "admin", settings.int("node.id"))
        connect = ConnectClient(connect_urls(settings))
        app = AdminApp(cluster, metrics, http.access, local=local, connect=connect, node_context=http.node_context)
        runner = runner_of(app.build())
        await runner.setup()
        try:
            await http.start()
            with watch_loop(metrics, clock):
                for endpoint in endpoints:
                    await start_site(runner, endpoint, http)
                    log.info("admin HTTP API started", url=endpoint.url)
                readiness.announce()
                return await ending.wait()
        finally:
            await runner.cleanup()
            await http.close()
            await cluster.close()

    return host("admin", paths, serve)
