"""What one path of the API is: method, path, models, the function behind it. The OpenAPI document is made of these."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from kvorum.admin.client import ClusterClient

B = TypeVar("B", bound=BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[B]):
    """One request: the cluster, what the path and the query said, and the checked body."""

    cluster: ClusterClient
    path: dict[str, str]
    query: dict[str, str]
    body: B

    def flag(self, name: str) -> bool:
        """Tell whether a query parameter is there and not `false`."""
        return self.query.get(name, "false").lower() not in ("false", "0", "no")


class NoBody(BaseModel):
    """Of requests that have none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of one path."""

    method: str
    path: str
    summary: str
    # Each takes a call with the body of its own model; one table of all of them cannot say so.
    handle: Callable[[Call[Any]], Awaitable[BaseModel | list[BaseModel] | None]]
    body: type[BaseModel] = NoBody
    answer: type[BaseModel] | None = None
    """None: 204, no content."""
    many: bool = False
    """The answer is a list of `answer`."""
    status: int = 200
    query: dict[str, str] | None = None
    """Query parameters and what they mean."""

    @property
    def name(self) -> str:
        """The operation's id."""
        return self.handle.__name__

    @property
    def parameters(self) -> list[str]:
        """The names in the path."""
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]
