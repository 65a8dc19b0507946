"""The admin server: the operations of /v1 and /v3, and the console, over HTTP."""

from collections.abc import Sequence

from aiohttp import web

from kvorum.admin.console_files import add_console
from kvorum.admin.http.access import Access
from kvorum.admin.http.app import HttpApp
from kvorum.admin.http.node_login import NewContext
from kvorum.admin.http.operations import Operation
from kvorum.admin.v1.jobs.connect_client import ConnectClient
from kvorum.admin.v1.partitions.segment_routes import LocalLogs
from kvorum.admin.v1.routes import operations as v1_operations
from kvorum.admin.v3.routes import OPERATIONS as V3_OPERATIONS
from kvorum.client.wire.cluster_client import ClusterClient
from kvorum.runtime.clock import Clock
from kvorum.runtime.metrics import Metrics


def operations(local: LocalLogs | None = None, connect: ConnectClient | None = None) -> Sequence[Operation]:
    """Return all operations of the server.

    `local`: the logs of the broker on the same node; `connect`: client of Kafka Connect.
    """
    return [*v1_operations(local, connect), *V3_OPERATIONS]


class AdminApp:
    """One admin server."""

    def __init__(
        self,
        cluster: ClusterClient,
        metrics: Metrics,
        access: Access | None = None,
        clock: Clock | None = None,
        local: LocalLogs | None = None,
        more: Sequence[Operation] = (),
        connect: ConnectClient | None = None,
        node_context: NewContext | None = None,
    ) -> None:
        """Serve this cluster, the metrics of this process, and the logs of the broker on the same node.

        `more`: further operations of another server. `connect`: client of Kafka Connect, closed with this.
        `node_context`: TLS of connections to the cluster's other processes.
        """
        self._connect = connect or ConnectClient()
        known = [*operations(local, self._connect), *more]
        self._http = HttpApp(cluster, metrics, known, access, clock, node_context)

    def build(self) -> web.Application:
        """Return the aiohttp application."""
        app = self._http.build()
        add_console(app)
        app.on_cleanup.append(self._close)
        return app

    async def _close(self, app: web.Application) -> None:
        await self._connect.close()
