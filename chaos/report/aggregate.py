"""One pass over a history into a picture of bounded size: buckets of time, waits, states, and who took part.

Time grows with the number of events, memory with operations in flight, metadata records and faults; the state
kept of operations does not grow at all (BUCKETS, PARTITIONS_MAX, SPANS_MAX).
"""

import heapq
import math
from array import array
from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from kvorum.chaos.checker.configs import TOPIC_RESOURCE
from kvorum.chaos.checker.timeline import Timeline
from kvorum.chaos.history import AnyEvent, Fail, Fault, Finish, Info, Invoke, Metadata, Note, Ok, Process, Start

BUCKETS: Final = 400
"""Number of intervals of a run: one is two or three pixels wide on a screen."""

ACKS_A_BUCKET: Final = 4.0
"""On average at least: with fewer the curve of a slow workload would be a comb, and every tooth's gap look like one."""

SPANS_MAX: Final = 200
"""Longest waits kept of one partition, or of all; a screen cannot show more."""

PARTITIONS_MAX: Final = 2_000
"""Partitions whose waits are followed. Beyond it the checker's figures still have theirs."""

NOTES_MAX: Final = 100
WAIT_MIN: Final = 0.1
"""Seconds: a shorter wait is no gap."""

LATENCY_MIN: Final = 1e-5
LATENCY_STEP: Final = 1.05
"""Latencies are counted in classes of 5 %, from 10 microseconds up: some 300 of them reach to a minute."""

CONTROLLER_NOTE: Final = "active controller: "
"""A note with this prefix names the active controller from then on."""

_LOG_STEP: Final = math.log(LATENCY_STEP)


class Span(NamedTuple):
    """A time with something in it. Ordered by length, for the heap of the longest."""

    length: float
    begin: float
    end: float


class LongestSpans:
    """The SPANS_MAX longest spans of those it was shown."""

    def __init__(self) -> None:
        """Create it empty."""
        self._heap: list[Span] = []

    def add(self, begin: float, end: float) -> None:
        """Take a span, if it is long enough."""
        if end - begin < WAIT_MIN:
            return
        span = Span(end - begin, begin, end)
        if len(self._heap) < SPANS_MAX:
            heapq.heappush(self._heap, span)
        else:
            heapq.heappushpop(self._heap, span)

    def in_order(self) -> list[Span]:
        """Return them by their begin."""
        return sorted(self._heap, key=lambda span: span.begin)


class PartitionWait:
    """A partition: how many sends are open, and since when it has acknowledged none of them."""

    __slots__ = ("is_acked", "last_send", "pending", "since", "spans", "waiter")

    def __init__(self) -> None:
        """Create it without sends."""
        self.last_send = 0.0
        self.pending = 0
        self.is_acked = False
        self.since: float | None = None
        self.waiter = -1
        """The process whose send began the wait."""
        self.spans = LongestSpans()

    def begin(self, t: float, process: int) -> None:
        """A send begins."""
        self.pending += 1
        self.last_send = t
        if self.since is None:
            self.since, self.waiter = t, process

    def start_process(self, t: float, process: int, *, is_here: bool) -> None:
        """A process is acknowledged something for the first time: its way there is not held against a new partition."""
        if self.since is not None and not self.is_acked and (is_here or self.waiter == process):
            self.since = t

    def end(self, t: float, acked: bool) -> None:
        """A send ends."""
        self.pending = max(0, self.pending - 1)
        self.is_acked = self.is_acked or acked
        if acked and self.since is not None:
            self.spans.add(self.since, t)
            self.since = t if self.pending else None


