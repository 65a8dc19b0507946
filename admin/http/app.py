"""The admin HTTP server: checks a request, calls its operation, and responds in JSON.

Errors have one shape (models.Problem) with Kafka's error name. Authorisation is in access.py; in addition, a body must
be declared as JSON (a form can send text without a preflight request, but no JSON). A response may also be a stream
(operations.Stream): it is written as fast as it is read, and ends with its reader or with the server.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from importlib.metadata import version
from typing import NamedTuple

import msgspec
from aiohttp import web
from pydantic import BaseModel

from kvorum.admin.http.access import Access, Refused
from kvorum.admin.http.audit_log import Entry, Trail, body_text_of
from kvorum.admin.http.changes import Changes
from kvorum.admin.http.console_files import add_console
from kvorum.admin.http.incoming import (
    BODY_BYTES_MAX,
    Bodies,
    base_url,
    check_query,
    comes_whole,
    needed,
    query_of,
    read_body,
    read_json,
)
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
from kvorum.admin.http.preconditions import NO_CONDITIONS, Conditions, Turns, check_conditions, etag, read_conditions
from kvorum.admin.http.problems import Refusal, problem
from kvorum.admin.http.refusals import FORESEEN, refusal_of
from kvorum.admin.http.streaming import Streams
from kvorum.admin.v1.jobs.connect_client import ConnectClient
from kvorum.admin.v1.partitions.segment_routes import LocalLogs
from kvorum.admin.v1.routes import operations
from kvorum.admin.v3.errors import refused
from kvorum.admin.v3.links import PREFIX, is_v3
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


def described_by(known: Sequence[Operation]) -> Descriptions:
    """Return the descriptions of these operations."""
    return Descriptions(msgspec.json.encode(document(known, version("kvorum"))), page(known, "Kvorum admin API"))


class AdminApp:
    """One admin server's state: its connections to the cluster, its access rules, the running streams."""

    def __init__(
        self,
        cluster: ClusterClient,
        metrics: Metrics,
        access: Access | None = None,
        clock: Clock | None = None,
        local: LocalLogs | None = None,
        more: Sequence[Operation] = (),
        connect: ConnectClient | None = None,
    ) -> None:
        """Serve this cluster, the metrics of this process, and the logs of the broker on the same node.

        `more`: further operations of another server. `connect`: client of Kafka Connect, closed with this.
        """
        self._cluster = cluster
        self._metrics = metrics
        self._access = access or Access()
        self._clock = clock or SystemClock()
        self._connect = connect or ConnectClient()
        self._operations = [*operations(local, self._connect), *more]
        self._streams = Streams()
        self._changes = Changes()
        self._turns = Turns()
        self._trail = Trail(self._clock)
        self._bodies = Bodies()
        self._described: Descriptions | None = None
        self._large = asyncio.Semaphore(LARGE_MAX)

    def build(self) -> web.Application:
        """Return the aiohttp application."""
        app = web.Application(middlewares=[self._guard], client_max_size=BODY_BYTES_MAX)
        for operation in self._operations:
            app.router.add_route(operation.method, operation.path, self._handler(operation))
            if is_v3(operation.path):
                app.router.add_route(operation.method, PREFIX + operation.path, self._handler(operation))
        app.router.add_get("/openapi.json", self._openapi)
        app.router.add_get("/docs", self._docs)
        app.router.add_get("/health/live", self._live)
        app.router.add_get("/health/ready", self._ready)
        app.router.add_get("/metrics", self._serve_metrics)
        add_console(app)
        app.on_shutdown.append(self._streams.end)
        app.on_cleanup.append(self._changes.settle)
        app.on_cleanup.append(self._close)
        return app

    async def _close(self, app: web.Application) -> None:
        await self._connect.close()

    @property
    def streams(self) -> int:
        """Return how many streams run."""
        return len(self._streams)

    def _handler(self, operation: Operation) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            basic = is_v3(operation.path)  # as Confluent's clients send it; browsers are never prompted for it
            role = self._access.check_role(request.headers.get("Authorization"), operation.needs, basic=basic)
            if operation.method == "GET":
                return await self._call(operation, request, role)
            if not operation.noted:
                return await self._changes.make(self._call(operation, request, role))
            who = self._access.who(request.headers.get("Authorization"), basic=basic)
            return await self._changes.make(self._noted(operation, request, role, self._trail.begin(who, request)))

        return handle

    async def _noted(self, operation: Operation, request: web.Request, role: Role, entry: Entry) -> web.StreamResponse:
        """Make a change, and log its result."""
        try:
            answer = await self._call(operation, request, role, entry)
        except Exception as error:
            self._trail.end(entry, error)
            raise
        self._trail.end(entry, answer)
        return answer

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Return errors in the format of the requested API: Confluent's below /v3, ours elsewhere."""
        answer = await self._judged(request, handler)
        if isinstance(answer, Refusal) and is_v3(request.path):
            answer = refused(answer)
        if not answer.prepared:
            answer.headers.setdefault("X-Content-Type-Options", "nosniff")
        return answer

    async def _judged(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Reject cross-site requests; convert unexpected errors and aiohttp's own errors to problem details."""
        try:
            said = request.headers
            self._access.check_page(
                said.get("Host", ""), said.get("Origin"), said.get("Sec-Fetch-Site"), said.get("Sec-Fetch-Dest")
            )
            return await handler(request)
        except Refused as error:
            if error.status in (401, 403):
                self._trail.refused(request, error)
            headers = {"WWW-Authenticate": "Bearer"} if error.status == 401 else None
            return problem(error.status, error.error, error.message, headers=headers)
        except web.HTTPException as error:
            headers = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else None
            name = error.reason.upper().replace(" ", "_")
            return problem(error.status, name, f"{request.method} {request.path}", headers=headers)
        except Exception as error:  # every error is returned in our format, and the log has the details
            log.unexpected("admin request", error, method=request.method, path=request.path)
            return problem(500, ErrorCode.UNKNOWN_SERVER_ERROR.name, "see the log of the admin process")

    async def _call(
        self, operation: Operation, request: web.Request, role: Role, entry: Entry | None = None
    ) -> web.StreamResponse:
        body: BaseModel = NoBody()
        conditions = NO_CONDITIONS
        if operation.method != "GET":
            conditions = read_conditions(tuple(request.headers.items()), operation.guard)
        try:
            check_query(operation, request)
            piecemeal = operation.streamed and not comes_whole(request)
            data = await read_json(operation, request, piecemeal, self._bodies)
            if operation.streamed:
                body = Text(text=data)
            elif operation.body is not NoBody:
                body = await read_body(operation, request.content_type, needed(data))
            if entry is not None:
                entry.body_text = body_text_of(body, request.match_info)
            if operation.admins is not None and operation.admins(body):
                self._access.check_role(request.headers.get("Authorization"), Role.ADMIN)
            call = Call(
                cluster=self._cluster,
                path=dict(request.match_info),
                query=query_of(operation, request),
                body=body,
                clock=self._clock,
                base_url=base_url(operation, request),
                last_event_id=request.headers.get("Last-Event-ID"),
                content=request.content if piecemeal else None,
                role=role,
                guarded=self._access.tokens is not None,
                authorization=request.headers.get("Authorization"),
                only_create=conditions.only_create,
            )
            result = await self._result(operation, call, conditions)
        except FORESEEN as error:
            return refusal_of(error, operation, body)
        if isinstance(result, Stream):
            return await self._streams.serve(result, request)
        return answer_of(operation, result)

    async def _result(self, operation: Operation, call: Call[BaseModel], conditions: Conditions) -> Result:
        """Run the operation; changes of one resource one at a time. Raises the operation's errors; Refused."""
        if operation.guard is not None:
            async with self._turns.of(call):
                if conditions != NO_CONDITIONS:
                    await check_conditions(operation.guard, call, conditions)
                return await operation.handle(call)
        if operation.large:
            async with self._large:
                return await operation.handle(call)
        return await operation.handle(call)

    async def _openapi(self, request: web.Request) -> web.Response:
        return web.Response(body=(await self._descriptions()).document, content_type=JSON)

    async def _docs(self, request: web.Request) -> web.Response:
        headers = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
        return web.Response(text=(await self._descriptions()).page, content_type="text/html", headers=headers)

    async def _descriptions(self) -> Descriptions:
        """Return the OpenAPI document, built at first use in a tenth of a second."""
        if self._described is None:
            self._described = await blocking.run(asyncio.get_running_loop(), described_by, self._operations)
        return self._described

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
        self._access.check_role(request.headers.get("Authorization"), Role.READ)
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
        if result.following is not None:
            headers["Link"] = f'<?{result.following}>; rel="next"'
        result = result.rows
    if isinstance(result, list):
        text = "[" + ",".join(item.model_dump_json() for item in result) + "]"
    else:
        text = result.model_dump_json()
    return web.Response(status=operation.status, text=text, content_type=JSON, headers=headers)
