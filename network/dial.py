"""Connects with a timeout, classifies failures, and computes the backoff."""

import asyncio
import errno
from collections.abc import Callable
from random import Random
from typing import Final, TypeVar

from kvorum.network.channel_errors import AuthenticationFailed as AuthenticationFailed
from kvorum.network.channel_errors import ChannelError as ChannelError
from kvorum.network.channel_errors import ConnectionLost as ConnectionLost
from kvorum.network.channel_errors import Dialled as Dialled
from kvorum.network.channel_errors import ForeignPeer as ForeignPeer
from kvorum.network.channel_errors import RequestTimedOut as RequestTimedOut
from kvorum.network.link import stream
from kvorum.security.client import PLAINTEXT, ClientSecurity

SETUP_TIMEOUT_MS: Final = 10_000
"""socket.connection.setup.timeout.ms."""

SESSION_MS_MAX: Final = 7 * 24 * 3_600_000
"""A longer session is renewed after this time as well."""


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
