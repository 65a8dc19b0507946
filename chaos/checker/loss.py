"""When a record that was acknowledged may be gone, and why.

Kafka promises that a record acknowledged with acks=all is on every member of the ISR of that moment. So its loss is
legal where every one of them lost its data, or where an unclean election of that partition is on record and the elected
leader's log did not have it. A record is (leader epoch, offset): where the final log has the record's own epoch at its
offset, the elected leader had it, and its loss is no consequence of the election. With acks=1 the leader alone has
promised; acks=0 promises nothing.

The moment of the acknowledgement is known only as «between invocation and completion», and the followed metadata log
arrives a little late. Every ISR that stood in that window is a candidate, since a send often waits for a shrink to be
acknowledged; a loss is legal if one candidate explains it, and the reason names that ISR.

A member that lost its data and came back into the ISR holds the records again, if anybody still did: nodes wiped one
after the other, each after the last has caught up, lose nothing.

A third case is beyond Kafka's power, too: the members that kept the record had left the ISR, and all that could still
lead cleanly (ISR and ELR of that moment) lost their data. Without ELR that is Kafka's known weakness, the last replica
standing; with ELR (KIP-966) min.insync.replicas - 1 losses are survived, so it is legal only where as many nodes as
min.insync.replicas had lost data since. `strict` leaves this out: then the ISR at acknowledgement time alone counts.
"""

from bisect import bisect_left, bisect_right
from itertools import accumulate
from typing import Final, NamedTuple

from kvorum.chaos.checker.derive import Derivation
from kvorum.chaos.checker.partitions import Partition
from kvorum.chaos.checker.sends import NEVER, NOWHERE, OK, READ_FINAL, READ_OK
from kvorum.chaos.checker.timeline import Election, PartitionState, Timeline
from kvorum.chaos.history import Replica

FOLLOW_LAG_MAX: Final = 0.25
"""Seconds by which the followed metadata may come later than what it tells of took effect."""

DEPOSED_LEADER_MAX: Final = 10.0
"""Seconds for which a deposed leader that is cut off may still serve reads: the default broker session."""

LEADER_FAULTS: Final = frozenset({"kill", "terminate", "pause", "kill_all", "wipe", "lose_tail", "isolate", "cut"})


class Turn(NamedTuple):
    """A moment after which the partition's log may legally be another than before."""

    t: float
    reason: str


