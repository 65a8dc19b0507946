"""Description of an API operation: method, path, models, handler. The OpenAPI document is built from it."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from pydantic import BaseModel, Field

from kvorum.client.roles import Role as Role
from kvorum.client.wire.cluster_client import ClusterClient
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.runtime.clock import Clock, SystemClock

JSON = "application/json"
EVENT_STREAM = "text/event-stream"
YES, NO = ("true", "1", "yes"), ("false", "0", "no")
NUMBER_DIGITS_MAX = 10
"""Shown length of an invalid number; most valid numbers are not longer."""
WORD_CHARS_SHOWN = 40
INT64_MAX = 2**63 - 1
"""The last offset, or time in ms, that a request of Kafka's can carry."""

B = TypeVar("B", bound=BaseModel)


class BadInput(Exception):
    """An invalid request, independent of the cluster: field and reason. Returned as 400."""

    def __init__(self, field: str, message: str) -> None:
        """Hold both; the field is a dotted path in the body, or the name of a parameter."""
        super().__init__(message)
        self.field = field
        self.message = message


class NotInBody(KafkaError):
    """A resource in the body does not exist or is in the wrong state, while the path does exist: 422, not 404."""

    def __init__(self, field: str, code: ErrorCode, message: str) -> None:
        """Keep the path in the body, and Kafka's code."""
        super().__init__(code, message)
        self.field = field


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """An answer that is written while it is produced: the chunks of `chunks`, each at once.

    The next chunk is requested when the previous one has been sent: a slow reader slows down the reads from the
    cluster.
    """

    media: str
    chunks: AsyncIterator[bytes]
    file: str | None = None
    """File name for a browser, if the answer is a download."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer that is not the operation's ordinary one: its own status, headers, or JSON written elsewhere."""

    status: int
    text: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


class Content(Protocol):
    """A body as it arrives."""

    async def readany(self) -> bytes:
        """Return received bytes, waiting for some; an empty result at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[B]):
    """One request: the cluster, the path, the query, and the checked body."""

    cluster: ClusterClient
    path: dict[str, str]
    query: dict[str, str]
    body: B
    clock: Clock = field(default_factory=SystemClock)
    base_url: str = ""
    """How the caller reached this server: scheme, host, and the path prefix."""
    last_event_id: str | None = None
    """The last event that a reconnecting reader of an event stream has received."""
    content: Content | None = None
    """Stream of a body that is long, or of unknown length, if the operation accepts such."""
    role: Role = Role.ADMIN
    """Role of the caller."""
    guarded: bool = False
    """Whether the server wants tokens."""
    authorization: str | None = None
    """The caller's token, for the cluster's own processes, which require the same."""
    only_create: bool = False
    """The caller sent `If-None-Match: *`: a resource that appears meanwhile is not changed, but answered 412."""

    def flag(self, name: str) -> bool:
        """Return a query parameter that is true or false: false if left out. Raises BadInput, also if it is empty."""
        text = self.query.get(name, "false").lower()
        if text not in YES + NO:
            raise BadInput(name, f"{text!r} is neither true nor false")
        return text in YES

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """Return a query parameter that is a number. Raises BadInput."""
        return number_of(name, self.query.get(name, str(default)), least, most)

    def optional_number(self, name: str, least: int, most: int) -> int | None:
        """Return the same, None without the parameter. Raises BadInput."""
        return self.number(name, least, least, most) if name in self.query else None

    def choice(self, name: str, default: str, known: Sequence[str]) -> str:
        """Return a query parameter that is one of some words. Raises BadInput."""
        text = self.query.get(name, default)
        if text not in known:
            raise BadInput(name, f"{text[:WORD_CHARS_SHOWN]!r} is not one of {', '.join(known)}")
        return text

    def words(self, name: str, known: Sequence[str] | None = None) -> list[str]:
        """Return the words of a query parameter, comma-separated, each one of `known` if given; none if it is left out.

        Raises BadInput, also for a parameter without words: it must not mean the same as one that is left out.
        """
        found = [word for part in self.query.get(name, "").split(",") if (word := part.strip())]
        if not found and name in self.query:
            raise BadInput(name, f"{name} is empty: give a value or leave it out")
        for word in found:
            if known is not None and word not in known:
                raise BadInput(name, f"{word[:WORD_CHARS_SHOWN]!r} is not one of {', '.join(known)}")
        return found

    def numbers(self, name: str, most: int) -> list[int] | None:
        """Return a query parameter that is a list of numbers (1,2,3), None without it. Raises BadInput."""
        text = self.query.get(name)
        return None if text is None else sorted({number_of(name, part, 0, most) for part in text.split(",")})


def number_of(name: str, text: str, least: int, most: int) -> int:
    """Read a number of a path or query. Raises BadInput."""
    plain = text.isascii() and text.isdecimal() and len(text) <= max(NUMBER_DIGITS_MAX, len(str(most)))
    if not plain or not least <= int(text) <= most:
        shown = text if len(text) <= NUMBER_DIGITS_MAX else f"{text[:NUMBER_DIGITS_MAX]}..."
        raise BadInput(name, f"{shown!r} is not a number from {least} to {most}")
    return int(text)


class NoBody(BaseModel):
    """Body of requests without one."""


class Text(BaseModel):
    """A body that the operation reads itself."""

    text: bytes


class Ended(BaseModel):
    """The data of the `end` event that ends a stream: the reason."""

    stopped_by: str = Field(examples=["limit", "time", "end"])


class Broken(BaseModel):
    """The data of the `error` event that ends a failed stream."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """A page of a list; `following` is the query of the next one, which the answer's Link names."""

    rows: list[BaseModel]
    following: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A body format of some media type, and its parser: raises BadInput or pydantic's ValidationError."""

    models: Sequence[type[BaseModel]]
    read: Callable[[bytes], BaseModel]


