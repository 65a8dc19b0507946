"""A connection that has come: it gets its name, and is taken at once, taken later, or refused.

A refused one is closed at once, or, where its client would only come again, left alone for a while before.
Source: Kafka's SocketServer.Acceptor.
"""

import asyncio
from typing import Final, NamedTuple

from kvorum.network.connection_counts import Refusal
from kvorum.network.context import Peer
from kvorum.network.shared import Shared
from kvorum.runtime.logs import get_logger
from kvorum.runtime.sockets import set_buffers

TURNED_AWAY_MAX: Final = 1_000
"""Refused connections that are left open for a while, so that their clients do not come back at once."""

log = get_logger("network")


class Arrival(NamedTuple):
    """Who has come, and from where (HOST:PORT)."""

    peer: Peer
    address: str
    wait_s: float | None
    """So long nothing of it is handled; None: it was refused, and counts nowhere."""


def arrive(shared: Shared, transport: asyncio.Transport, now_s: float) -> Arrival:
    """Name a new connection of a listener, and count it or turn it away. `now_s` is the loop's time."""
    host, port = transport.get_extra_info("peername", ("?", 0))[:2]
    address = f"{host}:{port}"
    shared.opened += 1
    connection_id = f"{shared.listener}-{address}-{shared.opened}"
    peer = Peer(connection_id, host, shared.listener, shared.security_protocol, since_s=now_s)
    try:
        # Before it counts anywhere: who counts it off again begins with a connection that was taken.
        set_buffers(
            transport.get_extra_info("socket"),
            send_bytes=shared.limits.send_buffer_bytes,
            receive_bytes=shared.limits.receive_buffer_bytes,
        )
    except OSError as error:
        log.warning("connection refused", client=address, listener=shared.listener, reason=error)
        transport.abort()
        return Arrival(peer, address, None)
    admitted = _admit(shared, address, host, now_s)
    if isinstance(admitted, Refusal):
        _turn_away(shared, transport, admitted.after_s)
        return Arrival(peer, address, None)
    return Arrival(peer, address, admitted)


def _admit(shared: Shared, address: str, host: str, now_s: float) -> float | Refusal:
    """Count a new connection; return the seconds it has to wait, or how it is refused, which is told here."""
    admitted: Refusal | float = Refusal("shutting down")
    if not shared.closing:
        admitted = shared.counts.admit(host, now_s, protected=shared.protected, listener=shared.listener)
    if not isinstance(admitted, Refusal):
        return admitted
    log.warning("connection refused", client=address, listener=shared.listener, reason=admitted.reason)
    if shared.metrics is not None:
        shared.metrics.refused(shared.listener, admitted.reason.partition(":")[0])
    return admitted


def _turn_away(shared: Shared, transport: asyncio.Transport, after_s: float) -> None:
    """Close a connection that was refused, so long from now; at once where too many wait for that already."""
    if after_s <= 0 or shared.turned_away >= TURNED_AWAY_MAX:
        transport.abort()
        return
    shared.turned_away += 1
    transport.pause_reading()
    shared.loop.call_later(after_s, _close, shared, transport)


def _close(shared: Shared, transport: asyncio.Transport) -> None:
    shared.turned_away -= 1
    transport.abort()