class Loss:
    """Answers for any record whether its absence is legal."""

    def __init__(
        self,
        derivation: Derivation,
        timeline: Timeline,
        replicas: dict[str, dict[int, Replica]],
        *,
        strict: bool = False,
    ) -> None:
        """Take what was derived; `replicas` are the final logs by partition and node."""
        self._strict = strict
        self._last_standing: dict[tuple[str, int, float], str | None] = {}
        self._sends = derivation.sends
        self._derivation = derivation
        self._timeline = timeline
        self._replicas = replicas
        self._lossy = [fault for fault in timeline.faults if fault.lossy and fault.brokers]
        self._turns: dict[str, list[Turn]] = {}
        self._cache: dict[tuple[str, int, int, int, float], str | None] = {}
        self._survivors: dict[int, tuple[list[float], list[int]]] = {}

    def excuse(self, row: int, until: float = NEVER) -> str | None:
        """Return why the record of this row may be gone by `until`, None if it may not."""
        sends = self._sends
        partition = self._derivation.partitions[sends.partition[row]]
        removed = self._timeline.removed.get(partition.name)
        invoked = sends.invoked[row]
        if removed is not None and invoked <= removed <= until + FOLLOW_LAG_MAX:
            return f"the topic was deleted at {removed:.3f} s"
        offset = max(sends.position(row), sends.acked_offset[row])
        logs = self._replicas.get(partition.name)
        if logs and offset != NOWHERE and offset < min(log.start for log in logs.values()):
            return "the log's start has moved beyond it: it was deleted, not lost"
        return (
            self._weak_acks(row, partition.name, invoked, until)
            or self._unclean(row, partition, offset, until)
            or self._all_lost(row, partition.name, invoked, until)
            or self._none_electable(partition.name, invoked, until)
        )

    def turns(self, partition: str) -> list[Turn]:
        """Return the moments at which this partition's committed log may have gone back, in time order."""
        turns = self._turns.get(partition)
        if turns is None:
            elections = self._timeline.elections.get(partition, ())
            turns = [Turn(election.t, _election_reason(election)) for election in elections if election.marked]
            turns += self._empty_moments(partition)
            removed = self._timeline.removed.get(partition)
            if removed is not None:
                turns.append(Turn(removed, f"the topic was deleted at {removed:.3f} s"))
            turns.sort()
            self._turns[partition] = turns
        return turns

    def turn_between(self, partition: str, since: float, until: float) -> str | None:
        """Return why what a reader saw may differ from what it sees later, None if nothing on record explains it."""
        turns = self.turns(partition)
        at = bisect_left(turns, since - DEPOSED_LEADER_MAX, key=lambda turn: turn.t)
        if at < len(turns) and turns[at].t <= until + FOLLOW_LAG_MAX:
            return turns[at].reason
        return None

    def isr_at(self, row: int) -> list[PartitionState]:
        """Return the partition's states between invocation and acknowledgement (or first poll); empty if unknown."""
        sends = self._sends
        name = self._derivation.partitions[sends.partition[row]].name
        states = self._timeline.states.get(name)
        if not states:
            return []
        first, last = self._window(name, sends.invoked[row], sends.evident(row))
        return states[first : last + 1]

    def _window(self, name: str, invoked: float, evident: float) -> tuple[int, int]:
        first = self._timeline.at(name, invoked)
        evident = invoked if evident == NEVER else evident
        return first, max(first, self._timeline.at(name, evident + FOLLOW_LAG_MAX))

    def _weak_acks(self, row: int, name: str, invoked: float, until: float) -> str | None:
        """Excuse what was acknowledged before the ISR had it."""
        promises = self._derivation.promises(self._sends.process[row])
        if promises.acks in ("all", "-1") or self._sends.kind[row] != OK:
            return None
        if promises.acks == "0":
            return "it was sent with acks=0, which promises nothing"
        states = self._timeline.states.get(name)
        if states:
            # A deposed leader that has not heard of its successor may still answer acks=1.
            first = self._timeline.at(name, invoked - DEPOSED_LEADER_MAX)
            epoch = states[first].leader_epoch
            change = bisect_right(states, epoch, lo=first, key=lambda state: state.leader_epoch)
            if change < len(states) and states[change].t <= until + FOLLOW_LAG_MAX:
                return (
                    f"it was sent with acks=1 and the leader changed at {states[change].t:.3f} s "
                    f"(leader epoch {states[change].leader_epoch})"
                )
        leader = states[self._timeline.at(name, invoked)].leader if states else None
        for fault in self._timeline.faults:
            if fault.begin > until or fault.end < invoked or (not fault.lossy and fault.fault not in LEADER_FAULTS):
                continue
            if leader is None or leader in fault.brokers:
                return f"it was sent with acks=1 and the leader was hit: {fault.story or fault.fault}"
        return None

    def _unclean(self, row: int, partition: Partition, offset: int, until: float) -> str | None:
        """Excuse what an unclean election cut off."""
        elections = self._timeline.elections.get(partition.name, ())
        invoked = self._sends.invoked[row]
        for election in elections[bisect_left(elections, invoked - DEPOSED_LEADER_MAX, key=lambda e: e.t) :]:
            if election.t > until + FOLLOW_LAG_MAX:
                return None
            if not election.marked or (election.t < invoked - FOLLOW_LAG_MAX and not self._cut_off(election, invoked)):
                continue
            if offset == NOWHERE or self._lacked(row, partition, offset, election):
                return _election_reason(election)
        return None

    def _lacked(self, row: int, partition: Partition, offset: int, election: Election) -> bool:
        """Say whether the elected leader may have lacked the record, as far as the history tells."""
        logs = self._replicas.get(partition.name)
        if not logs:
            only = sum(each.marked for each in self._timeline.elections[partition.name]) == 1
            return not only or offset >= self._survivor_before(partition, election.t)
        log = max(logs.values(), key=lambda log: (log.high_watermark, log.end))
        at = bisect_right(log.epochs, offset, key=lambda entry: entry[1])
        if offset >= log.end or at == 0:
            return True
        epoch = self._sends.epoch[row]
        epochs = {epoch} if epoch >= 0 else {state.leader_epoch for state in self.isr_at(row)}
        return epochs != {log.epochs[at - 1][0]}

    def _cut_off(self, election: Election, t: float) -> bool:
        """Say whether the deposed leader may, at `t`, not have known of this election: a fault held it."""
        return any(
            election.deposed in fault.brokers and fault.begin <= t and fault.end >= election.t
            for fault in self._timeline.faults
        )

    def _survivor_before(self, partition: Partition, t: float) -> int:
        """Return the offset after the last record that was acknowledged before `t` and is still there at the end.

        If nothing was elected uncleanly but once, the elected leader's log is a prefix of the old one: nothing below a
        survivor can have been cut off.
        """
        known = self._survivors.get(partition.index)
        if known is None:
            sends, flag = self._sends, READ_FINAL if partition.final_from_start else READ_OK
            rows = [r for r in partition.writers.values() if sends.kind[r] == OK and sends.acked_offset[r] != NOWHERE]
            if flag == READ_OK:
                rows = []  # read once is not there still
            rows = [r for r in rows if sends.seen[r] & flag and sends.read_offset[r] == sends.acked_offset[r]]
            rows.sort(key=sends.completed.__getitem__)
            times = [sends.completed[r] for r in rows]
            known = times, list(accumulate((sends.acked_offset[r] + 1 for r in rows), max))
            self._survivors[partition.index] = known
        times, ends = known
        at = bisect_right(times, t - FOLLOW_LAG_MAX - DEPOSED_LEADER_MAX)
        return ends[at - 1] if at else 0

    def _all_lost(self, row: int, name: str, invoked: float, until: float) -> str | None:
        """Excuse what every member of some ISR at acknowledgement time has lost."""
        if not self._lossy:
            return None
        first, last = self._window(name, invoked, self._sends.evident(row))
        fault = next((i for i, f in enumerate(self._lossy) if f.lost_by >= invoked), len(self._lossy))
        key = (name, first, last, fault, until)
        if key not in self._cache:
            self._cache[key] = self._find_all_lost(name, first, last, fault, until)
        return self._cache[key]

    def _find_all_lost(self, name: str, first: int, last: int, fault: int, until: float) -> str | None:
        states = self._timeline.states.get(name)
        if not states:
            return self._no_isr_known(fault, until)
        for candidate in range(first, last + 1):
            isr = frozenset(states[candidate].isr)
            when = self._holders_gone(isr, states[candidate + 1 :], isr, fault, until)
            if isr and when is not None:
                return (
                    f"every member of the ISR at acknowledgement time {sorted(isr)} lost its data, "
                    f"the last at {when:.3f} s"
                )
        return None

    def _holders_gone(
        self, holders: frozenset[int], later: list[PartitionState], isr: frozenset[int], fault: int, until: float
    ) -> float | None:
        """Return when the last holder of a record lost its data, following losses and members that caught up."""
        changes: list[tuple[float, int, frozenset[int]]] = [(f.begin, 0, f.brokers) for f in self._lossy[fault:]]
        changes += [(state.t, 1, frozenset(state.isr)) for state in later]
        changes.sort(key=lambda change: change[:2])
        for t, kind, nodes in changes:
            if t > until + FOLLOW_LAG_MAX:
                break
            if kind == 0:
                holders -= nodes
                if not holders:
                    return t
            else:
                holders |= nodes - isr
                isr = nodes
        return None

    def _none_electable(self, name: str, invoked: float, until: float) -> str | None:
        """Excuse what was lost when all that could lead cleanly lost their data, and more nodes than may be lost."""
        if self._strict or not self._lossy:
            return None
        fault = next((i for i, f in enumerate(self._lossy) if f.lost_by >= invoked), len(self._lossy))
        key = (name, fault, until)
        if key not in self._last_standing:
            self._last_standing[key] = self._find_none_electable(name, fault, until)
        return self._last_standing[key]

    def _find_none_electable(self, name: str, fault: int, until: float) -> str | None:
        states = self._timeline.states.get(name, [])
        least = self._timeline.min_isr(name) if self._timeline.elr_in_use else 1
        lost: frozenset[int] = frozenset()
        moments = {moment.t: moment.reason for moment in self._empty_moments(name)}
        for lossy in self._lossy[fault:]:
            if lossy.begin > until + FOLLOW_LAG_MAX:
                return None
            replicas = states[self._timeline.at(name, lossy.begin)].replicas if states else ()
            lost |= lossy.brokers.intersection(replicas)
            if lossy.begin in moments and len(lost) >= least:
                known = f"min.insync.replicas={least}" if self._timeline.elr_in_use else "no ELR"
                return f"{moments[lossy.begin]}, and {known} protects from no more"
        return None

    def _no_isr_known(self, fault: int, until: float) -> str | None:
        """Judge without a followed metadata log: only where every broker lost its data nobody can be blamed."""
        left = self._timeline.brokers()
        for lossy in self._lossy[fault:]:
            if lossy.begin <= until:
                left -= lossy.brokers
        if left or not self._timeline.brokers():
            return None
        return "every broker lost its data (the history does not tell the ISR)"

    def _empty_moments(self, name: str) -> list[Turn]:
        """Return when all that could lead cleanly, ISR and ELR of the moment, had lost their data.

        Dated by the loss, not by a change of the ISR: a node that lost its data and is made the only member
        afterwards is a mistake, and no excuse.
        """
        states = self._timeline.states.get(name, [])
        moments: list[Turn] = []
        lossy = 0
        holders: frozenset[int] = frozenset()
        isr: frozenset[int] = frozenset()
        for at, state in enumerate(states):
            electable = frozenset(state.isr + state.elr)
            holders = holders & electable | frozenset(state.isr) - isr
            holders = holders or electable
            isr = frozenset(state.isr)
            end = states[at + 1].t if at + 1 < len(states) else NEVER
            while lossy < len(self._lossy) and self._lossy[lossy].begin < end:
                fault = self._lossy[lossy]
                lossy += 1
                holders -= fault.brokers
                if not holders and fault.brokers & electable:
                    reason = (
                        f"all that could lead cleanly {sorted(electable)} had lost their data when "
                        f"{fault.fault} hit {', '.join(fault.targets)} at {fault.begin:.3f} s"
                    )
                    moments.append(Turn(fault.begin, reason))
        return moments


def _election_reason(election: Election) -> str:
    return (
        f"node {election.leader} was elected uncleanly at {election.t:.3f} s (leader epoch {election.leader_epoch}, "
        f"metadata offset {election.offset})"
    )
