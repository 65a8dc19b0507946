"""The partition of an internal topic for a group or a transactional id. Sans-IO.

Java's String.hashCode, made positive as Utils.abs does, modulo the partition count: clients and tools compute the same.
The count is that from before CreatePartitions added partitions: with another modulus, groups would be assigned to
partitions without their offsets. Kafka keeps the old count until a broker restarts; here the controller stores it as a
config of the topic.
"""

import struct
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from kvorum.quorum.image import MetadataImage
from kvorum.runtime.config_defs import COORDINATOR_PARTITIONS

KEPT_KEYS_MAX: Final = 4096
"""Number of cached hashes of keys: busy groups use them repeatedly."""
KEPT_CHARS_MAX: Final = 256
"""Longer keys are not cached, so that the cache has at most some MiB."""
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
    value = _kept_hash(key) if len(key) <= KEPT_CHARS_MAX else java_hash(key)
    return (0 if value == -_SIGN else abs(value)) % partition_count


def coordinator_partitions(image: MetadataImage, topic: str) -> int | None:
    """Return how many partitions of an internal topic keys are spread over; None if the topic does not exist."""
    found = image.topics.topic(topic)
    if found is None:
        return None
    before = image.configs.topic(topic).get(COORDINATOR_PARTITIONS)
    return len(found.partitions) if before is None else min(int(before), len(found.partitions))


@lru_cache(KEPT_KEYS_MAX)
def _kept_hash(key: str) -> int:
    return java_hash(key)
