"""Arithmetic on offsets, and their JSON form, which is that of Spark's Kafka source.

`{"topic": {"0": 23, "1": -2}}`: -2 is the first offset of a partition, -1 its end. Ranges are half-open.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

from pyspark.sql.datasource import InputPartition

from kvorum.pipelines.bridge.client import OptionError

LATEST = -1
EARLIEST = -2

# In the JSON of the end of the first micro-batch: its start. Spark stores only the ends of micro-batches, and "latest"
# would be another offset after a crash. No topic can have this name.
BEGUN_AT = "@begun at"


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


Offsets = dict[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRange(InputPartition):
    """Offsets that one task reads, `end` excluded. Some may not exist."""

    topic: str
    partition: int
    start: int
    end: int

    def __repr__(self) -> str:
        """Return its name in messages."""
        return f"{self.topic}-{self.partition}[{self.start},{self.end})"


class OffsetsLost(RuntimeError):
    """Records were removed before they were read, and failOnDataLoss is true."""


def parse(name: str, text: str, *, lowest: int) -> Offsets:
    """Return the offsets of {"topic": {"partition": number}}. Raises OptionError; also for a number below `lowest`."""
    try:
        offsets = from_json(json.loads(text))
    except (ValueError, TypeError, AttributeError) as error:
        raise OptionError(f'option {name}: expected {{"topic": {{"0": 23}}}}, found {text!r} ({error})') from None
    for where, offset in offsets.items():
        if type(offset) is not int or offset < lowest:
            raise OptionError(f"option {name}: {offset!r} for {where.topic}-{where.partition} is not a valid offset")
    return offsets


def parse_assignment(text: str) -> tuple[TopicPartition, ...]:
    """Return the partitions of option assign: {"topic": [0, 1]}."""
    try:
        read = json.loads(text).items()
        return tuple(sorted({TopicPartition(topic, int(number)) for topic, numbers in read for number in numbers}))
    except (ValueError, TypeError, AttributeError) as error:
        raise OptionError(f'option assign: expected {{"topic": [0, 1]}}, found {text!r} ({error})') from None


def from_json(read: Mapping[str, Any]) -> Offsets:
    """Return the offsets of a parsed JSON object."""
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in read.items()
        if topic != BEGUN_AT
        for partition, offset in partitions.items()
    }


def to_json(offsets: Mapping[TopicPartition, int]) -> dict[str, Any]:
    """Return offsets as JSON, sorted: Spark compares them as text."""
    result: dict[str, Any] = {}
    for where in sorted(offsets):
        result.setdefault(where.topic, {})[str(where.partition)] = offsets[where]
    return result


def ranges(start: Offsets, end: Offsets) -> list[OffsetRange]:
    """Return the ranges in between. A partition that is new at the end is read from offset 0."""
    found = (OffsetRange(topic=w[0], partition=w[1], start=start.get(w, 0), end=end[w]) for w in sorted(end))
    return [each for each in found if each.start < each.end]


def lost(start: Offsets, end: Offsets) -> str | None:
    """Return the loss between start and end (removed partitions, ends below their start), or None."""
    gone = sorted(set(start) - set(end))
    if gone:
        return f"{named(gone)} not there any more (deleted?)"
    back = [where for where in sorted(end) if end[where] < start.get(where, 0)]
    if back:
        moved = ", ".join(f"{w.topic}-{w.partition}: {start[w]} -> {end[w]}" for w in back[:5])
        return f"offsets went back (topic created again, or truncated?): {moved}"
    return None


def named(partitions: Iterable[TopicPartition]) -> str:
    """Return a few partitions for a message."""
    names = [f"{where.topic}-{where.partition}" for where in partitions]
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def split(
    whole: list[OffsetRange], *, min_partitions: int | None = None, max_records: int | None = None
) -> list[OffsetRange]:
    """Split ranges into at least `min_partitions`, none longer than `max_records`; larger ones into more pieces.

    The same arguments always give the same pieces: the exactly-once sink depends on that.
    """
    total = sum(r.end - r.start for r in whole)
    pieces: list[OffsetRange] = []
    for r in whole:
        size = r.end - r.start
        count = 1
        if min_partitions and len(whole) < min_partitions:
            count = max(count, -(-size * min_partitions // total))
        if max_records:
            count = max(count, -(-size // max_records))
        count = min(count, size)
        edges = [r.start + size * i // count for i in range(count + 1)]
        pieces += [replace(r, start=low, end=high) for low, high in pairwise(edges)]
    return pieces


def limited(start: Offsets, end: Offsets, limit: int) -> Offsets:
    """Return ends that are about `limit` offsets after the start, in proportion to the size of each partition.

    Each partition with records gets at least one, as in Spark's source, so that none starves beside large ones.
    """
    total = sum(max(0, offset - start.get(where, 0)) for where, offset in end.items())
    if total <= limit:
        return end
    limits = dict(end)  # an end below the start (a recreated topic) is kept: it has no record to read
    for where, stop in end.items():
        begin = start.get(where, 0)
        if begin < stop:
            limits[where] = begin + max(1, (stop - begin) * limit // total)
    return limits
