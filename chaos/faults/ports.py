"""Ports chosen before any listener exists: one block per lab, below those that nodes choose for themselves.

Those are below the kernel's range for clients: a port from that range may be taken by any client's connection between
the choice and the use. Simultaneous labs are separated by a lock on their block, held until `release`.
"""

import fcntl
import os
import secrets
import socket
import tempfile
from dataclasses import dataclass, field
from typing import Final

from kvorum.cluster.local.ports import FIRST_PORT as FIRST_CHOSEN_PORT

FIRST_PORT: Final = 10_000
BLOCK_PORTS: Final = 512
"""Enough for eight combined nodes with two client groups: 208 proxies, 56 listeners."""


class NoPorts(Exception):
    """Every block is taken, or all of a block's ports are."""


@dataclass(slots=True)
class PortBlock:
    """A block of ports of this machine. Make it with `take`."""

    first: int
    _lock_fd: int
    _next: int = field(default=0)

    @classmethod
    def take(cls) -> "PortBlock":
        """Lock a free block, chosen at random, so that clients of earlier runs connect elsewhere.

        Raises NoPorts.
        """
        folder = os.path.join(tempfile.gettempdir(), f"kvorum-ports-{os.getuid()}")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        count = (FIRST_CHOSEN_PORT - FIRST_PORT) // BLOCK_PORTS
        begin = secrets.randbelow(count)
        for step in range(count):
            first = FIRST_PORT + (begin + step) % count * BLOCK_PORTS
            fd = os.open(os.path.join(folder, f"{first}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(fd)
                continue
            return cls(first, fd)
        raise NoPorts(f"all {count} blocks of {BLOCK_PORTS} ports from {FIRST_PORT} on are in use (locks in {folder})")

    def next(self) -> int:
        """Return a port of the block that is free now and was not returned before. Raises NoPorts."""
        while self._next < BLOCK_PORTS:
            port = self.first + self._next
            self._next += 1
            if is_free(port):
                return port
        raise NoPorts(f"all ports from {self.first} to {self.first + BLOCK_PORTS - 1} are in use")

    def release(self) -> None:
        """Let others have the block. Idempotent."""
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1


def is_free(port: int) -> bool:
    """Return whether one could listen on a port of the loopback address now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            holder.bind(("127.0.0.1", port))
            holder.listen(1)
        except OSError:
            return False
        return True
