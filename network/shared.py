"""Shared state of the connections of one listener, and its dependencies."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Protocol

from kvorum.network.authorizer import NoQuotas, Quotas
from kvorum.network.connection_counts import ConnectionCounts
from kvorum.network.context import Peer
from kvorum.network.frame import scratch
from kvorum.network.lane import LaneRequest
from kvorum.network.limits import ConnectionLimits, RequestBudget
from kvorum.network.memory import ConnectionMemory
from kvorum.network.outbox import Outbox, Slot
from kvorum.network.request_queue import RequestQueue
from kvorum.network.request_times import SPLIT_APIS, RequestTimes, Sample, metric_name
from kvorum.network.router import Call, Router
from kvorum.network.tracing import Tracing
from kvorum.protocol.errors import ProtocolError
from kvorum.protocol.schema import Message
from kvorum.runtime.listeners import SecurityProtocol
from kvorum.runtime.logs import get_logger, stack_of
from kvorum.security.sasl.authenticator import SaslConfig, SaslServerAuthenticator

log = get_logger("network")


class Authentication(Enum):
    """Outcome of an authentication, for metrics."""

    SUCCEEDED = auto()
    FAILED = auto()
    SUCCEEDED_AGAIN = auto()
    FAILED_AGAIN = auto()
    SUCCEEDED_WITHOUT_SESSIONS = auto()
    """Also counted as SUCCEEDED: the client cannot authenticate again."""
    EXPIRED = auto()
    """A request came after the end of the session."""


class NetworkMetrics(Protocol):
    """Metrics of the network. Called on the data path."""

    def connections(self, listener: str, change: int) -> None:
        """One more or one less."""
        ...

    def connections_by_cipher(self, listener: str, cipher: tuple[str, str], change: int) -> None:
        """One more or one less of a cipher suite and TLS version."""
        ...

    def received(self, listener: str, size: int) -> None:
        """Bytes read from a socket."""
        ...

    def sent(self, listener: str, size: int) -> None:
        """Bytes given to a socket."""
        ...

    def refused(self, listener: str, reason: str) -> None:
        """A connection was closed for a limit's name, or as "malformed"."""
        ...

    def authenticated(self, listener: str, outcome: Authentication) -> None:
        """An authentication succeeded or failed, or a connection was closed because its session had expired."""
        ...

    def reauthenticated(self, listener: str, latency_ms: float) -> None:
        """Time of a re-authentication that succeeded."""
        ...

    def handled(self, api: str, version: int, error_code: int, elapsed_ms: float) -> RequestTimes | None:
        """A request was answered (or needed no answer) this time after its turn; the answer's top-level code.

        Returns the object for its stages, if it is sampled.
        """
        ...

    def handled_by_lane(self, api: str, version: int, elapsed_ms: float, taken: LaneRequest, outbox: Outbox) -> None:
        """The same of a request that a lane has put the answer of into the outbox."""
        ...


class Connection(Protocol):
    """Interface of a connection for its listener."""

    address: str
    active_at: float
    peer: Peer

    @property
    def busy(self) -> bool:
        """Return whether a request is in progress, or an upgraded connection has its own timeouts."""
        ...

    @property
    def queued(self) -> int:
        """Return how many requests were received and not answered yet."""
        ...

    def touch(self) -> None:
        """Count as active from now on."""
        ...

    def close(self) -> None:
        """Close; a second call does not wait for the client."""
        ...

    def abort(self) -> None:
        """Close at once."""
        ...

    def finish(self) -> None:
        """Accept no further request; close when those in progress have their responses."""
        ...


