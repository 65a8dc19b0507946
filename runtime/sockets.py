"""Buffer sizes of a socket where they are configured, and writes past an event loop's transport.

Sizes that are not configured are the kernel's, which grow with the connection. A configured size stops the kernel from
adapting the buffer (tcp(7)), and is silently limited to net.core.rmem_max or wmem_max. So Kafka's default of 100 KiB
applies only if it is configured.
"""

import os
import socket
from collections.abc import Sequence
from typing import Final, Protocol

from kvorum.runtime.config import ConfigSource, Settings

KERNELS_CHOICE: Final = -1
"""Leave the buffer to the kernel."""


class HasOptions(Protocol):
    """A socket, or an event loop's view of one."""

    def fileno(self) -> int:
        """See socket.socket."""
        ...

    def setsockopt(self, level: int, optname: int, value: int) -> None:
        """See socket.socket."""
        ...


def buffer_bytes(settings: Settings, key: str) -> int:
    """Return a configured buffer size (bytes), KERNELS_CHOICE if it is not set or below 1."""
    size = settings.int(key)
    written = settings.source(key).layer is not ConfigSource.DEFAULT_CONFIG
    return size if written and size > 0 else KERNELS_CHOICE


def set_buffers(
    sock: HasOptions | None, *, send_bytes: int = KERNELS_CHOICE, receive_bytes: int = KERNELS_CHOICE
) -> None:
    """Set SO_SNDBUF and SO_RCVBUF where they are not KERNELS_CHOICE. No socket (a simulated transport) is fine."""
    if sock is None:
        return
    for option, size in ((socket.SO_SNDBUF, send_bytes), (socket.SO_RCVBUF, receive_bytes)):
        if size != KERNELS_CHOICE:
            sock.setsockopt(socket.SOL_SOCKET, option, size)


def descriptor_of(sock: HasOptions | None) -> int:
    """Return a socket's descriptor, -1 where a transport has none (simulated)."""
    return -1 if sock is None else sock.fileno()


def send_now(socket_fd: int, parts: Sequence[bytes | bytearray | memoryview]) -> int:
    """Write to a non-blocking socket; return how many bytes it took.

    0 if it takes none now, or if the connection is broken: the transport's next write reports that.
    """
    try:
        return os.writev(socket_fd, parts)
    except (BlockingIOError, ConnectionError):
        return 0
