"""Findings about groups and coordinators, which no single record of a partition shows."""

from typing import NamedTuple


class MemberRequest(NamedTuple):
    """A request of a group member that its coordinator accepted: its time, and the session timeout."""

    group: str
    t: float
    session: float


class Fact(NamedTuple):
    """A finding before the check whether it was legal.

    `topics`: a loss in one of their partitions explains it; it counts from `since` to `t`.
    """

    anomaly: str
    partition: str | None
    value: int | None
    t: float
    reason: str
    story: tuple[tuple[float, str], ...] = ()
    rows: tuple[int, ...] = ()
    """Sends whose legal loss explains it."""
    since: float = 0.0
    topics: tuple[str, ...] = ()
    member_request: MemberRequest | None = None
    """A coordinator that was deposed before, and did not know, explains it: the next counts from its election on."""
