"""A server with the console's own files in front of answers that a test gives: what a cluster does seldom, at will.

It runs in a thread of its own. What is not said is answered as by a small cluster where all is well.
"""

import asyncio
import json
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from aiohttp import web
from playwright.sync_api import Browser, Page

from kvorum.admin.console_files import add_console
from tests.console.console_kit import WIDE, open_page

WAIT_SECONDS = 30
COMMENT_SECONDS = 0.2
"""What a stream says when there is nothing to say; real ones take longer."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that came."""

    method: str
    path: str
    query: dict[str, str]
    body: Any
    headers: dict[str, str]


@dataclass(slots=True)
class Answer:
    """What is answered."""

    data: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    raw: str | None = None


Said = Any | Answer | Callable[[Asked], Any]


def refusal(status: int, error: str, message: str, field: str | None = None) -> Answer:
    """Return a problem as the API has it."""
    return Answer({"status": status, "error": error, "message": message, "field": field, "title": error}, status)


def partition(index: int, **options: Any) -> dict[str, Any]:
    """Return one partition of a topic."""
    base = {"leader": 1, "leader_epoch": 4, "replicas": [1, 2, 3], "isr": [1, 2, 3], "elr": [], "last_known_elr": []}
    base |= {"offline_replicas": [], "earliest_offset": 0, "latest_offset": 10}
    return {"partition": index, **base, **options}


