"""Legal losses of acknowledged records, and their reasons.

Kafka guarantees that a record acknowledged with acks=all is on every ISR member of that time. So its loss is
legal if all of them lost their data, or if the history has an unclean election of that partition whose winner did
not have it. A surviving later record in its leader epoch proves that the winner had it (kvorum.chaos.checker.lineage).
acks=0 guarantees nothing. acks=1 guarantees only that the leader has it: a record never known to be committed may
be lost when a replica without it becomes leader, or when the leader loses its data. Once a poll has returned a
record, or a later one was acknowledged with acks=all, it is treated like an acks=all record.

The time of the acknowledgement is known only as between invocation and completion, and the followed metadata log
arrives a little late. Every ISR in that window is a candidate, since a send often waits for a shrink to be
acknowledged; a loss is legal if one candidate explains it, and the reason names that ISR. A member that returns to the
ISR after a loss has copied the others' records (kvorum.chaos.checker.holders).

One more case is not covered by Kafka's guarantee: the members that kept the record had left the ISR, and all that
were eligible (ISR and ELR of that time) lost their data. Without eligible leader replicas an ISR may
shrink to one, below min.insync.replicas, and that one is elected again with its remaining data: KIP-966 calls this
the "last replica standing" and prevents it. With ELR the guarantee is that min.insync.replicas - 1 nodes may
lose their data; so it is legal only where at the same time as many nodes as min.insync.replicas lacked a copy that they
had lost since the record was sent. A replica that caught up lacks none. `strict` excludes this case: only the ISR at
acknowledgement time counts.

The start of a log may be missing if retention or a request may have deleted it.
"""

from bisect import bisect_left
from itertools import accumulate
from typing import Final, NamedTuple

from kvorum.chaos.checker.derive import Derivation
from kvorum.chaos.checker.holders import CandidateLoss, Holders, candidate_losses
from kvorum.chaos.checker.lineage import DEPOSED_LEADER_MAX, Lineage
from kvorum.chaos.checker.sends import NEVER, NOWHERE, OK
from kvorum.chaos.checker.spans import FaultSpan
from kvorum.chaos.checker.timeline import FOLLOW_LAG_MAX, Election, PartitionState, Timeline
from kvorum.chaos.history import Replica

LEADER_FAULTS: Final = frozenset({"kill", "terminate", "pause", "kill_all", "wipe", "lose_tail", "isolate", "cut"})
"""Faults that may replace a leader, if no metadata show the leader."""


class LogChange(NamedTuple):
    """A moment after which the partition's log may legally be another than before."""

    t: float
    reason: str


class LossContext:
    """Data for the excuses of one partition's losses, computed once."""

    def __init__(
        self,
        derivation: Derivation,
        timeline: Timeline,
        name: str,
        logs: dict[int, Replica],
        lossy: list[FaultSpan],
    ) -> None:
        """Store the partition's name and its final logs."""
        partition = derivation.partition(name)
        self.states = timeline.states.get(name, [])
        lossy = [fault for fault in lossy if fault.has_loss_of(name)]
        self.lossy = bool(lossy)
        self.holders = Holders(self.states, lossy)
        self.candidate_losses: list[CandidateLoss] = candidate_losses(name, self.states, lossy, timeline)
        self.lineage = Lineage(derivation, timeline, partition, logs, [moment.t for moment in self.candidate_losses])
        self.limits = list(accumulate((moment.limit for moment in self.candidate_losses), max))
        self.log_start = min((log.start for log in logs.values()), default=0)
        self.elections: list[Election] = [each for each in timeline.elections.get(name, ()) if each.is_certain]


