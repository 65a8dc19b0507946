"""Streamed responses: their concurrency limit, and how each of them ends."""

import asyncio
import contextlib
from collections.abc import Awaitable

import msgspec
from aiohttp import web

from kvorum.admin.http.operations import EVENT_STREAM, Stream
from kvorum.admin.http.problems import problem
from kvorum.client.wire.cluster_client import Unreachable
from kvorum.protocol.errors import KafkaError
from kvorum.runtime.logs import get_logger

STREAMS_MAX = 32
"""Concurrent streams. Each has separate connections to the brokers."""
STALLED_SECONDS = 600
"""A client that reads nothing for this time is disconnected; it would occupy one of STREAMS_MAX."""

log = get_logger("admin")


class Streams:
    """The streams of one server."""

    def __init__(self) -> None:
        """Start without streams."""
        self._running: set[asyncio.Task[object]] = set()

    def __len__(self) -> int:
        """Return how many run."""
        return len(self._running)

    async def serve(self, stream: Stream, request: web.Request) -> web.StreamResponse:
        """Write a stream until it ends, the client disconnects, or the server stops."""
        if len(self._running) >= STREAMS_MAX:
            await close(stream)
            return problem(429, "TOO_MANY_STREAMS", f"{STREAMS_MAX} streams are already open; close one")
        headers = {"Content-Type": stream.media, "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
        if stream.file is not None:
            headers["Content-Disposition"] = f'attachment; filename="{stream.file}"'
        response = web.StreamResponse(headers=headers)
        task = asyncio.current_task()
        assert task is not None, "a handler runs in a task"
        self._running.add(task)
        try:
            await response.prepare(request)
            async for chunk in stream.chunks:
                await wait_for_write(response.write(chunk))
            await wait_for_write(response.write_eof())
        except ConnectionError:
            log.debug("client closed a stream", path=request.path)
            if request.transport is not None:
                request.transport.abort()  # a client may keep the connection open without reading
        except (KafkaError, Unreachable) as error:
            log.warning("stream failed", path=request.path, error=error)
            await break_off(stream, request, response, str(error))
        except Exception as error:  # the head is out: no answer in our shape can follow it
            log.unexpected("admin stream", error, path=request.path)
            await break_off(stream, request, response, "see the log of the admin process")
        finally:
            self._running.discard(task)
            await close(stream)
        return response

    async def end(self, app: web.Application) -> None:
        """End streams that are unlimited."""
        for task in list(self._running):
            task.cancel()


async def break_off(stream: Stream, request: web.Request, response: web.StreamResponse, why: str) -> None:
    """End a failed stream with an error event, or by closing the connection, so that it does not look complete."""
    if stream.media == EVENT_STREAM:
        with contextlib.suppress(ConnectionError):
            await response.write(b"event: error\ndata: " + msgspec.json.encode({"message": why}) + b"\n\n")
        response.force_close()
    elif request.transport is not None:
        request.transport.abort()


async def wait_for_write(writing: Awaitable[None]) -> None:
    """Wait for a write. Raises ConnectionError if the client has disconnected or stalls."""
    try:
        async with asyncio.timeout(STALLED_SECONDS):
            await writing
    except TimeoutError as error:
        raise ConnectionAbortedError(f"the client read nothing for {STALLED_SECONDS} s") from error


async def close(stream: Stream) -> None:
    """Close a stream that may not have been read to its end now, not when it is garbage collected."""
    closing = getattr(stream.chunks, "aclose", None)
    if closing is not None:
        await closing()
