"""The admin HTTP server: checks a request, calls the operation behind it, and answers in JSON.

Errors have one shape (models.Problem) with Kafka's error name. Until authentication exists it listens on loopback only,
and what a browser sends on behalf of a page from elsewhere is refused: by its Host (a foreign name that leads here), by
its Origin, and by its media type (a form can send text without asking first, but no JSON).
"""

import ipaddress
import traceback
from collections.abc import Awaitable, Callable, Sequence
from importlib.metadata import version

from aiohttp import web
from pydantic import BaseModel, ValidationError

from kvorum.admin import cluster_routes, topic_routes
from kvorum.admin.client import ClusterClient, Unreachable
from kvorum.admin.fields import field_of
from kvorum.admin.models import Problem
from kvorum.admin.openapi import document, page
from kvorum.admin.operations import BadInput, Call, NoBody, Operation
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.runtime.logs import get_logger
from kvorum.runtime.metrics import CONTENT_TYPE, Metrics

BODY_BYTES_MAX = 1 << 20
"""A body is a description of a topic or of configs, never records."""
JSON = "application/json"
NOT_FOUND = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.BROKER_ID_NOT_REGISTERED,
    ErrorCode.RESOURCE_NOT_FOUND,
}
CONFLICT = {ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.ELECTION_NOT_NEEDED}
UNAVAILABLE = {
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.BROKER_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.LEADER_NOT_AVAILABLE,
}
FORBIDDEN = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.POLICY_VIOLATION,
    ErrorCode.TOPIC_DELETION_DISABLED,
}

log = get_logger("admin")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def operations() -> Sequence[Operation]:
    """Return everything the API does."""
    return [*cluster_routes.OPERATIONS, *topic_routes.OPERATIONS]


def status_of(code: ErrorCode) -> int:
    """Return the HTTP status that says the same as Kafka's code."""
    for codes, status in ((NOT_FOUND, 404), (CONFLICT, 409), (FORBIDDEN, 403), (UNAVAILABLE, 503)):
        if code in codes:
            return status
    return 500 if code is ErrorCode.UNKNOWN_SERVER_ERROR else 422


def problem(status: int, error: str, message: str, field: str | None = None) -> web.Response:
    """Return an error answer."""
    body = Problem(error=error, message=message, field=field)
    return web.Response(status=status, text=body.model_dump_json(), content_type="application/json")


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


@web.middleware
async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse foreign hosts and origins; give what was not foreseen, and aiohttp's own refusals, the shape of ours."""
    host, origin = request.headers.get("Host", ""), request.headers.get("Origin")
    if not is_local(host):
        return problem(403, "FORBIDDEN_HOST", f"Host {host!r} is not this machine's loopback")
    if origin is not None and origin.lower() != f"http://{host.lower()}":
        return problem(403, "FORBIDDEN_ORIGIN", f"a page of {origin!r} may not use this API")
    try:
        return await handler(request)
    except web.HTTPException as error:
        return problem(error.status, error.reason.upper().replace(" ", "_"), f"{request.method} {request.path}")
    except Exception as error:  # whatever it is, the caller is told in our shape, and the log has the rest
        stack = "".join(traceback.format_exception(error))
        log.error("a request failed", method=request.method, path=request.path, error=error, stack=stack)
        return problem(500, ErrorCode.UNKNOWN_SERVER_ERROR.name, "see the log of the admin process")


class NotJson(Exception):
    """A body of another media type: what a form can send on behalf of any page."""


class AdminApp:
    """One admin server's state: its connections to the cluster."""

    def __init__(self, cluster: ClusterClient, metrics: Metrics) -> None:
        """Serve this cluster, and the metrics of this process."""
        self._cluster = cluster
        self._metrics = metrics

    def build(self) -> web.Application:
        """Return the aiohttp application."""
        app = web.Application(middlewares=[guard], client_max_size=BODY_BYTES_MAX)
        for operation in operations():
            app.router.add_route(operation.method, operation.path, self._handler(operation))
        app.router.add_get("/openapi.json", self._openapi)
        app.router.add_get("/docs", self._docs)
        app.router.add_get("/health/live", self._live)
        app.router.add_get("/health/ready", self._ready)
        app.router.add_get("/metrics", self._serve_metrics)
        return app

    def _handler(self, operation: Operation) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            return await self._call(operation, request)

        return handle

    async def _call(self, operation: Operation, request: web.Request) -> web.Response:
        body: BaseModel = NoBody()
        try:
            check_query(operation, request)
            data = await read_json(operation, request)
            if operation.body is not NoBody:
                body = operation.body.model_validate_json(data or b"{}")
            call = Call(cluster=self._cluster, path=dict(request.match_info), query=dict(request.query), body=body)
            result = await operation.handle(call)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            field = ".".join(str(part) for part in first["loc"]) or None
            return problem(400, ErrorCode.INVALID_REQUEST.name, str(first["msg"]), field)
        except NotJson as error:
            return problem(415, "UNSUPPORTED_MEDIA_TYPE", str(error))
        except BadInput as error:
            return problem(400, ErrorCode.INVALID_REQUEST.name, error.message, error.field)
        except KafkaError as error:
            field = field_of(error, operation, body)
            return problem(status_of(error.code), error.code.name, error.message or error.code.name, field)
        except Unreachable as error:
            return problem(503, "CLUSTER_UNREACHABLE", str(error))
        if result is None:
            return web.Response(status=operation.status)
        if isinstance(result, list):
            text = "[" + ",".join(item.model_dump_json() for item in result) + "]"
        else:
            text = result.model_dump_json()
        return web.Response(status=operation.status, text=text, content_type="application/json")

    async def _openapi(self, request: web.Request) -> web.Response:
        return web.json_response(document(operations(), version("kvorum")))

    async def _docs(self, request: web.Request) -> web.Response:
        return web.Response(text=page(operations(), "Kvorum admin API"), content_type="text/html")

    async def _live(self, request: web.Request) -> web.Response:
        return web.json_response({"live": True})

    async def _ready(self, request: web.Request) -> web.Response:
        """Ready is who reaches the cluster."""
        try:
            await self._cluster.describe_cluster(fenced=False)
        except (KafkaError, Unreachable) as error:
            return problem(503, "NOT_READY", str(error))
        return web.json_response({"ready": True})

    async def _serve_metrics(self, request: web.Request) -> web.Response:
        return web.Response(body=self._metrics.render(), headers={"Content-Type": CONTENT_TYPE})


def check_query(operation: Operation, request: web.Request) -> None:
    """Refuse what the operation does not know: a misspelt validate_only must not change anything. Raises BadInput."""
    known = operation.query or {}
    for name in request.query:
        if name not in known:
            among = f"; there are {', '.join(known)}" if known else ""
            raise BadInput(name, f"there is no query parameter {name!r} here{among}")
        if len(request.query.getall(name)) > 1:
            raise BadInput(name, f"{name} is there twice")


async def read_json(operation: Operation, request: web.Request) -> bytes:
    """Return the body, empty where none is wanted. Raises NotJson for one that does not say that it is JSON."""
    data = await request.read() if operation.body is not NoBody else b""
    if data and request.content_type != JSON:
        raise NotJson(f"the body must be {JSON}, and its Content-Type say so; it says {request.content_type}")
    return data
