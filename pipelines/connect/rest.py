"""Common parts of the HTTP interface: request bodies, responses and errors."""

import ipaddress
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import web

from kvorum.pipelines.connect.errors import ConnectError, bad_request
from kvorum.pipelines.connect.herder import Herder
from kvorum.pipelines.connect.records import compact

JSON: Final = "application/json"
SAFE: Final = ("GET", "HEAD", "OPTIONS")

log = logging.getLogger("kvorum.pipelines.connect.rest")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Operation = Callable[[Herder, web.Request], Awaitable[web.Response]]


@dataclass(slots=True)
class Routes:
    """Operations below a path, for a decorator: @routes("GET", "/{name}/config")."""

    prefix: str
    operations: list[tuple[str, str, Operation]] = field(default_factory=list)

    def __call__(self, method: str, path: str = "") -> Callable[[Operation], Operation]:
        """Add an operation; a slash at the end of the prefix makes no difference to Connect."""

        def add(operation: Operation) -> Operation:
            self.operations += [(method, self.prefix + each, operation) for each in ([path] if path else ["", "/"])]
            return operation

        return add


def answer(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """Return a response with JSON."""
    return web.Response(status=status, text=json.dumps(value), content_type=JSON, headers=headers)


def nothing(status: int) -> web.Response:
    """Return a response without a body."""
    return web.Response(status=status)


async def body_of(request: web.Request) -> Any:
    """Return a request's JSON. Raises ConnectError: 415 for another media type, which forms of web pages can send."""
    if request.content_type != JSON:
        raise ConnectError(415, "HTTP 415 Unsupported Media Type")
    try:
        return json.loads(await request.read())
    except ValueError as error:
        raise bad_request(f"the body is not JSON: {error}") from error


def as_strings(found: Any) -> dict[str, str | None]:
    """Return a JSON object as a configuration: values as text, as Connect converts them. Raises ConnectError."""
    if not isinstance(found, dict):
        raise bad_request("the configuration must be a JSON object with string values")
    return {key: value if isinstance(value, str | None) else compact(value) for key, value in found.items()}


def without_nulls(found: Mapping[str, str | None]) -> dict[str, str]:
    """Return the keys that have a value."""
    return {key: value for key, value in found.items() if value is not None}


def flag(request: web.Request, name: str, default: bool) -> bool:
    """Return a boolean of the query, as Java parses it: all but `true` is false."""
    given = request.query.get(name)
    return default if given is None else given.lower() == "true"


def is_local(host: str) -> bool:
    """Return whether a Host header names this machine's loopback."""
    name = host.rpartition(":")[0] if host.count(":") == 1 or host.startswith("[") else host
    name = (name or host).strip("[]")
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def check_headers(request: web.Request, *, is_loopback: bool) -> None:
    """Reject requests of web pages from elsewhere, and conditional changes. Raises ConnectError."""
    host, origin = request.headers.get("Host", ""), request.headers.get("Origin")
    if is_loopback and not is_local(host):
        raise ConnectError(403, f"Host {host!r} is not a loopback address of this machine")
    if origin is not None and origin.lower() != f"http://{host.lower()}":
        raise ConnectError(403, f"requests from origin {origin!r} are rejected")
    for name in () if request.method in SAFE else request.headers:
        if name.lower().startswith("if-") or name.lower() == "if":  # RFC 9110, 13
            raise ConnectError(412, f"{name} cannot be evaluated: no resource here has an ETag; nothing was changed")


def guard(*, is_loopback: bool) -> Any:
    """Return the middleware that checks headers and gives every error Connect's shape.

    `is_loopback`: the manager listens on loopback only, so requests with another host name are rejected.
    """

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            check_headers(request, is_loopback=is_loopback)
            return await handler(request)
        except ConnectError as error:
            return answer({"error_code": error.status, "message": error.message}, error.status)
        except web.HTTPException as error:
            message = f"HTTP {error.status} {error.reason}"
            headers = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else None
            return answer({"error_code": error.status, "message": message}, error.status, headers)
        except Exception:
            log.exception("request failed method=%s path=%s", request.method, request.path)
            return answer({"error_code": 500, "message": "see the manager's log"}, 500)

    return middleware
