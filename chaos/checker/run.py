"""From events to a verdict: passes each event to its consumers, runs the judge and adds up the figures."""

from collections import Counter
from collections.abc import Iterable, Iterator

from kvorum.chaos.checker.coordinators import Coordinators
from kvorum.chaos.checker.derive import Derivation
from kvorum.chaos.checker.judge import Judge
from kvorum.chaos.checker.meter import Meter
from kvorum.chaos.checker.replicas import Images
from kvorum.chaos.checker.sends import NEVER
from kvorum.chaos.checker.timeline import Timeline
from kvorum.chaos.checker.verdict import VALUES_SHOWN_MAX, FaultFigures, Figures, Verdict
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
    Owned,
    Process,
    Replica,
    Stable,
    Start,
)


class Checker:
    """Checks a history event by event, so a simulation can pass events while it runs; `verdict` ends it."""

    def __init__(self) -> None:
        """Create it for an empty history."""
        self._derivation = Derivation()
        self._timeline = Timeline()
        self._meter = Meter(self._derivation)
        self._images = Images()
        self._coordinators = Coordinators()
        self._final_logs: dict[str, dict[int, Replica]] = {}
        self._faults: list[FaultFigures] = []
        self._events = 0
        self._first: float | None = None
        self._last = 0.0

    def feed(self, event: AnyEvent) -> None:
        """Process the next event."""
        self._events += 1
        if self._first is None:
            self._first = event.t
        if event.t > self._last:
            self._last = event.t
        match event:
            case Invoke():
                self._derivation.invoke(event, self._events)
                self._coordinators.invoke(event)
                self._meter.begin(event, self._derivation.pending_rows(event.op))
                if event.f == "admin":
                    self._timeline.requests.begin(event)
            case Ok() | Fail() | Info():
                self._meter.end(event, self._derivation.complete(event, self._events))
                self._coordinators.complete(event)
                if event.f == "admin" and not isinstance(event, Info):
                    self._timeline.requests.complete(event.op, event.t)
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
            case Owned():
                self._coordinators.ownership.take(event)
            case Stable():
                self._coordinators.stable[event.partition] = event
            case Start():
                self._timeline.take_start(event)
            case Note() | Finish():
                pass

    def verdict(self, *, ww: bool = False, strict: bool = False, values_max: int = VALUES_SHOWN_MAX) -> Verdict:
        """Return the verdict on the events so far; the options are those of `check`."""
        self._derivation.finish()
        self._timeline.end = self._last
        judge = Judge(
            self._derivation,
            self._timeline,
            self._final_logs,
            self._images,
            self._coordinators,
            strict=strict,
            values_max=values_max,
        )
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
            pace=meter.pace.pace(),
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
            not_judged=list(self._missing_rules(judge)),
        )

    def _missing_rules(self, judge: Judge) -> Iterator[str]:
        """Return the parts that the history lacks."""
        timeline = self._timeline
        if timeline.has_samples:
            elr = "" if timeline.has_elr_samples else " and without eligible leader replicas"
            yield (
                f"Leaders and ISRs were sampled{elr}: the ISR at acknowledgement time is that of the "
                "nearest samples, and unclean elections are not reported."
            )
        elif not timeline.has_metadata:
            yield "The metadata log was not read: ISRs and unclean elections are unknown."
        if not judge.replicas_compared:
            yield "No disk was read: the replicas were not compared with each other."
        unseen = [f"{node} of {name}" for name, node in self._unseen_replicas()]
        if unseen:
            more = f" and {len(unseen) - 5} more" if len(unseen) > 5 else ""
            yield f"These replicas were not compared: node {', node '.join(unseen[:5])}{more}."
        if not self._images.compared:
            yield "No metadata images were compared."
        if not self._derivation.final_reads:
            yield "There were no final reads: values that were never read are not judged."

    def _unseen_replicas(self) -> Iterator[tuple[str, int]]:
        """Yield partition and node of recorded replicas without a final log, if another replica has one."""
        for name, logs in sorted(self._final_logs.items()):
            states = self._timeline.states.get(name)
            for node in states[-1].replicas if states else ():
                if node not in logs:
                    yield name, node


def check(
    events: Iterable[AnyEvent], *, ww: bool = False, strict: bool = False, values_max: int = VALUES_SHOWN_MAX
) -> Verdict:
    """Return the verdict on a history.

    `ww`: also search cycles that need the order of writes (G0, and G1c through it); Kafka does not isolate writes, so
    they are explained findings. `strict`: loss is legal only if every member of the ISR at acknowledgement time lost
    its data (or by an unclean election), whatever the other candidates; see `kvorum.chaos.checker.loss`. `values_max`:
    maximum of listed values per violation.
    """
    checker = Checker()
    for event in events:
        checker.feed(event)
    return checker.verdict(ww=ww, strict=strict, values_max=values_max)
