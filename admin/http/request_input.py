"""Incoming requests: query, body, and client address."""

import asyncio

from aiohttp import web
from pydantic import BaseModel

from kvorum.admin.http.operations import JSON, NoBody, Operation
from kvorum.admin.http.parameters import BadInput
from kvorum.runtime import blocking
from kvorum.runtime.process import trim_heap

BODY_BYTES_MAX = 1 << 20
"""A body describes a topic or configs, or has some records; bulk writers use Kafka's protocol."""

BODIES_BYTES_MAX = 32 << 20
"""All bodies that are being received. Above it the one that has taken longest is rejected with 503."""
SMALL_BODY_BYTES = 64 << 10
"""A body up to this size is not rejected: the HTTP parser buffers as much for every connection anyway."""
TRIM_BYTES = 8 << 20
TRIM_DELAY_SECONDS = 1.0
"""When this much less is being received than at the last peak, the allocator's free memory is returned after a while.
"""
BODY_SECONDS = 60
"""A megabyte arrives in that time over the slowest line; a slower sender uses a connection and a task meanwhile."""


class TooSlow(Exception):
    """A body that did not arrive in time."""


class TooManyBodies(Exception):
    """A body that was rejected with 503 because bodies of other requests need its memory."""


class Unreadable(Exception):
    """A body that is truncated or does not match its Content-Encoding; the connection cannot be used further."""


class NotJson(Exception):
    """A body of another media type, which a form of any website could send."""


def check_query(operation: Operation, request: web.Request) -> None:
    """Reject unknown parameters: a misspelt validate_only must not change anything. Raises BadInput."""
    known = operation.query_parameters
    if not operation.dialect.strict_query:
        return
    for name in request.query:
        if name not in known:
            among = f"; there are {', '.join(known)}" if known else ""
            raise BadInput(name, f"unknown query parameter {name!r}{among}")
        if len(request.query.getall(name)) > 1 and name not in operation.repeatable:
            raise BadInput(name, f"{name} is given twice")


def query_of(operation: Operation, request: web.Request) -> dict[str, str]:
    """Return the query; repeatable parameters are joined with commas."""
    found = dict(request.query)
    return found | {name: ",".join(request.query.getall(name)) for name in operation.repeatable if name in found}


def base_url(operation: Operation, request: web.Request) -> str:
    """Return the URL by which the caller reached this server, up to the operation's own path."""
    alias = operation.dialect.alias
    return f"{request.scheme}://{request.host}{alias if alias and request.path.startswith(f'{alias}/') else ''}"


def is_small(request: web.Request) -> bool:
    """Return whether the size of a body is known and small enough to read it before validation."""
    return not request.can_read_body or (request.content_length or BODY_BYTES_MAX + 1) <= BODY_BYTES_MAX


async def read_json(operation: Operation, request: web.Request, piecemeal: bool, bodies: "Bodies") -> bytes:
    """Return the body, empty where none is wanted, or where it is read later.

    Raises NotJson unless it is declared as JSON, or as a document of this operation; as Bodies.read does.
    """
    data = await bodies.read(request) if operation.body is not NoBody and not piecemeal else b""
    known = [JSON, *(each for each in operation.documents if each != JSON)]
    if (data or piecemeal) and request.content_type not in known:
        wanted = " or ".join(known)
        raise NotJson(f"the body must be {wanted} with a matching Content-Type; received {request.content_type}")
    return data


async def read_body(operation: Operation, media: str, data: bytes) -> BaseModel:
    """Return the content of a body. Raises BadInput, ValidationError."""
    document = operation.documents.get(media)
    if document is None:
        return operation.body.model_validate_json(data)
    return await blocking.run(asyncio.get_running_loop(), document.read, data)  # YAML takes its time


class Bodies:
    """Bodies that are being received, bounded over all connections."""

    def __init__(self, bytes_max: int = BODIES_BYTES_MAX) -> None:
        """Start with none."""
        self._bytes_max = bytes_max
        self._open: dict[asyncio.Timeout, bytearray] = {}
        """Requests ordered by start; finished ones are removed."""
        self.size = 0
        self._peak = 0

    async def read(self, request: web.Request) -> bytes:
        """Return a body, decompressed. Raises Unreadable, TooSlow, TooManyBodies, HTTPRequestEntityTooLarge."""
        body = bytearray()
        timeout = asyncio.timeout(BODY_SECONDS)
        self._open[timeout] = body
        try:
            async with timeout:
                while data := await request.content.readany():
                    if timeout not in self._open:
                        raise TimeoutError("given up")
                    body += data
                    self.size += len(data)
                    self._peak = max(self._peak, self.size)
                    if len(body) > BODY_BYTES_MAX:
                        raise web.HTTPRequestEntityTooLarge(BODY_BYTES_MAX, len(body))
                    self._make_room()
                return bytes(body)
        except TimeoutError as error:
            if timeout not in self._open:
                raise TooManyBodies("too many request bodies are being received; retry later") from error
            raise TooSlow(f"the body was not received within {BODY_SECONDS} s") from error
        except (web.RequestPayloadError, ConnectionError) as error:
            request.content.feed_eof()  # the rest of the body is not read
            said = request.headers.get("Content-Encoding")
            raise Unreadable(
                f"the body cannot be decoded{f' as {said}, its Content-Encoding' if said else ''}"
            ) from error
        finally:
            if self._open.pop(timeout, None) is not None:
                self.size -= len(body)
            body.clear()  # an exception's traceback refers to it
            if self._peak - self.size >= TRIM_BYTES:
                self._peak = self.size
                asyncio.get_running_loop().call_later(TRIM_DELAY_SECONDS, trim_heap)

    def _make_room(self) -> None:
        """Give up the bodies that have taken longest, until the others fit."""
        now_s = asyncio.get_running_loop().time()
        for timeout, body in tuple(self._open.items()):
            if self.size <= self._bytes_max:
                return
            if len(body) > SMALL_BODY_BYTES:
                del self._open[timeout]
                self.size -= len(body)
                timeout.reschedule(now_s)


def require_body(data: bytes) -> bytes:
    """Reject a missing body; it would be treated as one without any fields. Raises BadInput."""
    if not data.strip():
        raise BadInput("body", "a JSON body is required; send {} if no field is set")
    return data
