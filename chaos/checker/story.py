"""Builds the story of a record: sentences in time order."""

from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import Final

from kvorum.chaos.checker.derive import Derivation
from kvorum.chaos.checker.loss import LossRules
from kvorum.chaos.checker.sends import FAIL, NEVER, NOWHERE, OK
from kvorum.chaos.checker.spans import FaultSpan
from kvorum.chaos.checker.timeline import PartitionState, Timeline
from kvorum.chaos.history import Replica

SENTENCES_MAX: Final = 40
"""Faults and changes of a partition in one story; a story of a whole soak run would be useless."""

STATES_MAX: Final = 100
"""The maximum number of partition states checked for the ISRs in which a record may have been acknowledged."""

BEFORE: Final = 2.0
"""Seconds before the send from which faults and changes are included."""

Sentence = tuple[float, str]


class StoryBuilder:
    """Knows where to look things up; every method returns sentences with their time."""

    def __init__(
        self, derivation: Derivation, timeline: Timeline, loss: LossRules, replicas: dict[str, dict[int, Replica]]
    ) -> None:
        """Store the derived data and the timeline."""
        self._derivation = derivation
        self._timeline = timeline
        self._loss = loss
        self._replicas = replicas
        self._faults: tuple[list[Sentence], list[float]] | None = None
        self._changes: dict[str, tuple[list[Sentence], list[float]]] = {}

    def build(
        self, rows: tuple[int, ...], partition: str | None, last: list[Sentence], until: float = NEVER
    ) -> list[str]:
        """Return the story of these sends: the events of their partition until then, and the result."""
        sentences = [sentence for row in rows for sentence in self.record(row)]
        times = [t for t, _ in sentences + last]
        if partition is not None and times:
            begin = min(times) - BEFORE
            sentences += self.around(partition, begin, max(times) if until == NEVER and not rows else until)
        sentences += last
        sentences.sort(key=lambda sentence: sentence[0])
        lines = [f"{t:.3f} s: {text}" for t, text in sentences]
        if partition is not None:
            lines += self.end_of(partition)
        return lines

    def record(self, row: int) -> list[Sentence]:
        """Return the story of one send: sent, answered, first polled, and the ISR when it became certain."""
        sends = self._derivation.sends
        promises = self._derivation.promises(sends.process[row])
        name = self._derivation.partitions[sends.partition[row]].name
        client = f"{promises.client}, " if promises.client else ""
        idempotent = ", idempotent" if promises.idempotent else ""
        what = "sends in a transaction" if sends.transactional[row] else "sends"
        sentences = [
            (
                sends.invoked[row],
                f"process {sends.process[row]} ({client}acks={promises.acks}{idempotent}) {what} value "
                f"{sends.value[row]} to {name} (op {sends.op[row]})",
            )
        ]
        value, error = sends.value[row], self._derivation.errors.get(row, "no error recorded")
        offset = sends.acked_offset[row]
        if sends.kind[row] == OK:
            at = f"at offset {offset}" if offset != NOWHERE else "without an offset"
            sentences.append((sends.completed[row], f"value {value} is acknowledged {at}; {self._isr(row)}"))
        elif sends.kind[row] == FAIL:
            sentences.append((sends.completed[row], f"value {value} failed: {error}"))
        elif sends.completed[row] != NEVER:
            sentences.append((sends.completed[row], f"the result of value {value} is unknown: {error}"))
        if sends.first_read[row] != NEVER:
            isr = "" if sends.kind[row] == OK else f"; {self._isr(row)}"
            sentences.append(
                (
                    sends.first_read[row],
                    f"op {sends.first_reader[row]} polls value {value} at offset {sends.read_offset[row]}{isr}",
                )
            )
        return sentences

    def around(self, partition: str, begin: float, end: float) -> list[Sentence]:
        """Return faults and changes of a partition in a span of time, SENTENCES_MAX at most."""
        found: list[Sentence] = []
        count = 0
        for sentences, times in (self._of_faults(), self._of_partition(partition)):
            first, last = bisect_left(times, begin), bisect_right(times, end)
            found += sentences[first : min(last, first + SENTENCES_MAX)]
            count += last - first
        found.sort(key=lambda sentence: sentence[0])
        if count > SENTENCES_MAX:
            found = found[:SENTENCES_MAX]
            found.append((found[-1][0], f"({count - SENTENCES_MAX} more faults and changes of {partition} follow)"))
        return found

    def _of_faults(self) -> tuple[list[Sentence], list[float]]:
        """Return the sentences of all faults, and their times."""
        if self._faults is None:
            sentences = [sentence for fault in self._timeline.faults for sentence in _fault(fault)]
            self._faults = _in_order(sentences)
        return self._faults

    def _of_partition(self, partition: str) -> tuple[list[Sentence], list[float]]:
        """Return the sentences about all changes of a partition, and their times."""
        known = self._changes.get(partition)
        if known is None:
            sentences: list[Sentence] = []
            unclean = {election.offset for election in self._timeline.elections.get(partition, ())}
            for before, after in pairwise(self._timeline.states.get(partition, [])):
                text = _change(before, after, after.offset in unclean)
                if text:
                    sentences.append((after.t, f"{partition}: {text}"))
            removed = self._timeline.deletion_times.get(partition)
            if removed is not None:
                sentences.append((removed, f"the topic of {partition} is deleted"))
            known = self._changes[partition] = _in_order(sentences)
        return known

    def end_of(self, partition: str) -> list[str]:
        """Return the final logs and the final reads of a partition."""
        lines: list[str] = []
        for node, log in sorted(self._replicas.get(partition, {}).items()):
            lines.append(f"at the end: node {node} has offsets {log.start} to {log.end - 1} of {partition}")
        index = self._derivation.partition_index.get(partition)
        if index is not None and self._derivation.partitions[index].final_max != NOWHERE:
            lines.append(f"at the end: the final reads reach offset {self._derivation.partitions[index].final_max}")
        return lines

    def _isr(self, row: int) -> str:
        states = self._loss.isr_at(row)
        if not states:
            return "the ISR is not in the history"
        isrs = " or ".join(dict.fromkeys(str(list(state.isr)) for state in states[:STATES_MAX]))
        state = states[0]
        return f"the ISR was {isrs}, the leader was {state.leader} in leader epoch {state.leader_epoch}"


