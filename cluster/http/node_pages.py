"""/v1/node: state of a broker or controller process, and commands to it.

    GET  /v1/node                       identity, version and uptime
    GET  /v1/node/connections           ?limit=100: open connections, most recently active first
    GET  /v1/node/log                   ?lines=200&level=info: the last lines of its log, newest last
    POST /v1/node/controlled-shutdown   (broker) the effect of SIGTERM; 202
    POST /v1/node/snapshot              (controller) writes a metadata snapshot; 409 while one is written

Access rules are those of the admin API (admin/http/access). An error is {"error": its name, "message": reason}.
"""

import asyncio
import os
import platform
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, fields
from functools import partial
from importlib.metadata import version
from typing import Final, NamedTuple
from urllib.parse import parse_qsl

from kvorum.admin.http.access import HttpError, refuse_conditions
from kvorum.admin.http.users import Login
from kvorum.client.roles import Role
from kvorum.cluster.http.http_pages import GOT, Answer, Request, allow, as_json
from kvorum.cluster.http.http_security import PageAccess
from kvorum.network.connection_list import ConnectionInfo, describe, newest_first
from kvorum.network.server import Listener
from kvorum.quorum.raft.log import NothingToSnapshot, SnapshotBusy, SnapshotTaken
from kvorum.runtime import blocking
from kvorum.runtime.clock import Clock
from kvorum.runtime.log_ring import LINES_MAX, LogLine
from kvorum.runtime.logs import Level, get_logger, stamp_of
from kvorum.security.credentials import CredentialStore, NoCredentials

log = get_logger("cluster")

PREFIX: Final = "/v1/"
NODE: Final = "/v1/node"
CONNECTIONS_DEFAULT: Final = 100
CONNECTIONS_MAX: Final = 1_000
"""Some 5 ms of the event loop."""
LINES_DEFAULT: Final = 200
PARAMETERS_MAX: Final = 10
NUMBER_DIGITS_MAX: Final = 10
COLUMNS: Final = tuple(each.name for each in fields(ConnectionInfo))


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """The process that the pages describe."""

    clock: Clock
    age_ms: int
    """Age of the process."""
    ring: Callable[[int, Level], tuple[list[LogLine], int]]
    """The last lines from a level on, newest last, and the number of older ones that are no longer in memory."""
    listeners: Callable[[], Iterable[Listener]]
    cluster_id: Callable[[], str | None]
    """None: not known yet."""
    shut_down: Callable[[], None] | None = None
    """Ends the process as SIGTERM does; None: it has no such page."""
    snapshot: Callable[[], Awaitable[SnapshotTaken]] | None = None
    """Raises SnapshotBusy, NothingToSnapshot."""
    credentials: Callable[[], CredentialStore] = NoCredentials
    """Returns those of the users."""


class Page(NamedTuple):
    """One path."""

    method: str
    needs: Role
    answer: Callable[[Request, str], Awaitable[Answer]]
    """Called with the name of the caller."""


