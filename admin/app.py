"""The admin HTTP server: checks a request, calls the operation behind it, and answers in JSON.

Errors have one shape (models.Problem) with Kafka's error name. Who may ask is in access.py; besides, a body must say
that it is JSON (a form can send text without asking first, but no JSON). An answer may also be a stream
(operations.Stream): it is written as fast as it is read, ends with who reads it, and with the server.
"""

import asyncio
import contextlib
import hashlib
import traceback
from collections.abc import Awaitable, Callable, Sequence
from importlib.metadata import version

import msgspec
from aiohttp import web
from pydantic import BaseModel, ValidationError

from kvorum.admin.access import Access, Refused
from kvorum.admin.client import ClusterClient, Unreachable
from kvorum.admin.console_files import add_console
from kvorum.admin.fields import field_of
from kvorum.admin.openapi import document, page
from kvorum.admin.operations import (
    EVENT_STREAM,
    JSON,
    BadInput,
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
from kvorum.admin.problems import Refusal, problem, status_of
from kvorum.admin.routes import operations
from kvorum.admin.segment_routes import LocalLogs
from kvorum.admin.v3.errors import refused
from kvorum.admin.v3.links import PREFIX, is_v3
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.runtime import blocking
from kvorum.runtime.clock import Clock, SystemClock
from kvorum.runtime.logs import get_logger
from kvorum.runtime.metrics import CONTENT_TYPE, Metrics, load

BODY_BYTES_MAX = 1 << 20
"""A body describes a topic or configs, or has some records; who writes many speaks Kafka's protocol."""
STREAMS_MAX = 32
"""At once. Each has connections of its own to the brokers."""
LARGE_MAX = 8
"""Pages of records that are made at a time: each may hold some hundred megabytes of Python's objects meanwhile."""
STALLED_SECONDS = 600
"""Who has taken nothing of a stream for so long is no reader: it would have one of STREAMS_MAX for ever."""

log = get_logger("admin")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class NotJson(Exception):
    """A body of another media type: what a form can send on behalf of any page."""


class AdminApp:
    """One admin server's state: its connections to the cluster, who may use it, the streams that run."""

    def __init__(
        self,
        cluster: ClusterClient,
        metrics: Metrics,
        access: Access | None = None,
        clock: Clock | None = None,
        local: LocalLogs | None = None,
        more: Sequence[Operation] = (),
    ) -> None:
        """Serve this cluster, the metrics of this process, and the logs of the broker that it stands beside.

        `more`: what another server does besides, with the same manners.
        """
        self._cluster = cluster
        self._metrics = metrics
        self._access = access or Access()
        self._clock = clock or SystemClock()
        self._operations = [*operations(local), *more]
        self._streams: set[asyncio.Task[object]] = set()
        self._guarded = asyncio.Lock()
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
        app.on_shutdown.append(self._end_streams)
        return app

    @property
    def streams(self) -> int:
        """Return how many streams run."""
        return len(self._streams)

    def _handler(self, operation: Operation) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            basic = is_v3(operation.path)  # what Confluent's clients send; a browser is never asked for it
            self._access.check_role(request.headers.get("Authorization"), operation.needs, basic=basic)
            return await self._call(operation, request)

        return handle

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Give refusals the shape of the API that was asked: Confluent's below /v3, ours elsewhere."""
        answer = await self._judged(request, handler)
        return refused(answer) if isinstance(answer, Refusal) and is_v3(request.path) else answer

    async def _judged(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse foreign pages; give what was not foreseen, and aiohttp's own refusals, the shape of ours."""
        try:
            said = request.headers
            self._access.check_page(
                said.get("Host", ""), said.get("Origin"), said.get("Sec-Fetch-Site"), said.get("Sec-Fetch-Dest")
            )
            return await handler(request)
        except Refused as error:
            headers = {"WWW-Authenticate": "Bearer"} if error.status == 401 else None
            return problem(error.status, error.error, error.message, headers=headers)
        except web.HTTPException as error:
            headers = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else None
            name = error.reason.upper().replace(" ", "_")
            return problem(error.status, name, f"{request.method} {request.path}", headers=headers)
        except Exception as error:  # whatever it is, the caller is told in our shape, and the log has the rest
            stack = "".join(traceback.format_exception(error))
            log.error("a request failed", method=request.method, path=request.path, error=error, stack=stack)
            return problem(500, ErrorCode.UNKNOWN_SERVER_ERROR.name, "see the log of the admin process")

    async def _call(self, operation: Operation, request: web.Request) -> web.StreamResponse:
        body: BaseModel = NoBody()
        try:
            check_query(operation, request)
            piecemeal = operation.streamed and not comes_whole(request)
            data = await read_json(operation, request, piecemeal)
            if operation.streamed:
                body = Text(text=data)
            elif operation.body is not NoBody:
                body = await read_body(operation, request.content_type, data or b"{}")
            if operation.admins is not None and operation.admins(body):
                self._access.check_role(request.headers.get("Authorization"), Role.ADMIN)
            call = Call(
                cluster=self._cluster,
                path=dict(request.match_info),
                query=dict(request.query),
                body=body,
                clock=self._clock,
                base_url=base_url(operation, request),
                last_event_id=request.headers.get("Last-Event-ID"),
                content=request.content if piecemeal else None,
            )
            match = request.headers.get("If-Match")
            if operation.guard is not None and match is not None:
                # One after the other: between the comparison and the change nobody else who compares comes in here.
                async with self._guarded:
                    await check_unchanged(operation.guard, call, match)
                    result = await operation.handle(call)
            elif operation.large:
                async with self._large:
                    result = await operation.handle(call)
            else:
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
        if isinstance(result, Stream):
            return await self._serve(result, request)
        return answer_of(operation, result)

    async def _serve(self, stream: Stream, request: web.Request) -> web.StreamResponse:
        """Write a stream; it ends with itself, with who reads it, or with the server."""
        if len(self._streams) >= STREAMS_MAX:
            await close(stream)
            return problem(429, "TOO_MANY_STREAMS", f"{STREAMS_MAX} streams run already; end one")
        headers = {"Content-Type": stream.media, "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
        if stream.file is not None:
            headers["Content-Disposition"] = f'attachment; filename="{stream.file}"'
        response = web.StreamResponse(headers=headers)
        task = asyncio.current_task()
        assert task is not None, "a handler runs in a task"
        self._streams.add(task)
        try:
            await response.prepare(request)
            async for chunk in stream.chunks:
                await taken(response.write(chunk))
            await taken(response.write_eof())
        except ConnectionError:
            log.debug("who read a stream is gone", path=request.path)
            if request.transport is not None:
                request.transport.abort()  # there may be one who holds the connection, and takes nothing
        except (KafkaError, Unreachable) as error:
            log.warning("a stream failed", path=request.path, error=error)
            await break_off(stream, request, response, str(error))
        except Exception as error:  # the head is out: no answer in our shape can follow it
            log.error("a stream failed", path=request.path, error="".join(traceback.format_exception(error)))
            await break_off(stream, request, response, "see the log of the admin process")
        finally:
            self._streams.discard(task)
            await close(stream)
        return response

    async def _end_streams(self, app: web.Application) -> None:
        """End what would go on for as long as somebody reads."""
        for task in list(self._streams):
            task.cancel()

    async def _openapi(self, request: web.Request) -> web.Response:
        return web.json_response(document(self._operations, version("kvorum")))

    async def _docs(self, request: web.Request) -> web.Response:
        return web.Response(text=page(self._operations, "Kvorum admin API"), content_type="text/html")

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
        self._access.check_role(request.headers.get("Authorization"), Role.READ)
        await blocking.run(asyncio.get_running_loop(), load)
        return web.Response(body=self._metrics.render(), headers={"Content-Type": CONTENT_TYPE})


async def break_off(stream: Stream, request: web.Request, response: web.StreamResponse, why: str) -> None:
    """End a stream that failed: with an event that says why, or by breaking the connection: nobody thinks it whole."""
    if stream.media == EVENT_STREAM:
        with contextlib.suppress(ConnectionError):
            await response.write(b"event: error\ndata: " + msgspec.json.encode({"message": why}) + b"\n\n")
        response.force_close()
    elif request.transport is not None:
        request.transport.abort()


async def taken(writing: Awaitable[None]) -> None:
    """Wait for something to be written. Raises ConnectionError where nobody reads any more, or takes anything."""
    try:
        async with asyncio.timeout(STALLED_SECONDS):
            await writing
    except TimeoutError as error:
        raise ConnectionAbortedError(f"nothing was taken for {STALLED_SECONDS} s") from error


async def close(stream: Stream) -> None:
    """End a stream that may not have been read to its end: what it opened is closed now, not when it is collected."""
    closing = getattr(stream.chunks, "aclose", None)
    if closing is not None:
        await closing()


async def check_unchanged(guard: Operation, call: Call[BaseModel], match: str) -> None:
    """Compare an If-Match with what there is. Raises Refused, and what asking for it raises."""
    named = {name: value for name, value in call.query.items() if name in (guard.query or {})}
    asked = Call(cluster=call.cluster, path=call.path, query=named, body=NoBody(), clock=call.clock)
    try:
        found = await guard.handle(asked)
    except KafkaError as error:
        if status_of(error.code) != 404:
            raise
        raise Refused(412, "PRECONDITION_FAILED", f"there is none: {error.message or error.code.name}") from error
    now = etag(guard, found)
    if match.strip() != "*" and now not in (part.strip() for part in match.split(",")):
        raise Refused(412, "PRECONDITION_FAILED", f"somebody changed it meanwhile: it is {now} now")


def etag(operation: Operation, result: Result) -> str:
    """Return the mark of the state in an answer: the same until somebody changes it."""
    assert operation.state is not None, operation.path
    result = result.rows if isinstance(result, Rows) else result
    return '"' + hashlib.sha256(repr(operation.state(result)).encode()).hexdigest()[:32] + '"'


def answer_of(operation: Operation, result: Result) -> web.Response:
    """Return a result as JSON, always in full.

    The ETag is of what a change could overwrite, and leaders and offsets are told besides: an answer with the same tag
    is not the same answer, so nobody may keep it, and there is no 304.
    """
    headers = {"Cache-Control": "no-store"}
    if operation.state is not None:
        headers["ETag"] = etag(operation, result)
    if result is None:
        return web.Response(status=operation.status, headers=headers)
    if isinstance(result, Reply):
        media = JSON if result.text is not None else None
        told = {**headers, **result.headers}
        return web.Response(status=result.status, text=result.text, content_type=media, headers=told)
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


def check_query(operation: Operation, request: web.Request) -> None:
    """Refuse what the operation does not know: a misspelt validate_only must not change anything. Raises BadInput."""
    known = operation.query or {}
    if is_v3(operation.path):
        return  # nothing there depends on the query alone, and clients bring parameters that only Confluent's cloud has
    for name in request.query:
        if name not in known:
            among = f"; there are {', '.join(known)}" if known else ""
            raise BadInput(name, f"there is no query parameter {name!r} here{among}")
        if len(request.query.getall(name)) > 1:
            raise BadInput(name, f"{name} is there twice")


def base_url(operation: Operation, request: web.Request) -> str:
    """Return how the caller came here, up to the operation's own path."""
    prefix = PREFIX if is_v3(operation.path) and request.path.startswith(f"{PREFIX}/") else ""
    return f"{request.scheme}://{request.host}{prefix}"


def comes_whole(request: web.Request) -> bool:
    """Tell whether a body is small enough, and known to be, to be read before it is looked at."""
    return not request.can_read_body or (request.content_length or BODY_BYTES_MAX + 1) <= BODY_BYTES_MAX


async def read_json(operation: Operation, request: web.Request, piecemeal: bool) -> bytes:
    """Return the body, empty where none is wanted, or where it is read later.

    Raises NotJson for one that does not say that it is JSON.
    """
    data = await request.read() if operation.body is not NoBody and not piecemeal else b""
    known = [JSON, *(each for each in operation.documents if each != JSON)]
    if (data or piecemeal) and request.content_type not in known:
        wanted = " or ".join(known)
        raise NotJson(f"the body must be {wanted}, and its Content-Type say so; it says {request.content_type}")
    return data


async def read_body(operation: Operation, media: str, data: bytes) -> BaseModel:
    """Return what a body says. Raises BadInput, ValidationError."""
    document = operation.documents.get(media)
    if document is None:
        return operation.body.model_validate_json(data)
    return await blocking.run(asyncio.get_running_loop(), document.read, data)  # YAML takes its time
