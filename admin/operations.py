"""What one path of the API is: method, path, models, the function behind it. The OpenAPI document is made of these."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from kvorum.admin.client import ClusterClient
from kvorum.protocol.errors import ErrorCode

YES, NO = ("", "true", "1", "yes"), ("false", "0", "no")
NUMBER_DIGITS_MAX = 10
"""More than any number has here."""

B = TypeVar("B", bound=BaseModel)


class BadInput(Exception):
    """A request that is wrong in itself, whatever the cluster is like: where, and what was meant. Answered 400."""

    def __init__(self, field: str, message: str) -> None:
        """Hold both; the field is a dotted path in the body, or the name of a parameter."""
        super().__init__(message)
        self.field = field
        self.message = message


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[B]):
    """One request: the cluster, what the path and the query said, and the checked body."""

    cluster: ClusterClient
    path: dict[str, str]
    query: dict[str, str]
    body: B

    def flag(self, name: str) -> bool:
        """Tell whether a query parameter is there and not `false`. Raises BadInput."""
        text = self.query.get(name, "false").lower()
        if text not in YES + NO:
            raise BadInput(name, f"{text!r} is neither true nor false")
        return text in YES

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """Return a query parameter that is a number. Raises BadInput."""
        return number_of(name, self.query.get(name, str(default)), least, most)


def number_of(name: str, text: str, least: int, most: int) -> int:
    """Read a number of a path or query. Raises BadInput."""
    plain = text.isascii() and text.isdecimal() and len(text) <= NUMBER_DIGITS_MAX
    if not plain or not least <= int(text) <= most:
        shown = text if len(text) <= NUMBER_DIGITS_MAX else f"{text[:NUMBER_DIGITS_MAX]}..."
        raise BadInput(name, f"{shown!r} is not a number from {least} to {most}")
    return int(text)


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
    """Query parameters and what they mean; any other is refused, as an unknown field of a body is."""
    fields: Mapping[ErrorCode, str] = field(default_factory=dict)
    """What of the body a refusal of the cluster is about; a config's name is found by itself (admin/fields.py)."""

    @property
    def name(self) -> str:
        """The operation's id."""
        return self.handle.__name__

    @property
    def parameters(self) -> list[str]:
        """The names in the path."""
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]