Result: TypeAlias = BaseModel | list[BaseModel] | Rows | Stream | Reply | None
Handle: TypeAlias = Callable[[Call[Any]], Awaitable[Result]]
"""Each takes a call with the body of its own model; a common table cannot express the type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of one path."""

    method: str
    path: str
    summary: str
    handle: Handle
    body: type[BaseModel] = NoBody
    answer: type[BaseModel] | None = None
    """None: 204, no content."""
    many: bool = False
    """The answer is a list of `answer`."""
    status: int = 200
    query: Mapping[str, str] | None = None
    """Query parameters with their meanings; any other is rejected, like an unknown field of a body."""
    repeated: Sequence[str] = ()
    """Those of them that may be there several times: the call has them as one, with commas."""
    fields: Mapping[ErrorCode, str] = field(default_factory=dict)
    """Body field that an error of the cluster refers to; a config's name is found separately (admin/http/fields.py)."""
    also: Mapping[int, type[BaseModel] | None] = field(default_factory=dict)
    """Other statuses of a successful response (Reply), with their models."""
    large: bool = False
    """The response may have tens of megabytes in memory: a few are created at a time, the others wait."""
    streamed: bool = False
    """The body is many of `body`, one after the other: the handler gets their text, or reads them as they come."""
    role: Role | None = None
    """Required role; None: read for a GET, admin otherwise."""
    noted: bool = True
    """Whether the trail has it, if it is no GET: not what writes records, or changes nothing."""
    admins: Callable[[Any], bool] | None = None
    """Which bodies require the role admin, whatever the operation's role: those that may lose records."""
    documents: Mapping[str, Document] = field(default_factory=dict)
    """{media type: body types} if a body is not only `body` as JSON."""
    media: Sequence[str] = (JSON,)
    """Media types of the answer; if not JSON it is a Stream, of `answer`s or, without a model, of bytes."""
    events: Mapping[str, type[BaseModel]] = field(default_factory=dict)
    """{name: data} of server-sent events besides those of `answer`."""
    state: Callable[[Any], object] | None = None
    """Of a GET: the part of its response that a change may overwrite. The ETag is computed from it."""
    guard: "Operation | None" = None
    """Of a change: the GET whose ETag is compared with its If-Match and If-None-Match."""

    @classmethod
    def get(
        cls,
        path: str,
        summary: str,
        handle: Handle,
        answer: type[BaseModel],
        *,
        many: bool = False,
        query: Mapping[str, str] | None = None,
        media: Sequence[str] = (JSON,),
        role: Role | None = None,
        state: Callable[[Any], object] | None = None,
        large: bool = False,
        events: Mapping[str, type[BaseModel]] | None = None,
    ) -> "Operation":
        """Return a GET."""
        return cls(
            method="GET",
            path=path,
            summary=summary,
            handle=handle,
            answer=answer,
            many=many,
            query=query,
            media=media,
            role=role,
            state=state,
            large=large,
            events=events or {},
        )

    @property
    def name(self) -> str:
        """The operation's id."""
        return self.handle.__name__

    @property
    def needs(self) -> Role:
        """Return the least role that may do it."""
        if self.role is not None:
            return self.role
        return Role.READ if self.method == "GET" else Role.ADMIN

    @property
    def parameters(self) -> list[str]:
        """The names in the path."""
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]

    def patch(
        self,
        summary: str,
        handle: Handle,
        body: type[BaseModel],
        *,
        query: Mapping[str, str] | None = None,
        fields: Mapping[ErrorCode, str] | None = None,
        role: Role | None = None,
    ) -> "Operation":
        """Return the PATCH of this GET's resource: at its path, guarded by its ETag, without a response body."""
        return Operation(
            method="PATCH",
            path=self.path,
            summary=summary,
            handle=handle,
            body=body,
            status=204,
            query=query,
            fields=fields or {},
            role=role,
            guard=self,
        )
