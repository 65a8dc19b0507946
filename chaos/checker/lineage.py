"""Records that a log cannot have lost, since later records survived; per partition, for a whole history.

A record is (leader epoch, offset), and two logs that hold the same record are equal up to it (LogMatching). So a record
that survived the final reads proves every record of its leader epoch at a lower offset, whatever the elections since.
Between two unclean elections (or times when all eligible leaders had lost their data) there is one series of clean
leaders; a surviving acks=all record of that span proves all earlier records committed in it.

An acks=1 record is committed once the high watermark has passed it: a poll returned it, or a later record
of the same leader epoch was acknowledged with acks=all. From then on it is treated like an acks=all record.

The leader epoch of a record is the one returned to its reader, or that of the metadata log; the latter only if no other
could have been in force, including deposed leaders that did not know it yet.
"""

from bisect import bisect_left, bisect_right
from itertools import accumulate
from typing import Final

from kvorum.chaos.checker.derive import Derivation
from kvorum.chaos.checker.partitions import Partition
from kvorum.chaos.checker.sends import NEVER, NOWHERE, OK, READ_FINAL
from kvorum.chaos.checker.timeline import FOLLOW_LAG_MAX, PartitionState, Timeline
from kvorum.chaos.history import Replica

SAMPLE_LAG_MAX: Final = 2.0
"""The same of samples."""

DEPOSED_LEADER_MAX: Final = 10.0
"""Seconds for which a deposed leader that is cut off may still serve: the default broker session."""


class LeaderTerms:
    """The leaders of one partition, one after the other, and how long a deposed one may not have known of it."""

    def __init__(self, states: list[PartitionState], timeline: Timeline, name: str) -> None:
        """Store the partition's states."""
        self._timeline = timeline
        self._name = name
        self.replaced_at = [len(states)] * len(states)
        """By state: the index of the next one with another leader, the number of states for none."""
        self.deposed_at: dict[int, int] = {}
        """By the index of a state with a new leader: the former leader."""
        served: list[float] = []
        since, leader = 0, -1
        for at, state in enumerate(states):
            if state.leader < 0 or state.leader == leader:
                continue
            if leader >= 0:
                self.replaced_at[since:at] = [at] * (at - since)
                self.deposed_at[at] = leader
                served.append(timeline.fault_end(leader, state.t) + DEPOSED_LEADER_MAX)
                since = at
            leader = state.leader
        self._changes = list(self.deposed_at)
        self._served = list(accumulate(served, max))
        """Times by which all leaders deposed so far knew of it."""

    def first(self, t: float) -> int:
        """Return the index of the oldest state whose leader may still have served at a time."""
        now = self._timeline.at(self._name, t)
        at = bisect_left(self._served, t)
        return min(now, self._changes[at] - 1) if at < len(self._changes) else now


