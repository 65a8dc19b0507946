"""From a frame to the handler of its API, and from the handler's answer to bytes.

    frame -> peek (key, version) -> route -> header, body -> Handler.handle(ctx, request) -> response -> parts

A peer's bytes that cannot be read, an API that is not served here, a version that is not offered: ProtocolError, and
the connection is closed, as Kafka does. One exception: ApiVersions of a version we do not know is answered in v0 with
UNSUPPORTED_VERSION and the versions of ApiVersions (KIP-511). A KafkaError that a handler lets through, and any other
exception (our fault, logged with its stack), become the answer's top-level error code; an answer that has none closes
the connection (AnswerImpossible). Such an answer counts for its client's quotas as the handler's own would have.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from typing_extensions import TypeIs

from kvorum.network.authorizer import NoQuotas, Quotas
from kvorum.network.context import Peer, RequestContext, context_of
from kvorum.network.lane import Lane
from kvorum.network.tracing import TracedRequest
from kvorum.network.upgrade import Upgrade
from kvorum.protocol.api import ApiKey
from kvorum.protocol.client_software import valid_software
from kvorum.protocol.codec import decode, encode, message_class
from kvorum.protocol.error_responses import error_response
from kvorum.protocol.errors import ErrorCode, KafkaError, ProtocolError
from kvorum.protocol.headers import decode_client_id, encode_response_header, peek_request
from kvorum.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kvorum.protocol.parts import FileSlice, Part, part_size
from kvorum.protocol.schema import Message
from kvorum.runtime.logs import get_logger

PRIVATE_KEY_MIN: Final = 10_000
"""Api keys from here on are ours (Raft on a controller's listener), never advertised."""
JOINED_BYTES_MAX: Final = 2048
"""Below this a copy is cheaper than another piece in the system call's list."""
CLUSTER_ACTIONS: Final = frozenset({ApiKey.WRITE_TXN_MARKERS, ApiKey.DESCRIBE_QUORUM, ApiKey.UPDATE_FEATURES})
"""Cluster actions that brokers serve: those rejected for lack of authorization alone count for a quota."""

log = get_logger("network")

Result: TypeAlias = Message | Awaitable[Message | None] | None
"""The response, an awaitable of it, or None: no response (acks=0)."""
# Each handler takes its own request class, which a common table cannot express.
HandlerFunction: TypeAlias = Callable[[RequestContext, Any], Result]


class Handler(NamedTuple):
    """One API as one listener serves it."""

    api_key: int
    versions: tuple[int, int]
    """First and last that are served; any other closes the connection."""
    handle: HandlerFunction
    abandon: bool = False
    """Cancel the awaited result when the connection is lost: for long polls without changes."""
    in_order: bool = True
    """Answers leave in the order of the requests, as Kafka's protocol requires. False: as soon as they are complete,
    for requests between Kvorum's nodes, whose channel matches answers by correlation id.
    """


class AnswerImpossible(Exception):
    """No answer is possible for this request: the connection must be closed. The cause is logged already."""


@dataclass(slots=True, frozen=True)
class Route:
    """Codec information of one API, looked up once."""

    api_key: int
    name: str
    version_min: int
    version_max: int
    flexible_from: int
    request_class: type[Message]
    response_class: type[Message]
    handle: HandlerFunction
    abandon: bool
    in_order: bool


class Call(NamedTuple):
    """A request that has been handed to its handler."""

    route: Route
    ctx: RequestContext
    request: Message | None
    result: Result
    traced: TracedRequest | None = None


class Router:
    """The APIs of one kind of listener. Shared by its connections; holds no state of theirs."""

    __slots__ = ("_quotas", "_routes", "lane", "upgrades")

    def __init__(
        self,
        handlers: Iterable[Handler],
        *,
        upgrades: Mapping[int, Upgrade] | None = None,
        lane: Lane | None = None,
        quotas: Quotas | None = None,
    ) -> None:
        """Use one handler per API, upgrade handlers by private key, and a fast path.

        `quotas` counts rejected requests; the handler counts all others.
        """
        self.lane = lane
        self._quotas = quotas or NoQuotas()
        self._routes: dict[int, Route] = {}
        for handler in handlers:
            assert handler.api_key not in self._routes, f"two handlers for {handler.api_key}"
            self._routes[handler.api_key] = _route(handler)
        self.upgrades: Mapping[int, Upgrade] = MappingProxyType(dict(upgrades or {}))
        assert all(key >= PRIVATE_KEY_MIN for key in self.upgrades)

    def interpose(self, around: Callable[[int, HandlerFunction], HandlerFunction]) -> None:
        """Replace every handler by `around(api key, handler)`; used by fault injection, before the first connection.

        Without it there is no cost: the routes stay unchanged. The fast path is disabled then.
        """
        self.lane = None
        self._routes = {key: replace(route, handle=around(key, route.handle)) for key, route in self._routes.items()}

    def versions(self) -> dict[int, tuple[int, int]]:
        """Return {api key: (first, last)} as served."""
        return {key: (route.version_min, route.version_max) for key, route in sorted(self._routes.items())}

    def name(self, api_key: int) -> str:
        """Return an API's name for people."""
        route = self._routes.get(api_key)
        return route.name if route is not None else str(api_key)

    def start(self, peer: Peer, frame: memoryview, received_ms: float, traced: TracedRequest | None = None) -> Call:
        """Decode a request and hand it to its handler. Raises ProtocolError."""
        api_key, api_version, correlation_id = peek_request(frame)
        route = self._routes.get(api_key)
        if route is None:
            raise ProtocolError(f"api key {api_key} is not served on listener {peer.listener}")
        if not route.version_min <= api_version <= route.version_max:
            return self._unsupported(route, peer, api_version, correlation_id, received_ms)
        client_id, position = decode_client_id(frame, 2 if api_version >= route.flexible_from else 1)
        peer.client_id = client_id
        ctx = context_of(peer, client_id, correlation_id, api_key, api_version, received_ms, len(frame))
        return self._handle(route, ctx, frame[position:], peer, traced)

    async def dispatch_bytes(self, ctx: RequestContext, data: memoryview) -> list[Part]:
        """Handle a request inside another (Envelope): header and body in, header and body of the answer out.

        `ctx` has its origin (principal, listener, client address); the rest comes from the embedded header.
        Raises ProtocolError where Kafka answers the envelope with INVALID_REQUEST or UNSUPPORTED_VERSION, and
        AnswerImpossible.
        """
        api_key, api_version, correlation_id = peek_request(data)
        route = self._routes.get(api_key)
        if route is None or not route.version_min <= api_version <= route.version_max:
            raise ProtocolError(f"api key {api_key} version {api_version} is not served in an envelope")
        client_id, position = decode_client_id(data, 2 if api_version >= route.flexible_from else 1)
        own = RequestContext(
            principal=ctx.principal,
            listener=ctx.listener,
            security_protocol=ctx.security_protocol,
            client_id=client_id,
            client_address=ctx.client_address,
            correlation_id=correlation_id,
            api_key=api_key,
            api_version=api_version,
            software_name=ctx.software_name,
            software_version=ctx.software_version,
            connection_id=ctx.connection_id,
            received_ms=ctx.received_ms,
            forwarded=True,
        )
        call = self._handle(route, own, data[position:], None)
        result = call.result
        if result is not None and not is_message(result):
            result = await self.outcome(call, result)
        if result is None:
            raise AnswerImpossible(f"{route.name} in an envelope has no response")
        header, body = self._encode(call, result)
        return [header, *body]

    def answer(self, call: Call, response: Message) -> list[Part]:
        """Return the whole frame as parts: length, header, body. Raises AnswerImpossible."""
        header, body = self._encode(call, response)
        size = len(header)
        for part in body:
            size += part_size(part)
        if call.traced is not None:
            call.traced.bytes_out = size + 4
        head = size.to_bytes(4, "big") + header
        first = body[0] if body else b""
        if not isinstance(first, FileSlice) and len(first) < JOINED_BYTES_MAX:
            body[:1] = [head + first]
        else:
            body.insert(0, head)
        return body

    def _encode(self, call: Call, response: Message) -> tuple[bytes, list[Part]]:
        """Return header and body. Raises AnswerImpossible."""
        route, ctx = call.route, call.ctx
        flexible = ctx.api_version >= route.flexible_from and route.api_key != ApiKey.API_VERSIONS
        try:
            assert type(response) is route.response_class, f"{type(response).__name__} for {route.name}"
            body = encode(response, ctx.api_version)
        except Exception as error:  # a value that the version cannot carry: our fault, whatever its kind
            self._log_fault(call, error)
            raise AnswerImpossible(route.name) from error
        return encode_response_header(ctx.correlation_id, 1 if flexible else 0), body

    async def outcome(self, call: Call, result: Awaitable[Message | None]) -> Message | None:
        """Await a handler's result; an exception becomes an answer. Raises AnswerImpossible."""
        try:
            return await result
        except Exception as error:
            return self.failed(call, error)

    def failed(self, call: Call, error: BaseException) -> Message:
        """Return the response for an exception that a handler raised. Raises AnswerImpossible, or `error`.

        A ProtocolError is raised again, and so is anything but an Exception (a cancellation, the end of the process).
        """
        if not isinstance(error, Exception) or isinstance(error, ProtocolError | AnswerImpossible):
            raise error
        code, message = ErrorCode.UNKNOWN_SERVER_ERROR, None
        if isinstance(error, KafkaError):
            code, message = error.code, error.message
        else:
            self._log_fault(call, error)
        response = None if call.request is None else error_response(call.request, call.ctx.api_version, code, message)
        if response is None:
            log.error("error cannot be returned in a response", api=call.route.name, error=error)
            raise AnswerImpossible(call.route.name) from error
        if self._quotas.enabled:
            self._hold_back(call, code, response)
        return response

    def _hold_back(self, call: Call, code: ErrorCode, response: Any) -> None:
        """Count a refused request as any other; its client is held back for it (Kafka's RequestHandlerHelper)."""
        exempt = call.route.api_key in CLUSTER_ACTIONS and code is not ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        call.ctx.throttle_ms = throttle_ms = self._quotas.throttle_ms(call.ctx, exempt=exempt)
        if hasattr(response, "throttle_time"):
            response.throttle_time = throttle_ms

    def _handle(
        self,
        route: Route,
        ctx: RequestContext,
        body: memoryview,
        peer: Peer | None,
        traced: TracedRequest | None = None,
    ) -> Call:
        request = decode(route.request_class, ctx.api_version, body)
        if traced is not None:
            traced.ended("decode")
        if peer is not None and isinstance(request, ApiVersionsRequest) and valid_software(request, ctx.api_version):
            peer.software_name = request.client_software_name or peer.software_name
            peer.software_version = request.client_software_version or peer.software_version
        try:
            result: Result = route.handle(ctx, request)
        except Exception as error:  # every unhandled exception is answered or closes the connection
            result = self.failed(Call(route, ctx, request, None), error)
        if traced is not None:
            traced.ended("handle")
        return Call(route, ctx, request, result, traced)

    def _unsupported(self, route: Route, peer: Peer, api_version: int, correlation_id: int, received_ms: float) -> Call:
        if route.api_key != ApiKey.API_VERSIONS:
            raise ProtocolError(
                f"{route.name} v{api_version} is not supported, only {route.version_min} to {route.version_max}"
            )
        ctx = context_of(peer, None, correlation_id, route.api_key, 0, received_ms)
        own = ApiVersion(api_key=route.api_key, min_version=route.version_min, max_version=route.version_max)
        return Call(route, ctx, None, ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[own]))

    def _log_fault(self, call: Call, error: BaseException) -> None:
        log.unexpected(
            "request",
            error,
            api=call.route.name,
            version=call.ctx.api_version,
            client=call.ctx.client_address,
            client_id=call.ctx.client_id,
        )


def _route(handler: Handler) -> Route:
    request_class = message_class(handler.api_key, "Request")
    name = request_class.__name__.removesuffix("Request")
    return Route(
        api_key=handler.api_key,
        name=name,
        version_min=handler.versions[0],
        version_max=handler.versions[1],
        flexible_from=request_class.FLEXIBLE_FROM,
        request_class=request_class,
        response_class=message_class(handler.api_key, "Response"),
        handle=handler.handle,
        abandon=handler.abandon,
        in_order=handler.in_order,
    )


def is_message(result: object) -> TypeIs[Message]:
    """Distinguish an answer from a future of one."""
    return hasattr(type(result), "API_KEY")


def supported_apis(
    versions: Mapping[int, tuple[int, int]], advertised_min: Mapping[int, int] | None = None
) -> list[ApiVersion]:
    """Return the list of an ApiVersions answer by rising key; `advertised_min` lowers a first version (Produce: 0)."""
    lowered = advertised_min or {}
    return [
        ApiVersion(api_key=key, min_version=lowered.get(key, first), max_version=last)
        for key, (first, last) in sorted(versions.items())
        if key < PRIVATE_KEY_MIN
    ]
