"""Description of an API operation: method, path, models, handler. The OpenAPI document is built from it."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from pydantic import BaseModel, Field

from kvorum.admin.http.commands import Command
from kvorum.admin.http.dialect import OWN, Dialect
from kvorum.admin.http.node_login import NodeLogin
from kvorum.admin.http.parameters import Parameter
from kvorum.client.roles import Role as Role
from kvorum.client.wire.cluster_client import ClusterClient
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.runtime.clock import Clock, SystemClock

JSON = "application/json"
EVENT_STREAM = "text/event-stream"

B = TypeVar("B", bound=BaseModel)


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
    caller: str = "this machine"
    """Name of the caller: its principal, or the label of its token."""
    guarded: bool = False
    """Whether callers must authenticate."""
    nodes: NodeLogin = field(default_factory=NodeLogin)
    """How the cluster's own processes are requested for the caller; they require the same role."""
    only_create: bool = False
    """The caller sent `If-None-Match: *`: a resource that appears meanwhile is not changed, but answered 412."""


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
    next_query: str | None = None


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
    parameters: Sequence[Parameter[Any]] = ()
    """Those of the path and of the query. Any other is rejected, like an unknown field of a body."""
    repeatable: Sequence[str] = ()
    """Parameters that may be there several times: the call has them as one, with commas."""
    fields: Mapping[ErrorCode, str] = field(default_factory=dict)
    """Body field that an error of the cluster refers to; a config's name is found separately (admin/http/fields.py)."""
    other_answers: Mapping[int, type[BaseModel] | None] = field(default_factory=dict)
    """Other statuses of a successful response (Reply), with their models."""
    large: bool = False
    """The response may have tens of megabytes in memory: a few are created at a time, the others wait."""
    stream_body: bool = False
    """The body is many of `body`, one after the other: the handler gets their text, or reads them as they come."""
    role: Role | None = None
    """Required role; None: read for a GET, admin otherwise."""
    audit: bool = True
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
    command: Command | None = None
    """The same on the command line."""
    dialect: Dialect = OWN
    """The API that the path belongs to."""

    @classmethod
    def get(
        cls,
        path: str,
        summary: str,
        handle: Handle,
        answer: type[BaseModel],
        *,
        many: bool = False,
        parameters: Sequence[Parameter[Any]] = (),
        media: Sequence[str] = (JSON,),
        role: Role | None = None,
        state: Callable[[Any], object] | None = None,
        large: bool = False,
        events: Mapping[str, type[BaseModel]] | None = None,
        command: Command | None = None,
    ) -> "Operation":
        """Return a GET."""
        return cls(
            method="GET",
            path=path,
            summary=summary,
            handle=handle,
            answer=answer,
            many=many,
            parameters=parameters,
            media=media,
            role=role,
            state=state,
            large=large,
            events=events or {},
            command=command,
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

    def __post_init__(self) -> None:
        """Check that each parameter of the path is declared."""
        missing = set(self.names_in_path) - {each.name for each in self.parameters}
        assert not missing, f"{self.method} {self.path}: {missing} not declared"

    @property
    def names_in_path(self) -> list[str]:
        """Return the names in the path."""
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]

    @property
    def path_parameters(self) -> list[Parameter[Any]]:
        """Return the parameters of the path."""
        return [each for each in self.parameters if each.name in self.names_in_path]

    @property
    def query_parameters(self) -> dict[str, Parameter[Any]]:
        """Return the parameters of the query, by name."""
        return {each.name: each for each in self.parameters if each.name not in self.names_in_path}

    def patch(
        self,
        summary: str,
        handle: Handle,
        body: type[BaseModel],
        *,
        parameters: Sequence[Parameter[Any]] = (),
        fields: Mapping[ErrorCode, str] | None = None,
        role: Role | None = None,
        command: Command | None = None,
    ) -> "Operation":
        """Return the PATCH of this GET's resource: at its path, guarded by its ETag, without a response body."""
        return Operation(
            method="PATCH",
            path=self.path,
            summary=summary,
            handle=handle,
            body=body,
            status=204,
            parameters=(*self.path_parameters, *parameters),
            fields=fields or {},
            role=role,
            guard=self,
            command=command,
        )
