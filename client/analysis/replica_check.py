"""Comparison of a partition's replicas, batch by batch: damage and differences. Sans-IO.

A batch is damaged if its CRC does not match its bytes. A follower's log consists of the batches of its
leader, so each batch that two replicas must have (within both logs) has the same offsets, size and CRC. Compaction
changes that: each broker cleans its own log at its own time, so replicas of compacted topics are not compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from kvorum.protocol.records import batches, crc_of


class Kind(StrEnum):
    """Kind of a fault in a replica's batch."""

    DAMAGED = "damaged"
    MISSING = "missing"
    DIFFERENT = "different"
    SURPLUS = "surplus"


class ReplicaBatch(NamedTuple):
    """A batch as a replica has it."""

    base_offset: int
    last_offset: int
    size: int
    crc: int
    valid: bool


class Fault(NamedTuple):
    """A fault in a batch of a broker's replica."""

    broker: int
    kind: Kind
    base_offset: int
    last_offset: int
    message: str


def parse_batches(data: bytes) -> list[ReplicaBatch]:
    """Return each whole batch of a piece of log. Raises KafkaError CORRUPT_MESSAGE where no batch can be made out."""
    with memoryview(data) as view:
        return [
            ReplicaBatch(
                header.base_offset,
                header.last_offset,
                header.size,
                header.crc,
                crc_of(view, position, header.size) == header.crc,
            )
            for position, header in batches(view)
        ]


@dataclass(slots=True, kw_only=True)
class ReplicaState:
    """State of one replica: start of its log, end of the read range, and faults."""

    broker: int
    begin: int
    next_offset: int
    is_finished: bool = False
    error: str | None = None
    """Why it was not read to its end."""
    batches: int = 0
    size: int = 0
    faults: dict[Kind, int] = field(default_factory=dict)
    is_waiting: dict[int, ReplicaBatch] = field(default_factory=dict)
    """{base offset: a batch that was not compared yet}."""


@dataclass(slots=True)
class ReplicaCheck:
    """The replicas of one partition, the reference (its leader) first."""

    replicas: list[ReplicaState]
    compared: bool
    _settled: int = 0
    """Batches that end before this offset were compared."""

    def take(self, replica: ReplicaState, found: Sequence[ReplicaBatch]) -> list[Fault]:
        """Add the next batches of a replica; return their own faults."""
        faults = []
        for each in found:
            if each.last_offset < replica.next_offset:
                continue  # from before the requested offset
            replica.batches += 1
            replica.size += each.size
            replica.next_offset = each.last_offset + 1
            if self.compared:
                replica.is_waiting[each.base_offset] = each
            if not each.valid:
                faults.append(self._fault(replica, Kind.DAMAGED, each, "its CRC does not match its bytes"))
        return faults

    def next(self) -> list[ReplicaState]:
        """Return the replicas to read next: those that lag most, so that few batches wait for comparison."""
        left = [each for each in self.replicas if not each.is_finished]
        least = min((each.next_offset for each in left), default=0)
        return [each for each in left if each.next_offset == least]

    def settle(self) -> list[Fault]:
        """Compare the range that every active or completed replica has."""
        usable = [each for each in self.replicas if each.error is None]
        if not self.compared or len(usable) < 2:
            return []
        furthest = max(each.next_offset for each in usable)
        upto = min((each.next_offset for each in usable if not each.is_finished), default=furthest)
        upto = self._before_whole(usable, upto)
        faults: list[Fault] = []
        reference, *others = usable
        for replica in others:
            begin = max(reference.begin, replica.begin)
            end = min(upto, reference.next_offset, replica.next_offset)
            faults += self._compare(reference, replica, begin, end)
        for replica in self.replicas:
            replica.is_waiting = {base: each for base, each in replica.is_waiting.items() if each.last_offset >= upto}
        self._settled = upto
        return faults

    def _before_whole(self, usable: Sequence[ReplicaState], upto: int) -> int:
        """Return the last offset not above `upto` at which no batch that waits is cut in two."""
        while True:
            cut = [
                each.base_offset
                for replica in usable
                for each in replica.is_waiting.values()
                if each.base_offset < upto <= each.last_offset
            ]
            if not cut:
                return upto
            upto = min(cut)

    def _compare(self, reference: ReplicaState, replica: ReplicaState, begin: int, end: int) -> list[Fault]:
        """Compare two replicas within the range of both, except for parts compared before."""
        faults = []
        for base in sorted(reference.is_waiting.keys() | replica.is_waiting.keys()):
            right, mine = reference.is_waiting.get(base), replica.is_waiting.get(base)
            known = right or mine
            assert known is not None, "some replicas have it"
            if known.base_offset < begin or not self._settled <= known.last_offset < end:
                continue
            if mine is None:
                detail = f"broker {reference.broker} has it"
                faults.append(self._fault(replica, Kind.MISSING, known, detail))
            elif right is None:
                detail = f"broker {reference.broker} does not have it"
                faults.append(self._fault(replica, Kind.SURPLUS, known, detail))
            elif mine[:4] != right[:4]:
                detail = f"{words(mine)} here, {words(right)} at broker {reference.broker}"
                faults.append(self._fault(replica, Kind.DIFFERENT, mine, detail))
        return faults

    def _fault(self, replica: ReplicaState, kind: Kind, batch: ReplicaBatch, message: str) -> Fault:
        replica.faults[kind] = replica.faults.get(kind, 0) + 1
        return Fault(replica.broker, kind, batch.base_offset, batch.last_offset, message)


def words(batch: ReplicaBatch) -> str:
    """Return a batch in words."""
    return f"up to offset {batch.last_offset}, {batch.size} bytes, CRC {batch.crc:08x}"
