"""A connection that has come: it gets its name, and is taken at once, taken later, or refused.

A refused one is closed at once, or, where its client would only come again, left alone for a while before.
Source: Kafka's SocketServer.Acceptor.
"""

import asyncio
import resource
from typing import Final, NamedTuple

from kvorum.network.connection_counts import Refusal
from kvorum.network.context import Peer
from kvorum.network.shared import Shared
from kvorum.runtime.logs import get_logger
from kvorum.runtime.sockets import set_buffers

DESCRIPTORS_KEPT_SHARE: Final = 8
"""One of this number of descriptors is reserved for the logs: connections are rejected without other ones."""
DESCRIPTORS_KEPT_MAX: Final = 1024
SCARCITY_LOG_INTERVAL_S: Final = 10.0
TURNED_AWAY_MAX: Final = 1_000
"""Refused connections that are left open for a while, so that their clients do not reconnect at once."""

log = get_logger("network")


class Arrival(NamedTuple):
    """A new connection with its address (HOST:PORT)."""

    peer: Peer
    address: str
    wait_s: float | None
    """Time without handling; None: it was rejected, and is not counted."""


class Scarcity:
    """Whether descriptors are scarce in this process, and how often that was logged."""

    __slots__ = ("_logged_at_s", "_refused")

    def __init__(self) -> None:
        """Start without log lines."""
        self._logged_at_s = float("-inf")
        self._refused = 0

    def is_reached(self, fd: int, limit: int, protected: bool) -> bool:
        """Return whether a connection uses a descriptor that is reserved for the logs.

        The kernel assigns the lowest free number, so a new one shows how many are in use. Brokers among themselves
        (`protected`) may use half of the reserve: without replication nothing is acknowledged.
        """
        if limit == resource.RLIM_INFINITY:
            return False
        kept = min(limit // DESCRIPTORS_KEPT_SHARE, DESCRIPTORS_KEPT_MAX)
        return fd >= limit - (kept // 2 if protected else kept)

    def refused(self, listener: str, limit: int, now_s: float) -> None:
        """Log refused connections, at most one line in SCARCITY_LOG_INTERVAL_S."""
        self._refused += 1
        if now_s < self._logged_at_s + SCARCITY_LOG_INTERVAL_S:
            return
        log.warning(
            "connections rejected: nearly all file descriptors are in use; raise the limit (ulimit -n, LimitNOFILE)",
            listener=listener,
            refused=self._refused,
            limit=limit,
        )
        self._logged_at_s, self._refused = now_s, 0


scarcity: Final = Scarcity()
"""The instance of this process."""


def arrive(shared: Shared, transport: asyncio.Transport, now_s: float) -> Arrival:
    """Name a new connection of a listener, and count it or turn it away. `now_s` is the loop's time."""
    host, port = transport.get_extra_info("peername", ("?", 0))[:2]
    address = f"{host}:{port}"
    shared.opened += 1
    connection_id = f"{shared.listener}-{address}-{shared.opened}"
    peer = Peer(connection_id, host, shared.listener, shared.security_protocol, since_s=now_s)
    sock = transport.get_extra_info("socket")
    if sock is not None and _is_one_too_many(shared, sock.fileno(), now_s):
        transport.abort()
        return Arrival(peer, address, None)
    try:
        # Before it is counted anywhere: only accepted connections are subtracted again.
        set_buffers(
            sock,
            send_bytes=shared.limits.send_buffer_bytes,
            receive_bytes=shared.limits.receive_buffer_bytes,
        )
    except OSError as error:
        log.warning("connection rejected", client=address, listener=shared.listener, reason=error)
        transport.abort()
        return Arrival(peer, address, None)
    admitted = _admit(shared, address, host, now_s)
    if isinstance(admitted, Refusal):
        _turn_away(shared, transport, admitted.after_s)
        return Arrival(peer, address, None)
    return Arrival(peer, address, admitted)


def _is_one_too_many(shared: Shared, fd: int, now_s: float) -> bool:
    """Return whether a connection is rejected because of missing descriptors, with a log line."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if not scarcity.is_reached(fd, limit, shared.protected):
        return False
    scarcity.refused(shared.listener, limit, now_s)
    if shared.metrics is not None:
        shared.metrics.refused(shared.listener, "file descriptors")
    return True


def _admit(shared: Shared, address: str, host: str, now_s: float) -> float | Refusal:
    """Count a new connection; return the seconds it has to wait, or the rejection, which is logged here."""
    admitted: Refusal | float = Refusal("shutting down")
    if not shared.closing:
        admitted = shared.counts.admit(host, now_s, protected=shared.protected, listener=shared.listener)
    if not isinstance(admitted, Refusal):
        return admitted
    log.warning("connection rejected", client=address, listener=shared.listener, reason=admitted.reason)
    if shared.metrics is not None:
        shared.metrics.refused(shared.listener, admitted.reason.partition(":")[0])
    return admitted


def _turn_away(shared: Shared, transport: asyncio.Transport, after_s: float) -> None:
    """Close a rejected connection after this time; at once if too many are already waiting."""
    if after_s <= 0 or shared.turned_away >= TURNED_AWAY_MAX:
        transport.abort()
        return
    shared.turned_away += 1
    transport.pause_reading()
    shared.loop.call_later(after_s, _close, shared, transport)


def _close(shared: Shared, transport: asyncio.Transport) -> None:
    shared.turned_away -= 1
    transport.abort()
