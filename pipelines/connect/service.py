"""Common parts of the routes: forwarding to the leader, request bodies, responses and errors."""

import ipaddress
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
from aiohttp import web

from kvorum.pipelines.connect.election import Election
from kvorum.pipelines.connect.errors import ConnectError, bad_request, conflict
from kvorum.pipelines.connect.herder import Herder, as_text

BODY_BYTES_MAX: Final = 1 << 20
"""A configuration is a page, not a book."""
FORWARD_SECONDS: Final = 90.0
FORWARDED: Final = "forward"
"""The query's part that says that a request has been passed on: it is not passed on again."""
JSON: Final = "application/json"
SAFE: Final = ("GET", "HEAD", "OPTIONS")

log = logging.getLogger("kvorum.pipelines.connect.service")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(slots=True)
class Service:
    """One manager, as its routes see it."""

    herder: Herder
    election: Election
    url: str
    """Where other managers reach this one."""
    bootstrap: str
    loopback: bool = True
    """It listens on loopback only: what comes under another name, or for a page from elsewhere, is refused."""
    cluster_id: str = ""
    ready: bool = False
    """The cluster has answered once, and the topics are there."""
    session: aiohttp.ClientSession | None = None

    async def led(self, request: web.Request) -> web.Response | None:
        """Return the leader's answer to a request; None when this manager is the leader. Raises ConnectError."""
        if self.herder.leading:
            return None
        if request.query.get(FORWARDED) == "false" or self.session is None:
            raise conflict()
        leader = await self.election.leader()
        if leader is None or leader == self.url:
            raise conflict()
        query = [*request.query.items(), (FORWARDED, "false")]
        try:
            async with self.session.request(
                request.method,
                f"{leader.rstrip('/')}{request.rel_url.raw_path}",
                params=query,
                data=await request.read(),
                headers={"Content-Type": request.content_type},
                timeout=aiohttp.ClientTimeout(total=FORWARD_SECONDS),
            ) as answer:
                body = await answer.read()
                headers = {"Location": answer.headers["Location"]} if "Location" in answer.headers else {}
                return web.Response(status=answer.status, body=body, content_type=JSON, headers=headers)
        except (aiohttp.ClientError, TimeoutError) as error:
            log.warning("request not forwarded leader=%s error=%s", leader, error)
            raise ConnectError(500, "IO Error trying to forward REST request: the leader does not respond") from error


def answer(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """Return JSON."""
    return web.Response(status=status, text=json.dumps(value), content_type=JSON, headers=headers)


def nothing(status: int) -> web.Response:
    """Return an answer without a body."""
    return web.Response(status=status)


async def body_of(request: web.Request) -> Any:
    """Return a request's JSON. Raises ConnectError: 415 for another media type, which any page's form could send."""
    if request.content_type != JSON:
        raise ConnectError(415, "HTTP 415 Unsupported Media Type")
    try:
        return json.loads(await request.read())
    except ValueError as error:
        raise bad_request(f"the body is not JSON: {error}") from error


async def strings_of(request: web.Request, *, nulls: bool = False) -> dict[str, str | None]:
    """Return a request's JSON object as a configuration. Raises ConnectError."""
    return as_strings(await body_of(request), nulls=nulls)


def as_strings(found: Any, *, nulls: bool = False) -> dict[str, str | None]:
    """Return a JSON object as a configuration: all values as text; null ones as None, or left out."""
    if not isinstance(found, dict):
        raise bad_request("the configuration must be a JSON object with string values")
    texts = {str(key): None if value is None else as_text(value) for key, value in found.items()}
    return {key: value for key, value in texts.items() if nulls or value is not None}


def flag(request: web.Request, name: str, default: bool) -> bool:
    """Return a query's boolean, as Java reads it: whatever is not true is false."""
    given = request.query.get(name)
    return default if given is None else given.lower() == "true"


def is_local(host: str) -> bool:
    """Tell whether a Host header names this machine's loopback."""
    name = host.rpartition(":")[0] if host.count(":") == 1 or host.startswith("[") else host
    name = (name or host).strip("[]")
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def refuse_conditions(names: Iterable[str]) -> None:
    """Refuse a change with a condition (RFC 9110, 13): no resource here has an ETag. Raises ConnectError."""
    for name in names:
        if name.lower().startswith("if-") or name.lower() == "if":
            raise ConnectError(412, f"{name} cannot be evaluated: no resource here has an ETag; nothing was changed")


def guard(service: Service) -> Any:
    """Return the middleware that refuses foreign pages and gives every error Connect's shape."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        host, origin = request.headers.get("Host", ""), request.headers.get("Origin")
        try:
            if service.loopback and not is_local(host):
                raise ConnectError(403, f"Host {host!r} is not a loopback address of this machine")
            if origin is not None and origin.lower() != f"http://{host.lower()}":
                raise ConnectError(403, f"requests from origin {origin!r} are rejected")
            if request.method not in SAFE:
                refuse_conditions(request.headers)
            return await handler(request)
        except ConnectError as error:
            return answer(error.body(), error.status)
        except web.HTTPException as error:
            message = f"HTTP {error.status} {error.reason}"
            headers = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else None
            return answer({"error_code": error.status, "message": message}, error.status, headers)
        except Exception:
            log.exception("request failed method=%s path=%s", request.method, request.path)
            return answer({"error_code": 500, "message": "see the manager's log"}, 500)

    return middleware
