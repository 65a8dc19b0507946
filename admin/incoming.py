"""What comes in with a request: the query, the body, and the address the caller used."""

import asyncio

from aiohttp import web
from pydantic import BaseModel

from kvorum.admin.operations import JSON, BadInput, NoBody, Operation
from kvorum.admin.v3.links import PREFIX, is_v3
from kvorum.runtime import blocking

BODY_BYTES_MAX = 1 << 20
"""A body describes a topic or configs, or has some records; who writes many speaks Kafka's protocol."""


BODY_SECONDS = 60
"""A megabyte comes in that time over the slowest line; who sends less has a connection and a task here meanwhile."""


class TooSlow(Exception):
    """A body that did not come in time."""


class Unreadable(Exception):
    """A body that is broken off, or not what its Content-Encoding says: nothing behind it on its connection is told."""


class NotJson(Exception):
    """A body of another media type: what a form can send on behalf of any page."""


def check_query(operation: Operation, request: web.Request) -> None:
    """Refuse what the operation does not know: a misspelt validate_only must not change anything. Raises BadInput."""
    known = operation.query or {}
    if is_v3(operation.path):
        return  # nothing there depends on the query alone, and clients bring parameters that only Confluent's cloud has
    for name in request.query:
        if name not in known:
            among = f"; there are {', '.join(known)}" if known else ""
            raise BadInput(name, f"there is no query parameter {name!r} here{among}")
        if len(request.query.getall(name)) > 1 and name not in operation.repeated:
            raise BadInput(name, f"{name} is there twice")


def query_of(operation: Operation, request: web.Request) -> dict[str, str]:
    """Return the query; what may be repeated as one value, with commas."""
    found = dict(request.query)
    return found | {name: ",".join(request.query.getall(name)) for name in operation.repeated if name in found}


def base_url(operation: Operation, request: web.Request) -> str:
    """Return how the caller came here, up to the operation's own path."""
    prefix = PREFIX if is_v3(operation.path) and request.path.startswith(f"{PREFIX}/") else ""
    return f"{request.scheme}://{request.host}{prefix}"


def comes_whole(request: web.Request) -> bool:
    """Tell whether a body is small enough, and known to be, to be read before it is looked at."""
    return not request.can_read_body or (request.content_length or BODY_BYTES_MAX + 1) <= BODY_BYTES_MAX


async def read_json(operation: Operation, request: web.Request, piecemeal: bool) -> bytes:
    """Return the body, empty where none is wanted, or where it is read later.

    Raises NotJson for one that does not say that it is JSON, or a document this operation takes; Unreadable, TooSlow.
    """
    data = await whole_body(request) if operation.body is not NoBody and not piecemeal else b""
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


async def whole_body(request: web.Request) -> bytes:
    """Return a body, decompressed. Raises Unreadable, TooSlow."""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await request.read()
    except TimeoutError as error:
        raise TooSlow(f"the body did not come within {BODY_SECONDS} s") from error
    except (web.RequestPayloadError, ConnectionError) as error:
        request.content.feed_eof()  # what is left of it is for nobody
        said = request.headers.get("Content-Encoding")
        raise Unreadable(f"the body cannot be read{f' as {said}, which it says it is' if said else ''}") from error


def needed(data: bytes) -> bytes:
    """Refuse a body that is not there: it would be taken for one that leaves out everything. Raises BadInput."""
    if not data.strip():
        raise BadInput("body", "a body is needed, as JSON; {} where there is nothing to say")
    return data
