"""The last offset of each key, in a fixed number of bytes (Kafka's SkimpyOffsetMap, with another hash).

A flat array of slots of 24 bytes: the key's identity and its offset. The identity is a 128-bit BLAKE2b keyed by a
secret of this run, so that an attacker cannot choose keys with equal identities: the earlier one would lose its last
value. The slot is the Murmur3 hash of the identity, not of the key: keys crafted to collide under Murmur3, with any
seed, are spread, so they cannot make every look-up a scan of all of them. A collision uses the next free slot; entries
are never removed. Sans-IO.

The array is anonymous memory: its pages are zero, and cost nothing, until they are written (a bytearray of that size
would be filled with zeros at once: 50 ms in which no other thread runs).
"""

from collections.abc import Callable
from hashlib import blake2b
from mmap import mmap
from struct import Struct
from typing import Final

import mmh3

IDENTITY_SIZE: Final = 16
SECRET_SIZE: Final = 32
_SLOT: Final = Struct(f">{IDENTITY_SIZE}sq")
_OFFSET: Final = Struct(">q")
SLOT_SIZE: Final = _SLOT.size
MEMORY_MAX: Final = 2**31 - 1
"""More is not used, as in Kafka: one cleaner's share of log.cleaner.dedupe.buffer.size."""
NOT_FOUND: Final = -1


class OffsetMap:
    """See the module. Stores up to `slots` keys; the caller stops before that."""

    __slots__ = ("_data", "_identity", "_memory_bytes", "latest_offset", "size", "slots")

    def __init__(self, memory_bytes: int, secret: bytes, slots_max: int = MEMORY_MAX) -> None:
        """Use this many bytes, but at most those of `slots_max` slots: few keys in many slots would spread over all."""
        assert len(secret) == SECRET_SIZE, "the secret is drawn whole"
        self._memory_bytes = min(memory_bytes, MEMORY_MAX)
        self.slots = max(2, min(self._memory_bytes // SLOT_SIZE, slots_max))
        self._identity: Callable[[], blake2b] = blake2b(digest_size=IDENTITY_SIZE, key=secret).copy
        self._data = mmap(-1, self.slots * SLOT_SIZE)
        self.size = 0
        """Number of keys."""
        self.latest_offset = NOT_FOUND
        """Up to which offset, inclusive, the log was put into it."""

    @property
    def memory_bytes(self) -> int:
        """The bytes of all slots, empty ones included."""
        return len(self._data)

    @property
    def utilization(self) -> float:
        """The share that is taken of all the bytes it may use, 0 to 1."""
        return self.size * SLOT_SIZE / self._memory_bytes

    def clear(self) -> None:
        """Forget everything; the pages that were written go back to the system."""
        if self.size:
            self._data.close()
            self._data = mmap(-1, self.slots * SLOT_SIZE)
        self.size = 0
        self.latest_offset = NOT_FOUND

    def close(self) -> None:
        """Release the memory. The map must not be used afterwards."""
        self._data.close()

    def put(self, key: bytes, offset: int) -> None:
        """Store this offset for the key, replacing its former one; `offset` is not negative."""
        hasher = self._identity()
        hasher.update(key)
        identity = hasher.digest()
        data = self._data
        position = (mmh3.hash(identity, 0, False) % self.slots) * SLOT_SIZE
        while True:
            found, held = _SLOT.unpack_from(data, position)
            if not held:
                assert self.size < self.slots - 1, "one slot stays free, where every look-up ends"
                self.size += 1
            elif found != identity:
                position += SLOT_SIZE
                if position == len(data):
                    position = 0
                continue
            _SLOT.pack_into(data, position, identity, offset + 1)
            return

    def get(self, key: bytes) -> int:
        """Return the key's offset, NOT_FOUND if it has none."""
        hasher = self._identity()
        hasher.update(key)
        identity = hasher.digest()
        data = self._data
        position = (mmh3.hash(identity, 0, False) % self.slots) * SLOT_SIZE
        while True:
            found, held = _SLOT.unpack_from(data, position)
            if not held or found == identity:
                return int(held) - 1
            position += SLOT_SIZE
            if position == len(data):
                position = 0
