"""TLS handshakes of a listener: accepted connections that are not served yet.

The limits on connections apply first, so a client beyond them costs no handshake. A table bounds the handshakes in
progress (`kvorum.ssl.handshakes.max`), and those of one address (`kvorum.ssl.handshakes.per.ip.max`), so that one
client cannot have them all. Further connections wait, unread: addresses take turns, and the connections of an address
start in the order of their arrival. A handshake in progress has `kvorum.ssl.handshake.timeout.ms`, but only CROWDED_MS
while others wait: it takes two round trips, so one that takes longer is half-open.
"""

import asyncio
import ssl
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Protocol

from kvorum.network.arrival import Arrival, arrive
from kvorum.network.context import Peer
from kvorum.network.shared import Authentication, Shared
from kvorum.network.tls import TlsTransport
from kvorum.runtime.listeners import SecurityProtocol
from kvorum.runtime.logs import get_logger
from kvorum.security.errors import AuthenticationError
from kvorum.security.tls.ciphers import IANA_NAMES
from kvorum.security.tls.server import TlsServer

CROWDED_MS: Final = 1_000

log = get_logger("network")


class Pending(Protocol):
    """A connection without a protocol yet."""

    @property
    def host(self) -> str:
        """The address of the client, without the port."""
        ...

    def start(self) -> None:
        """Begin the handshake: its turn has come."""
        ...

    def expire(self, time_ms: int) -> None:
        """End: the time of the handshake is up."""
        ...


class Handshakes:
    """The table of one listener."""

    __slots__ = (
        *("_at_once_max", "_by_host", "_due_s", "_in_progress", "_loop", "_per_host_max", "_timeout_s", "_timer"),
        "_waiting",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, at_once_max: int, per_host_max: int, timeout_ms: int) -> None:
        """Start empty."""
        self._loop = loop
        self._at_once_max = at_once_max
        self._per_host_max = per_host_max
        self._timeout_s = timeout_ms / 1000
        self._in_progress: OrderedDict[Pending, float] = OrderedDict()
        self._by_host: dict[str, int] = {}
        """Number of those in progress."""
        self._waiting: OrderedDict[str, OrderedDict[Pending, None]] = OrderedDict()
        """By host; the one whose turn is next comes first."""
        self._timer: asyncio.Handle | None = None
        self._due_s = 0.0

    def __len__(self) -> int:
        """Return how many are in progress or wait."""
        return len(self._in_progress) + sum(map(len, self._waiting.values()))

    def begin(self, handshake: Pending) -> None:
        """Start a handshake, or have it wait for its turn."""
        self._waiting.setdefault(handshake.host, OrderedDict())[handshake] = None
        self._start_waiting()
        self._schedule()

    def end(self, handshake: Pending) -> None:
        """Remove a handshake that is complete or failed. Idempotent."""
        host = handshake.host
        waiting = self._waiting.get(host)
        if handshake in self._in_progress:
            self._remove(handshake)
        elif waiting is not None and handshake in waiting:
            del waiting[handshake]
            if not waiting:
                del self._waiting[host]
        self._start_waiting()
        self._schedule()

    def _remove(self, handshake: Pending) -> None:
        """Take a handshake out of those in progress."""
        del self._in_progress[handshake]
        host = handshake.host
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]

    def _start_waiting(self) -> None:
        """Start those whose turn it is."""
        while len(self._in_progress) < self._at_once_max and (host := self._next_host()) is not None:
            waiting = self._waiting.pop(host)
            handshake, _ = waiting.popitem(last=False)
            if waiting:
                self._waiting[host] = waiting
            self._in_progress[handshake] = self._loop.time()
            self._by_host[host] = self._by_host.get(host, 0) + 1
            handshake.start()

    def _next_host(self) -> str | None:
        """Return the host whose turn is next; only few can have reached their limit and be passed over."""
        return next((host for host in self._waiting if self._by_host.get(host, 0) < self._per_host_max), None)

    @property
    def _time_s(self) -> float:
        """Time of a handshake."""
        return min(self._timeout_s, CROWDED_MS / 1000) if self._waiting else self._timeout_s

    def _schedule(self) -> None:
        """Set the timer for the oldest one; it may come too early, not too late."""
        if not self._in_progress:
            return
        due_s = next(iter(self._in_progress.values())) + self._time_s
        if self._timer is not None:
            if self._due_s <= due_s:
                return
            self._timer.cancel()
        self._timer, self._due_s = self._loop.call_at(due_s, self._expire), due_s

    def _expire(self) -> None:
        """End the handshakes whose time is up."""
        self._timer = None
        now_s = self._loop.time()
        while self._in_progress:
            oldest, began_s = next(iter(self._in_progress.items()))
            time_s = self._time_s
            if began_s + time_s > now_s:
                break
            self._remove(oldest)
            oldest.expire(round(time_s * 1000))
            self._start_waiting()
        self._schedule()


