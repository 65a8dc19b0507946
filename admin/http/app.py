"""An HTTP server of operations: checks a request, calls its operation, and responds in JSON.

Errors have one shape (problems.Problem, or that of the operation's dialect) with Kafka's error name. Authorisation is
in access.py; in addition, a body must be declared as JSON (a form can send text without a preflight request, but no
JSON). A response may also be a stream (operations.Stream): it is written as fast as it is read, and ends with its
reader or with the server.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from importlib.metadata import version
from typing import NamedTuple

import msgspec
from aiohttp import web
from pydantic import BaseModel

from kvorum.admin.http.access import Access, HttpError, check_role
from kvorum.admin.http.audit_log import AuditEntry, AuditLog, body_text_of
from kvorum.admin.http.changes import Changes
from kvorum.admin.http.dialect import OWN, Dialect
from kvorum.admin.http.login import SessionRoutes, check_session, login_of
from kvorum.admin.http.node_login import NewContext, NodeLogin, node_login
from kvorum.admin.http.openapi import document, page
from kvorum.admin.http.operations import (
    JSON,
    Call,
    NoBody,
    Operation,
    Reply,
    Result,
    Role,
    Rows,
    Stream,
    Text,
)
from kvorum.admin.http.preconditions import NO_CONDITIONS, ResourceLocks, check_conditions, etag, read_conditions
from kvorum.admin.http.problems import Refusal, problem
from kvorum.admin.http.refusals import EXPECTED_ERRORS, refusal_of
from kvorum.admin.http.request_input import (
    BODY_BYTES_MAX,
    Bodies,
    base_url,
    check_query,
    is_small,
    query_of,
    read_body,
    read_json,
    require_body,
)
from kvorum.admin.http.streaming import Streams
from kvorum.admin.http.users import Caller
from kvorum.client.wire.cluster_client import ClusterClient, Unreachable
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.runtime import blocking
from kvorum.runtime.clock import Clock, SystemClock
from kvorum.runtime.logs import get_logger
from kvorum.runtime.metrics import CONTENT_TYPE, Metrics, load

LARGE_MAX = 8
"""Pages of records created at a time: each may use some hundred megabytes of Python objects."""
log = get_logger("admin")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Descriptions(NamedTuple):
    """The API as programs read it, and as people do."""

    document: bytes
    page: str


def describe_api(known: Sequence[Operation]) -> Descriptions:
    """Return the descriptions of these operations."""
    return Descriptions(msgspec.json.encode(document(known, version("kvorum"))), page(known, "Kvorum admin API"))


class HttpApp:
    """One server's state: its connections to the cluster, its access rules, the running streams."""

    def __init__(
        self,
        cluster: ClusterClient,
        metrics: Metrics,
        operations: Sequence[Operation],
        access: Access | None = None,
        clock: Clock | None = None,
        node_context: NewContext | None = None,
    ) -> None:
        """Serve these operations of this cluster, and the metrics of this process.

        `node_context`: TLS of connections to the cluster's other processes.
        """
        self._node_context = node_context
        self._cluster = cluster
        self._metrics = metrics
        self._access = access or Access()
        self._clock = clock or SystemClock()
        self._operations = operations
        self._dialects = {each.dialect.root: each.dialect for each in operations}
        self._streams = Streams()
        self._changes = Changes()
        self._locks = ResourceLocks()
        self._audit_log = AuditLog(self._clock)
        self._bodies = Bodies()
        self._description_cache: Descriptions | None = None
        self._large_responses = asyncio.Semaphore(LARGE_MAX)

    def build(self) -> web.Application:
        """Return the aiohttp application."""
        app = web.Application(middlewares=[self._guard], client_max_size=BODY_BYTES_MAX)
        for operation in self._operations:
            app.router.add_route(operation.method, operation.path, self._handler(operation))
            if alias := operation.dialect.alias:
                app.router.add_route(operation.method, alias + operation.path, self._handler(operation))
        app.router.add_get("/openapi.json", self._openapi)
        app.router.add_get("/docs", self._docs)
        app.router.add_get("/health/live", self._live)
        app.router.add_get("/health/ready", self._ready)
        app.router.add_get("/metrics", self._serve_metrics)
        SessionRoutes(self._access).add_to(app)
        app.on_shutdown.append(self._streams.end)
        app.on_cleanup.append(self._changes.settle)
        return app

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Reject cross-site requests; return errors in the format of the requested API."""
        try:
            headers = request.headers
            self._access.check_page(
                headers.get("Host", ""),
                headers.get("Origin"),
                headers.get("Sec-Fetch-Site"),
                headers.get("Sec-Fetch-Dest"),
            )
            answer = await handler(request)
        except Exception as error:
            answer = self._refusal_of(error, request)
        if isinstance(answer, Refusal):
            answer = self._dialect_of(request.path).respond(answer)
        if not answer.prepared:
            answer.headers.setdefault("X-Content-Type-Options", "nosniff")
        return answer

    def _dialect_of(self, path: str) -> Dialect:
        """Return the API that a path belongs to, also if it has no operation there."""
        return next((each for each in self._dialects.values() if each.has_path(path)), OWN)

    def _refusal_of(self, error: Exception, request: web.Request) -> Refusal:
        """Return the response of a rejected request, an error of aiohttp, or an unexpected one, which is logged."""
        match error:
            case HttpError():
                if error.status in (401, 403):
                    self._audit_log.log_refusal(request, error)
                headers = {"WWW-Authenticate": "Bearer"} if error.status == 401 else None
                return problem(error.status, error.error, error.message, headers=headers)
            case web.HTTPException():
                headers = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else None
                name = error.reason.upper().replace(" ", "_")
                return problem(error.status, name, f"{request.method} {request.path}", headers=headers)
            case _:
                log.unexpected("admin request", error, method=request.method, path=request.path)
                return problem(500, ErrorCode.UNKNOWN_SERVER_ERROR.name, "see the log of the admin process")

    def _handler(self, operation: Operation) -> Handler:
        """Return aiohttp's handler of an operation. A change is completed even if the client disconnects."""

        async def handle(request: web.Request) -> web.StreamResponse:
            login = login_of(request, takes_basic_token=operation.dialect.basic_auth)
            caller = await self._access.authorize(login, operation.needs)
            if operation.method == "GET":
                return await self._respond(operation, request, caller)
            check_session(request, caller)
            entry = self._audit_log.begin(caller.name, request) if operation.audit else None
            return await asyncio.shield(self._changes.begin(self._respond(operation, request, caller, entry)))

        return handle

    async def _respond(
        self, operation: Operation, request: web.Request, caller: Caller, entry: AuditEntry | None = None
    ) -> web.StreamResponse:
        """Read a request, run the operation, and write the audit log. Changes of one resource run one at a time."""
        body: BaseModel = NoBody()
        answer: web.StreamResponse
        try:
            conditions = NO_CONDITIONS
            if operation.method != "GET":
                conditions = read_conditions(tuple(request.headers.items()), operation.guard)
            piecemeal = operation.stream_body and not is_small(request)
            body = await self._body_of(operation, request, piecemeal)
            if entry is not None:
                entry.body_text = body_text_of(body, request.match_info)
            if operation.admins is not None and operation.admins(body):
                check_role(caller, Role.ADMIN)
            assert caller.role is not None, "it was authorized"
            call = Call(
                cluster=self._cluster,
                path=dict(request.match_info),
                query=query_of(operation, request),
                body=body,
                clock=self._clock,
                base_url=base_url(operation, request),
                last_event_id=request.headers.get("Last-Event-ID"),
                content=request.content if piecemeal else None,
                role=caller.role,
                caller=caller.name,
                guarded=self._access.is_guarded,
                nodes=self._node_login(caller, request),
                only_create=conditions.only_create,
            )
            async with self._limit_concurrency(operation, call):
                if operation.guard is not None and conditions != NO_CONDITIONS:
                    await check_conditions(operation.guard, call, conditions)
                result = await operation.handle(call)
            if isinstance(result, Stream):
                answer = await self._streams.serve(result, request)
            else:
                answer = answer_of(operation, result)
        except EXPECTED_ERRORS as error:
            answer = refusal_of(error, operation, body)
        except Exception as error:
            if entry is not None:
                self._audit_log.end(entry, error)
            raise
        if entry is not None:
            self._audit_log.end(entry, answer)
        return answer

    def _node_login(self, caller: Caller, request: web.Request) -> NodeLogin:
        return node_login(caller, request.headers.get("Authorization"), self._access.users, self._node_context)

    async def _body_of(self, operation: Operation, request: web.Request, piecemeal: bool) -> BaseModel:
        """Return the body; an empty text if it is read later. Raises EXPECTED_ERRORS."""
        check_query(operation, request)
        data = await read_json(operation, request, piecemeal, self._bodies)
        if operation.stream_body:
            return Text(text=data)
        return (
            NoBody()
            if operation.body is NoBody
            else await read_body(operation, request.content_type, require_body(data))
        )

    def _limit_concurrency(self, operation: Operation, call: Call[BaseModel]) -> AbstractAsyncContextManager[object]:
        """Return the lock of a resource that is changed, or the limit of large responses."""
        if operation.guard is not None:
            return self._locks.of(call)
        return self._large_responses if operation.large else nullcontext()

    async def _openapi(self, request: web.Request) -> web.Response:
        return web.Response(body=(await self._descriptions()).document, content_type=JSON)

    async def _docs(self, request: web.Request) -> web.Response:
        headers = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
        return web.Response(text=(await self._descriptions()).page, content_type="text/html", headers=headers)

    async def _descriptions(self) -> Descriptions:
        """Return the OpenAPI document, built at first use in a tenth of a second."""
        if self._description_cache is None:
            self._description_cache = await blocking.run(asyncio.get_running_loop(), describe_api, self._operations)
        return self._description_cache

    async def _live(self, request: web.Request) -> web.Response:
        return web.json_response({"live": True})

    async def _ready(self, request: web.Request) -> web.Response:
        """Ready if the cluster is reachable."""
        try:
            await self._cluster.describe_cluster(fenced=False)
        except (KafkaError, Unreachable) as error:
            return problem(503, "NOT_READY", str(error))
        return web.json_response({"ready": True})

    async def _serve_metrics(self, request: web.Request) -> web.Response:
        if not self._access.is_metrics_open:
            await self._access.authorize(login_of(request), Role.READ)
        await blocking.run(asyncio.get_running_loop(), load)
        return web.Response(body=self._metrics.render(), headers={"Content-Type": CONTENT_TYPE})


def answer_of(operation: Operation, result: Result) -> web.Response:
    """Return a result as JSON, always in full.

    The ETag covers the values that a change could overwrite, and the answer has leaders and offsets besides: answers
    with the same tag may differ, so they must not be cached, and there is no 304.
    """
    headers = {"Cache-Control": "no-store"}
    if operation.state is not None:
        headers["ETag"] = etag(operation, result)
    if result is None:
        return web.Response(status=operation.status, headers=headers)
    if isinstance(result, Reply):
        media = JSON if result.text is not None else None
        all_headers = {**headers, **result.headers}
        return web.Response(status=result.status, text=result.text, content_type=media, headers=all_headers)
    assert not isinstance(result, Stream), "served elsewhere"
    if isinstance(result, Rows):
        if result.next_query is not None:
            headers["Link"] = f'<?{result.next_query}>; rel="next"'
        result = result.rows
    if isinstance(result, list):
        text = "[" + ",".join(item.model_dump_json() for item in result) + "]"
    else:
        text = result.model_dump_json()
    return web.Response(status=operation.status, text=text, content_type=JSON, headers=headers)
