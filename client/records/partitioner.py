"""The partition of a key, as Kafka's default partitioner chooses it (BuiltInPartitioner)."""

from typing import Final

MASK: Final = 0xFFFFFFFF
MULTIPLIER: Final = 0x5BD1E995
SEED: Final = 0x9747B28C


def murmur2(data: bytes) -> int:
    """Return Kafka's hash of a key, 32 bits unsigned (org.apache.kafka.common.utils.Utils.murmur2)."""
    value = (SEED ^ len(data)) & MASK
    whole = len(data) & ~3
    for place in range(0, whole, 4):
        part = int.from_bytes(data[place : place + 4], "little") * MULTIPLIER & MASK
        part = (part ^ part >> 24) * MULTIPLIER & MASK
        value = value * MULTIPLIER & MASK ^ part
    if rest := data[whole:]:
        value = (value ^ int.from_bytes(rest, "little")) * MULTIPLIER & MASK
    value = (value ^ value >> 13) * MULTIPLIER & MASK
    return value ^ value >> 15


def partition_of(key: bytes, count: int) -> int:
    """Return the partition of a key among this number (BuiltInPartitioner.partitionForKey)."""
    return (murmur2(key) & 0x7FFFFFFF) % count
