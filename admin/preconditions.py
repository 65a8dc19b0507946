"""Changes that are made only if nobody changed the same meanwhile: ETag, If-Match (RFC 9110, 13.1.1).

What is compared is a broker's answer. It is asked once it has heard of every change before; and changes of what has an
ETag take turns here, whether they compare or not. So of two with one ETag one succeeds.
"""

import asyncio
import hashlib
from weakref import WeakValueDictionary

from pydantic import BaseModel

from kvorum.admin.access import Refused
from kvorum.admin.operations import Call, NoBody, Operation, Result, Rows
from kvorum.admin.problems import status_of
from kvorum.protocol.errors import KafkaError


class Turns:
    """Whoever changes what has an ETag takes turns with all who change the same: nobody comes in between."""

    def __init__(self) -> None:
        """Begin with nobody."""
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    def of(self, call: Call[BaseModel]) -> asyncio.Lock:
        """Return the lock of what a request is about: a topic with all that is below it, a broker, or a whole kind."""
        named = next(iter(call.path.items()), ("", ""))
        return self._locks.setdefault(named, asyncio.Lock())


async def check_unchanged(guard: Operation, call: Call[BaseModel], match: str) -> None:
    """Compare an If-Match with what there is. Raises Refused, and what asking for it raises."""
    named = {name: value for name, value in call.query.items() if name in (guard.query or {})}
    cluster = await call.cluster.up_to_date()  # who changed it before was answered before brokers heard of it
    asked = Call(cluster=cluster, path=call.path, query=named, body=NoBody(), clock=call.clock)
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
