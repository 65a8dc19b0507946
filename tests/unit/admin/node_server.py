"""A process of the cluster as far as its own pages go (`/v1/node...`), over real HTTP; and a cluster that names it."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from kvorum.admin.http.access import Access, HttpError
from kvorum.admin.http.login import login_of
from kvorum.admin.http.operations import Role
from tests.unit.admin.fake import NOW_MS, Client, serve
from tests.unit.admin.managed import ManagedCluster
from tests.unit.admin.operated import BROKER, DEFAULT, STATIC

CONNECTION = {
    "id": "127.0.0.1:9001-127.0.0.1:4711-0",
    "listener": "PLAINTEXT",
    "address": "127.0.0.1:4711",
    "client_id": "app",
    "software_name": "librdkafka",
    "software_version": None,
    "principal": "User:ANONYMOUS",
    "since_ms": NOW_MS,
    "idle_ms": 5,
    "requests": 7,
    "bytes_in": None,
    "bytes_out": None,
}
LINE = {"time": "2026-03-01T10:15:30.123Z", "level": "INFO", "room": "broker", "message": "up", "facts": {"node": 1}}


class FakeNode:
    """One process. Set `answers` to have a page say something else, or `hold` to have it say nothing."""

    def __init__(self, node_id: int = 1, role: str = "broker", access: Access | None = None) -> None:
        self.node_id = node_id
        self.role = role
        self.cluster_id: str | None = "c"
        self.access = access or Access()
        self.requested: list[tuple[str, str, dict[str, str]]] = []
        self.answers: dict[str, web.Response] = {}
        self.hold: set[str] = set()
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, request: web.Request) -> web.Response:
        self.requested.append((request.method, request.path, dict(request.query)))
        if request.path in self.hold:
            await asyncio.Event().wait()
        if request.path in self.answers:
            return self.answers[request.path]
        needs = {"/v1/node/controlled-shutdown": Role.ADMIN, "/v1/node/snapshot": Role.OPERATE}
        if request.path.startswith("/v1/"):
            try:
                await self.access.authorize(login_of(request), needs.get(request.path, Role.READ))
            except HttpError as error:
                return web.json_response({"error": error.error, "message": error.message}, status=error.status)
        pages = {
            ("GET", "/v1/node"): self.node(),
            ("GET", "/v1/node/connections"): {"total": 3, "connections": [CONNECTION], "of_a_newer_version": 1},
            ("GET", "/v1/node/log"): {"lines": [LINE], "dropped": 2},
        }
        found = pages.get((request.method, request.path))
        if found is not None:
            return web.json_response(found)
        if (request.method, request.path, self.role) == ("POST", "/v1/node/controlled-shutdown", "broker"):
            return web.json_response({"stopping": True}, status=202)
        if (request.method, request.path, self.role) == ("POST", "/v1/node/snapshot", "controller"):
            reported = {"end_offset": 9, "epoch": 2, "bytes": 100, "took_ms": 3, "written": False}
            return web.json_response(reported)
        if request.path == "/metrics":
            return web.Response(text="kvorum_up 1\n")
        return web.json_response({"error": "NOT_FOUND", "message": "there is no such page"}, status=404)

    def node(self) -> dict[str, object]:
        reported = {"version": "0.1.0", "python": "3.12.1", "pid": 7, "started_ms": NOW_MS, "uptime_ms": 60_000}
        return {"node_id": self.node_id, "role": self.role, "cluster_id": self.cluster_id, **reported}


@asynccontextmanager
async def running(*nodes: FakeNode) -> AsyncIterator[None]:
    """Serve their pages, each at a port of its own."""
    servers = []
    try:
        for node in nodes:
            app = web.Application()
            app.router.add_route("*", "/{path:.*}", node.serve)
            server = TestServer(app)
            await server.start_server()
            servers.append(server)
            assert server.port is not None
            node.port = server.port
        yield
    finally:
        for server in servers:
            await server.close()


def name_listeners(cluster: ManagedCluster, node_id: int, **configs: str | None) -> None:
    """Have a node tell of its own configuration, `_` for a dot in a name; None: not set."""
    rows = {"process.roles": "broker", "kvorum.controller.metrics.listener": None, "metrics.listener": None}
    rows |= {name.replace("_", "."): value for name, value in configs.items()}
    reported = [[(name, value, DEFAULT if value is None else STATIC)] for name, value in rows.items()]
    cluster.layers[BROKER, str(node_id)] = reported  # type: ignore[assignment]  # what is not set has no value


def with_node(
    test: Callable[[Client, ManagedCluster, FakeNode], Coroutine[Any, Any, None]],
    node: FakeNode | None = None,
    access: Access | None = None,
) -> None:
    """Run a test with a served cluster whose broker 1, or controller 101, is a process with pages."""

    async def run() -> None:
        found = node or FakeNode()
        cluster = ManagedCluster()
        async with running(found), serve(cluster, access) as client:
            name_listeners(cluster, found.node_id, process_roles=found.role, metrics_listener=found.url)
            await test(client, cluster, found)

    asyncio.run(run())


def answer(status: int, **fields: object) -> web.Response:
    return web.Response(status=status, text=json.dumps(fields), content_type="application/json")
