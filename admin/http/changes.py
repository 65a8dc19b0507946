"""Changes in progress over HTTP: each is completed even if the client disconnects.

The server cancels a read when its client disconnects. A cancelled change would be incomplete, so each change has a
separate task.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

from aiohttp import web

SETTLE_SECONDS: Final = 5
"""Timeout for changes in progress when the server stops, after the server has waited for the others."""


class Changes:
    """Those of one server."""

    def __init__(self) -> None:
        """Start without tasks."""
        self._running: set[asyncio.Task[web.StreamResponse]] = set()

    def begin(self, change: Coroutine[Any, Any, web.StreamResponse]) -> asyncio.Task[web.StreamResponse]:
        """Run a change in its own task, which is not cancelled with the request."""
        task = asyncio.create_task(change)
        self._running.add(task)
        task.add_done_callback(self._on_end)
        return task

    async def settle(self, app: web.Application) -> None:
        """Wait a while for the changes in progress."""
        if self._running:
            await asyncio.wait(tuple(self._running), timeout=SETTLE_SECONDS)

    def _on_end(self, task: asyncio.Task[web.StreamResponse]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved: the caller has the result, or has disconnected
