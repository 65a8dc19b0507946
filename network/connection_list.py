"""Information about open connections: peer, age and number of requests. Sans-IO."""

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from kvorum.network.context import UNKNOWN_SOFTWARE, Peer

TEXT_CHARS_MAX = 256
"""Limit of a client's own description; the rest is cut, since a request may have 100 MiB."""


class Listed(Protocol):
    """A connection in the list."""

    @property
    def peer(self) -> Peer:
        """The other end."""
        ...

    @property
    def address(self) -> str:
        """HOST:PORT of the other end."""
        ...

    @property
    def active_at(self) -> float:
        """Time of the last received or sent bytes, by the event loop's clock."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionInfo:
    """One open connection."""

    id: str
    listener: str
    address: str
    client_id: str | None
    software_name: str | None
    software_version: str | None
    principal: str
    since_ms: int
    """Milliseconds since 1970."""
    idle_ms: int
    requests: int
    """Number of requests handed to a handler, including the current one."""
    bytes_in: int
    bytes_out: int | None
    """None: the connection has no requests and responses any more (Raft's), and is not counted."""


def newest_first(listeners: Iterable[Iterable[Listed]], limit: int) -> Iterator[Listed]:
    """Return the connections of all listeners, the latest that was active first. Each listener's are in that order."""
    return islice(heapq.merge(*listeners, key=lambda each: -each.active_at), limit)


def describe(connection: Listed, *, now_s: float, now_ms: int) -> ConnectionInfo:
    """Return the information about a connection; both arguments are the same time on two clocks."""
    peer = connection.peer
    return ConnectionInfo(
        id=peer.connection_id,
        listener=peer.listener,
        address=connection.address,
        client_id=None if peer.client_id is None else peer.client_id[:TEXT_CHARS_MAX],
        software_name=said(peer.software_name),
        software_version=said(peer.software_version),
        principal=str(peer.principal),
        since_ms=now_ms - round((now_s - peer.since_s) * 1000),
        idle_ms=max(0, round((now_s - connection.active_at) * 1000)),
        requests=peer.requests,
        bytes_in=peer.bytes_in,
        bytes_out=None if peer.upgraded else peer.bytes_out,
    )


def said(software: str) -> str | None:
    """Return a client's software name or version, None if it sent none."""
    return None if software == UNKNOWN_SOFTWARE else software[:TEXT_CHARS_MAX]