@dataclass(slots=True)
class Shared:
    """Shared state of a listener's connections. `by_activity` has the longest idle first."""

    loop: asyncio.AbstractEventLoop
    router: Router
    listener: str
    security_protocol: SecurityProtocol
    limits: ConnectionLimits
    counts: ConnectionCounts
    budget: RequestBudget
    queue: RequestQueue = field(default_factory=RequestQueue)
    memory: ConnectionMemory = field(default_factory=ConnectionMemory)
    tracing: Tracing = field(default_factory=Tracing)
    metrics: NetworkMetrics | None = None
    sasl: SaslConfig | None = None
    quotas: Quotas = field(default_factory=NoQuotas)
    protected: bool = False
    on_connection_closed: Callable[[str], None] | None = None
    scratch: memoryview = field(default_factory=scratch)
    by_activity: OrderedDict[Connection, None] = field(default_factory=OrderedDict)
    opened: int = 0
    turned_away: int = 0
    closing: bool = False
    emptied: asyncio.Future[None] | None = None
    """Wakes the waiter for the end of the last connection."""

    def joined(self, connection: Connection) -> None:
        """A connection that was admitted is one of the listener's."""
        self.by_activity[connection] = None
        if self.metrics is not None:
            self.metrics.connections(self.listener, 1)

    def encrypted(self, peer: Peer, cipher: tuple[str, str]) -> None:
        """The TLS handshake of a registered connection is complete."""
        peer.cipher = cipher
        if self.metrics is not None:
            self.metrics.connections_by_cipher(self.listener, cipher, 1)

    def left(self, connection: Connection, peer: Peer) -> None:
        """A registered connection was closed."""
        self.by_activity.pop(connection, None)
        if not self.by_activity and self.emptied is not None and not self.emptied.done():
            self.emptied.set_result(None)
        self.counts.close(peer.client_address, self.listener)
        if self.metrics is not None:
            self.metrics.connections(self.listener, -1)
            if peer.cipher is not None:
                self.metrics.connections_by_cipher(self.listener, peer.cipher, -1)
        if self.on_connection_closed is not None:
            self.on_connection_closed(peer.connection_id)

    def answered(
        self, call: Call, response: Message | None, came_s: float, outbox: Outbox, slot: Slot | None = None
    ) -> None:
        """Count a request whose answer has been given to the outbox, and end its trace.

        `came_s`: the loop's time when it came; `slot`: the answer's place if it was kept for it.
        """
        if self.metrics is not None:
            ctx = call.ctx
            now_ms = self.loop.time() * 1000
            name = (
                call.route.name if call.route.api_key not in SPLIT_APIS else metric_name(call.route.name, call.request)
            )
            error_code = getattr(response, "error_code", 0)
            times = self.metrics.handled(name, ctx.api_version, error_code, now_ms - ctx.received_ms)
            if times is not None:
                sample = Sample(
                    times,
                    slot or outbox.newest,
                    came_ms=came_s * 1000,
                    start_ms=ctx.received_ms,
                    local_ms=now_ms - ctx.received_ms if ctx.spent_ms is None else ctx.spent_ms,
                    answered_ms=now_ms,
                    throttle_ms=ctx.throttle_ms,
                    size=ctx.request_bytes,
                )
                outbox.watch(sample)
        if call.traced is not None:
            call.traced.ended("encode")
            call.traced.answered(call.route.name, call.ctx, response)

    def authenticated(self, outcome: Authentication) -> None:
        """Count the outcome of an authentication."""
        if self.metrics is not None:
            self.metrics.authenticated(self.listener, outcome)

    def not_authenticated(self, client: str, authenticator: SaslServerAuthenticator, reason: str) -> None:
        """Count and log a failed authentication."""
        again = authenticator.is_again
        self.authenticated(Authentication.FAILED_AGAIN if again else Authentication.FAILED)
        log.info(
            "re-authentication failed" if again else "authentication failed",
            client=client,
            listener=self.listener,
            mechanism=authenticator.mechanism_name,
            reason=reason,
        )

    def authentication_broke(self, client: str, error: Exception) -> None:
        """Log an unexpected exception during authentication: the connection is closed."""
        log.unexpected("authentication", error, client=client, listener=self.listener)

    def malformed(self, client: str, error: ProtocolError) -> None:
        """Log that a connection ends because of its peer's data: the only line about it."""
        log.warning("connection closed", client=client, listener=self.listener, reason=error)
        if self.metrics is not None:
            self.metrics.refused(self.listener, "malformed")

    def dropped(self, client: str, reason: str) -> None:
        """Log a connection that was closed because connections use too much memory."""
        log.warning("connection closed", client=client, listener=self.listener, reason=reason)
        if self.metrics is not None:
            self.metrics.refused(self.listener, "memory")

    def cut_short(self, client: str, error: OSError) -> None:
        """Log that an answer was cut off: a file was unreadable."""
        log.error("response truncated", client=client, error=error, stack=stack_of(error))
