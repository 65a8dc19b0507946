"""SASL on the server's side of a connection: the states, and what each request does in each of them.

Sans-IO: takes frames and the time, and returns a Step. Time of sessions is the event loop's, expiry of credentials wall
time. TABLE is the state machine. Source: Kafka's SaslServerAuthenticator, KIP-43, KIP-152, KIP-368.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from types import MappingProxyType
from typing import Final, Protocol, cast

from kvorum.protocol.api import ApiKey, request_header_version, response_header_version
from kvorum.protocol.client_software import valid_software
from kvorum.protocol.codec import decode, encode_bytes, message_class
from kvorum.protocol.error_responses import error_response
from kvorum.protocol.errors import ErrorCode, ProtocolError
from kvorum.protocol.headers import FIXED_SIZE, decode_client_id, encode_response_header, peek_request
from kvorum.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kvorum.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from kvorum.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kvorum.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kvorum.protocol.schema import Message
from kvorum.security.errors import AuthenticationError
from kvorum.security.principal import Principal
from kvorum.security.sasl.mechanism import SaslServer

FAILURE_DELAY_MS: Final = 100
"""connection.failed.authentication.delay.ms."""
RECEIVE_BYTES_MAX: Final = 512 * 1024
"""sasl.server.max.receive.size."""
REAUTHENTICATION_INTERVAL_S: Final = 1.0
"""A re-authentication that starts sooner after another is rejected."""
HANDSHAKE_KEY: Final = int(ApiKey.SASL_HANDSHAKE).to_bytes(2, "big")
SESSION_RESPONSE_VERSION_MIN: Final = 1
"""SaslAuthenticate carries the session lifetime from this version on."""


@dataclass(frozen=True, slots=True)
class EnabledMechanism:
    """A mechanism of a listener."""

    name: str
    new_server: Callable[[], SaslServer]
    max_reauth_ms: int = 0
    """connections.max.reauth.ms; 0: sessions end with their credential only."""


class SaslResource(Protocol):
    """A task that a mechanism needs: the listener starts it first, and closes it."""

    async def start(self) -> None:
        """Begin. Raises ConfigError: the listener cannot start."""
        ...

    async def close(self) -> None:
        """End. Idempotent."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslConfig:
    """SASL of one listener."""

    mechanisms: tuple[EnabledMechanism, ...]
    wall_ms: Callable[[], int]
    failure_delay_ms: int = FAILURE_DELAY_MS
    receive_bytes_max: int = RECEIVE_BYTES_MAX
    """Maximum size of a frame before authentication is complete."""
    resources: tuple[SaslResource, ...] = ()


class State(Enum):
    """Progress of a connection: the requests it may send next."""

    INITIAL = auto()
    """ApiVersions or SaslHandshake. ApiVersions with an error in its response counts as none."""
    VERSIONS_SENT = auto()
    """SaslHandshake: ApiVersions was answered."""
    AUTHENTICATE = auto()
    """SaslAuthenticate: the handshake had version 1."""
    TOKEN = auto()
    """A bare token: the handshake had version 0."""
    COMPLETE = auto()
    """Any request, until the session expires; SaslHandshake begins re-authentication."""
    OTHER_MECHANISM = auto()
    """Nothing: the mechanism of the re-authentication is not the session's, and the next frame ends the connection."""
    FAILED = auto()
    """Nothing: the connection ends."""


class Kind(Enum):
    """Kind of a frame."""

    VERSIONS = auto()
    BAD_VERSIONS = auto()
    """ApiVersions of an unknown version or with an invalid software name: its response has an error."""
    HANDSHAKE = auto()
    AUTHENTICATE = auto()
    OTHER = auto()
    """Another key, or another version of SaslHandshake or SaslAuthenticate."""
    UNREADABLE = auto()
    """No header of a request."""


class Action(Enum):
    """Effect of a frame."""

    ROUTE = auto()
    """The router handles it."""
    ROUTE_VERSIONS = auto()
    """The router handles it; no second ApiVersions."""
    BEGIN = auto()
    """Choose the mechanism."""
    EVALUATE = auto()
    """Process the token of SaslAuthenticate."""
    EVALUATE_BARE = auto()
    """Process the frame as token."""
    SERVE = auto()
    """The router handles it unless the session has expired."""
    BEGIN_AGAIN = auto()
    """Begin re-authentication if sessions expire, else SERVE."""
    REJECT = auto()
    """Answer ILLEGAL_SASL_STATE after the delay, and close."""
    FAIL = auto()
    """Close after the delay."""
    CLOSE = auto()
    """Close at once, not counted as a failed authentication."""