class Handshake:
    """One accepted connection until its handshake is complete; then `make` makes the connection that replaces it.

    For its listener it is a connection without requests.
    """

    __slots__ = ("_is_listed", "_make", "_shared", "_table", "_tls", "active_at", "address", "peer", "transport")

    busy = False
    queued = 0

    def __init__(
        self,
        shared: Shared,
        tls: TlsServer,
        table: Handshakes,
        scratch: memoryview,
        make: Callable[[Arrival], asyncio.BufferedProtocol],
    ) -> None:
        """Wait for the socket: `transport` is its protocol."""
        self._shared = shared
        self._tls = tls
        self._table = table
        self._make = make
        self.peer: Peer
        self.address = "?"
        self._is_listed = False
        self.active_at = 0.0
        self.transport = TlsTransport(self, scratch)

    @property
    def host(self) -> str:
        """The address of the client, without the port."""
        return self.peer.client_address

    # TlsUser

    @property
    def context(self) -> ssl.SSLContext:
        """See TlsUser."""
        return self._tls.context

    def connected(self, raw: asyncio.Transport) -> None:
        """Admit the connection to a handshake, or reject it because of a limit."""
        shared = self._shared
        self.active_at = shared.loop.time()
        self.peer, self.address, wait_s = arrive(shared, raw, self.active_at)
        if wait_s is None:
            return
        self._is_listed = True
        shared.joined(self)
        if wait_s > 0:
            shared.loop.call_later(wait_s, self._begin)
        else:
            self._begin()

    def _begin(self) -> None:
        if self._is_listed:
            self._table.begin(self)

    def start(self) -> None:
        """The table permits it."""
        self.transport.start()

    def completed(self) -> asyncio.BufferedProtocol:
        """Return the connection that serves the client. Raises AuthenticationError."""
        transport, shared = self.transport, self._shared
        cipher = transport.get_extra_info("cipher")[0]
        if not self._tls.permits(cipher):
            raise AuthenticationError(f"cipher suite {cipher} is not one of ssl.cipher.suites")
        if shared.security_protocol is SecurityProtocol.SSL:  # with SASL, the principal is SASL's
            self.peer.principal = self._tls.principal_of(transport.get_extra_info("peer_certificate"))
            shared.authenticated(Authentication.SUCCEEDED)
        tls = transport.get_extra_info("ssl_object")
        shared.encrypted(self.peer, (IANA_NAMES.get(cipher, cipher), tls.version()))
        self._is_listed = False
        del shared.by_activity[self]
        self._table.end(self)
        return self._make(Arrival(self.peer, self.address, 0.0))

    def failed(self, reason: str) -> None:
        """Log and count the failure."""
        self._table.end(self)
        if not self.transport.has_received:
            log.debug("connection closed before its TLS handshake", client=self.address, listener=self._shared.listener)
            return
        self._count(reason)

    def _count(self, reason: str) -> None:
        shared = self._shared
        if self._is_listed:
            shared.authenticated(Authentication.FAILED)
        event = "TLS handshake failed" if self._is_listed else "TLS connection failed"
        log.info(event, client=self.address, listener=shared.listener, reason=reason)

    def lost(self) -> None:
        """Release what the connection held."""
        self._table.end(self)
        if self._is_listed:
            self._is_listed = False
            self._shared.left(self, self.peer)

    def expire(self, time_ms: int) -> None:
        """The table ends it."""
        self._count(f"it was not complete after {time_ms} ms")
        self.transport.abort()

    # Connection

    def touch(self) -> None:
        """See Connection."""
        self.active_at = self._shared.loop.time()
        if self._is_listed:
            self._shared.by_activity.move_to_end(self)

    def close(self) -> None:
        """See Connection."""
        self.transport.abort()

    def abort(self) -> None:
        """See Connection."""
        self.transport.abort()

    def finish(self) -> None:
        """See Connection."""
        self.transport.abort()