class Aggregate:
    """Feed it every event of a history in order, then `finish`, then read it.

    `duration`: seconds from the first to the last event, and `acked`: acknowledged sends, both from the figures.
    """

    def __init__(self, duration: float, acked: int) -> None:
        """Create it without events."""
        self.duration = max(duration, 0.001)
        self.buckets = max(1, min(BUCKETS, int(acked / ACKS_A_BUCKET)))
        self.width = self.duration / self.buckets
        """Seconds of one bucket."""
        self.acks = array("L", bytes(array("L").itemsize * self.buckets))
        self.latencies: list[Counter[int]] = [Counter() for _ in range(self.buckets)]
        self.gaps = LongestSpans()
        """Times in which no partition acknowledged anything."""
        self.waiting: dict[str, PartitionWait] = {}
        self._started: set[int] = set()
        self.timeline = Timeline()
        self.outcomes: dict[int, str] = {}
        """By index of the fault: its story, with the result if its end has one."""
        self.controller_epochs: list[tuple[float, int]] = []
        self.controllers: list[tuple[float, str]] = []
        self.min_isr: dict[str, list[tuple[float, int]]] = {}
        self.clients: Counter[Process] = Counter()
        """Processes that are alike, as one (numbered 0, at 0 s)."""
        self.notes: list[Note] = []
        self.notes_left = 0
        self.finished = False
        self._origin: float | None = None
        self._open: dict[int, tuple[float, tuple[str, ...]]] = {}
        self._faults: dict[int, int] = {}
        self._last_ack: float | None = None
        self._last_send = 0.0
        self._last_end = 0.0

    @property
    def start(self) -> Start:
        """The start event, an empty one without any."""
        return self.timeline.start

    @property
    def begin(self) -> float:
        """Time of the first event."""
        return self._origin or 0.0

    def feed(self, event: AnyEvent) -> None:
        """Process the next event."""
        if self._origin is None:
            self._origin = event.t
        match event:
            case Invoke():
                if event.f == "send" or event.f == "txn":
                    self._invoke(event)
            case Ok() | Fail() | Info():
                self._last_end = event.t
                if event.f == "send" or event.f == "txn":
                    self._complete(event)
            case Metadata():
                self._metadata(event)
            case Fault():
                self._fault(event)
            case Process():
                self.clients[_alike(event)] += 1
            case Start():
                self.timeline.take_start(event)
            case Note():
                self._note(event)
            case Finish():
                self.finished = True
            case _:
                pass

    def finish(self) -> None:
        """Close open spans at the end."""
        if self._last_ack is not None:
            # Sends that still wait make it a gap to the end of all operations; else it ends with the last attempt.
            waits = any(waiting.pending for waiting in self.waiting.values())
            self.gaps.add(self._last_ack, max(self._last_send, self._last_end if waits else 0.0))
        for waiting in self.waiting.values():
            if waiting.since is not None:
                waiting.spans.add(waiting.since, max(waiting.last_send, self._last_end if waiting.pending else 0.0))

    def longest_gap(self, begin: float, length: float) -> tuple[float, float]:
        """Return the longest time in which nothing was acknowledged (begin, length): the checker's, or one up to the
        end with sends waiting, which the checker does not count.
        """
        longest = max(self.gaps.in_order(), default=Span(0.0, 0.0, 0.0))
        return (longest.begin, longest.length) if longest.length > length + 1e-6 else (begin, length)

    def latency(self, bucket: int, share: float) -> float | None:
        """Return a percentile (0 to 1) of a bucket's latencies in seconds, None where nothing was acknowledged."""
        counts = self.latencies[bucket]
        rank = math.ceil(share * counts.total())
        for step in sorted(counts):
            rank -= counts[step]
            if rank <= 0:
                return float(LATENCY_MIN * LATENCY_STEP ** (step + 0.5))
        return None

    def bucket(self, t: float) -> int:
        """Return the bucket of a time."""
        return min(self.buckets - 1, max(0, int((t - self.begin) / self.width)))

    def min_isr_at(self, topic: str, t: float) -> int:
        """Return min.insync.replicas of a topic, according to start event and metadata."""
        configs = self.start.topics[topic].configs if topic in self.start.topics else {}
        value = configs.get("min.insync.replicas") or self.start.cluster.configs.get("min.insync.replicas")
        found = int(value) if value and value.isdecimal() else 1
        for since, changed in self.min_isr.get(topic, ()):
            if since <= t:
                found = changed
        return found

    def _invoke(self, event: Invoke) -> None:
        partitions = tuple(str(step[1]) for step in event.value if isinstance(step, list) and step[0] == "send")
        self._open[event.op] = (event.t, partitions)
        for partition in partitions:
            waiting = self.waiting.get(partition)
            if waiting is None:
                if len(self.waiting) >= PARTITIONS_MAX:
                    continue
                waiting = self.waiting[partition] = PartitionWait()
            waiting.begin(event.t, event.process)
        if partitions:
            self._last_send = event.t

    def _complete(self, event: Ok | Fail | Info) -> None:
        begun, partitions = self._open.pop(event.op, (event.t, ()))
        acked = isinstance(event, Ok) and event.committed is not False
        if acked and partitions and event.process not in self._started:
            self._started.add(event.process)
            for name, each in self.waiting.items():
                each.start_process(event.t, event.process, is_here=name in partitions)
        for partition in partitions:
            waiting = self.waiting.get(partition)
            if waiting is not None:
                waiting.end(event.t, acked)
        if not acked or not partitions:
            return
        bucket = self.bucket(event.t)
        self.acks[bucket] += len(partitions)
        took = max(event.t - begun, LATENCY_MIN)
        self.latencies[bucket][int(math.log(took / LATENCY_MIN) / _LOG_STEP)] += len(partitions)
        if self._last_ack is not None and event.t - self._last_ack >= WAIT_MIN:
            self.gaps.add(self._last_ack, event.t)
        self._last_ack = event.t

    def _metadata(self, event: Metadata) -> None:
        self.timeline.take_metadata(event)
        if event.epoch >= 0 and (not self.controller_epochs or event.epoch > self.controller_epochs[-1][1]):
            self.controller_epochs.append((event.t, event.epoch))
        record = event.record
        if record.get("type") == "Config" and record.get("name") == "min.insync.replicas":
            value = str(record.get("value"))
            if record.get("resource_type") == TOPIC_RESOURCE and value.isdecimal():
                self.min_isr.setdefault(str(record.get("resource_name")), []).append((event.t, int(value)))

    def _fault(self, event: Fault) -> None:
        self.timeline.take_fault(event)
        if event.phase == "begin":
            self._faults[event.id] = len(self.timeline.faults) - 1
        place = self._faults.get(event.id)
        if place is not None and event.story.startswith(self.outcomes.get(place, "")):
            self.outcomes[place] = event.story

    def _note(self, event: Note) -> None:
        if event.text.startswith(CONTROLLER_NOTE):
            self.controllers.append((event.t, event.text.removeprefix(CONTROLLER_NOTE)))
        elif len(self.notes) < NOTES_MAX:
            self.notes.append(event)
        else:
            self.notes_left += 1


def aggregate(events: Iterable[AnyEvent], duration: float, acked: int) -> Aggregate:
    """Return the picture of a history."""
    picture = Aggregate(duration, acked)
    for event in events:
        picture.feed(event)
    picture.finish()
    return picture


def _alike(event: Process) -> Process:
    return Process(
        t=0.0,
        process=0,
        client=event.client,
        acks=event.acks,
        idempotent=event.idempotent,
        transactional_id="yes" if event.transactional_id else None,
        isolation=event.isolation,
    )
