"""Query parameters that several paths take. What reads one and what the document says of it are one place."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvorum.admin.operations import BadInput, Call

VALIDATE_ONLY: Mapping[str, str] = {"validate_only": "true: validate only"}
ALL_CONFIGS: Mapping[str, str] = {"all": "true: include defaults"}
LISTED_CONFIGS: Mapping[str, str] = {
    **ALL_CONFIGS,
    "documentation": "true: include the type, description and allowed values",
}


def check_named(named: object, everything: bool) -> None:
    """Refuse a body that neither names partitions nor says `all`: a field forgotten is not all. Raises BadInput."""
    if named is None and not everything:
        raise BadInput("partitions", "give partitions, or all=true for all partitions of the cluster")
    if named is not None and everything:
        raise BadInput("all", "give either partitions or all")


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """A parameter that says how many, from 1 on: of what, how many at most, and how many if it is left out."""

    name: str = "limit"
    what: str = ""
    default: int
    most: int

    def of(self, call: Call[Any]) -> int:
        """Return what a request says. Raises BadInput."""
        return call.number(self.name, self.default, 1, self.most)

    @property
    def documentation(self) -> Mapping[str, str]:
        """Return the parameter for an operation's `query`."""
        of_what = f"{self.what}, " if self.what else ""
        return {self.name: f"{of_what}1 to {self.most} (default {self.default})"}


PAGE = Count(default=100, most=10_000)
STREAM_COUNT = Count(what="maximum number of events", default=1_000_000, most=1_000_000)
STREAM_SECONDS = Count(name="seconds", what="maximum duration in seconds", default=3_600, most=86_400)
