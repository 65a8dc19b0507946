"""A listening socket with one task per connection, up to a maximum."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvorum.network.tls_acceptor import HttpTls, TlsAcceptor


class StreamServer:
    """Calls `serve` with each connection's streams; it closes them itself. `start` once, `close` once or more."""

    def __init__(
        self,
        serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
        *,
        connections_max: int,
        line_bytes_max: int,
        tls: "HttpTls | None" = None,
    ) -> None:
        """Prepare; nothing is opened yet. A connection beyond `connections_max` is closed at once."""
        self._tls = tls
        self._acceptor: TlsAcceptor | None = None
        self._serve = serve
        self._connections_max = connections_max
        self._line_bytes_max = line_bytes_max
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> int:
        """Listen; return the port. Raises OSError."""
        loop = asyncio.get_running_loop()

        def protocol() -> asyncio.StreamReaderProtocol:
            reader = asyncio.StreamReader(limit=self._line_bytes_max, loop=loop)
            return asyncio.StreamReaderProtocol(reader, self._accept, loop=loop)

        make: Callable[[], asyncio.BaseProtocol] = protocol
        if self._tls is not None:
            # Loaded only if needed: certificates require a large library.
            from kvorum.network.tls_acceptor import TlsAcceptor

            make = self._acceptor = TlsAcceptor(protocol, self._tls, "HTTP")
        self._server = await loop.create_server(make, host, port)
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Stop listening, and cut every connection."""
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        if self._acceptor is not None:
            self._acceptor.close()
        connections = tuple(self._connections)
        for task in connections:
            task.cancel()
        if connections:
            await asyncio.wait(connections)
        await server.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server is None or len(self._connections) >= self._connections_max:
            writer.close()
            return
        task = asyncio.get_running_loop().create_task(self._run(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _run(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._serve(reader, writer)
        finally:
            writer.close()