class NodePages:
    """Serves the pages of one process in its event loop. Created with `own`."""

    def __init__(self, role: str, node_id: int, own: Process, page_access: PageAccess) -> None:
        """Serve this process's pages to clients that `page_access` accepts."""
        self._role = role
        self._node_id = node_id
        self._own = own
        self._page_access = page_access
        self._version = version("kvorum")
        self._started_ms = own.clock.wall_ms() - own.age_ms
        self._started_at = own.clock.monotonic_ms() - own.age_ms
        self._pages = {
            NODE: Page("GET", Role.READ, self._node),
            f"{NODE}/connections": Page("GET", Role.READ, self._connections),
            f"{NODE}/log": Page("GET", Role.READ, self._log),
        }
        if own.shut_down is not None:
            self._pages[f"{NODE}/controlled-shutdown"] = Page("POST", Role.ADMIN, self._shut_down)
        if own.snapshot is not None:
            self._pages[f"{NODE}/snapshot"] = Page("POST", Role.OPERATE, self._snapshot)

    async def answer(self, request: Request) -> Answer:
        """Respond to a request, rejections included."""
        try:
            page, caller = await self._page(request)
            return await page.answer(request, caller)
        except HttpError as refused:
            headers = []
            if refused.status == 405:
                method = self._pages[request.path].method
                headers.append(allow(*GOT) if method == "GET" else allow(method))
            return error_answer(refused, *headers)

    async def _page(self, request: Request) -> tuple[Page, str]:
        """Return the page and the name of the caller, which is authorised. Raises HttpError."""
        access, said = self._page_access.access, request.headers.get
        self._page_access.check_open()
        access.check_page(said("host", ""), said("origin"), said("sec-fetch-site"), said("sec-fetch-dest"))
        page = self._pages.get(request.path)
        if page is None:
            raise HttpError(404, "NOT_FOUND", f"this {self._role} has {', '.join(self._pages)}")
        if request.method != page.method and not (request.method == "HEAD" and page.method == "GET"):
            raise HttpError(405, "METHOD_NOT_ALLOWED", f"{request.path} requires {page.method}")
        caller = await access.authorize(login_of(request), page.needs)
        if page.method != "GET":
            refuse_conditions(request.headers)
        return page, caller.name

    async def _node(self, request: Request, caller: str) -> Answer:
        parameters(request)
        return as_json(
            200,
            {
                "node_id": self._node_id,
                "role": self._role,
                "cluster_id": self._own.cluster_id(),
                "version": self._version,
                "python": platform.python_version(),
                "pid": os.getpid(),
                "started_ms": self._started_ms,
                "uptime_ms": self._own.clock.monotonic_ms() - self._started_at,
            },
        )

    async def _connections(self, request: Request, caller: str) -> Answer:
        limit = number(parameters(request, "limit"), "limit", CONNECTIONS_DEFAULT, CONNECTIONS_MAX)
        loop, listeners = asyncio.get_running_loop(), tuple(self._own.listeners())
        now_s, now_ms = loop.time(), self._own.clock.wall_ms()
        newest = newest_first((listener.connections() for listener in listeners), limit)
        found = [describe(connection, now_s=now_s, now_ms=now_ms) for connection in newest]
        total = sum(listener.connection_count for listener in listeners)
        return await blocking.run(loop, connections_page, total, found)

    async def _log(self, request: Request, caller: str) -> Answer:
        given = parameters(request, "lines", "level")
        count, level = number(given, "lines", LINES_DEFAULT, LINES_MAX), level_of(given)
        lines, dropped = self._own.ring(count, level)
        return await blocking.run(asyncio.get_running_loop(), log_page, lines, dropped)

    async def _shut_down(self, request: Request, caller: str) -> Answer:
        parameters(request)
        assert self._own.shut_down is not None, "else there is no such page"
        log.warning("stop requested over HTTP", role=self._role, who=caller)
        # The response is sent before the loop ends: the pages close last.
        self._own.shut_down()
        return as_json(202, {"stopping": True})

    async def _snapshot(self, request: Request, caller: str) -> Answer:
        parameters(request)
        assert self._own.snapshot is not None, "else there is no such page"
        began = self._own.clock.monotonic_ms()
        try:
            taken = await self._own.snapshot()
        except SnapshotBusy as error:
            raise HttpError(409, "SNAPSHOT_IN_PROGRESS", str(error)) from error
        except NothingToSnapshot as error:
            raise HttpError(503, "NOT_READY", str(error)) from error
        took_ms, named = self._own.clock.monotonic_ms() - began, taken.snapshot_id
        log.info(
            "metadata snapshot requested over HTTP",
            who=caller,
            end_offset=named.end_offset,
            epoch=named.epoch,
            bytes=taken.size,
            written=taken.written,
        )
        body = {"end_offset": named.end_offset, "epoch": named.epoch, "bytes": taken.size, "took_ms": took_ms}
        return as_json(200, {**body, "written": taken.written})


def login_of(request: Request) -> Login:
    """Return the credentials in a request; there are no sessions here."""
    authorization = request.headers.get("authorization")
    return Login(authorization=authorization, certificate=request.certificate, address=request.address)


def error_answer(refused: HttpError, *headers: tuple[str, str]) -> Answer:
    """Return the response to a rejected request."""
    challenge = [("WWW-Authenticate", "Bearer")] if refused.status == 401 else []
    return as_json(refused.status, {"error": refused.error, "message": refused.message}, *challenge, *headers)


def connections_page(total: int, found: list[ConnectionInfo]) -> Answer:
    """Write down connections. From any thread."""
    rows = [{name: getattr(each, name) for name in COLUMNS} for each in found]
    return as_json(200, {"total": total, "connections": rows})


def log_page(lines: list[LogLine], dropped: int) -> Answer:
    """Write down lines. From any thread."""
    rows = [
        {
            "time": stamp_of(line.seconds),
            "level": Level(line.level).name,
            "room": line.room,
            "message": line.message,
            "facts": line.facts,
        }
        for line in lines
    ]
    return as_json(200, {"lines": rows, "dropped": dropped})


def parameters(request: Request, *known: str) -> dict[str, str]:
    """Return the parameters of a request, each known and given once. Raises HttpError."""
    refused = partial(HttpError, 400, "BAD_PARAMETER")
    found: dict[str, str] = {}
    try:
        given = parse_qsl(request.query, keep_blank_values=True, max_num_fields=PARAMETERS_MAX)
    except ValueError as error:
        raise refused(f"more than {PARAMETERS_MAX} parameters") from error
    for name, value in given:
        if name not in known:
            raise refused(f"unknown parameter {name!r}; available: {', '.join(known) or 'none'}")
        if name in found:
            raise refused(f"duplicate parameter {name}")
        found[name] = value
    return found


def number(given: dict[str, str], name: str, default: int, largest: int) -> int:
    """Return a parameter that is a number from 1 on. Raises HttpError."""
    text = given.get(name, str(default))
    if text.isascii() and text.isdigit() and len(text) <= NUMBER_DIGITS_MAX and 1 <= int(text) <= largest:
        return int(text)
    raise HttpError(400, "BAD_PARAMETER", f"{name} must be a number from 1 to {largest}")


def level_of(given: dict[str, str]) -> Level:
    """Return the requested level. Raises HttpError."""
    name = given.get("level", "info").upper()
    if name in Level.__members__:
        return Level[name]
    raise HttpError(400, "BAD_PARAMETER", f"level must be one of {', '.join(Level.__members__).lower()}")
