"""Outcomes of connecting to a peer: an established connection, or why there is none."""

import asyncio
from typing import Generic, NamedTuple, TypeVar

P = TypeVar("P", bound=asyncio.BaseProtocol)


class Dialled(NamedTuple, Generic[P]):
    """An established connection."""

    protocol: P
    session_ms: int = 0
    """The peer accepts requests for this time only (KIP-368): use another connection then. 0: no limit."""


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
