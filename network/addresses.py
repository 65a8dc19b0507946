"""Addresses to connect to: parsing of HOST:PORT, and the peers of a node as {peer id: (host, port)}.

Tests replace addresses of peers.
"""

from collections.abc import Mapping
from typing import TypeAlias

Address: TypeAlias = tuple[str, int]
"""Host and port."""


class AddressBook:
    """Peers by id. An override (`kvorum.peer.addresses`) has precedence over learned addresses."""

    __slots__ = ("_known", "_overrides")

    def __init__(self, known: Mapping[int, Address] | None = None, overrides: Mapping[int, Address] | None = None):
        """Create it with the known peers and the addresses that replace theirs."""
        self._known = dict(known or {})
        self._overrides = dict(overrides or {})

    def put(self, peer_id: int, address: Address) -> None:
        """Learn where a peer is."""
        self._known[peer_id] = address

    def remove(self, peer_id: int) -> None:
        """Forget a peer. Idempotent."""
        self._known.pop(peer_id, None)

    def get(self, peer_id: int) -> Address | None:
        """Return where to connect to, or None for an unknown peer."""
        return self._overrides.get(peer_id) or self._known.get(peer_id)

    def direct(self, peer_id: int) -> Address | None:
        """Return the peer's own address, without overrides: a refused connect means that its process has ended."""
        return self._known.get(peer_id)

    def ids(self) -> list[int]:
        """Return the peers known, in order."""
        return sorted(self._known)


def parse_bootstrap(text: str) -> list[Address]:
    """Read HOST:PORT,HOST:PORT. Raises ValueError."""
    found: list[Address] = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        host, colon, port = item.rpartition(":")
        if not colon or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError(f"{item!r} is not HOST:PORT")
        found.append((host.strip("[]"), int(port)))
    if not found:
        raise ValueError("HOST:PORT is missing")
    return found
