"""Replicas that hold a record, while ISRs change and nodes lose data, and the time at which the last one is lost.

A committed record is on every ISR member of that time. A member that loses its data no longer holds it; a
member that joins the ISR afterwards has copied it, if a holder is left. A member that leaves the ISR keeps it.
Losses and changes are one sequence, and after any position in it only the set of holders matters: so the rest is
computed once for each position and set, for any number of records.
"""

from bisect import bisect_right
from itertools import accumulate
from typing import Final, NamedTuple

from kvorum.chaos.checker.sends import NEVER
from kvorum.chaos.checker.spans import FaultSpan
from kvorum.chaos.checker.timeline import FOLLOW_LAG_MAX, PartitionState, Timeline

LOSS: Final = 0
JOIN: Final = 1
NO_LIMIT: Final = -NEVER


class IsrLoss(NamedTuple):
    """Time when the last holder of an ISR's records lost its data (NEVER: not lost), and that ISR."""

    t: float
    isr: tuple[int, ...]


class CandidateLoss(NamedTuple):
    """A moment at which all that could lead cleanly had lost their data.

    `limit`: of records that were sent up to then, as many nodes as min.insync.replicas have lost a copy and have not
    got it back. `guarantee` names what protects from one loss less.
    """

    t: float
    reason: str
    limit: float
    guarantee: str


class Holders:
    """A change of one partition."""

    def __init__(self, states: list[PartitionState], lossy: list[FaultSpan]) -> None:
        """Store the partition's states and data losses, both in time order."""
        self._states = states
        self._lossy = lossy
        self._reach = list(accumulate((fault.lost_by for fault in lossy), max))
        """Times by which all earlier losses have certainly happened."""
        changes: list[tuple[float, int, int, frozenset[int]]] = [
            (fault.begin, LOSS, at, fault.brokers) for at, fault in enumerate(lossy)
        ]
        isr: frozenset[int] = frozenset()
        for at, state in enumerate(states):
            now = frozenset(state.isr)
            changes.append((state.t, JOIN, at, now - isr))
            isr = now
        changes.sort(key=lambda change: change[:3])
        self._changes = changes
        self._behind = [0] * len(states)
        """The place behind each state's own change."""
        for place, (_, kind, at, _) in enumerate(changes):
            if kind == JOIN:
                self._behind[at] = place + 1
        self._loss_times: dict[tuple[int, frozenset[int]], float] = {}
        self.steps = 0
        """Number of processed changes over all calls."""
        self._soonest: list[list[IsrLoss]] | None = None

    def first_loss(self, first: int, last: int, invoked: float) -> IsrLoss:
        """Return the soonest end of what some ISR from state `first` to `last` had, of a record sent at `invoked`.

        A loss counts if it happened after the record was sent and after that ISR was formed.
        """
        since = max(invoked, self._states[first].t)
        place = max(self._behind[first], bisect_right(self._changes, (since, JOIN), key=lambda change: change[:2]))
        soonest = self._end_of(self._states[first].isr, since, place)
        if last > first:
            soonest = min(soonest, self._soonest_of(first + 1, last), key=lambda gone: gone.t)
        return soonest

    def _after_losses(self, isr: frozenset[int], t: float) -> tuple[frozenset[int], float]:
        """Return the ISR members left after losses that began by `t`, perhaps effective later; and the last loss."""
        at = bisect_right(self._lossy, t, key=lambda fault: fault.begin) - 1
        when = t
        while at >= 0 and self._reach[at] >= t:
            fault = self._lossy[at]
            if fault.lost_by >= t:
                isr -= fault.brokers
                when = max(when, fault.begin)
            at -= 1
        return isr, when

    def _walk(self, place: int, holders: frozenset[int]) -> float:
        """Return the time at which the last of these holders is lost, from an index of the changes on."""
        path: list[tuple[int, frozenset[int]]] = []
        end = NEVER
        while place < len(self._changes):
            key = (place, holders)
            known = self._loss_times.get(key)
            if known is not None:
                end = known
                break
            path.append(key)
            self.steps += 1
            t, kind, _, nodes = self._changes[place]
            holders = holders - nodes if kind == LOSS else holders | nodes
            place += 1
            if not holders:
                end = t
                break
        for key in path:
            self._loss_times[key] = end
        return end

    def _soonest_of(self, first: int, last: int) -> IsrLoss:
        """Return the soonest of the ISRs of a span of states (a sparse table: spans of powers of two)."""
        if self._soonest is None:
            rows = [[self._of_state(at) for at in range(len(self._states))]]
            while len(rows[-1]) > 1 << (len(rows) - 1):
                before, half = rows[-1], 1 << (len(rows) - 1)
                pairs = zip(before, before[half:], strict=False)
                rows.append([one if one.t <= two.t else two for one, two in pairs])
            self._soonest = rows
        level = (last - first + 1).bit_length() - 1
        row = self._soonest[level]
        one, two = row[first], row[last - (1 << level) + 1]
        return one if one.t <= two.t else two

    def _of_state(self, at: int) -> IsrLoss:
        state = self._states[at]
        return self._end_of(state.isr, state.t, self._behind[at])

    def _end_of(self, isr: tuple[int, ...], since: float, place: int) -> IsrLoss:
        """Return the time at which the records of this ISR are lost; its time precedes that index of the changes."""
        left, when = self._after_losses(frozenset(isr), since)
        if not isr:
            return IsrLoss(NEVER, isr)
        return IsrLoss(self._walk(place, left) if left else when, isr)


