"""Session order of one process: gaps and regressions of polls, regressions of sends, own writes in polls.

poll-skip: between two polls (int-: two records of one operation) of a process there is a record that it never got.
nonmonotonic-poll: it got an offset again, or an earlier one. nonmonotonic-send: a later send has an earlier offset.
precommitted-read: a transaction polled its own uncommitted record.

Permitted, and only counted: gaps between sends (others write in between), and everything across a subscriber's
rebalance. A gap of a poll is counted in visible records, so control records are not gaps.
"""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from kvorum.chaos.checker.derive import Derivation
from kvorum.chaos.checker.logs import Log
from kvorum.chaos.checker.partitions import Partition, Step
from kvorum.chaos.checker.sends import FAIL, NOWHERE


class PollFinding(NamedTuple):
    """A reader's step that is not the next record."""

    anomaly: str
    partition: int
    step: Step
    offsets: list[int]
    """The visible offsets that a skip passed over."""
    reason: str


class SendFinding(NamedTuple):
    """Two sends of a process that are in the log in the other order."""

    anomaly: str
    partition: int
    earlier: int
    later: int
    reason: str


def poll_steps(partition: Partition, log: Log, allowed: Counter[str]) -> Iterator[PollFinding]:
    """Yield skips and steps back of this partition's readers."""
    for step in partition.steps:
        prefix = "int-" if step.internal else ""
        if step.target <= step.source:
            anomaly, missed = f"{prefix}nonmonotonic-poll", 0
            reason = (
                f"process {step.process} polled offset {step.source} and then offset {step.target} (op {step.op}): "
                "offsets must increase"
            )
        else:
            missed = log.between(step.source, step.target)
            if missed == 0:
                continue
            anomaly = f"{prefix}poll-skip"
            reason = (
                f"process {step.process} polled offset {step.source} and then offset {step.target} (op {step.op}): "
                f"it skipped the {missed} record{'s' * (missed > 1)} in between"
            )
        if step.subscribed and not step.internal:
            allowed[anomaly] += 1
            continue
        yield PollFinding(anomaly, partition.index, step, log.slice(step.source, step.target) if missed else [], reason)


def send_order(derivation: Derivation, allowed: Counter[str]) -> Iterator[SendFinding]:
    """Yield sends that are before an earlier send of the same process to the same partition.

    The order of sends is that of their invocations, the order in which the client got them; for operations without
    invocation it is that of completions. Sends that certainly failed or whose position is unknown are skipped.
    """
    sends = derivation.sends
    places: dict[int, dict[int, int]] = {}  # by process, by partition: the row of its last send
    resets = iter(derivation.resets)
    reset = next(resets, None)
    for row in range(len(sends)):
        sequence = sends.invoked_sequence[row]
        while reset is not None and 0 <= reset.sequence < sequence:
            kept = places.get(reset.process, {})
            places[reset.process] = {index: at for index, at in kept.items() if index in reset.kept}
            reset = next(resets, None)
        position = sends.position(row)
        if position == NOWHERE or sends.kind[row] == FAIL:
            continue
        process, index = sends.process[row], sends.partition[row]
        last = places.setdefault(process, {})
        before = last.get(index)
        last[index] = row
        if before is None:
            continue
        prefix = "int-" if sends.op[before] == sends.op[row] else ""
        distance = position - sends.position(before)
        if distance > 1:
            allowed[f"{prefix}send-skip"] += 1
        elif distance < 1:
            reason = (
                f"process {process} sent value {sends.value[before]} and then value {sends.value[row]}, which are at "
                f"offsets {sends.position(before)} and {position}"
            )
            yield SendFinding(f"{prefix}nonmonotonic-send", index, before, row, reason)
