"""/metrics, /health/live, /health/ready and /v1/node... (node_pages) of one process, on its metrics.listener.

Metrics are read on the event loop, one slice at a time, and each slice is rendered in a thread: with thousands
of partitions either takes longer than a broker's loop may block. HTTP is that of http_pages.py (h11): importing
aiohttp would take a fifth of a process's start.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from kvorum.admin.http.access import HttpError
from kvorum.client.roles import Role
from kvorum.cluster.http.http_pages import Answer, HttpServer, Request, as_json
from kvorum.cluster.http.http_security import PageAccess, page_security
from kvorum.cluster.http.node_pages import PREFIX, NodePages, Process, error_answer, login_of
from kvorum.cluster.metrics.process_metrics import build_info, follow_disk
from kvorum.runtime import blocking
from kvorum.runtime.clock import SystemClock
from kvorum.runtime.config import Settings
from kvorum.runtime.disk import OsDisk
from kvorum.runtime.listeners import HttpEndpoint, metrics_listener
from kvorum.runtime.metrics import CONTENT_TYPE, Metrics, load, render, render_process
from kvorum.security.credentials import NoCredentials
from kvorum.security.passwords import find_in

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from kvorum.network.tls_acceptor import HttpTls

SLICE_SAMPLES: Final = 1_000
"""Read in one step, some 2 ms: a metric with more partitions is divided."""
SLICE_SECONDS: Final = 0.005
"""The same in time: some metrics are one number that is counted over all partitions."""

Readiness = Callable[[], str | None]
"""Why the process is not ready, None when it is."""


class Slice:
    """A part of the metrics that is read at once; a page consists of consecutive parts."""

    def __init__(self, now: Callable[[], float]) -> None:
        """Start the first slice; `now` is the loop's clock, in seconds."""
        self._now = now
        self._last = ""
        self._families: list[Metric] = []
        self.begin()

    def begin(self) -> None:
        """Start the next slice, once the previous one is rendered."""
        if self._families:
            self._last = self._families[-1].name
        self._families = []
        self._read = 0
        self._until = self._now() + SLICE_SECONDS

    def add(self, family: "Metric") -> None:
        """Add a family, or a part of one."""
        self._families.append(family)
        self._read += len(family.samples)

    def is_full(self, more: int = 0) -> bool:
        """Return whether the slice must end, with this many samples read and not yet rendered."""
        return self._read + more >= SLICE_SAMPLES or self._now() >= self._until

    def render(self) -> bytes:
        """Write it down. From any thread, if nothing else is done with it meanwhile."""
        return render(self._families, continues=bool(self._families) and self._families[0].name == self._last)


class ObservabilityServer:
    """A small HTTP server in the process's own event loop: if the loop is blocked it does not respond."""

    def __init__(
        self,
        endpoint: HttpEndpoint,
        metrics: Metrics,
        not_ready: Readiness,
        node: NodePages | None = None,
        access: PageAccess | None = None,
        tls: "HttpTls | None" = None,
    ) -> None:
        """Serve these metrics and the node's pages; `not_ready` is evaluated at each request.

        `access` is for /metrics; None: it is open.
        """
        self._metrics = metrics
        self._access = access
        self._not_ready = not_ready
        pages = {"/metrics": self._serve_metrics, "/health/live": self._live, "/health/ready": self._ready}
        sections = {} if node is None else {PREFIX: node.answer}
        self._server = HttpServer(endpoint.host, endpoint.port, pages, sections, tls)

    async def start(self) -> None:
        """Listen. Raises OSError."""
        await self._server.start()

    async def close(self) -> None:
        """Stop listening. Idempotent."""
        await self._server.close()

    async def _serve_metrics(self, request: Request) -> Answer:
        try:
            await self._check_reader(request)
        except HttpError as refused:
            return error_answer(refused)
        loop = asyncio.get_running_loop()
        await blocking.run(loop, load)
        page: list[bytes] = []
        part = Slice(loop.time)
        for family in self._metrics.collect(part.is_full):
            part.add(family)
            if part.is_full():
                page.append(await blocking.run(loop, part.render))
                part.begin()
        page += [await blocking.run(loop, part.render), await blocking.run(loop, render_process)]
        return Answer(200, CONTENT_TYPE, b"".join(page))

    async def _check_reader(self, request: Request) -> None:
        """Reject a client that may not read metrics. Raises HttpError."""
        page = self._access
        if page is None or page.access.is_metrics_open or not page.access.is_guarded:
            return
        page.check_open()
        await page.access.authorize(login_of(request), Role.READ)

    async def _live(self, request: Request) -> Answer:
        return as_json(200, {"live": True})

    async def _ready(self, request: Request) -> Answer:
        reason = self._not_ready()
        return as_json(200 if reason is None else 503, {"ready": reason is None, "reason": reason})


@asynccontextmanager
async def serve_observability(
    role: str, settings: Settings, metrics: Metrics, not_ready: Readiness, own: Process | None = None
) -> AsyncIterator[None]:
    """Serve the pages of the `broker` or `controller` process in the background, if configured.

    Raises OSError.

    `own` are its own status and actions; without it only metrics and health are served.
    """
    endpoint = metrics_listener(settings, role)
    if endpoint is None:
        yield
        return
    build_info(metrics, role, settings.int("node.id"))
    follow_disk(metrics)
    node_id, clock = settings.int("node.id"), SystemClock()
    find = find_in(NoCredentials if own is None else own.credentials)
    security, access = page_security(settings, OsDisk(), clock, endpoint, find, f"{role} {node_id}")
    pages = None if own is None else NodePages(role, node_id, own, access)
    server = ObservabilityServer(endpoint, metrics, not_ready, pages, access, security.tls)
    try:
        await security.start()
        await server.start()
        yield
    finally:
        await server.close()
        await security.close()