def topic(name: str, *rows: dict[str, Any], **options: Any) -> dict[str, Any]:
    """Return a topic with its partitions."""
    details = list(rows) or [partition(0)]
    base = {"topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "internal": False, "partitions": len(details)}
    base |= {"replication_factor": 3, "under_replicated": 0, "configs": {}}
    return {"name": name, **base, "details": details, **options}


def message(partition: int, offset: int, value: Any = "v", **options: Any) -> dict[str, Any]:
    """Return one record."""
    size = None if value is None else len(str(value))
    base = {"timestamp_ms": 1_700_000_000_000 + offset, "key": f"k{offset}", "key_format": "string", "key_bytes": 2}
    base |= {"value_format": "string", "value_bytes": size, "headers": []}
    return {"partition": partition, "offset": offset, "value": value, **base, **options}


def page_of(*messages: dict[str, Any], **options: Any) -> dict[str, Any]:
    """Return a page of records."""
    base = {"stopped_by": "end", "scanned": len(messages), "bytes": 0, "next": "0:10", "before": "0:0"}
    return {"messages": list(messages), **base, **options}


def quorum(leader: int = 1, epoch: int = 5, **options: Any) -> dict[str, Any]:
    """Return a quorum of three."""
    rows = [
        {"id": each, "directory_id": "d" * 22, "log_end_offset": 100, "lag": 0, "last_caught_up_ms": 1_700_000_000_000}
        for each in (1, 2, 3)
    ]
    return {
        "leader_id": leader,
        "leader_epoch": epoch,
        "high_watermark": 100,
        "voters": rows,
        "observers": [],
        **options,
    }


def broker(broker_id: int, **options: Any) -> dict[str, Any]:
    """Return one broker, as the cluster knows it and as its process tells of itself."""
    base = {"id": broker_id, "host": "127.0.0.1", "port": 9090 + broker_id, "rack": None, "fenced": False}
    base |= {
        "leaders": 2,
        "replicas": 6,
        "epoch": 41,
        "incarnation_id": "iiiiiiiiiiiiiiiiiiiiiQ",
        "in_controlled_shutdown": False,
    }
    base |= {"log_dirs": [{"id": "dddddddddddddddddddddQ", "online": True, "cordoned": False}]}
    base |= {
        "registration_error": None,
        "version": "0.1.0",
        "started_ms": 1_700_000_000_000,
        "uptime_ms": 3 * 86_400_000,
    }
    return base | {"process_error": None, "process_message": None} | options


BROKERS = [broker(each) for each in (1, 2, 3)]
CLUSTER = {"cluster_id": "stage", "controller_id": 1, "brokers": 3, "brokers_fenced": 0, "topics": 2, "partitions": 6}
HEALTH = {
    "healthy": True,
    "under_replicated_partitions": 0,
    "offline_partitions": 0,
    "brokers_fenced": [],
    "partitions": [],
    "controller_id": 1,
    "controller_error": None,
}
DUTY = {"broker": 1, "requested": "active", "state": "active", "done": True, "message": "It is at work.", "leaders": 2}
DUTY |= {"replicas": 6, "left": 0, "moving": 0, "kept": [], "throttle_bytes_per_second": None}


class Stage:
    """See the module. `says` and `refuses` may be called at any time; `asked` has what came, in order."""

    def __init__(self) -> None:
        self.url = ""
        self.requested: list[Asked] = []
        self.comments = True
        """Whether streams show that they are alive."""
        self._said: dict[tuple[str, str], Said] = {}
        self._held: dict[tuple[str, str], asyncio.Event] = {}
        self._streams: dict[str, set[asyncio.Queue[bytes | None]]] = defaultdict(set)
        self._backlog: dict[str, list[bytes]] = defaultdict(list)
        self._refused: dict[str, Answer] = {}
        self._changed = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self.reset()

    def reset(self) -> None:
        """Be a small cluster where all is well, and forget what was asked."""
        self.release()
        self.break_streams()
        self._said, self._refused, self.comments = {}, {}, True
        self._backlog.clear()
        self.requested.clear()
        for path, data in {
            "/v1/me": {"role": "admin", "guarded": False},
            "/v1/cluster": CLUSTER,
            "/v1/health": HEALTH,
            "/v1/brokers": BROKERS,
            "/v1/brokers/1": BROKERS[0],
            "/v1/brokers/1/maintenance": DUTY,
            "/v1/brokers/1/configs": Answer([], headers={"ETag": '"1"'}),
            "/v1/quorum": quorum(),
            "/v1/quorum/epochs": [],
            "/v1/topics": {"topics": [topic("orders")], "next": None},
            "/v1/topics/orders": topic("orders", partition(0), partition(1)),
            "/v1/topics/orders/messages/newest": page_of(),
            "/v1/groups": {"groups": [], "next": None, "unreachable": []},
            "/v1/transactions": {"transactions": [], "next": None, "unreachable": []},
            "/v1/quotas": [],
            "/v1/leaders": {"partitions": 6, "unpreferred": 0, "leaderless": 0, "rows": [], "more": False},
            "/v1/reassignments": [],
            "/v1/reassignments/throttle": {"brokers": [], "unreachable": []},
        }.items():
            self.says(path, data)

    def says(self, path: str, data: Said, method: str = "GET") -> None:
        """Answer so from now on; a function is asked each time."""
        self._said[method, path] = data

    def refuses(self, path: str, status: int, error: str, text: str, method: str = "GET") -> None:
        """Refuse so from now on; streams, too."""
        self._said[method, path] = refusal(status, error, text)
        if method == "GET":
            self._refused[path] = refusal(status, error, text)

    def allows_stream(self, path: str) -> None:
        """Take the refusal of a stream back."""
        self._refused.pop(path, None)

    def holds(self, path: str, method: str = "GET") -> None:
        """Let requests wait from now on, until they are released."""
        self._soon(lambda: self._held.setdefault((method, path), asyncio.Event()))

    def release(self) -> None:
        """Answer what waits."""

        def release() -> None:
            for event in self._held.values():
                event.set()
            self._held.clear()

        self._soon(release)

    def tells(self, path: str, kind: str, data: Any, event_id: int | None = None, *, kept: bool = False) -> None:
        """Tell who reads a stream; `kept`: who comes later, too."""
        marked = b"" if event_id is None else b"id: %d\n" % event_id
        text = marked + f"event: {kind}\ndata: {json.dumps(data)}\n\n".encode()
        if kept:
            self._backlog[path].append(text)
        self._soon(lambda: [queue.put_nowait(text) for queue in self._streams[path]])

    def marks(self, path: str, event_id: int) -> None:
        """Tell who reads a stream an id without an event."""
        self._soon(lambda: [queue.put_nowait(b"id: %d\n\n" % event_id) for queue in self._streams[path]])

    def happens(self, kind: str, event_id: int | None = None, **data: Any) -> None:
        """Tell an event of the cluster."""
        base = {"offset": len(self.requested) * 1_000 + len(kind), "timestamp_ms": 1_700_000_000_000, "before": {}}
        base |= {"after": {}, "topic": None, "topic_id": None, "partition": None, "broker": None}
        self.tells("/v1/events", kind, base | data, event_id)

    def break_streams(self) -> None:
        """End every stream, in the middle of it."""
        self._soon(lambda: [queue.put_nowait(None) for queues in self._streams.values() for queue in queues])

    def readers(self, path: str) -> int:
        """Return how many read a stream."""
        return len(self._streams[path])

    def until(self, check: Callable[[], bool], what: str) -> None:
        """Wait until something that was asked, or a reader who came or went, made it true."""
        with self._changed:
            assert self._changed.wait_for(check, WAIT_SECONDS), f"{what}; asked was {self.requested[-20:]}"

    def count(self, path: str, method: str = "GET") -> int:
        """Return how often something was asked for."""
        return sum((each.method, each.path) == (method, path) for each in list(self.requested))

    def last(self, path: str, method: str = "GET") -> Asked:
        """Return the last request for something."""
        return next(each for each in reversed(self.requested) if (each.method, each.path) == (method, path))

    def page(
        self, browser: Browser, path: str = "", width: int = WIDE, dark: bool = False, context: Any = None
    ) -> Page:
        """Open a page; `context`: beside others of the same browser."""
        return open_page(browser, self.url, path, width, dark, context)

    def _soon(self, work: Callable[[], Any]) -> None:
        if self._loop.is_running():
            self._loop.call_soon_threadsafe(work)

    def _note(self, change: Callable[[], None]) -> None:
        with self._changed:
            change()
            self._changed.notify_all()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        path = request.rel_url.path
        text = await request.text()
        requested = Asked(
            request.method, path, dict(request.query), json.loads(text) if text else None, dict(request.headers)
        )
        self._note(lambda: self.requested.append(requested))
        held = self._held.get((request.method, path))
        if held is not None:
            await held.wait()
        if "text/event-stream" in request.headers.get("Accept", ""):
            return await self._stream(request, path)
        printed = self._said.get((request.method, path), refusal(404, "NOT_FOUND", f"{request.method} {unquote(path)}"))
        found = printed(requested) if callable(printed) else printed
        answer = found if isinstance(found, Answer) else Answer(found)
        body = answer.raw if answer.raw is not None else json.dumps(answer.data) if answer.data is not None else ""
        return web.Response(status=answer.status, text=body, content_type="application/json", headers=answer.headers)

    async def _stream(self, request: web.Request, path: str) -> web.StreamResponse:
        refused = self._refused.get(path)
        if refused is not None:
            return web.json_response(refused.data, status=refused.status)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        for text in self._backlog[path]:
            queue.put_nowait(text)
        self._note(lambda: self._streams[path].add(queue))
        try:
            await response.write(b": following\n\n")
            while True:
                try:
                    async with asyncio.timeout(COMMENT_SECONDS):
                        text = await queue.get()
                except TimeoutError:
                    text = b":\n\n" if self.comments else b""
                if text is None and request.transport is not None:
                    request.transport.abort()
                if request.transport is None or request.transport.is_closing():
                    return response
                if text:
                    await response.write(text)
        except ConnectionError:
            return response
        finally:
            self._note(lambda: self._streams[path].discard(queue))

    def serve(self, started: threading.Event) -> None:
        """Run until `stop`."""
        asyncio.set_event_loop(self._loop)

        async def begin() -> web.AppRunner:
            app = web.Application()
            add_console(app)
            app.router.add_route("*", "/{tail:.*}", self._handle)
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            host, port = runner.addresses[0][:2]
            self.url = f"http://{host}:{port}"
            return runner

        runner = self._loop.run_until_complete(begin())
        started.set()
        self._loop.run_forever()
        self._loop.run_until_complete(runner.cleanup())
        self._loop.close()

    def stop(self) -> None:
        """End it."""
        self._loop.call_soon_threadsafe(self._loop.stop)


@contextmanager
def staged() -> Iterator[Stage]:
    """Give a stage, in a thread of its own."""
    stage, started = Stage(), threading.Event()
    thread = threading.Thread(target=stage.serve, args=(started,), name="stage")
    thread.start()
    try:
        assert started.wait(WAIT_SECONDS)
        yield stage
    finally:
        stage.release()
        stage.break_streams()
        stage.stop()
        thread.join(WAIT_SECONDS)
