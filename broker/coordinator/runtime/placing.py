"""Which partition of an internal topic a group or a transactional id lives on. Sans-IO.

Java's String.hashCode, made positive as Utils.abs does, modulo the partition count: clients and tools compute the same.
"""

import struct
from collections.abc import Iterable
from typing import Final

_UNIT: Final = struct.Struct(">H")
_MASK: Final = 0xFFFFFFFF
_SIGN: Final = 0x80000000


def java_hash(text: str) -> int:
    """Return String.hashCode: over UTF-16 code units, as a signed 32-bit number."""
    units: Iterable[int]
    if text.isascii():
        units = text.encode()
    else:
        units = (unit for (unit,) in _UNIT.iter_unpack(text.encode("utf-16-be", "surrogatepass")))
    value = 0
    for unit in units:
        value = (31 * value + unit) & _MASK
    return value - (1 << 32) if value & _SIGN else value


def partition_for(key: str, partition_count: int) -> int:
    """Return the partition of a group id or transactional id."""
    value = java_hash(key)
    return (0 if value == -_SIGN else abs(value)) % partition_count