class Lineage:
    """Records of one partition; built at the first judged loss in it, in O(n log n) of its records."""

    def __init__(
        self,
        derivation: Derivation,
        timeline: Timeline,
        partition: Partition,
        logs: dict[int, Replica],
        emptied: list[float],
    ) -> None:
        """Store the derived data; `logs` are the partition's final replicas.

        `emptied`: times when all eligible leaders had lost their data and a leader started with the remaining records.
        """
        self._derivation = derivation
        self._sends = derivation.sends
        self._timeline = timeline
        self._name = partition.name
        self._states = timeline.states.get(partition.name, [])
        self.leader_terms = LeaderTerms(self._states, timeline, partition.name)
        self._log = max(logs.values(), key=lambda log: (log.high_watermark, log.end)) if logs else None
        elections = timeline.elections.get(partition.name, ())
        self._log_changes = sorted([*(each.t for each in elections if each.is_certain), *emptied])
        self._survivors: dict[int, int] = {}
        """The highest offset that survived, by leader epoch."""
        self._line: dict[int, int] = {}
        """The same, by how many unclean elections and losses by all that could lead were before it."""
        self._acked: dict[int, tuple[list[int], list[float]]] = {}
        """By leader epoch: the offsets that were acknowledged with acks=all, and since when one from there on was."""
        self._build(partition)

    def is_proven(self, row: int, offset: int, *, committed: bool) -> bool:
        """Return whether surviving records prove that the log at the end had this record."""
        epoch = self._epoch(row)
        if epoch is not None:
            if self._survivors.get(epoch, NOWHERE) > offset:
                return True
            if self._log is not None and offset < self._log.end:
                at = bisect_right(self._log.epochs, offset, key=lambda entry: entry[1])
                if at:
                    return self._log.epochs[at - 1][0] == epoch
        line = self._line_of(row) if committed else None
        return line is not None and self._line.get(line, NOWHERE) > offset

    def committed_at(self, row: int, offset: int) -> float:
        """Return by when a record is known to be committed, NEVER where it may not have been."""
        sends = self._sends
        if self.strong(row):
            return sends.evident(row)
        committed, epoch = sends.first_read[row], self._epoch(row)
        if epoch in self._acked and offset != NOWHERE:
            offsets, since = self._acked[epoch]
            at = bisect_right(offsets, offset)
            if at < len(offsets):
                committed = min(committed, since[at])
        return committed

    def strong(self, row: int) -> bool:
        """Return whether the acknowledgement itself guarantees that the ISR has it."""
        return self._derivation.promises(self._sends.process[row]).acks in ("all", "-1")

    def _build(self, partition: Partition) -> None:
        sends = self._sends
        moved = {row for row, _ in partition.elsewhere}
        acked: dict[int, list[tuple[int, float]]] = {}
        for row in partition.writers.values():
            offset = sends.position(row)
            if offset == NOWHERE or row in moved:
                continue
            strong = sends.has_offset(row) and self.strong(row)
            survived = (
                partition.final_from_start
                and bool(sends.read_flags[row] & READ_FINAL)
                and sends.read_offset[row] == offset
            )
            if not strong and not survived:
                continue
            epoch = self._epoch(row)
            if strong and epoch is not None:
                acked.setdefault(epoch, []).append((offset, sends.completed[row]))
            if not survived:
                continue
            if epoch is not None and offset > self._survivors.get(epoch, NOWHERE):
                self._survivors[epoch] = offset
            line = self._line_of(row) if strong else None
            if line is not None and offset > self._line.get(line, NOWHERE):
                self._line[line] = offset
        for epoch, pairs in acked.items():
            pairs.sort()
            since = list(accumulate((t for _, t in reversed(pairs)), min))[::-1]
            self._acked[epoch] = [offset for offset, _ in pairs], since

    def _epoch(self, row: int) -> int | None:
        """Return the leader epoch in which a record was appended, None where it may have been another."""
        epoch = self._sends.epoch[row]
        if epoch >= 0:
            return epoch
        span = self._span(row)
        if span is None or not self._states:
            return None
        first = self._states[self.leader_terms.first(self._sends.invoked[row])].leader_epoch
        last = self._states[self._timeline.at(self._name, span[1])].leader_epoch
        return first if first == last else None

    def _line_of(self, row: int) -> int | None:
        """Return the number of log changes before a record; None if one may be between its bounds."""
        span = self._span(row)
        if span is None:
            return None
        first, last = bisect_right(self._log_changes, span[0]), bisect_left(self._log_changes, span[1])
        return first if first == last else None

    def _span(self, row: int) -> tuple[float, float] | None:
        """Return the time span whose metadata may have been in force when a record was appended."""
        sends = self._sends
        evident = sends.evident(row)
        if evident == NEVER or (sends.kind[row] != OK and sends.first_read[row] == NEVER):
            return None
        lag = SAMPLE_LAG_MAX if self._timeline.has_samples else FOLLOW_LAG_MAX
        return sends.invoked[row] - DEPOSED_LEADER_MAX, evident + lag