def _row(
    versions: Action, bad_versions: Action, handshake: Action, authenticate: Action, other: Action, unreadable: Action
) -> Mapping[Kind, Action]:
    actions = (versions, bad_versions, handshake, authenticate, other, unreadable)
    return MappingProxyType(dict(zip(Kind, actions, strict=True)))


A = Action
TABLE: Final[Mapping[State, Mapping[Kind, Action]]] = MappingProxyType(
    {
        #                        VERSIONS          BAD_VERSIONS HANDSHAKE      AUTHENTICATE OTHER     UNREADABLE
        State.INITIAL: _row(A.ROUTE_VERSIONS, A.ROUTE, A.BEGIN, A.CLOSE, A.CLOSE, A.CLOSE),
        State.VERSIONS_SENT: _row(A.CLOSE, A.CLOSE, A.BEGIN, A.CLOSE, A.CLOSE, A.CLOSE),
        State.AUTHENTICATE: _row(A.REJECT, A.REJECT, A.REJECT, A.EVALUATE, A.REJECT, A.CLOSE),
        State.TOKEN: _row(*[A.EVALUATE_BARE] * 6),
        State.COMPLETE: _row(A.SERVE, A.SERVE, A.BEGIN_AGAIN, A.SERVE, A.SERVE, A.SERVE),
        State.OTHER_MECHANISM: _row(*[A.FAIL] * 6),
        State.FAILED: _row(*[A.CLOSE] * 6),
    }
)


class Next(Enum):
    """The next step of the connection after a frame."""

    ROUTE = auto()
    """Give the frame to the router."""
    REPLY = auto()
    """Send the reply and continue."""
    COMPLETE = auto()
    """The same; the peer is authenticated."""
    FAIL = auto()
    """Send the reply after the delay, and close. Nothing is read meanwhile."""
    EXPIRE = auto()
    """Close: the session has expired."""


@dataclass(frozen=True, slots=True)
class Step:
    """Result of a frame."""

    next: Next
    reply: bytes = field(default=b"", repr=False)
    """A whole frame; empty: none."""
    reason: str = ""
    """Why authentication failed, for the log."""


@dataclass(frozen=True, slots=True)
class Session:
    """Result of a completed authentication."""

    mechanism: EnabledMechanism
    principal: Principal
    expires_at_s: float | None
    """The loop's time; None: never."""


