"""Connects with a timeout, classifies failures, and computes the backoff."""

import asyncio
import errno
from collections.abc import Callable
from random import Random
from typing import Final, Generic, NamedTuple, TypeVar

from kvorum.network.link import stream
from kvorum.security.client import PLAINTEXT, ClientSecurity

SETUP_TIMEOUT_MS: Final = 10_000
"""socket.connection.setup.timeout.ms."""

SESSION_MS_MAX: Final = 7 * 24 * 3_600_000
"""A longer session is renewed after this time as well."""


class ChannelError(Exception):
    """A request to a peer has no answer. The tree:

    ChannelError
    +-- ConnectionLost(maybe_sent, refused)   no connection, or it broke
    |   +-- ForeignPeer(cluster_id)           the peer belongs to another cluster
    |   +-- AuthenticationFailed              one side did not accept the other's certificate or credentials
    +-- RequestTimedOut(maybe_sent)           no answer in time
    """

    maybe_sent = True
    """False: the peer has certainly not seen the request."""


class ConnectionLost(ChannelError):
    """There was no connection, or it broke before the answer came."""

    def __init__(self, reason: str, *, maybe_sent: bool, refused: bool = False) -> None:
        """Store whether the peer may have received the request, and whether its machine refused the connection."""
        super().__init__(reason)
        self.maybe_sent = maybe_sent
        self.refused = refused
        """The peer's machine is up and the port is closed: its process has ended (if the address is its own)."""


class ForeignPeer(ConnectionLost):
    """The peer belongs to another cluster: no request was sent to it."""

    def __init__(self, cluster_id: str) -> None:
        """Store the peer's cluster id."""
        super().__init__(f"belongs to another cluster, {cluster_id}", maybe_sent=False)
        self.cluster_id = cluster_id


class AuthenticationFailed(ConnectionLost):
    """TLS or SASL failed: no request was sent."""

    def __init__(self, reason: str) -> None:
        """Store the reason."""
        super().__init__(reason, maybe_sent=False)


class RequestTimedOut(ChannelError):
    """The response did not arrive in time."""

    def __init__(self, reason: str, *, maybe_sent: bool) -> None:
        """Store whether the peer may have received the request."""
        super().__init__(reason)
        self.maybe_sent = maybe_sent


class Backoff:
    """Delays that double from `first_ms` to `last_ms`, each up to 20 % longer or shorter by chance (KIP-144)."""

    __slots__ = ("_chance", "_first_ms", "_last_ms", "failures")

    def __init__(self, first_ms: int, last_ms: int, chance: Random) -> None:
        """Start with no failure."""
        assert 0 < first_ms <= last_ms
        self._first_ms = first_ms
        self._last_ms = last_ms
        self._chance = chance
        self.failures = 0

    def next_ms(self) -> float:
        """Return how long to wait after one more failure."""
        delay = min(self._last_ms, self._first_ms << min(self.failures, 30))
        self.failures += 1
        return delay * self._chance.uniform(0.8, 1.2)

    def reset(self) -> None:
        """Start over: it worked."""
        self.failures = 0


P = TypeVar("P", bound=asyncio.BaseProtocol)


class Dialled(NamedTuple, Generic[P]):
    """An established connection."""

    protocol: P
    session_ms: int = 0
    """The peer accepts requests for this time only (KIP-368): use another connection then. 0: no limit."""


async def dial(
    make: Callable[[], P],
    host: str,
    port: int,
    timeout_ms: int = SETUP_TIMEOUT_MS,
    security: ClientSecurity = PLAINTEXT,
) -> Dialled[P]:
    """Connect and authenticate; return the protocol that `make` made, connected. Raises ConnectionLost."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            if security.tls is None and security.sasl is None:
                return Dialled((await loop.create_connection(make, host, port))[1])
            # Loaded only if needed: certificates require a large library.
            from kvorum.network.secure_dial import dial_securely

            return await dial_securely(make, host, port, security)
    except TimeoutError as error:
        raise ConnectionLost(f"{host}:{port} did not respond within {timeout_ms} ms", maybe_sent=False) from error
    except OSError as error:
        refused = is_refusal(error)
        reason = "refused the connection" if refused else f"cannot be connected to: {error}"
        raise ConnectionLost(f"{host}:{port} {reason}", maybe_sent=False, refused=refused) from error


def renewal_s(session_ms: int, chance: Random) -> float:
    """Return after which time a session is renewed: 85 to 95 % of it, as in Kafka's clients."""
    return min(session_ms, SESSION_MS_MAX) * chance.uniform(0.85, 0.95) / 1000


def is_refusal(error: OSError) -> bool:
    """Return whether every address of the host refused."""
    if error.errno is not None or isinstance(error, ConnectionRefusedError):
        return isinstance(error, ConnectionRefusedError)
    # Several addresses failed: asyncio joins their texts, "[Errno 111] ..." each.
    text = str(error)
    return 0 < text.count("[Errno") == text.count(f"[Errno {errno.ECONNREFUSED}]")


async def is_refusing(host: str, port: int, timeout_ms: int = SETUP_TIMEOUT_MS) -> bool:
    """Connect once and close; return whether it was refused. Other failures and timeouts count as not refused."""
    try:
        protocol = (await dial(Knock, host, port, timeout_ms)).protocol
    except ConnectionLost as lost:
        return lost.refused
    protocol.transport.abort()
    return False


class Knock(asyncio.Protocol):
    """Detects only that the connect succeeded."""

    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport, to close it."""
        self.transport = stream(transport)
