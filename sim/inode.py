"""A simulated file's content: visible data, durable data, and the effect of a power failure on the writes between."""

import random
from typing import Final

SECTOR: Final = 512

Write = tuple[int, bytes | None]
"""(position, data), or (size, None) for a truncation."""


class Inode:
    """A file's content: visible data, durable data, and the writes between."""

    __slots__ = ("durable", "live", "pending")

    def __init__(self) -> None:
        """Start empty."""
        self.live = bytearray()
        self.durable = bytearray()
        self.pending: list[Write] = []

    def make_durable(self) -> None:
        """Apply the pending writes to the durable content."""
        for position, data in self.pending:
            if data is None:
                resize(self.durable, position)
            else:
                put(self.durable, position, data)
        self.pending.clear()

    def lose(self, rng: random.Random) -> None:
        """Lose power: of the pending writes none, the first few or any are kept, the last of them perhaps torn."""
        pending = self.pending
        kept: list[Write] = []
        fate = rng.random() if pending else 0.0
        if fate > 0.6:
            kept = pending[: rng.randint(0, len(pending))]
        elif fate > 0.4:
            kept = [write for write in pending if rng.random() < 0.5]
        if kept and rng.random() < 0.7:
            position, data = kept.pop()
            if data is not None:
                kept.extend(tear_write(position, data, rng))
        self.pending = kept
        self.make_durable()
        self.live = bytearray(self.durable)


def tear_write(position: int, data: bytes, rng: random.Random) -> list[Write]:
    """Return the sectors of a write that made it: a prefix, or any."""
    pieces: list[Write] = []
    start = 0
    while start < len(data):
        end = min(len(data), start + SECTOR - (position + start) % SECTOR)
        pieces.append((position + start, data[start:end]))
        start = end
    if rng.random() < 0.5:
        return pieces[: rng.randint(0, len(pieces))]
    return [piece for piece in pieces if rng.random() < 0.5]


def put(target: bytearray, position: int, data: bytes) -> None:
    """Write into a content, with zeros up to the position."""
    if len(target) < position:
        target.extend(bytes(position - len(target)))
    target[position : position + len(data)] = data


def resize(target: bytearray, size: int) -> None:
    """Cut a content off, or fill it up with zeros."""
    if size < len(target):
        del target[size:]
    else:
        target.extend(bytes(size - len(target)))
