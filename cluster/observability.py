"""/metrics, /health/live and /health/ready of one process, on its metrics.listener.

Metrics are read on the event loop, a slice at a time, and written down off it: with thousands of partitions either
takes longer than a broker may stand still. HTTP is spoken by cluster/http_pages.py, not by aiohttp, whose import costs
each process a fifth of its start.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from kvorum.cluster.http_pages import Answer, HttpServer
from kvorum.cluster.process_metrics import LoopWatch, build_info
from kvorum.runtime import blocking
from kvorum.runtime.clock import SystemClock
from kvorum.runtime.config import Settings
from kvorum.runtime.listeners import HttpEndpoint, metrics_listener
from kvorum.runtime.metrics import CONTENT_TYPE, Metrics, render

SLICE_SAMPLES: Final = 1_000
"""Read in one go, some 2 ms; one metric of all partitions is never cut."""

Readiness = Callable[[], str | None]
"""Why the process is not ready, None when it is."""


class ObservabilityServer:
    """A small HTTP server in the process's own event loop: what it cannot answer is not alive."""

    def __init__(self, endpoint: HttpEndpoint, metrics: Metrics, not_ready: Readiness) -> None:
        """Serve these metrics; `not_ready` is asked at each request."""
        self._metrics = metrics
        self._not_ready = not_ready
        pages = {"/metrics": self._serve_metrics, "/health/live": self._live, "/health/ready": self._ready}
        self._server = HttpServer(endpoint.host, endpoint.port, pages)

    async def start(self) -> None:
        """Listen. Raises OSError."""
        await self._server.start()

    async def close(self) -> None:
        """Stop listening. Idempotent."""
        await self._server.close()

    async def _serve_metrics(self) -> Answer:
        families, read = [], 0
        for family in self._metrics.collect():
            families.append(family)
            read += len(family.samples)
            if read >= SLICE_SAMPLES:
                read = 0
                await asyncio.sleep(0)
        return Answer(200, CONTENT_TYPE, await blocking.run(asyncio.get_running_loop(), render, families))

    async def _live(self) -> Answer:
        return as_json(200, {"live": True})

    async def _ready(self) -> Answer:
        reason = self._not_ready()
        return as_json(200 if reason is None else 503, {"ready": reason is None, "reason": reason})


def as_json(status: int, body: dict[str, object]) -> Answer:
    """Return an answer in JSON."""
    return Answer(status, "application/json; charset=utf-8", json.dumps(body).encode())


@asynccontextmanager
async def observed(role: str, settings: Settings, metrics: Metrics, not_ready: Readiness) -> AsyncIterator[None]:
    """Serve the metrics and health of the `broker` or `controller` process meanwhile, if it is to. Raises OSError."""
    endpoint = metrics_listener(settings, role)
    if endpoint is None:
        yield
        return
    build_info(metrics, role, settings.int("node.id"))
    watch = LoopWatch(metrics, SystemClock())
    server = ObservabilityServer(endpoint, metrics, not_ready)
    watch.start()
    try:
        await server.start()
        yield
    finally:
        watch.close()
        await server.close()