class LossRules:
    """Answers for any record whether its absence is legal, in logarithmic time for each."""

    def __init__(
        self,
        derivation: Derivation,
        timeline: Timeline,
        replicas: dict[str, dict[int, Replica]],
        *,
        strict: bool = False,
    ) -> None:
        """Store the derived data; `replicas` are the final logs by partition and node."""
        self._strict = strict
        self._sends = derivation.sends
        self._derivation = derivation
        self._timeline = timeline
        self._replicas = replicas
        self._lossy = [fault for fault in timeline.faults if fault.lossy and fault.brokers]
        self._log_changes: dict[str, tuple[list[LogChange], list[float]]] = {}
        self.contexts: dict[str, LossContext] = {}
        self._losses_of: dict[tuple[int, str], tuple[list[FaultSpan], list[float]]] = {}

    def excuse(self, row: int, until: float = NEVER, *, served: bool = False) -> str | None:
        """Return why the record of this row may be lost by `until`; None if it may not.

        `served`: at that time the partition served other records, so its topic had not been deleted.
        """
        sends = self._sends
        name = self._derivation.partitions[sends.partition[row]].name
        removed = self._timeline.deletion_times.get(name)
        invoked = sends.invoked[row]
        if removed is not None and invoked <= removed <= until + (0.0 if served else FOLLOW_LAG_MAX):
            return f"the topic was deleted at {removed:.3f} s"
        case = self._context(name)
        offset = max(sends.position(row), sends.acked_offset[row])
        if NOWHERE < offset < case.log_start:
            deletion = self._timeline.deletion(name, invoked)
            if deletion is not None:
                return f"the log start offset is beyond it, and {deletion}"
        committed = case.lineage.committed_at(row, offset)
        vouched = offset != NOWHERE and case.lineage.is_proven(row, offset, committed=committed < NEVER)
        excuse = None
        if committed == NEVER and sends.kind[row] == OK:
            excuse = self._weak_acks(row, case, until, vouched)
        if excuse is None and not vouched:
            excuse = self._unclean(case, invoked, until)
        return (
            excuse
            or self._excuse_isr_loss(row, name, case, committed, until)
            or self._none_electable(case, invoked, until)
        )

    def log_changes(self, partition: str) -> list[LogChange]:
        """Return the times at which this partition's committed log may have been truncated, in order."""
        return self._log_changes_of(partition)[0]

    def _log_changes_of(self, partition: str) -> tuple[list[LogChange], list[float]]:
        known = self._log_changes.get(partition)
        if known is None:
            case = self._context(partition)
            turns = [LogChange(election.t, _election_reason(election)) for election in case.elections]
            turns += [LogChange(moment.t, moment.reason) for moment in case.candidate_losses]
            removed = self._timeline.deletion_times.get(partition)
            if removed is not None:
                turns.append(LogChange(removed, f"the topic was deleted at {removed:.3f} s"))
            turns.sort()
            known = self._log_changes[partition] = turns, [turn.t for turn in turns]
        return known

    def log_change_between(self, partition: str, since: float, until: float) -> str | None:
        """Return why two reads may legally differ; None if no recorded event explains it."""
        turns, times = self._log_changes_of(partition)
        at = bisect_left(times, since - DEPOSED_LEADER_MAX)
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

    def _context(self, name: str) -> LossContext:
        case = self.contexts.get(name)
        if case is None:
            logs = self._replicas.get(name, {})
            case = self.contexts[name] = LossContext(self._derivation, self._timeline, name, logs, self._lossy)
        return case

    def _window(self, name: str, invoked: float, evident: float) -> tuple[int, int]:
        first = self._timeline.at(name, invoked)
        evident = invoked if evident == NEVER else evident
        return first, max(first, self._timeline.at(name, evident + FOLLOW_LAG_MAX))

    def _weak_acks(self, row: int, case: LossContext, until: float, vouched: bool) -> str | None:
        """Explain a record that was acknowledged before the ISR had it and that is not known to be committed."""
        acks = self._derivation.promises(self._sends.process[row]).acks
        if acks == "0":
            return "it was sent with acks=0, which gives no guarantee"
        name = self._derivation.partitions[self._sends.partition[row]].name
        invoked, states = self._sends.invoked[row], case.states
        if not states:
            hit = self._leader_hit(invoked, until)
            return None if hit is None else f"it was sent with acks=1 and the leader failed: {hit.story or hit.fault}"
        if vouched:
            return None
        first = change = case.lineage.leader_terms.first(invoked)
        last = self._timeline.at(name, self._sends.completed[row] + FOLLOW_LAG_MAX)
        while (change := case.lineage.leader_terms.replaced_at[change]) < len(states):
            state, before = states[change], case.lineage.leader_terms.deposed_at[change]
            if state.t > until + FOLLOW_LAG_MAX:
                break
            # A deposed leader that does not know its successor yet may still answer acks=1.
            if state.t >= invoked - FOLLOW_LAG_MAX or self._timeline.may_be_unaware(before, state.t, invoked):
                return (
                    f"it was sent with acks=1 and the leader was replaced at {state.t:.3f} s "
                    f"(leader epoch {state.leader_epoch}) before the record was known to be replicated"
                )
        for leader in dict.fromkeys(state.leader for state in states[max(first, last - 8) : last + 1]):
            lost = self._first_data_loss(leader, name, invoked, until)
            if lost is not None:
                return f"it was sent with acks=1 and the leader lost its data: {lost.story or lost.fault}"
        return None

    def _leader_hit(self, invoked: float, until: float) -> FaultSpan | None:
        """Return a fault that may have replaced the leader, if the leader is unknown."""
        for fault in self._timeline.faults:
            if fault.begin <= until and fault.end >= invoked and (fault.lossy or fault.fault in LEADER_FAULTS):
                return fault
        return None

    def _first_data_loss(self, node: int, name: str, since: float, until: float) -> FaultSpan | None:
        """Return the first loss of a node's data of a partition that struck after `since` and began by `until`."""
        if (node, name) not in self._losses_of:
            losses = [fault for fault in self._lossy if node in fault.brokers and fault.has_loss_of(name)]
            self._losses_of[node, name] = losses, list(accumulate((fault.lost_by for fault in losses), max))
        losses, reach = self._losses_of[node, name]
        at = bisect_left(reach, since)
        return losses[at] if at < len(losses) and losses[at].begin <= until else None

    def _unclean(self, case: LossContext, invoked: float, until: float) -> str | None:
        """Explain a record that an unclean election may have truncated."""
        elections = case.elections
        at = bisect_left(elections, invoked - DEPOSED_LEADER_MAX, key=lambda election: election.t)
        for election in elections[at:]:
            if election.t > until + FOLLOW_LAG_MAX:
                return None
            late = election.t < invoked - FOLLOW_LAG_MAX
            if not late or self._timeline.may_be_unaware(election.former_leader, election.t, invoked):
                return _election_reason(election)
        return None

    def _excuse_isr_loss(self, row: int, name: str, case: LossContext, committed: float, until: float) -> str | None:
        """Explain a record that every member of some ISR at acknowledgement time has lost."""
        if not case.lossy:
            return None
        invoked = self._sends.invoked[row]
        if not case.states:
            return self._excuse_without_isr(name, invoked, until)
        known = self._sends.evident(row) if committed == NEVER else committed
        gone = case.holders.first_loss(*self._window(name, invoked, known), invoked)
        if gone.t > until + FOLLOW_LAG_MAX or gone.t == NEVER:
            return None
        return (
            f"every member of the ISR at acknowledgement time {sorted(gone.isr)} lost its data, "
            f"the last at {gone.t:.3f} s"
        )

    def _none_electable(self, case: LossContext, invoked: float, until: float) -> str | None:
        """Explain a record lost when all eligible leaders lost their data, and more nodes than the guarantee covers."""
        at = bisect_left(case.limits, invoked)
        if self._strict or at >= len(case.candidate_losses) or case.candidate_losses[at].t > until + FOLLOW_LAG_MAX:
            return None
        moment = case.candidate_losses[at]
        return f"{moment.reason}; {moment.guarantee} gives no guarantee beyond that"

    def _excuse_without_isr(self, name: str, invoked: float, until: float) -> str | None:
        """Decide without a followed metadata log: legal only if every broker lost its data."""
        brokers = self._timeline.brokers()
        if not brokers:
            return None
        for broker in brokers:
            if self._first_data_loss(broker, name, invoked, until) is None:
                return None
        return "every broker lost its data (the ISR is not in the history)"


def _election_reason(election: Election) -> str:
    return (
        f"node {election.leader} was elected uncleanly at {election.t:.3f} s (leader epoch {election.leader_epoch}, "
        f"metadata offset {election.offset})"
    )
