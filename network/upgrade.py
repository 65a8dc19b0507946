"""Upgrade of a connection: its first request with a private key takes it over.

From then on its frames go to a FrameSink, in order, and the sink's frames are sent over an UpgradeLink: Raft, on a
controller's listener.
"""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from kvorum.network.context import Peer, RequestContext, context_of
from kvorum.protocol.headers import decode_client_id, peek_request


class UpgradeLink(Protocol):
    """A connection that left request and answer behind, as the code that took it over sees it."""

    @property
    def peer_address(self) -> str:
        """HOST:PORT of the other end."""
        ...

    def send(self, *parts: bytes | bytearray | memoryview) -> bool:
        """Send one frame; False if it was dropped: closed, or too many unsent bytes."""
        ...

    def close(self) -> None:
        """Close after the sent bytes; `on_closed` follows."""
        ...


class FrameSink(Protocol):
    """Receiver of an upgraded connection."""

    def on_frame(self, frame: memoryview) -> None:
        """Process one frame, length removed. The sink owns the bytes. Raises ProtocolError: closes the connection."""
        ...

    def on_closed(self) -> None:
        """The connection was lost. Called once."""
        ...


Upgrade: TypeAlias = Callable[[UpgradeLink, RequestContext, memoryview], FrameSink]
"""Takes over a connection whose first request has the private key; the memoryview is that request's body.

Raises ProtocolError to refuse it.
"""


def hand_over(upgrade: Upgrade, link: UpgradeLink, peer: Peer, frame: memoryview, now_ms: float) -> FrameSink:
    """Take over the connection of this request; no earlier request is pending. Raises ProtocolError."""
    api_key, api_version, correlation_id = peek_request(frame)
    client_id, position = decode_client_id(frame, 1)
    ctx = context_of(peer, client_id, correlation_id, api_key, api_version, now_ms)
    sink = upgrade(link, ctx, frame[position:])
    peer.client_id, peer.upgraded = client_id, True
    return sink
