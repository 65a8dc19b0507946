"""Expectations that are checked on the events of a history instead of the figures: pure.

A partition's ISR changes with each PartitionChange of the followed metadata log that sets another one. A late answer is
a broker's response to a client of one attempt, this time after the send began: its request was in flight, or waited.
"""

from collections.abc import Iterable
from typing import Final

from kvorum.chaos.history import AnyEvent, Fail, Info, Invoke, Metadata, Ok, Process
from kvorum.chaos.scenario.models import Expectation, LateAnswers
from kvorum.chaos.workload.classify import TIMEOUTS
from kvorum.chaos.workload.libraries import CHANNEL

NO_ANSWERS: Final = frozenset({*TIMEOUTS, "NETWORK_EXCEPTION", "LEADER_NOT_AVAILABLE"})
"""Errors that the client itself generates."""


def needs_events(expect: Expectation) -> bool:
    """Return whether there is something to be held against the events."""
    return bool(expect.isr_changes_max) or expect.late_answers is not None


def failed_event_rules(expect: Expectation, events: Iterable[AnyEvent]) -> list[str]:
    """Return which of these expectations were not met."""
    changes, late = IsrChanges(), LateAnswerCounter(expect.late_answers)
    for event in events:
        if isinstance(event, Metadata):
            changes.feed(event)
        else:
            late.feed(event)
    found = [
        f"the ISR of {name} changed {changes.counts.get(name, 0)} times, the limit is {most}"
        for name, most in expect.isr_changes_max.items()
        if changes.counts.get(name, 0) > most
    ]
    wanted = expect.late_answers
    if wanted is not None and late.count < wanted.min:
        found.append(f"{late.count} sends took {wanted.after:g} s or more, expected at least {wanted.min}")
    return found


class IsrChanges:
    """Counts how often each partition's ISR becomes another set."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self.counts: dict[str, int] = {}
        """{"orders-0": changes}."""
        self._topics: dict[object, object] = {}
        self._isr: dict[str, frozenset[object]] = {}

    def feed(self, event: Metadata) -> None:
        """Process the next record."""
        record = event.record
        if record.get("type") == "Topic":
            self._topics[record["topic_id"]] = record["name"]
        isr = record.get("isr")
        if record.get("type") not in ("Partition", "PartitionChange") or not isinstance(isr, list):
            return
        name = f"{self._topics.get(record['topic_id'])}-{record['partition_id']}"
        before, self._isr[name] = self._isr.get(name), frozenset(isr)
        if before is not None and before != self._isr[name]:
            self.counts[name] = self.counts.get(name, 0) + 1


class LateAnswerCounter:
    """Counts late answers."""

    def __init__(self, wanted: LateAnswers | None) -> None:
        """Count answers that are late enough; none without such an expectation."""
        self.count = 0
        self._wanted = wanted
        self._once: set[int] = set()
        self._begun: dict[int, float] = {}

    def feed(self, event: AnyEvent) -> None:
        """Process the next event."""
        if self._wanted is None:
            return
        if isinstance(event, Process) and event.client == CHANNEL:
            self._once.add(event.process)
        elif isinstance(event, Invoke) and event.f == "send" and event.process in self._once:
            self._begun[event.op] = event.t
        elif isinstance(event, Ok | Fail | Info):
            begun = self._begun.pop(event.op, None)
            if begun is not None and event.t - begun >= self._wanted.after and event.error not in NO_ANSWERS:
                self.count += 1
