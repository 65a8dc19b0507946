"""HTTP interface for fault injection into a cluster on this machine: `kvorum chaos serve`.

    /                   the web console; its chaos page works here (docs/decisions/0022)
    /v1/...             the admin API, of this process: it lives on when nodes die
    /v1/chaos/...       what breaks and heals the cluster (serve_routes), and runs scenarios (serve_scenario_routes)

Requests need the token (Authorization: Bearer TOKEN), except those for the console's files and the API description, and
a Host name of this machine: foreign pages can satisfy neither. Loopback by default.
"""

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aiohttp import web

from kvorum.admin.app import AdminApp
from kvorum.admin.http.access import Access, host_name_of, is_local
from kvorum.admin.http.operations import Role
from kvorum.admin.http.problems import problem
from kvorum.chaos import history
from kvorum.chaos.faults.target_cluster import ANY_HOST, TargetCluster
from kvorum.chaos.serve.events import Events
from kvorum.chaos.serve.routes import FaultRoutes, Workers
from kvorum.chaos.serve.scenario_routes import ScenarioRoutes
from kvorum.chaos.serve.scenarios import COMMAND
from kvorum.client.wire.cluster_client import ClusterClient
from kvorum.network.addresses import parse_bootstrap
from kvorum.runtime.clock import SystemClock
from kvorum.runtime.metrics import Metrics

ADMIN_TIMEOUT_MS: Final = 10_000
"""Timeout of the admin API for one broker, which may be paused: then the API uses another one."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(slots=True)
class ChaosServer:
    """HTTP server for faults. `build` returns the application; the creator of the cluster owns it."""

    cluster: TargetCluster
    events: Events
    token: str
    runs: Path
    """Folder for the histories and logs of scenarios."""
    host: str = "127.0.0.1"
    command: tuple[str, ...] = COMMAND
    """`kvorum chaos`, which runs scenarios."""

    def build(self) -> web.Application:
        """Return the application: the admin API with the console, and the chaos API in it. Called in its loop."""
        client = ClusterClient(
            parse_bootstrap(self.cluster.direct_bootstrap),
            timeout_ms=ADMIN_TIMEOUT_MS,
            security=self.cluster.observer.broker_security,
        )
        access = Access({hashlib.sha256(self.token.encode()).hexdigest(): Role.ADMIN})
        workers = Workers()
        faults = FaultRoutes(self.cluster, self.events, workers)
        scenarios = ScenarioRoutes(self.runs, self.events, workers, self.command)
        more = [*faults.operations(), *scenarios.operations()]
        app = AdminApp(client, Metrics(), access, more=more).build()
        app.middlewares.insert(0, self._pages)  # a list until the application runs

        async def shut_down(app: web.Application) -> None:
            self.events.close()
            await scenarios.scenarios.close()

        async def close(app: web.Application) -> None:
            await faults.ends.close(end=self.cluster.outlives)
            await client.close()

        app.on_shutdown.append(shut_down)
        app.on_cleanup.append(close)  # after the admin API's own: changes in progress have ended
        return app

    @web.middleware
    async def _pages(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Reject foreign pages, for every path."""
        host, origin = request.headers.get("Host", ""), request.headers.get("Origin")
        # Listening on all addresses, it has more names than are known here; a page from elsewhere has no token for any.
        if not (is_local(host) or self.host in ANY_HOST or host_name_of(host) == host_name_of(self.host)):
            return problem(403, "FORBIDDEN_HOST", f"Host {host!r} is not a name of this machine")
        if origin is not None and origin.lower() not in (f"http://{host.lower()}", f"https://{host.lower()}"):
            return problem(403, "FORBIDDEN_ORIGIN", f"requests from origin {origin!r} are rejected")
        return await handler(request)


def fault_reporter(events: Events) -> Callable[[history.Fault], None]:
    """Return the fault listener of a register."""
    clock = SystemClock()

    def publish(fault: history.Fault) -> None:
        data: dict[str, object] = {
            "id": fault.id,
            "fault": fault.fault,
            "phase": fault.phase,
            "targets": list(fault.targets),
            "lossy": fault.lossy,
            "story": fault.story,
            "t": fault.t,
            "timestamp_ms": clock.wall_ms(),
        }
        events.publish("fault", data)

    return publish
