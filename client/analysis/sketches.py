"""Estimates over millions of values without storing them: number of distinct values, and sizes. Sans-IO.

    Distinct    how many different byte strings there were: HyperLogLog, off by 0.8 % as a rule; few of them exactly
    Sizes       least, most, mean, and percentiles within 1 %: counts in buckets of growing width, as DDSketch has them

Both have a fixed limit of memory whatever they are given. Sources: Flajolet et al. 2007 (HyperLogLog: the analysis of a
near-optimal cardinality estimation algorithm); Masson et al. 2019 (DDSketch).
"""

from collections.abc import Sequence
from math import ceil, log
from typing import Final

from xxhash import xxh3_64_intdigest

PRECISION: Final = 14
REGISTERS: Final = 1 << PRECISION
ALPHA: Final = 0.7213 / (1 + 1.079 / REGISTERS)
"""The correction for that many registers."""
HASH_BITS: Final = 64 - PRECISION
EXACT_MAX: Final = 4_096
"""Number of hashes kept exactly; a collision of 64-bit hashes is not expected."""
ACCURACY: Final = 0.01
"""Relative error of percentiles."""
GROWTH: Final = (1 + ACCURACY) / (1 - ACCURACY)
"""Ratio of a bucket's bounds: a GiB is in bucket 1,040."""
LOG_GROWTH: Final = log(GROWTH)


class DistinctCounter:
    """Counts different byte strings; some hundred KiB while they are few, then 16."""

    __slots__ = ("_few", "_registers")

    def __init__(self) -> None:
        """Start without values."""
        self._few: set[int] | None = set()
        self._registers = bytearray(REGISTERS)

    def add(self, value: bytes) -> None:
        """Count one, if it is a new one."""
        hashed = xxh3_64_intdigest(value)
        if self._few is not None:
            self._few.add(hashed)
            if len(self._few) <= EXACT_MAX:
                return
            few, self._few = self._few, None
            for each in few:
                self._take(each)
        self._take(hashed)

    def _take(self, hashed: int) -> None:
        index, rest = hashed >> HASH_BITS, hashed & ((1 << HASH_BITS) - 1)
        rank = HASH_BITS - rest.bit_length() + 1
        if rank > self._registers[index]:
            self._registers[index] = rank

    def count(self) -> int:
        """Return how many different ones there were, about; exactly up to EXACT_MAX."""
        if self._few is not None:
            return len(self._few)
        estimate = ALPHA * REGISTERS**2 / sum(2.0**-each for each in self._registers)
        empty = self._registers.count(0)
        if estimate <= 2.5 * REGISTERS and empty:
            estimate = REGISTERS * log(REGISTERS / empty)  # not very many: the empty ones have more information
        return round(estimate)


class SizeSummary:
    """Sums up sizes, each a whole number from 0 on."""

    __slots__ = ("_buckets", "count", "least", "most", "total")

    def __init__(self) -> None:
        """Start without values."""
        self.count = 0
        self.total = 0
        self.least = 0
        self.most = 0
        self._buckets: dict[int, int] = {}

    def add(self, size: int) -> None:
        """Add a value."""
        self.least = size if not self.count else min(self.least, size)
        self.most = max(self.most, size)
        self.count += 1
        self.total += size
        bucket = ceil(log(size) / LOG_GROWTH) if size else -1
        self._buckets[bucket] = self._buckets.get(bucket, 0) + 1

    def percentiles(self, wanted: Sequence[float]) -> list[int]:
        """Return the sizes that such shares of all (0.5: half of them), in ascending order, do not exceed."""
        found: list[int] = []
        ordered = sorted(self._buckets)
        at, passed = 0, 0
        for share in wanted:
            rank = ceil(share * self.count)
            while at < len(ordered) and passed + self._buckets[ordered[at]] < rank:
                passed += self._buckets[ordered[at]]
                at += 1
            found.append(self._middle(ordered[at]) if at < len(ordered) else 0)
        return found

    def _middle(self, bucket: int) -> int:
        """Return the value within ACCURACY of all values of a bucket."""
        if bucket < 0:
            return 0
        return min(max(round(2 * GROWTH**bucket / (GROWTH + 1)), self.least), self.most)
