"""Sessions of the console over HTTP: the credentials in a request, and the paths to log in and out.

    GET    /session    which ways to log in there are
    POST   /session    {"user": ..., "password": ...}: begins a session, whose id is in a cookie
    DELETE /session    ends it

The cookie is not readable by scripts and not sent by other sites (HttpOnly, SameSite=Strict). A change with no other
proof than the cookie must have the Origin of this server, which browsers send with every change (access.check_page
compares it).
"""

import re
from typing import Final

import msgspec
from aiohttp import web

from kvorum.admin.http.access import Access
from kvorum.admin.http.http_error import HttpError
from kvorum.admin.http.sessions import LIFETIME_MS
from kvorum.admin.http.users import Caller, HttpUsers, Login, translate_errors

PATH: Final = "/session"
COOKIE: Final = "kvorum-session"
BODY_BYTES_MAX: Final = 16 * 1024
PORT: Final = re.compile(r":([0-9]{1,5})\Z")
READING: Final = ("GET", "HEAD")


class Password(msgspec.Struct, forbid_unknown_fields=True):
    """Body of a log-in."""

    user: str
    password: str


def cookie_name(request: web.Request) -> str:
    """Return the name of the cookie: browsers share cookies between the ports of a host."""
    port = PORT.search(request.headers.get("Host", ""))
    return COOKIE if port is None else f"{COOKIE}-{port[1]}"


def login_of(request: web.Request, *, takes_basic_token: bool = False) -> Login:
    """Return the credentials in a request."""
    transport = request.transport
    return Login(
        authorization=request.headers.get("Authorization"),
        session_id=request.cookies.get(cookie_name(request)),
        certificate=None if transport is None else transport.get_extra_info("peer_certificate"),
        address=request.remote or "?",
        takes_basic_token=takes_basic_token,
    )


def check_session(request: web.Request, caller: Caller) -> None:
    """Reject a change by cookie that may come from another site. Raises HttpError."""
    if caller.by_session and request.method not in READING and request.headers.get("Origin") is None:
        raise HttpError(403, "FORBIDDEN_ORIGIN", "a change with a session requires the header Origin")


class SessionRoutes:
    """The paths of one server."""

    def __init__(self, access: Access) -> None:
        """Serve the sessions of these users."""
        self._access = access

    def add_to(self, app: web.Application) -> None:
        """Add the paths."""
        app.router.add_get(PATH, self._show)
        app.router.add_post(PATH, self._begin)
        app.router.add_delete(PATH, self._end)

    async def _show(self, request: web.Request) -> web.Response:
        access = self._access
        ways = {"password": access.users is not None, "token": access.tokens is not None}
        return web.json_response(ways, headers={"Cache-Control": "no-store"})

    async def _begin(self, request: web.Request) -> web.Response:
        users = self._users
        if request.content_type != "application/json":
            raise HttpError(415, "UNSUPPORTED_MEDIA_TYPE", "send Content-Type: application/json")
        data = await request.content.read(BODY_BYTES_MAX + 1)
        try:
            if len(data) > BODY_BYTES_MAX or not request.content.at_eof():
                raise ValueError
            given = msgspec.json.decode(data, type=Password)
        except (msgspec.DecodeError, ValueError):  # its text may have a part of the password
            raise HttpError(400, "INVALID_REQUEST", 'the body must be {"user": ..., "password": ...}') from None
        address = request.remote or "?"
        with translate_errors(address):
            caller = await users.delay_failure(address, users.log_in(given.user, given.password))
            session_id = await users.begin_session(given.user)
        self._end_of(request)
        role = None if caller.role is None else caller.role.name.lower()
        answer = web.json_response({"principal": caller.name, "role": role}, headers={"Cache-Control": "no-store"})
        origin = request.headers.get("Origin", "")
        answer.set_cookie(
            cookie_name(request),
            session_id,
            max_age=LIFETIME_MS // 1000,
            httponly=True,
            samesite="Strict",
            secure=request.secure or origin.startswith("https:"),  # behind a proxy with TLS
        )
        return answer

    async def _end(self, request: web.Request) -> web.Response:
        if request.headers.get("Origin") is None:
            raise HttpError(403, "FORBIDDEN_ORIGIN", "a change with a session requires the header Origin")
        self._end_of(request)
        answer = web.Response(status=204)
        answer.del_cookie(cookie_name(request), httponly=True, samesite="Strict")
        return answer

    def _end_of(self, request: web.Request) -> None:
        session_id = request.cookies.get(cookie_name(request))
        if session_id is not None and self._users.sessions is not None:
            self._users.sessions.end(session_id)

    @property
    def _users(self) -> HttpUsers:
        users = self._access.users
        if users is None or users.sessions is None:
            raise HttpError(404, "NO_USERS", "this server has no users: kvorum.admin.roles is not set")
        return users
