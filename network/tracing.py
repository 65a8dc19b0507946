"""Trace of single requests, on demand: one log line per request with the duration of every stage.

    INFO network request traced api=Produce version=11 correlation_id=7 client_id=orders-app client=10.0.0.5:41822
      listener=PLAINTEXT bytes_in=431 queue_ms=0.02 decode_ms=0.11 handle_ms=0.2 wait_ms=3.4 encode_ms=0.05 bytes_out=62
      throttle_ms=0 errors=NONE:1 left=99

queue    from the frame's last byte to decoding: the client is throttled, or earlier requests have no response yet
decode   of header and body; the handler reads the records of a Produce
handle   the handler's own code, until it returns a response or a future of one
wait     for the response: replicas, data, another broker, the disk
encode   of the response; it is sent after the earlier responses of the connection

`errors` counts the codes in the whole response, including NONE. kvorum.request.trace (runtime/trace_wish) selects the
requests and their number; it may change at any time. Without it: a connection reads one attribute per request. A traced
request does not take the fast path.

A request that a broker has forwarded arrives at the controller in an Envelope. It is traced for the original client,
whose correlation id connects the broker's line and the controller's: inside=CreateTopics inside_client_id=orders-app
inside_correlation_id=7.
"""

import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from typing import Final, NamedTuple

from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.codec import decode, fields_of, message_class
from kvorum.protocol.errors import ErrorCode, ProtocolError
from kvorum.protocol.headers import decode_client_id, peek_request
from kvorum.protocol.messages.envelope import EnvelopeRequest
from kvorum.protocol.schema import Message, Struct
from kvorum.runtime.clock import precise_seconds
from kvorum.runtime.logs import get_logger
from kvorum.runtime.trace_wish import TraceWish, parse_trace

log = get_logger("network")

ARRIVALS_MAX: Final = 10_000
"""Limit of frames with a recorded arrival; further ones have no queue time."""
ROWS_MAX: Final = 10_000
"""Rows of a response that are searched for error codes."""
UNKNOWN_MS: Final = -1.0
IP_SIZES: Final = (4, 16)

Now = Callable[[], float]
"""Seconds since some time."""


class Tracing:
    """The switch of a process, shared by its listeners."""

    __slots__ = ("_now", "_text", "armed")

    def __init__(self, now: Now = precise_seconds) -> None:
        """Start switched off."""
        self._now = now
        self._text = ""
        self.armed: Armed | None = None
        """Requests to trace; None: none."""

    def configure(self, text: str) -> None:
        """Apply the config; the same text again changes nothing. Raises ValueError."""
        if text == self._text:
            return
        wish = parse_trace(text)
        self._text = text
        self.armed = None if wish is None else Armed(wish, self._now, self._end)
        log.info("request trace configured", whose=text or "-")

    def _end(self) -> None:
        self.armed = None
        log.info("request trace ended", whose=self._text)


class Armed:
    """A trace request, and the number of requests left to trace."""

    __slots__ = ("_arrivals", "_end", "_now", "left", "wish")

    def __init__(self, wish: TraceWish, now: Now, end: Callable[[], None]) -> None:
        """Begin; `end` is called when the count is used up."""
        self.wish = wish
        self._now = now
        self.left = wish.requests
        self._end = end
        self._arrivals: dict[int, tuple[weakref.ref[memoryview], float]] = {}
        """By identity: when a frame was complete, of frames that are still there."""

    def came(self, frames: list[memoryview]) -> None:
        """Record the arrival of frames."""
        now_s = self._now()
        for frame in frames:
            if len(self._arrivals) < ARRIVALS_MAX:
                self._arrivals[id(frame)] = weakref.ref(frame), now_s

    def begin(self, frame: memoryview, address: str) -> "TracedRequest | None":
        """Return the trace of a request whose turn it is, None if it is not to be traced."""
        came, came_s = self._arrivals.pop(id(frame), (None, UNKNOWN_MS))
        try:
            api_key, _, correlation_id = peek_request(frame)
            client_id, _ = decode_client_id(frame, 1)
            inside = enveloped(frame) if api_key == ApiKey.ENVELOPE else None
        except ProtocolError:
            return None  # the general path reports the error
        fits = self.wish.fits(client_id, address, correlation_id)
        if inside is not None:
            fits = fits or self.wish.fits(inside.client_id, f"{inside.address}:", inside.correlation_id)
        if self.left == 0 or not fits:
            return None
        self.left -= 1
        traced = TracedRequest(len(frame), address, self.left, self._now)
        traced.inside = inside
        if came is not None and came() is frame:
            traced.queue_ms = (traced.began_s - came_s) * 1000
        if self.left == 0:
            self._end()
        return traced


