"""A listener: one address that accepts connections, and these connections.

It can be set to refuse: the address is then closed as if the process had ended, and reopened by `accept`.

With `tls` a transport is between the socket's and the connection, which is made after the handshake. With `sasl` a
connection's requests go to the router once its peer has authenticated.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from kvorum.network.arrival import Arrival
from kvorum.network.authorizer import NoQuotas, Quotas
from kvorum.network.connection import ServerConnection
from kvorum.network.connection_counts import ConnectionCounts
from kvorum.network.limits import ConnectionLimits, RequestBudget
from kvorum.network.memory import ConnectionMemory
from kvorum.network.request_queue import RequestQueue
from kvorum.network.router import Router
from kvorum.network.shared import Connection, NetworkMetrics, Shared
from kvorum.network.tracing import Tracing
from kvorum.runtime.listeners import SecurityProtocol, address
from kvorum.runtime.logs import get_logger
from kvorum.security.sasl.authenticator import SaslConfig, SaslResource

if TYPE_CHECKING:
    from kvorum.security.tls.server import TlsServer

CLOSE_GRACE_MS: Final = 5_000
"""Time limit of requests in progress when a listener closes."""
SWEEPS_IN_IDLE_MAX: Final = 100
"""A connection is closed at most a hundredth of the idle time late, and the sweep runs at most so often."""
ANY_IPV4: Final = "0.0.0.0"

log = get_logger("network")


class Listener:
    """Accepts on one address and serves one router. `start` once, `close` once."""

    def __init__(
        self,
        name: str,
        host: str,
        port: int,
        router: Router,
        *,
        security_protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT,
        limits: ConnectionLimits | None = None,
        counts: ConnectionCounts | None = None,
        budget: RequestBudget | None = None,
        queue: RequestQueue | None = None,
        memory: ConnectionMemory | None = None,
        tracing: Tracing | None = None,
        metrics: NetworkMetrics | None = None,
        quotas: Quotas | None = None,
        protected: bool = False,
        on_connection_closed: Callable[[str], None] | None = None,
        sasl: SaslConfig | None = None,
        tls: "TlsServer | None" = None,
    ) -> None:
        """Prepare. An empty host means every address of the machine; `counts` to `tracing` are the process's.

        `protected`: the listener between brokers is exempt from the limits of all listeners.
        `on_connection_closed` is called once with the Peer.connection_id of each closed connection.
        """
        self.name = name
        self._host = host
        self._port = port
        self._router = router
        self._security_protocol = security_protocol
        self._limits = limits or ConnectionLimits()
        self._counts = counts or ConnectionCounts()
        self._budget = budget or RequestBudget()
        self._queue = queue or RequestQueue()
        self._memory = memory or ConnectionMemory()
        self._tracing = tracing or Tracing()
        self._metrics = metrics
        self._quotas = quotas or NoQuotas()
        self._protected = protected
        self._on_connection_closed = on_connection_closed
        self._sasl = sasl
        self._tls = tls
        self._shared: Shared | None = None
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.TimerHandle | None = None

    @property
    def port(self) -> int:
        """Return the port (the requested one until started)."""
        return self._port

    @property
    def connection_count(self) -> int:
        """Return how many connections are open."""
        return len(self._shared.by_activity) if self._shared is not None else 0

    def connections(self) -> Iterator[Connection]:
        """Return the open connections, the latest that was active first. Not to be kept over a turn of the loop."""
        return reversed(self._shared.by_activity) if self._shared is not None else iter(())

    @property
    def queued_requests(self) -> int:
        """Return how many requests were received and not answered yet. O(connections)."""
        return sum(connection.queued for connection in self._shared.by_activity) if self._shared is not None else 0

    async def start(self) -> int:
        """Listen; return the port, chosen by the kernel if 0 was requested. Raises OSError, ConfigError."""
        assert self._shared is None, "a listener starts once"
        loop = asyncio.get_running_loop()
        shared = self._shared = Shared(
            loop=loop,
            router=self._router,
            listener=self.name,
            security_protocol=self._security_protocol,
            limits=self._limits,
            counts=self._counts,
            budget=self._budget,
            queue=self._queue,
            memory=self._memory,
            tracing=self._tracing,
            metrics=self._metrics,
            quotas=self._quotas,
            protected=self._protected,
            on_connection_closed=self._on_connection_closed,
            sasl=self._sasl,
        )
        for resource in self._resources():
            await resource.start()
        self._server = await self._listen(shared)
        self._port = int(self._server.sockets[0].getsockname()[1])
        self._sweep()
        log.info(
            "listener started",
            listener=self.name,
            address=address(self._host or ANY_IPV4, self._port),
            protocol=self._security_protocol.name,
        )
        return self._port

    async def _listen(self, shared: Shared) -> asyncio.Server:
        # With port 0 each family would get another port.
        host = self._host or (ANY_IPV4 if self._port == 0 else None)
        make = self._protocol_factory(shared)
        return await shared.loop.create_server(make, host, self._port, backlog=self._limits.backlog)

    def _protocol_factory(self, shared: Shared) -> Callable[[], asyncio.BufferedProtocol]:
        """Return what makes the protocol of an accepted socket."""
        tls, limits = self._tls, self._limits

        def connection(arrival: Arrival | None = None) -> ServerConnection:
            return ServerConnection(shared, arrival)

        if tls is None:
            return connection
        # Loaded only if needed: certificates require a large library.
        from kvorum.network.handshakes import Handshake, Handshakes
        from kvorum.network.tls import tls_scratch

        table = Handshakes(
            shared.loop, limits.handshakes_max, limits.handshakes_per_ip_max, limits.handshake_timeout_ms
        )
        scratch = tls_scratch()
        return lambda: Handshake(shared, tls, table, scratch, connection).transport

    @property
    def is_refusing(self) -> bool:
        """Whether the address is closed though the listener is not."""
        return self._shared is not None and not self._shared.closing and self._server is None

    def refuse(self, *, cut: bool = False) -> None:
        """Close the address, as if the process had ended; `cut`: and every connection. Idempotent."""
        server, shared, self._server = self._server, self._shared, None
        assert shared is not None, "start comes first"
        if server is not None:
            server.close()
            log.warning("listener rejects connections", listener=self.name, port=self._port)
        if cut:
            for connection in tuple(shared.by_activity):
                connection.abort()

    async def accept(self) -> None:
        """Listen again on the same port. Idempotent. Raises OSError: the port is in use."""
        shared = self._shared
        assert shared is not None, "start comes first"
        if not self.is_refusing:
            return
        server = await self._listen(shared)
        if shared.closing:
            server.close()
            return
        self._server = server
        log.warning("listener accepts connections again", listener=self.name, port=self._port)

    async def close(self, grace_ms: int = CLOSE_GRACE_MS) -> None:
        """Stop accepting, let requests in progress finish within this time, then close every connection. Idempotent."""
        server, shared, self._server = self._server, self._shared, None
        if shared is None or shared.closing:
            return
        if self._sweeper is not None:
            self._sweeper.cancel()
        shared.closing = True
        if server is not None:
            server.close()
        for connection in tuple(shared.by_activity):
            connection.finish()
        try:
            async with asyncio.timeout(grace_ms / 1000):
                await self._emptied(shared)
        except TimeoutError:
            for connection in tuple(shared.by_activity):
                connection.abort()
            await self._emptied(shared)
        if server is not None:
            await server.wait_closed()
        for resource in self._resources():
            await resource.close()
        log.info("listener closed", listener=self.name, port=self._port)

    async def _emptied(self, shared: Shared) -> None:
        """Wait until the last connection is closed."""
        if shared.by_activity:
            shared.emptied = shared.loop.create_future()
            await shared.emptied

    def _resources(self) -> tuple[SaslResource, ...]:
        return self._sasl.resources if self._sasl is not None else ()

    def _sweep(self) -> None:
        """Close idle connections, and schedule the next check."""
        shared = self._shared
        assert shared is not None
        if self._limits.idle_ms < 0:
            return
        idle = max(self._limits.idle_ms, 1) / 1000
        now = shared.loop.time()
        while shared.by_activity:
            connection = next(iter(shared.by_activity))
            if connection.active_at + idle > now:
                break
            if connection.busy:
                connection.touch()
                continue
            log.info("idle connection closed", client=connection.address, listener=self.name)
            connection.close()
            connection.touch()  # checked again, and then closed if its client does not read
        oldest = next(iter(shared.by_activity)).active_at if shared.by_activity else now
        self._sweeper = shared.loop.call_later(max(oldest + idle - now, idle / SWEEPS_IN_IDLE_MAX), self._sweep)