class SaslServerAuthenticator:
    """SASL of one connection."""

    __slots__ = (
        "_config",
        "_exchange",
        "_mechanism",
        "is_again",
        "reauthenticated_at_s",
        "session",
        "state",
        "supports_sessions",
    )

    def __init__(self, config: SaslConfig) -> None:
        """Wait for the first request."""
        self._config = config
        self.state = State.INITIAL
        self._mechanism: EnabledMechanism
        self._exchange: SaslServer
        self.reauthenticated_at_s = float("-inf")
        """Start of the latest re-authentication; the loop's time."""
        self.is_again = False
        """The latest authentication, in progress or not, is a re-authentication."""
        self.session: Session | None = None
        """Of the last authentication that was completed."""
        self.supports_sessions = False
        """The client reads the session lifetime, and can authenticate again."""

    @property
    def is_complete(self) -> bool:
        """Whether the peer is authenticated and no re-authentication is in progress."""
        return self.state is State.COMPLETE

    @property
    def mechanism_name(self) -> str:
        """The chosen mechanism, "-" before the handshake."""
        return self._mechanism.name if hasattr(self, "_mechanism") else "-"

    def passes(self, frame: memoryview, now_s: float) -> bool:
        """Return whether a frame goes to the router without a step. Called for each request of a session."""
        session = self.session
        return (
            self.state is State.COMPLETE
            and session is not None
            and (session.expires_at_s is None or now_s < session.expires_at_s)
            and frame[:2] != HANDSHAKE_KEY
        )

    async def receive(self, frame: memoryview, now_s: float, wall_ms: int) -> Step:
        """Process a frame. Raises ProtocolError: closes the connection at once."""
        if len(frame) > self._config.receive_bytes_max and self.state is not State.COMPLETE:
            return self.fail(f"frame of {len(frame)} bytes exceeds {self._config.receive_bytes_max}")
        action = TABLE[self.state][_kind_of(frame, self.state)]
        if action is Action.BEGIN_AGAIN:
            action = self._begin_again(now_s)
        match action:
            case Action.ROUTE:
                return Step(Next.ROUTE)
            case Action.ROUTE_VERSIONS:
                self.state = State.VERSIONS_SENT
                return Step(Next.ROUTE)
            case Action.SERVE:
                return Step(Next.ROUTE if self._is_alive(now_s) else Next.EXPIRE)
            case Action.BEGIN:
                return self._begin(frame)
            case Action.EVALUATE:
                return await self._evaluate_request(frame, now_s, wall_ms)
            case Action.EVALUATE_BARE:
                return await self._evaluate_bare(frame, now_s, wall_ms)
            case Action.REJECT:
                return self._reject(frame)
            case Action.FAIL:
                assert self.session is not None
                offered, present = self._mechanism.name, self.session.mechanism.name
                return self.fail(
                    f"SASL mechanism '{offered}' requested by client is not supported for re-authentication "
                    f"of mechanism '{present}'"
                )
            case _:
                self.state = State.FAILED
                raise ProtocolError("unexpected request before authentication; the client must use SASL")

    def fail(self, reason: str, reply: bytes = b"") -> Step:
        """End authentication; also called for a frame that is too large to be read."""
        self.state = State.FAILED
        return Step(Next.FAIL, reply, reason)

    def _is_alive(self, now_s: float) -> bool:
        assert self.session is not None
        return self.session.expires_at_s is None or now_s < self.session.expires_at_s

    def _begin_again(self, now_s: float) -> Action:
        """Return what SaslHandshake does on an authenticated connection: also an expired session may continue."""
        assert self.session is not None
        if self.session.expires_at_s is None or now_s - self.reauthenticated_at_s < REAUTHENTICATION_INTERVAL_S:
            return Action.SERVE
        self.reauthenticated_at_s = now_s
        self.is_again = True
        return Action.BEGIN

    def _begin(self, frame: memoryview) -> Step:
        _, version, correlation_id = peek_request(frame)
        request = cast(SaslHandshakeRequest, _decode(frame))
        names = [mechanism.name for mechanism in self._config.mechanisms]
        found = next((each for each in self._config.mechanisms if each.name == request.mechanism), None)
        code = ErrorCode.NONE if found is not None else ErrorCode.UNSUPPORTED_SASL_MECHANISM
        response = SaslHandshakeResponse(error_code=int(code), mechanisms=names)
        reply = frame_of(response, version, correlation_id)
        if found is None:
            return self.fail(f"Unsupported SASL mechanism {request.mechanism!r}", reply)
        self._mechanism = found
        if self.session is not None and self.session.mechanism.name != found.name:
            self.state = State.OTHER_MECHANISM
            return Step(Next.REPLY, reply)
        self._exchange = found.new_server()
        self.state = State.AUTHENTICATE if version >= 1 else State.TOKEN
        return Step(Next.REPLY, reply)

    async def _evaluate_request(self, frame: memoryview, now_s: float, wall_ms: int) -> Step:
        _, version, correlation_id = peek_request(frame)
        request = cast(SaslAuthenticateRequest, _decode(frame))
        self.supports_sessions = self.supports_sessions or version >= SESSION_RESPONSE_VERSION_MIN
        try:
            token = await self._exchange.evaluate(request.auth_bytes)
            lifetime_ms = self._complete(now_s, wall_ms)
        except AuthenticationError as error:
            failed = SaslAuthenticateResponse(
                error_code=int(ErrorCode.SASL_AUTHENTICATION_FAILED), error_message=self._message_of(error)
            )
            return self.fail(str(error), frame_of(failed, version, correlation_id))
        response = SaslAuthenticateResponse(auth_bytes=token or b"", session_lifetime=lifetime_ms or 0)
        reply = frame_of(response, version, correlation_id)
        return Step(Next.REPLY if lifetime_ms is None else Next.COMPLETE, reply)

    async def _evaluate_bare(self, frame: memoryview, now_s: float, wall_ms: int) -> Step:
        try:
            token = await self._exchange.evaluate(bytes(frame))
            lifetime_ms = self._complete(now_s, wall_ms)
        except AuthenticationError as error:
            return self.fail(str(error))
        reply = b"" if token is None else len(token).to_bytes(4, "big") + token
        return Step(Next.REPLY if lifetime_ms is None else Next.COMPLETE, reply)

    def _complete(self, now_s: float, wall_ms: int) -> int | None:
        """Begin the session if the exchange is complete; return its lifetime (0: no limit), None if not complete.

        A credential that has expired already gives a session that has expired as well. Raises AuthenticationError.
        """
        principal = self._exchange.principal
        if principal is None:
            return None
        previous = self.session
        if previous is not None and previous.principal != principal:
            before, after = previous.principal, principal
            text = (
                "Cannot change principals during re-authentication from "
                f"{before.type}.{before.name}: {after.type}.{after.name}"
            )
            raise AuthenticationError(text, text)
        limits = [self._mechanism.max_reauth_ms] if self._mechanism.max_reauth_ms > 0 else []
        if self._exchange.expires_at_ms is not None:
            limits.append(max(0, self._exchange.expires_at_ms - wall_ms))
        expires_at_s = now_s + min(limits) / 1000 if limits else None
        self.session = Session(self._mechanism, principal, expires_at_s)
        self.state = State.COMPLETE
        return min(limits, default=0)

    def _message_of(self, error: AuthenticationError) -> str:
        """Return the message for the client: general, unless the mechanism has one of its own."""
        if error.response_message is not None:
            return error.response_message
        during = "re-authentication" if self.is_again else "authentication"
        name = self._mechanism.name
        return f"Authentication failed during {during} due to invalid credentials with SASL mechanism {name}"

    def _reject(self, frame: memoryview) -> Step:
        """Answer a request that comes in place of SaslAuthenticate. Raises ProtocolError if it is unreadable."""
        api_key, version, correlation_id = peek_request(frame)
        response: Message | None
        if api_key == ApiKey.API_VERSIONS and not _is_in(version, ApiVersionsRequest.VERSIONS):
            version, response = 0, ApiVersionsResponse(error_code=int(ErrorCode.ILLEGAL_SASL_STATE))
        else:
            response = _illegal_state(_decode(frame), version)
        reply = b"" if response is None else frame_of(response, version, correlation_id)
        return self.fail(f"unexpected request of api key {api_key} during SASL authentication", reply)


