"""Frames of our own over a connection that left request and answer behind: what Raft rides on."""

import asyncio
from typing import Final, cast

LINK_OUTSTANDING_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes sent and not taken by the peer; beyond it frames are dropped. Holds several of the largest Raft frames."""


class FrameLink:
    """Sends frames: a 4-byte length, then the parts."""

    __slots__ = ("_transport", "peer_address")

    def __init__(self, transport: asyncio.Transport, peer_address: str) -> None:
        """Send over an open transport; `peer_address` is HOST:PORT."""
        self._transport = transport
        self.peer_address = peer_address

    def send(self, *parts: bytes | bytearray | memoryview) -> bool:
        """Send one frame; False if it was dropped: closed, or too many unsent bytes."""
        transport = self._transport
        if transport.is_closing() or transport.get_write_buffer_size() > LINK_OUTSTANDING_BYTES_MAX:
            return False
        size = sum(len(part) for part in parts)
        transport.writelines([size.to_bytes(4, "big"), *parts])
        return True

    def close(self) -> None:
        """Close after the sent bytes."""
        self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()


def stream(transport: asyncio.BaseTransport) -> asyncio.Transport:
    """Return the argument of connection_made with its type: uvloop's transports are not asyncio classes."""
    return cast(asyncio.Transport, transport)
