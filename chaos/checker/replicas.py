"""Comparison of the final logs of all replicas, and of the metadata images of all nodes.

replica-divergence: batches below the high watermark are not byte-equal (LogMatching); for an ISR member that is
the highest recorded one, not its own. epoch-divergence: leader epoch caches differ there.
missing-on-replica: a replica's log ends before, or has a gap at, an offset that was acknowledged with acks=all.
image-divergence: two nodes have different metadata at one offset of the metadata log.
"""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from kvorum.chaos.checker.derive import Derivation
from kvorum.chaos.checker.sends import NOWHERE, OK
from kvorum.chaos.history import Image, Replica


class ReplicaFinding(NamedTuple):
    """Replicas that differ. `offset`: the first at which they do."""

    anomaly: str
    partition: str | None
    offset: int
    reason: str
    rows: tuple[int, ...] = ()


class Images:
    """The metadata images of all nodes, compared as they come."""

    def __init__(self) -> None:
        """Create it without images."""
        self._first: dict[int, Image] = {}
        self._alone: set[int] = set()
        self.findings: list[ReplicaFinding] = []
        self.compared = 0
        """Images at an offset that other nodes also have."""

    def take(self, event: Image) -> None:
        """Compare with the first image of the same offset."""
        first = self._first.setdefault(event.offset, event)
        if first is event:
            self._alone.add(event.offset)
            return
        self.compared += 1 + (event.offset in self._alone)
        self._alone.discard(event.offset)
        if first.hash != event.hash:
            reason = (
                f"at metadata offset {event.offset} the image of {first.node} has hash {first.hash} "
                f"and that of {event.node} has {event.hash}"
            )
            self.findings.append(ReplicaFinding("image-divergence", None, event.offset, reason))


def compare(partition: str, logs: dict[int, Replica], isr: Collection[int]) -> Iterator[ReplicaFinding]:
    """Yield the differences between a partition's replicas: each with the replica whose high watermark is highest.

    `isr`: members that have, at the end, everything below that high watermark; others may have more beyond their own.
    """
    reference = max(logs.values(), key=lambda log: (log.high_watermark, log.end))
    for log in logs.values():
        if log.node == reference.node:
            continue
        limit = min(reference.high_watermark, log.end if log.node in isr else log.high_watermark)
        first = max(log.start, reference.start)
        offset = _first_difference(log, reference, first, limit)
        if offset is not None:
            reason = (
                f"the logs of nodes {reference.node} and {log.node} differ at offset {offset}, "
                f"below the high watermark {reference.high_watermark}"
            )
            yield ReplicaFinding("replica-divergence", partition, offset, reason)
        mine, theirs = _epochs(log, first, limit), _epochs(reference, first, limit)
        if mine != theirs:
            reason = f"leader epochs below {limit}: node {reference.node} has {theirs}, node {log.node} has {mine}"
            differing = set(map(tuple, mine)) ^ set(map(tuple, theirs))
            yield ReplicaFinding("epoch-divergence", partition, min(start for _, start in differing), reason)


def _first_difference(log: Replica, other: Replica, first: int, limit: int) -> int | None:
    """Return the base offset of the first batch between two offsets that differs."""
    mine = [batch for batch in log.batches if batch[0] >= first and batch[1] < limit]
    theirs = [batch for batch in other.batches if batch[0] >= first and batch[1] < limit]
    for one, two in zip(mine, theirs, strict=False):
        if one != two:
            return min(one[0], two[0])
    if len(mine) != len(theirs):
        longer = mine if len(mine) > len(theirs) else theirs
        return longer[min(len(mine), len(theirs))][0]
    return None


def _epochs(log: Replica, first: int, limit: int) -> list[tuple[int, int]]:
    """Return the epochs that hold records between two offsets, each from where it begins there."""
    epochs = [(epoch, start) for epoch, start in log.epochs]
    kept: list[tuple[int, int]] = []
    for at, (epoch, start) in enumerate(epochs):
        end = epochs[at + 1][1] if at + 1 < len(epochs) else log.end
        if max(start, first) < min(end, limit):
            kept.append((epoch, max(start, first)))
    return kept


def find_missing_offsets(
    derivation: Derivation, partition: str, logs: dict[int, Replica], lost: bytearray
) -> Iterator[ReplicaFinding]:
    """Yield replicas that lack offsets acknowledged with acks=all; completely lost values are reported elsewhere."""
    index = derivation.partition_index.get(partition)
    if index is None:
        return
    sends = derivation.sends
    strong: dict[int, bool] = {}
    acked: list[tuple[int, int]] = []
    for row in derivation.partitions[index].writers.values():
        if sends.kind[row] != OK or sends.acked_offset[row] == NOWHERE or lost[row]:
            continue
        process = sends.process[row]
        if process not in strong:
            strong[process] = derivation.promises(process).acks in ("all", "-1")
        if strong[process]:
            acked.append((sends.acked_offset[row], row))
    acked.sort()
    for log in logs.values():
        rows = _rows_without_batch(acked, log)
        if rows:
            offset = sends.acked_offset[rows[0]]
            reason = (
                f"node {log.node} lacks {len(rows)} acknowledged records, the first at offset {offset}; "
                f"its log goes from {log.start} to {log.end}"
            )
            yield ReplicaFinding("missing-on-replica", partition, offset, reason, tuple(rows))


def _rows_without_batch(acked: list[tuple[int, int]], log: Replica) -> list[int]:
    """Return the rows whose offsets no batch of this log covers; offsets before the log's start were deleted."""
    batches = sorted(log.batches)
    at = 0
    rows: list[int] = []
    for offset, row in acked:
        if offset < log.start:
            continue
        while at < len(batches) and batches[at][1] < offset:
            at += 1
        covered = at < len(batches) and batches[at][0] <= offset if batches else True
        if offset >= log.end or not covered:
            rows.append(row)
    return rows