def _is_in(version: int, versions: tuple[int, int]) -> bool:
    return versions[0] <= version <= versions[1]


def _kind_of(frame: memoryview, state: State) -> Kind:
    """Classify a frame. Raises ProtocolError for an unreadable ApiVersions."""
    if len(frame) < FIXED_SIZE:
        return Kind.UNREADABLE
    api_key, version, _ = peek_request(frame)
    if api_key == ApiKey.SASL_HANDSHAKE and _is_in(version, SaslHandshakeRequest.VERSIONS):
        return Kind.HANDSHAKE
    if api_key == ApiKey.SASL_AUTHENTICATE:
        return Kind.AUTHENTICATE if _is_in(version, SaslAuthenticateRequest.VERSIONS) else Kind.UNREADABLE
    if api_key != ApiKey.API_VERSIONS:
        return Kind.OTHER
    if state is not State.INITIAL:  # only there both kinds differ
        return Kind.VERSIONS
    if not _is_in(version, ApiVersionsRequest.VERSIONS):
        return Kind.BAD_VERSIONS
    return Kind.VERSIONS if valid_software(cast(ApiVersionsRequest, _decode(frame)), version) else Kind.BAD_VERSIONS


def _decode(frame: memoryview) -> Message:
    """Decode a whole request. Raises ProtocolError."""
    api_key, version, _ = peek_request(frame)
    cls = message_class(api_key, "Request")
    if not _is_in(version, cls.VERSIONS):
        raise ProtocolError(f"{cls.__name__} v{version} is not supported")
    _, position = decode_client_id(frame, request_header_version(api_key, version, cls.FLEXIBLE_FROM))
    return decode(cls, version, frame[position:])


def _illegal_state(request: Message, version: int) -> Message | None:
    """Return the response with ILLEGAL_SASL_STATE, None if this API's response has no place for it."""
    code = ErrorCode.ILLEGAL_SASL_STATE
    if isinstance(request, MetadataRequest):
        topics = [
            MetadataResponseTopic(error_code=int(code), name=topic.name or "", topic_id=topic.topic_id)
            for topic in request.topics or ()
        ]
        return MetadataResponse(topics=topics, error_code=int(code))
    return error_response(request, version, code)


def frame_of(response: Message, version: int, correlation_id: int) -> bytes:
    """Return a whole response frame."""
    header_version = response_header_version(response.API_KEY, version, response.FLEXIBLE_FROM)
    data = encode_response_header(correlation_id, header_version) + encode_bytes(response, version)
    return len(data).to_bytes(4, "big") + data
