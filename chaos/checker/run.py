"""From events to a verdict: hands each event to who needs it, then lets the judge speak and adds up the figures."""

from collections import Counter
from collections.abc import Iterable

from kvorum.chaos.checker.derive import Derivation
from kvorum.chaos.checker.judge import Judge
from kvorum.chaos.checker.meter import Meter
from kvorum.chaos.checker.replicas import Images
from kvorum.chaos.checker.sends import NEVER
from kvorum.chaos.checker.timeline import Timeline
from kvorum.chaos.checker.verdict import FaultFigures, Figures, Verdict
from kvorum.chaos.history import (
    AnyEvent,
    Fail,
    Fault,
    Finish,
    Image,
    Info,
    Invoke,
    Metadata,
    Note,
    Ok,
    Process,
    Replica,
    Start,
)

UNCLEAN_WORDS = frozenset({"elect-leaders-unclean", "elect_leaders_unclean"})
"""First words of an admin operation by which an operator asks for an unclean election."""


class Checker:
    """Takes a history event by event, so a simulation can feed it while it runs; `verdict` ends it."""

    def __init__(self) -> None:
        """Begin with an empty history."""
        self._derivation = Derivation()
        self._timeline = Timeline()
        self._meter = Meter(self._derivation)
        self._images = Images()
        self._final_logs: dict[str, dict[int, Replica]] = {}
        self._faults: list[FaultFigures] = []
        self._events = 0
        self._first: float | None = None
        self._last = 0.0

    def feed(self, event: AnyEvent) -> None:
        """Take the next event."""
        self._events += 1
        if self._first is None:
            self._first = event.t
        if event.t > self._last:
            self._last = event.t
        match event:
            case Invoke():
                self._derivation.invoke(event, self._events)
                self._meter.begin(event, self._derivation.pending_rows(event.op))
                if event.f == "admin" and event.value and event.value[0] in UNCLEAN_WORDS:
                    self._timeline.asked_unclean.append(event.t)
            case Ok() | Fail() | Info():
                self._meter.end(event, self._derivation.complete(event, self._events))
            case Process():
                self._derivation.process(event)
            case Metadata():
                self._timeline.take_metadata(event)
            case Fault():
                self._timeline.take_fault(event)
                if event.phase == "begin":
                    figures = FaultFigures(id=event.id, fault=event.fault, targets=list(event.targets), begin=event.t)
                    self._faults.append(figures)
                    self._meter.watch(figures)
            case Replica():
                self._final_logs.setdefault(event.partition, {})[event.node] = event
            case Image():
                self._images.take(event)
            case Start():
                self._timeline.take_start(event)
            case Note() | Finish():
                pass

    def verdict(self, *, ww: bool = False, strict: bool = False) -> Verdict:
        """Judge what was fed; the options are those of `check`."""
        self._derivation.finish()
        judge = Judge(self._derivation, self._timeline, self._final_logs, self._images, strict=strict)
        judge.judge(ww=ww)
        return Verdict(violations=judge.violations, explained=judge.explained, figures=self._figures(judge))

    def _figures(self, judge: Judge) -> Figures:
        meter, derivation = self._meter, self._derivation
        for session in derivation.sessions.values():
            session.finish(derivation.partitions)
        partitions = meter.finish()
        for name, count in judge.lost_by_partition.items():
            partitions[name].lost = count
        names = [partition.name for partition in derivation.partitions]
        for figures, span in zip(self._faults, self._timeline.faults, strict=True):
            figures.end = None if span.end == NEVER else span.end
            figures.lossy = span.lossy
            meter.settle(figures, span, names)
        lags = {process: session.lag_max for process, session in derivation.sessions.items()}
        return Figures(
            duration=self._last - (self._first or 0.0),
            events=self._events,
            operations={f: dict(counts) for f, counts in sorted(meter.operations.items())},
            clients={client: dict(counts) for client, counts in sorted(meter.clients.items())},
            errors=dict(meter.errors.most_common()),
            sends=sum(figures.sends for figures in partitions.values()),
            acked=sum(figures.acked for figures in partitions.values()),
            lost=sum(judge.lost_by_partition.values()),
            lost_legally=judge.lost_legally,
            duplicated=judge.duplicated,
            reordered=judge.reordered,
            records_read=derivation.records_read,
            longest_gap=meter.whole.gap,
            longest_gap_at=meter.whole.gap_at,
            partitions=partitions,
            faults=self._faults,
            faults_by_kind=dict(Counter(fault.fault for fault in self._faults).most_common()),
            lag_max=max(lags.values(), default=0.0),
            lag_by_process=lags,
            allowed=dict(judge.allowed),
            replicas_compared=judge.replicas_compared,
            images_compared=self._images.compared,
            final_reads=derivation.final_reads,
        )


def check(events: Iterable[AnyEvent], *, ww: bool = False, strict: bool = False) -> Verdict:
    """Return the verdict on a history.

    `ww`: also look for cycles that need the order of writes (G0, and G1c through it); Kafka does not isolate writes,
    so they are among what is explained. `strict`: loss is legal only where every member of the ISR at acknowledgement
    time lost its data (or by an unclean election), whoever could still be elected; see `kvorum.chaos.checker.loss`.
    """
    checker = Checker()
    for event in events:
        checker.feed(event)
    return checker.verdict(ww=ww, strict=strict)
