"""Filter of records: by key, byte by byte, or by an expression. Sans-IO.

A search by key reads the partition that producers select. It depends on the producer's hash function:

    murmur2    Java's clients, kafka-python, aiokafka, franz-go, KafkaJS     (BuiltInPartitioner)
    crc32      librdkafka and clients based on it                            (consistent_random)
    fnv1a      sarama                                                        (NewHashPartitioner)
"""

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from kvorum.client.records.expression import Expression
from kvorum.client.records.partitioner import partition_of
from kvorum.client.records.record_views import RecordSubject, RecordView

FNV_OFFSET: Final = 0x811C9DC5
FNV_PRIME: Final = 0x01000193
INT32_MIN: Final = -(2**31)


def crc32_partition(key: bytes, count: int) -> int:
    """Return the partition by rd_kafka_msg_partitioner_consistent."""
    return zlib.crc32(key) % count


def fnv1a_partition(key: bytes, count: int) -> int:
    """Return the partition by sarama's hashPartitioner: the remainder of the hash as int32, without its sign."""
    value = FNV_OFFSET
    for byte in key:
        value = (value ^ byte) * FNV_PRIME & 0xFFFFFFFF
    signed = value + 2 * INT32_MIN if value >= -INT32_MIN else value
    return abs(signed) % count


PARTITIONERS: Final[Mapping[str, Callable[[bytes, int], int]]] = MappingProxyType(
    {"murmur2": partition_of, "crc32": crc32_partition, "fnv1a": fnv1a_partition}
)
ANY: Final = "any"


def key_partitions(key: bytes, count: int, partitioner: str) -> list[int]:
    """Return the possible partitions of a key, by one partitioner or by any of them."""
    partitioners = PARTITIONERS.values() if partitioner == ANY else [PARTITIONERS[partitioner]]
    return sorted({each(key, count) for each in partitioners})


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """Filter of records; without a key and an expression all records match."""

    view: RecordView
    expression: Expression | None = None
    key: bytes | None = None

    @property
    def is_of_all(self) -> bool:
        """Return whether every record matches."""
        return self.key is None and self.expression is None

    def matches(self, subject: RecordSubject) -> bool:
        """Return whether a record matches."""
        if self.key is not None and subject.record.key != self.key:
            return False
        if self.expression is None:
            return True
        return self.expression.matches(RecordSubject(subject.partition, subject.record, self.view))
