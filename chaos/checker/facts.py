"""Findings about groups and coordinators, which no single record of a partition shows."""

from typing import NamedTuple


class Heard(NamedTuple):
    """A group's coordinator heard of a member then; so many seconds later its session could end."""

    group: str
    t: float
    session: float


class Fact(NamedTuple):
    """Something found, before it is known whether it was legal.

    `topics`: whose partitions must not have lost anything, or it is explained; it counts from `since` to `t`.
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
    heard: Heard | None = None
    """A coordinator that was deposed before, and did not know, explains it: the next counts from its election on."""
