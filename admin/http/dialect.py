"""Conventions of an API on this server: its paths, authentication, query, and the format of its errors."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from aiohttp import web
from pydantic import BaseModel

from kvorum.admin.http.problems import PROBLEM, Problem, Refusal


def respond_with_problem(refusal: Refusal) -> web.Response:
    """Return an error as problem details, which it is."""
    return refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The conventions of one API."""

    root: str
    """Start of its paths."""
    alias: str = ""
    """Prefix of a second path for each operation; empty: none."""
    title: str = ""
    """Heading of its operations; empty: one per resource."""
    basic_auth: bool = False
    """Whether the secret of `Authorization: Basic` may be the token. Browsers are never prompted for it."""
    strict_query: bool = True
    """Whether unknown query parameters are rejected."""
    error_model: type[BaseModel] = Problem
    error_media: str = PROBLEM
    respond: Callable[[Refusal], web.Response] = respond_with_problem
    """Returns an error in the format of this API."""

    def has_path(self, path: str) -> bool:
        """Return whether a path belongs to this API."""
        return f"{path.removeprefix(self.alias)}/".startswith(f"{self.root}/")


OWN: Final = Dialect(root="/v1")