class TracedRequest:
    """A traced request; each stage ends when the next one starts."""

    __slots__ = (
        *("_last_s", "_now", "address", "began_s", "bytes_in", "bytes_out", "inside", "left", "queue_ms", "stages"),
    )

    def __init__(self, bytes_in: int, address: str, left: int, now: Now) -> None:
        """Begin now; `left` requests are traced after this one."""
        self._now = now
        self.bytes_in = bytes_in
        self.bytes_out = 0
        self.address = address
        self.left = left
        self.queue_ms = UNKNOWN_MS
        self.began_s = self._last_s = now()
        self.stages: dict[str, float] = {}
        """Milliseconds, in order."""
        self.inside: Enveloped | None = None

    def ended(self, stage: str) -> None:
        """A stage is over: `decode`, `handle`, `wait` or `encode`."""
        now_s = self._now()
        self.stages[f"{stage}_ms"] = round((now_s - self._last_s) * 1000, 3)
        self._last_s = now_s

    def answered(self, api: str, ctx: RequestContext, response: Message | None) -> None:
        """Write the line. Without a response the request had none (acks=0), or the client has disconnected."""
        codes = Counter(error_codes(response, ctx.api_version)) if response is not None else Counter[int]()
        log.info(
            "request traced",
            api=api,
            version=ctx.api_version,
            correlation_id=ctx.correlation_id,
            client_id=ctx.client_id,
            client=self.address,
            listener=ctx.listener,
            **({} if self.inside is None else self.inside.facts()),
            bytes_in=self.bytes_in,
            queue_ms=round(self.queue_ms, 3),
            **self.stages,
            bytes_out=self.bytes_out,
            throttle_ms=ctx.throttle_ms,
            errors=",".join(f"{ErrorCode(code).name}:{count}" for code, count in sorted(codes.items())) or "-",
            left=self.left,
        )


class Enveloped(NamedTuple):
    """A request inside another, and whose it is."""

    api: str
    client_id: str | None
    correlation_id: int
    address: str
    """Without a port: it is unknown."""

    def facts(self) -> dict[str, object]:
        """Return the fields of its line."""
        named = {"inside": self.api, "inside_client_id": self.client_id, "inside_client": self.address}
        return named | {"inside_correlation_id": self.correlation_id}


def enveloped(frame: memoryview) -> Enveloped:
    """Look into an Envelope. Raises ProtocolError."""
    _, position = decode_client_id(frame, 2)
    request = decode(EnvelopeRequest, 0, frame[position:])
    assert isinstance(request, EnvelopeRequest)
    data, host = memoryview(request.request_data), bytes(request.client_host_address)
    api_key, _, correlation_id = peek_request(data)
    client_id, _ = decode_client_id(data, 1)
    name = message_class(api_key, "Request").__name__.removesuffix("Request")
    return Enveloped(name, client_id, correlation_id, str(ip_address(host)) if len(host) in IP_SIZES else "?")


def error_codes(message: Message, version: int) -> Iterator[int]:
    """Iterate over all error codes in an answer, at any depth; at most ROWS_MAX of its rows are read."""
    waiting: list[Struct] = [message]
    for _ in range(ROWS_MAX):
        if not waiting:
            return
        row = waiting.pop()
        for field in fields_of(type(row), version):
            value = getattr(row, field.name)
            if field.name == "error_code":
                yield value
            elif field.kind == "struct" and value is not None:
                waiting += value if field.array else [value]