def candidate_losses(
    name: str, states: list[PartitionState], lossy: list[FaultSpan], timeline: Timeline
) -> list[CandidateLoss]:
    """Return when all eligible leaders (the ISR and ELR of that time) had lost their data.

    The time is that of the loss, not of a change of the ISR: making a node the only member after its loss is
    an error and excuses nothing. Exception: the controllers have not yet noticed the node's failure, and the last
    other member leaves by a controlled shutdown.
    """
    topic = name.rpartition("-")[0]

    def moment_of(t: float, electable: frozenset[int], fault: FaultSpan) -> CandidateLoss:
        # Members that left while the guarantee was weaker are not needed.
        elr = timeline.elr_in_use(shrunk, t)
        least = timeline.configs.least_min_isr(topic, shrunk, t) if elr else 1
        struck = sorted(lacking.values(), reverse=True)
        reason = (
            f"all cleanly electable replicas {sorted(electable)} had lost their data when "
            f"{fault.fault} hit {', '.join(fault.targets)} at {fault.begin:.3f} s"
        )
        if t > fault.begin:
            reason += f"; this was not known when the others left the ISR at {t:.3f} s"
        limit = struck[least - 1] if least <= len(struck) else NO_LIMIT
        return CandidateLoss(t, reason, limit, f"min.insync.replicas={least}" if elr else "no ELR")

    moments: list[CandidateLoss] = []
    at_loss = 0
    holders: frozenset[int] = frozenset()
    isr: frozenset[int] = frozenset()
    could_lead, shrunk = frozenset[int](), -NEVER  # time since which there are fewer possible leaders
    lacking: dict[int, float] = {}  # nodes that lost their data by then and have not rejoined the ISR since
    losses: dict[int, FaultSpan] = {}  # that loss of each
    for at, state in enumerate(states):
        electable, members = frozenset(state.isr + state.elr), frozenset(state.isr)
        # A member that joins during its loss has nothing afterwards: the join was decided before.
        joined = {
            node
            for node in members - isr
            if node not in losses or not losses[node].begin <= state.t < losses[node].end < NEVER
        }
        holders = holders & electable | joined
        if could_lead - electable:
            shrunk = state.t - FOLLOW_LAG_MAX
        could_lead = electable
        for node in joined:
            lacking.pop(node, None)
            losses.pop(node, None)
        isr = members
        if (
            electable
            and not holders
            and all(node in losses and timeline.is_unnoticed(node, losses[node].begin, state) for node in electable)
        ):
            moments.append(
                moment_of(state.t, electable, max((losses[node] for node in electable), key=lambda fault: fault.begin))
            )
        holders = holders or electable
        end = states[at + 1].t if at + 1 < len(states) else NEVER
        while at_loss < len(lossy) and lossy[at_loss].begin < end:
            fault = lossy[at_loss]
            at_loss += 1
            holders -= fault.brokers
            for node in fault.brokers.intersection(state.replicas):
                if node in isr or node not in lacking:  # a member that was struck before has been written to since
                    lacking[node] = fault.lost_by
                    losses[node] = fault
            if not holders and fault.brokers & electable:
                moments.append(moment_of(fault.begin, electable, fault))
    return moments
