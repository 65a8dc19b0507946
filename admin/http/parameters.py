"""Query parameters of several paths. The parser of a parameter and its description are in one place."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvorum.admin.http.operations import BadInput, Call

VALIDATE_ONLY: Mapping[str, str] = {"validate_only": "true: validate only"}
ALL_CONFIGS: Mapping[str, str] = {"all": "true: include defaults"}
LISTED_CONFIGS: Mapping[str, str] = {
    **ALL_CONFIGS,
    "documentation": "true: include the type, description and allowed values",
}


def check_named(named: object, everything: bool) -> None:
    """Reject a body that neither names partitions nor has `all`: a forgotten field does not mean all.

    Raises BadInput.
    """
    if named is None and not everything:
        raise BadInput("partitions", "give partitions, or all=true for all partitions of the cluster")
    if named is not None and everything:
        raise BadInput("all", "give either partitions or all")


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """A count parameter, from 1 on: its meaning, its maximum and its default."""

    name: str = "limit"
    what: str = ""
    default: int
    most: int

    def of(self, call: Call[Any]) -> int:
        """Return the value of a request. Raises BadInput."""
        return call.number(self.name, self.default, 1, self.most)

    @property
    def documentation(self) -> Mapping[str, str]:
        """Return the parameter for an operation's `query`."""
        of_what = f"{self.what}, " if self.what else ""
        return {self.name: f"{of_what}1 to {self.most} (default {self.default})"}


PAGE = Count(default=100, most=10_000)
STREAM_COUNT = Count(what="maximum number of events", default=1_000_000, most=1_000_000)
STREAM_SECONDS = Count(name="seconds", what="maximum duration in seconds", default=3_600, most=86_400)