def _in_order(sentences: list[Sentence]) -> tuple[list[Sentence], list[float]]:
    sentences.sort(key=lambda sentence: sentence[0])
    return sentences, [t for t, _ in sentences]


def _fault(fault: FaultSpan) -> list[Sentence]:
    what = fault.story or f"{fault.fault} {', '.join(fault.targets)}"
    of = f" of {', '.join(sorted(fault.partitions))}" if fault.partitions else ""
    lossy = f" (nodes {sorted(fault.brokers)} lose data{of})" if fault.lossy and fault.brokers else ""
    sentences = [(fault.begin, f"fault {fault.id} begins: {what}{lossy}")]
    if fault.end != NEVER:
        sentences.append((fault.end, f"fault {fault.id} ends ({fault.fault} {', '.join(fault.targets)})"))
    return sentences


def _change(before: PartitionState, after: PartitionState, unclean: bool) -> str:
    """Describe the change between two states of a partition; "" if it is irrelevant."""
    parts: list[str] = []
    if after.leader != before.leader or after.leader_epoch != before.leader_epoch:
        leader = f"node {after.leader} leads" if after.leader >= 0 else "it has no leader"
        parts.append(f"{leader} in leader epoch {after.leader_epoch}")
    if unclean:
        parts.append("unclean election")
    if after.isr != before.isr:
        parts.append(f"the ISR becomes {list(after.isr)}")
    if after.elr != before.elr:
        parts.append(f"the ELR becomes {list(after.elr)}")
    return ", ".join(parts)
