"""Applies every rule to a derived history, and decides for each finding whether it was legal.

Legal findings are consequences of a legal loss (kvorum.chaos.checker.loss), retries of a producer without idempotence,
and missing guarantees of Kafka. All others are violations. Findings of one rule, partition and excuse are reported as
one, with the story of the first.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial

from kvorum.chaos.checker import acks, cycles, logs, lost_values, realtime, replicas, sessions, transactions
from kvorum.chaos.checker.coordinators import Coordinators
from kvorum.chaos.checker.derive import Derivation
from kvorum.chaos.checker.facts import Fact
from kvorum.chaos.checker.logs import Finding, Log
from kvorum.chaos.checker.loss import LossRules
from kvorum.chaos.checker.sends import INFO, NEVER, NOWHERE, OK, READ_FINAL
from kvorum.chaos.checker.sessions import PollFinding, SendFinding
from kvorum.chaos.checker.story import Sentence, StoryBuilder
from kvorum.chaos.checker.timeline import Timeline
from kvorum.chaos.checker.verdict import Violation
from kvorum.chaos.history import Replica

NO_IDEMPOTENCE = "the producer is not idempotent, so retries can cause this"

ROWS_MAX = 16
"""The maximum number of records at one offset that are checked for one step of a reader."""


class Group:
    """Findings that are reported together."""

    def __init__(self, first: Violation, values_max: int) -> None:
        """Create it with the first of them; at most `values_max` values are kept."""
        self.first = first
        self.values = list(first.values)
        self.count = 1
        self._values_max = values_max

    def add(self, value: int | None) -> None:
        """Add one more."""
        self.count += 1
        if value is not None and len(self.values) < self._values_max:
            self.values.append(value)

    def violation(self) -> Violation:
        """Return them as one violation."""
        first = self.first
        reason = first.reason if self.count == 1 else f"{first.reason} (and {self.count - 1} similar ones)"
        return Violation(
            anomaly=first.anomaly,
            partition=first.partition,
            values=self.values,
            count=self.count,
            story=first.story,
            reason=reason,
            t=first.t,
        )


class Judge:
    """Judges once: `judge`, then read `violations`, `explained` and the counts."""

    def __init__(
        self,
        derivation: Derivation,
        timeline: Timeline,
        final_logs: dict[str, dict[int, Replica]],
        images: replicas.Images,
        coordinators: Coordinators,
        *,
        strict: bool,
        values_max: int,
    ) -> None:
        """Store all data derived from the history."""
        self._derivation = derivation
        self._timeline = timeline
        self._final_logs = final_logs
        self._images = images
        self._coordinators = coordinators
        self._values_max = values_max
        self._loss = LossRules(derivation, timeline, final_logs, strict=strict)
        self._teller = StoryBuilder(derivation, timeline, self._loss, final_logs)
        self._groups: dict[tuple[str, str | None, str | None], Group] = {}
        self._committed = logs.must_have_committed(derivation)
        self._logs: list[Log] = [logs.build(derivation, p, self._committed) for p in derivation.partitions]
        self._lost = bytearray(len(derivation.sends))
        self.allowed: Counter[str] = Counter()
        self.lost_by_partition: Counter[str] = Counter()
        self.lost_legally = 0
        self.duplicated = 0
        self.reordered = 0
        self.replicas_compared = 0

    @property
    def violations(self) -> list[Violation]:
        """Illegal findings, in time order."""
        violations = [group.violation() for (_, _, excuse), group in self._groups.items() if excuse is None]
        return sorted(violations, key=lambda violation: violation.t)

    @property
    def explained(self) -> list[Violation]:
        """Legal findings, in time order."""
        violations = [group.violation() for (_, _, excuse), group in self._groups.items() if excuse is not None]
        return sorted(violations, key=lambda violation: violation.t)

    def judge(self, *, ww: bool) -> None:
        """Apply all rules."""
        self._elections()
        for finding in acks.find_missing_offsets(self._derivation):
            self._add(finding, None)
        for partition, log in zip(self._derivation.partitions, self._logs, strict=True):
            for finding in lost_values.find_lost_values(self._derivation, partition, self._committed):
                self._judge_loss(finding)
            for finding in logs.contradictions(self._derivation, partition, log):
                self._contradiction(finding)
            for finding in logs.find_aborted_reads(self._derivation, partition):
                self._add(finding, None)
            for finding in logs.unknown_values(self._derivation, partition):
                self._add(finding, None, [(finding.t, finding.reason)])
            for finding in acks.below_min_isr(self._derivation, self._timeline, partition):
                self._add(finding, None)
            for step in sessions.poll_steps(partition, log, self.allowed):
                self._poll_step(step)
        self._own_reads()
        for order in sessions.send_order(self._derivation, self.allowed):
            self._send_order(order)
        for finding in realtime.append_order(self._derivation, self._logs):
            self.reordered += 1
            until = self._time_of_proof(finding.rows)
            excuses = [self._loss.excuse(row, until) for row in reversed(finding.rows)]
            self._add(finding, next((excuse for excuse in excuses if excuse), None))
        for finding in transactions.find_torn_transactions(self._derivation, self._derivation.final_reads):
            excuses = [self._loss.excuse(row) for row in finding.rows]
            self._add(finding, excuses[0] if all(excuses) else None)
        for finding in transactions.open_reads(self._derivation):
            self._add(finding, None)
        for fact in self._coordinators.facts(self._derivation):
            self._fact(fact)
        self._cycles(ww)
        self._replicas()

    def _put(
        self,
        anomaly: str,
        partition: str | None,
        value: int | None,
        t: float,
        reason: str,
        excuse: str | None,
        story: Callable[[], list[str]],
    ) -> None:
        """Add to the group of similar findings; only the first of a group has a story."""
        key = (anomaly, partition, excuse)
        group = self._groups.get(key)
        if group is not None:
            group.add(value)
            return
        why = reason if excuse is None else f"{reason}; legal, since {excuse}"
        values = [] if value is None else [value]
        violation = Violation(
            anomaly=anomaly,
            partition=partition,
            values=values,
            count=1,
            story=story(),
            reason=why,
            t=0.0 if t == NEVER else t,
        )
        self._groups[key] = Group(violation, self._values_max)

    def _add(self, finding: Finding, excuse: str | None, last: list[Sentence] | None = None) -> None:
        """Add a finding in a log, with the stories of its sends."""
        name = self._derivation.partitions[finding.partition].name
        t = self._until(finding.rows) if finding.rows else finding.t
        if t == NEVER:
            t = self._derivation.sends.invoked[finding.rows[0]]

        story = partial(self._teller.build, finding.rows, name, last or [])
        self._put(finding.anomaly, name, finding.value, t, finding.reason, excuse, story)

    def _fact(self, fact: Fact) -> None:
        """Add findings about groups and coordinators; a legal loss in coordinator topics or records explains them."""
        excuse = None
        for name in self._timeline.states:
            if excuse is None and name.rpartition("-")[0] in fact.topics:
                excuse = self._loss.log_change_between(name, fact.since, fact.t)
        if excuse is None and fact.rows:
            excuses = [self._loss.excuse(row) for row in fact.rows]
            excuse = excuses[0] if all(excuses) else None
        if excuse is None and fact.member_request is not None:
            excuse = self._timeline.excuse_coordinator(fact.member_request, fact.t)
        story = partial(self._teller.build, (), fact.partition, list(fact.story))
        self._put(fact.anomaly, fact.partition, fact.value, fact.t, fact.reason, excuse, story)

    def _until(self, rows: tuple[int, ...]) -> float:
        """Return when the last of these values was certain."""
        return max((self._derivation.sends.evident(row) for row in rows), default=NEVER)

    def _time_of_proof(self, rows: tuple[int, ...]) -> float:
        """Return when the last of these values was certain; one that stayed, not before its first read.

        A deposed leader's offset may have been returned long before an unclean election made it count. One that was
        polled at another offset than returned is at the returned offset from then on.
        """
        sends = self._derivation.sends
        stayed = (sends.first_read[row] for row in rows if sends.read_flags[row] & READ_FINAL)
        acknowledged = (row for row in rows if sends.has_offset(row))
        moved = (
            sends.completed[row]
            for row in acknowledged
            if sends.read_offset[row] not in (NOWHERE, sends.acked_offset[row])
        )
        return max((self._until(rows), *stayed, *moved))

    def _elections(self) -> None:
        """Add unclean elections that no config or request permitted, and two leaders of one epoch."""
        for name, elections in self._timeline.elections.items():
            for election in elections:
                if election.is_certain and (election.is_allowed or election.is_last_known_leader):
                    continue
                config = "but unclean.leader.election.enable is not true and no operator requested it"
                mark = "uncleanly" if election.is_certain else "outside the ISR without being marked as unclean"
                reason = f"node {election.leader} was elected leader of {name} {mark}, {config}"
                t = election.t
                last: list[Sentence] = [(t, f"node {election.leader} becomes leader, epoch {election.leader_epoch}")]
                self._put(
                    "unclean-election",
                    name,
                    None,
                    t,
                    reason,
                    None,
                    partial(self._teller.build, (), name, last),
                )

        for rivals in self._timeline.leader_conflicts:
            one, two = rivals.leaders
            reason = f"nodes {one} and {two} both led {rivals.partition} in leader epoch {rivals.leader_epoch}"
            last = [(rivals.t, f"node {two} becomes leader, epoch {rivals.leader_epoch}")]
            story = partial(self._teller.build, (), rivals.partition, last)
            self._put("two-leaders", rivals.partition, None, rivals.t, reason, None, story)

    def _judge_loss(self, finding: Finding) -> None:
        row, partition = finding.rows[0], self._derivation.partitions[finding.partition]
        shown = partition.final_from_start and finding.offset != NOWHERE and finding.offset <= partition.final_max
        # Events after the reads that show the loss do not excuse it.
        until = partition.final_t if shown else self._derivation.final_t
        excuse = self._loss.excuse(row, until, served=shown)
        self._lost[row] = 1
        if self._derivation.sends.kind[row] == OK:
            name = self._derivation.partitions[finding.partition].name
            self.lost_by_partition[name] += 1
            self.lost_legally += excuse is not None
        self._add(finding, excuse)

    def _contradiction(self, finding: Finding) -> None:
        sends = self._derivation.sends
        if finding.anomaly == "duplicate":
            self.duplicated += 1
            row = finding.rows[0]
            promises = self._derivation.promises(sends.process[row])
            self._add(finding, self._loss.excuse(row) if promises.idempotent else NO_IDEMPOTENCE)
            return
        self._add(finding, self._excuse_replacement(finding))

    def _excuse_replacement(self, finding: Finding) -> str | None:
        """Return why several values at one offset are legal: all but one were legally lost.

        That one is the value of the final reads. If they have none of them (the offset was deleted), it is any: the
        last acknowledged one may be a deposed leader's. Another may have survived at another offset, as a copy that
        a producer sent again. Two records of one leader epoch at one offset are never legal.
        """
        sends = self._derivation.sends
        rows = list(dict.fromkeys(finding.rows))
        if len(rows) < 2:
            return None
        here = [row for row in rows if sends.read_offset[row] == finding.offset and sends.epoch[row] >= 0]
        if len({sends.epoch[row] for row in here}) < len(here):
            return None
        stays = logs.final_values(self._derivation, finding)
        until = max(self._time_of_proof(tuple(rows)), *stays.values(), 0.0)
        rows.sort(key=sends.evident)
        # A surviving value read before another one was certain at its offset has returned: with a leader that lacked
        # that one.
        back = self._derivation.partitions[finding.partition].final_t if stays else until
        first_read = max(stays.values(), default=NEVER)
        excuses = {
            row: self._loss.excuse(row, max(until, back) if sends.evident(row) > first_read else until)
            for row in rows
            if row not in stays
        }
        if len(stays) + list(excuses.values()).count(None) > 1:
            return None
        return next(excuse for excuse in excuses.values() if excuse is not None)

    def _poll_step(self, finding: PollFinding) -> None:
        step = finding.step
        name = self._derivation.partitions[finding.partition].name
        log = self._logs[finding.partition]
        rows = tuple(
            row for offset in finding.offsets[:1] or [step.target] for row in log.at(offset, ROWS_MAX) if row >= 0
        )[:1]
        value = self._derivation.sends.value[rows[0]] if rows else None
        excuse = self._loss.log_change_between(name, step.since, step.t) or self._excuse_skip(finding, step.t)
        last: list[Sentence] = [
            (step.since, f"process {step.process} polls {name} up to offset {step.source}"),
            (step.t, f"process {step.process} continues with offset {step.target} (op {step.op})"),
        ]
        self._put(
            finding.anomaly,
            name,
            value,
            step.t,
            finding.reason,
            excuse,
            partial(self._teller.build, rows, name, last),
        )

    def _excuse_skip(self, finding: PollFinding, until: float) -> str | None:
        """Return why all records that a reader skipped were legally lost by then; None if one was not."""
        log = self._logs[finding.partition]
        excuses: list[str] = []
        for offset in finding.offsets:
            for row in log.at(offset, ROWS_MAX):
                excuse = self._loss.excuse(row, until) if row >= 0 else None
                if excuse is None:
                    return None
                excuses.append(excuse)
        return excuses[0] if excuses else None

    def _own_reads(self) -> None:
        sends = self._derivation.sends
        for own in self._derivation.own_reads:
            if self._derivation.promises(sends.process[own.row]).isolation != "read_committed":
                self.allowed["precommitted-read"] += 1
                continue
            value = sends.value[own.row]
            reason = f"the transaction of op {own.op} polled its own uncommitted value {value}"
            finding = Finding("precommitted-read", sends.partition[own.row], (own.row,), own.offset, value, reason)
            self._add(finding, None)

    def _send_order(self, order: SendFinding) -> None:
        self.reordered += 1
        sends = self._derivation.sends
        rows = (order.earlier, order.later)
        until = self._until(rows)
        excuse = self._loss.excuse(order.earlier, until) or self._loss.excuse(order.later)
        if excuse is None and not self._derivation.promises(sends.process[order.later]).idempotent:
            overlapped = sends.completed[order.earlier] > sends.invoked[order.later]
            if overlapped or sends.kind[order.earlier] == INFO:
                excuse = NO_IDEMPOTENCE
        finding = Finding(
            order.anomaly, order.partition, rows, sends.position(order.later), sends.value[order.later], order.reason
        )
        self._add(finding, excuse)

    def _cycles(self, ww: bool) -> None:
        """Cycles of reads are illegal; those that need the order of writes are what Kafka does not isolate."""
        for cycle in cycles.find(self._derivation, self._logs):
            self._cycle(cycle, None)
        if ww:
            for cycle in cycles.find(self._derivation, self._logs, ww=True):
                if any(link.kind == "ww" for link in cycle.links):
                    self._cycle(cycle, "Kafka does not isolate writes: transactions may interleave")

    def _cycle(self, cycle: cycles.Cycle, excuse: str | None) -> None:
        sends = self._derivation.sends
        rows = tuple(link.row for link in cycle.links if link.row >= 0)
        name = self._derivation.partitions[sends.partition[rows[0]]].name if rows else None
        steps: list[str] = []
        for link in cycle.links:
            match link.kind:
                case "wr":
                    what = f"polled value {sends.value[link.row]} of op {link.source}"
                case "ww":
                    what = f"wrote value {sends.value[link.row]} after op {link.source}"
                case _:
                    what = f"started after op {link.source} completed"
            steps.append(f"op {link.target} {what}")
        reason = f"cycle of {len(cycle.links)} operations, each before the next: {'; '.join(steps)}"
        t = max((sends.invoked[row] for row in rows), default=0.0)
        value = sends.value[rows[0]] if rows else None
        self._put(cycle.anomaly, name, value, t, reason, excuse, partial(self._teller.build, rows, name, []))

    def _replicas(self) -> None:
        end = max((state.t for states in self._timeline.states.values() for state in states[-1:]), default=0.0)
        findings = list(self._images.findings)
        for name, final in self._final_logs.items():
            self.replicas_compared += len(final)
            states = self._timeline.states.get(name)
            findings += replicas.compare(name, final, states[-1].isr if states else tuple(final))
            findings += replicas.find_missing_offsets(self._derivation, name, final, self._lost)
        for found in findings:
            rows = found.rows[:1]
            excuses = [self._loss.excuse(row) for row in found.rows]
            excuse = excuses[0] if excuses and all(excuses) else None
            value = self._derivation.sends.value[rows[0]] if rows else None
            self._put(
                found.anomaly,
                found.partition,
                value,
                end,
                found.reason,
                excuse,
                partial(self._teller.build, rows, found.partition, [(end, found.reason)]),
            )
