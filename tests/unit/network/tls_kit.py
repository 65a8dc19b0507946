"""TLS listeners, and TLS clients of every kind."""

import asyncio
import socket
import ssl
from typing import Any

import trustme

from kvorum.network.context import RequestContext
from kvorum.network.router import Handler
from kvorum.network.server import Listener
from kvorum.network.shared import Authentication
from kvorum.protocol.api import ApiKey
from kvorum.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from kvorum.runtime.listeners import SecurityProtocol
from kvorum.security.tls.server import TlsServer
from tests.tls_certificates import CA, authority, server_tls
from tests.unit.network.network_kit import listener_of, metadata_handler


class Cluster:
    """A cluster of one broker, as clients find it; `port` is its listener's."""

    def __init__(self, cluster_id: str) -> None:
        self.port = 0
        self.cluster_id = cluster_id
        self.principals: list[str] = []
        self.handler = Handler(ApiKey.METADATA, (0, 13), self.handle)

    def handle(self, ctx: RequestContext, request: MetadataRequest) -> MetadataResponse:
        self.principals.append(str(ctx.principal))
        broker = MetadataResponseBroker(node_id=1, host="localhost", port=self.port)
        return MetadataResponse(cluster_id=self.cluster_id, controller_id=1, brokers=[broker])


class Counted:
    """NetworkMetrics of a listener."""

    def __init__(self) -> None:
        self.open = 0
        self.outcomes: list[Authentication] = []
        self.refusals: list[str] = []
        self.ciphers: list[tuple[tuple[str, str], int]] = []
        """Cipher suite with TLS version, and change of the number of connections."""

    def connections(self, listener: str, change: int) -> None:
        self.open += change

    def connections_by_cipher(self, listener: str, cipher: tuple[str, str], change: int) -> None:
        self.ciphers.append((cipher, change))

    def reauthenticated(self, listener: str, latency_ms: float) -> None: ...

    def received(self, listener: str, size: int) -> None: ...

    def sent(self, listener: str, size: int) -> None: ...

    def refused(self, listener: str, reason: str) -> None:
        self.refusals.append(reason)

    def authenticated(self, listener: str, outcome: Authentication) -> None:
        self.outcomes.append(outcome)

    def handled(self, api: str, version: int, error_code: int, elapsed_ms: float) -> None: ...

    def handled_by_lane(self, *arguments: object) -> None: ...


def tls_listener(tls: TlsServer | None = None, *handlers: Any, **options: Any) -> Listener:
    return listener_of(
        *(handlers or (metadata_handler(),)),
        tls=tls or server_tls(),
        security_protocol=SecurityProtocol.SSL,
        **options,
    )


def python_context(cert: trustme.LeafCert | None = None, ca: str = CA, **options: Any) -> ssl.SSLContext:
    """A context of Python's own ssl module."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority(ca).configure_trust(context)
    if cert is not None:
        cert.configure_cert(context)
    ciphers = options.pop("ciphers", None)
    if ciphers is not None:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers(ciphers)
    for name, value in options.items():
        setattr(context, name, value)
    return context


def handshake(port: int, context: ssl.SSLContext, request: bytes = b"", host: str = "localhost") -> bytes:
    """Connect with a blocking socket, send a request and return the first bytes. Raises OSError, ssl.SSLError."""
    sock = socket.create_connection(("127.0.0.1", port), timeout=10)
    with sock, context.wrap_socket(sock, server_hostname=host) as wrapped:
        wrapped.sendall(request)
        return wrapped.recv(65_536)


async def try_handshake(*arguments: Any, **options: Any) -> bytes | Exception:
    """Do it in a thread; return the bytes or the error."""

    def attempt() -> bytes | Exception:
        try:
            return handshake(*arguments, **options)
        except (OSError, ssl.SSLError) as error:
            return error

    return await asyncio.to_thread(attempt)
