"""Conditional changes: ETag, If-Match and If-None-Match (RFC 9110, section 13).

A change with a condition that is false, malformed, or cannot be evaluated is rejected with 412 before it begins. ETags
are computed from a broker's response, read after that broker has applied all earlier changes. Changes of one resource
run one at a time, with or without a condition, so that of two changes with one ETag only one succeeds.
"""

import asyncio
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from weakref import WeakValueDictionary

from pydantic import BaseModel

from kvorum.admin.http.access import condition_headers, precondition_error, refuse_conditions
from kvorum.admin.http.operations import Call, NoBody, Operation, Result, Rows
from kvorum.admin.http.statuses import status_of
from kvorum.protocol.errors import KafkaError

ANY: Final = "*"
EVALUATED: Final = ("if-match", "if-none-match")
ENTITY_TAG: Final = re.compile(r'(?:W/)?"[\x21\x23-\x7e\x80-\uffff]*"')
TAG_LIST: Final = re.compile(rf"[\s,]*{ENTITY_TAG.pattern}(?:\s*,[\s,]*{ENTITY_TAG.pattern})*[\s,]*")
SHOWN_CHARS_MAX: Final = 80


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions of one request; None: the header is missing. `*` is the only entry if present."""

    match: Sequence[str] | None = None
    none_match: Sequence[str] | None = None

    @property
    def only_create(self) -> bool:
        """Whether the change is wanted only if the resource does not exist (If-None-Match: *)."""
        return self.none_match == [ANY]


NO_CONDITIONS: Final = Conditions()


class ResourceLocks:
    """One lock per resource that has an ETag: changes of one resource run one at a time."""

    def __init__(self) -> None:
        """Start without locks."""
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    def of(self, call: Call[BaseModel]) -> asyncio.Lock:
        """Return the lock of a request's resource: a topic with everything below it, a broker, or a whole kind."""
        named = next(iter(call.path.items()), ("", ""))
        return self._locks.setdefault(named, asyncio.Lock())


def read_conditions(headers: Sequence[tuple[str, str]], guard: Operation | None) -> Conditions:
    """Return the conditions of a change. Raises HttpError for a malformed one, or one that cannot be evaluated here."""
    names = condition_headers(name for name, _ in headers)
    if guard is None:
        refuse_conditions(names)
    if guard is None or not names:
        return NO_CONDITIONS
    for name in names:
        if name not in EVALUATED:
            raise precondition_error(f"{name} is not supported; use If-Match or If-None-Match with an ETag")
    match, none_match = (
        parse_tags(name, [value for each, value in headers if each.lower() == name]) if name in names else None
        for name in EVALUATED
    )
    return Conditions(match, none_match)


def parse_tags(name: str, values: Sequence[str]) -> list[str]:
    """Return the entity tags of a header, all its lines together; `*` as the only one. Raises HttpError."""
    text = ",".join(values).strip()
    if text == ANY:
        return [ANY]
    if TAG_LIST.fullmatch(text) is None:
        shown = text if len(text) <= SHOWN_CHARS_MAX else f"{text[:SHOWN_CHARS_MAX]}..."
        raise precondition_error(f"{name} is malformed: {shown!r} is neither * nor a list of quoted ETags")
    return ENTITY_TAG.findall(text)


async def check_conditions(guard: Operation, call: Call[BaseModel], conditions: Conditions) -> None:
    """Evaluate a change's conditions against the current state. Raises HttpError, and the errors of reading it."""
    current = await current_etag(guard, call)
    match, none_match = conditions.match, conditions.none_match
    if match is not None:
        if current is None:
            raise precondition_error("if-match is false: the resource does not exist")
        if match != [ANY] and current not in match:  # strong comparison: a weak tag equals nothing
            raise precondition_error(f"if-match is false: the resource was changed; its ETag is {current}")
    if none_match is not None and current is not None:
        if none_match == [ANY]:
            raise precondition_error(f"if-none-match is false: the resource exists, its ETag is {current}")
        if current in {tag.removeprefix("W/") for tag in none_match}:
            raise precondition_error(f"if-none-match is false: the resource's ETag is {current}")


async def current_etag(guard: Operation, call: Call[BaseModel]) -> str | None:
    """Return the ETag of the resource that a change is about; None: it does not exist."""
    query = {name: value for name, value in call.query.items() if name in guard.query_parameters}
    cluster = await call.cluster.up_to_date()  # earlier changes were answered before brokers applied them
    read = Call(cluster=cluster, path=call.path, query=query, body=NoBody(), clock=call.clock)
    try:
        return etag(guard, await guard.handle(read))
    except KafkaError as error:
        if status_of(error.code) != 404:
            raise
        return None


def etag(operation: Operation, result: Result) -> str:
    """Return the ETag of the state in an answer: the same until the state is changed."""
    assert operation.state is not None, operation.path
    result = result.rows if isinstance(result, Rows) else result
    return '"' + hashlib.sha256(repr(operation.state(result)).encode()).hexdigest()[:32] + '"'
