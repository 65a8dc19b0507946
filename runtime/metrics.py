"""Metrics of one process: a registry that is passed as an argument, never global.

On the hot path a metric is a plain number on a slotted object: `bytes_in.add(n)` is one addition. prometheus_client is
used, and imported, only at a scrape (`render`). Names are in metric_names, labels and help texts in metric_definitions;
a repeated family returns the same one.

    bytes_in = metrics.counter(names.BYTES_IN).labels(topic)        # keep the child, not the family
    bytes_in.add(len(data))
    metrics.gauge(names.LEADER_COUNT).labels().follow(lambda: len(leaders))
"""

import importlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Generic, TypeVar

from kvorum.runtime import metric_names
from kvorum.runtime.metric_definitions import DEFINITIONS
from kvorum.runtime.quantiles import Quantiles

if TYPE_CHECKING:
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# Number of samples of a family that are read before a scrape checks whether to yield to the loop.
READ_AT_ONCE = 50

# A label's value comes from outside (a topic, a client): above this number of children the rest is dropped, with a log
# line.
CHILDREN_MAX = 100_000

# Seconds: from a request served from memory to one that waited for its timeout.
SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Counter:
    """Counts up only."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        """Start at 0."""
        self.value = 0.0

    def add(self, count: float = 1.0) -> None:
        """Count; `count` is not negative."""
        self.value += count


class Gauge:
    """A number that goes up and down: set, or followed at the time of the scrape."""

    __slots__ = ("_function", "value")

    def __init__(self) -> None:
        """Start at 0."""
        self.value = 0.0
        self._function: Callable[[], float] | None = None

    def set(self, value: float) -> None:
        """Store this value."""
        self.value = value

    def add(self, change: float = 1.0) -> None:
        """Go up, or down by a negative change."""
        self.value += change

    def follow(self, function: Callable[[], float]) -> None:
        """Call this function at each scrape; cheap, and it must not raise."""
        self._function = function

    def read(self) -> float:
        """Return the value now."""
        return self.value if self._function is None else self._function()


class Histogram:
    """Number of values up to each bound; counts[-1] counts values above all of them."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        """Start empty; bounds ascend."""
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count one value. O(log bounds)."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def buckets(self) -> list[tuple[str, float]]:
        """Return (bound as text, how many were at most it), ending with +Inf, as Prometheus counts."""
        total = 0
        found: list[tuple[str, float]] = []
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True):
            total += count
            found.append((bound, total))
        return found


Child = TypeVar("Child", Counter, Gauge, Histogram)
Samples = Iterable[tuple[Sequence[object], float]]
SummaryRow = tuple[Sequence[object], float, Mapping[str, float]]
"""Label values, how many values there were, and {quantile: value}."""


class Family(Generic[Child]):
    """One metric under all its label values."""

    __slots__ = ("_children", "_make", "_overflow", "_sampler", "help", "kind", "label_names", "name")

    def __init__(
        self, name: str, kind: str, help_text: str, label_names: Sequence[str], make: Callable[[], Child]
    ) -> None:
        """Start without children."""
        self.name = name
        self.kind = kind
        self.help = help_text
        self.label_names = tuple(label_names)
        self._make: Callable[[], Child] = make
        self._children: dict[tuple[str, ...], Child] = {}
        self._overflow: Child | None = None
        self._sampler: Callable[[], Samples] | None = None

    def labels(self, *values: object) -> Child:
        """Return the child of these values, in the order of `label_names`; none for a metric without labels."""
        key = tuple(map(str, values))
        assert len(key) == len(self.label_names), f"{self.name} has labels {self.label_names}"
        child = self._children.get(key)
        if child is None:
            if len(self._children) >= CHILDREN_MAX:
                self._overflow = self._overflow or self._make()
                return self._overflow
            child = self._children[key] = self._make()
        return child

    def remove(self, *values: object) -> None:
        """Forget the child of these values (a deleted topic); a missing one is fine."""
        self._children.pop(tuple(map(str, values)), None)

    def sample(self, sampler: Callable[[], Samples]) -> None:
        """Call this at each scrape for (label values, value), beside the children: one value per partition, ...

        The rows are read in slices, between which the loop does other work (see `Metrics.collect`).
        """
        assert self.kind != "histogram", "a histogram is observed"
        self._sampler = sampler

    @property
    def overflowed(self) -> bool:
        """Return whether CHILDREN_MAX was reached."""
        return self._overflow is not None

    def children(self) -> Iterator[tuple[tuple[str, ...], Child]]:
        """Go over all label values and their children, those there are now: others may come meanwhile."""
        return iter(tuple(self._children.items()))

    def sampled(self) -> Samples:
        """Return the sampler's present rows."""
        return self._sampler() if self._sampler is not None else ()


class Summary:
    """Number of values, and quantiles of the last ones, as the JMX exporter writes Kafka's Histograms.

    All of it is computed at each scrape; there is no sum, as in Kafka.
    """

    __slots__ = ("_samplers", "help", "label_names", "name")

    def __init__(self, name: str, help_text: str, label_names: Sequence[str]) -> None:
        """Start without samples."""
        self.name = name
        self.help = help_text
        self.label_names = tuple(label_names)
        self._samplers: list[Callable[[], Iterable[SummaryRow]]] = []

    def sample(self, sampler: Callable[[], Iterable[SummaryRow]]) -> None:
        """Add a source of rows that is called at each scrape."""
        self._samplers.append(sampler)

    def follow(self, quantiles: Quantiles, now_ms: Callable[[], float], *values: object) -> None:
        """Expose these, under these label values; `now_ms` is the clock of their additions."""
        self.sample(lambda: [(values, quantiles.count, quantiles.collect(now_ms()))])

    def collect(self) -> "SummaryMetricFamily":
        """Return the present samples."""
        from prometheus_client.core import SummaryMetricFamily

        family = SummaryMetricFamily(self.name, self.help, labels=self.label_names)
        for sampler in self._samplers:
            for values, count, quantiles in sampler():
                labels = dict(zip(self.label_names, map(str, values), strict=True))
                for quantile, value in quantiles.items():
                    family.add_sample(self.name, labels | {"quantile": quantile}, value)
                family.add_sample(f"{self.name}_count", labels, count)
        return family


class Snapshot:
    """A snapshot of metrics for prometheus_client (its Collector interface)."""

    __slots__ = ("_families",)

    def __init__(self, families: "list[Metric]") -> None:
        """Store them."""
        self._families = families

    def collect(self) -> "Iterator[Metric]":
        """Return every family."""
        return iter(self._families)


def load() -> None:
    """Import the modules of the first scrape: about 70 ms, to be spent in a thread before `collect`."""
    importlib.import_module("prometheus_client.core")


def render(families: "list[Metric]", *, continues: bool = False) -> bytes:
    """Return Prometheus' text format of a snapshot, of which a page may have several. From any thread.

    `continues`: the first family is the rest of the last one of the previous page, which has its name and type.
    """
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry()
    registry.register(Snapshot(families))
    page = generate_latest(registry)
    return page.split(b"\n", 2)[2] if continues else page


def render_process() -> bytes:
    """Return the same of this process: memory, CPU, open files. From any thread."""
    from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    return generate_latest(registry)


def pieces(
    new: "Callable[[], CounterMetricFamily | GaugeMetricFamily]", rows: Samples, is_full: Callable[[int], bool]
) -> "Iterator[Metric]":
    """Put rows into a family, and those after a cut into another one made by `new`; see `Metrics.collect`."""
    family = new()
    for count, (values, value) in enumerate(rows, 1):
        family.add_metric([*map(str, values)], value)
        if count % READ_AT_ONCE == 0 and is_full(len(family.samples)):
            yield family
            family = new()
    yield family


class Metrics:
    """All metrics of one process."""

    def __init__(self) -> None:
        """Start empty."""
        self._counters: dict[str, Family[Counter]] = {}
        self._gauges: dict[str, Family[Gauge]] = {}
        self._histograms: dict[str, Family[Histogram]] = {}
        self._summaries: dict[str, Summary] = {}

    def counter(self, name: str, help_text: str = "", labels: Sequence[str] = ()) -> Family[Counter]:
        """Return the family of this name, which ends in _total; see `gauge`."""
        assert name.endswith("_total"), f"{name}: a counter's name ends in _total"
        if name not in self._counters:
            self._counters[name] = Family(name, "counter", *self._described(name, help_text, labels), Counter)
        return self._counters[name]

    def gauge(self, name: str, help_text: str = "", labels: Sequence[str] = ()) -> Family[Gauge]:
        """Return the family of this name; help and labels come from metric_definitions unless given."""
        if name not in self._gauges:
            self._gauges[name] = Family(name, "gauge", *self._described(name, help_text, labels), Gauge)
        return self._gauges[name]

    def histogram(
        self, name: str, help_text: str = "", labels: Sequence[str] = (), bounds: Sequence[float] = SECONDS
    ) -> Family[Histogram]:
        """Return the family of this name; help and labels come from metric_definitions unless given."""
        if name not in self._histograms:
            described = self._described(name, help_text, labels)
            self._histograms[name] = Family(name, "histogram", *described, lambda: Histogram(bounds))
        return self._histograms[name]

    def summary(self, name: str) -> Summary:
        """Return the summary of this name, which is in metric_definitions."""
        if name not in self._summaries:
            self._summaries[name] = Summary(name, *self._described(name, "", ()))
        return self._summaries[name]

    def render(self) -> bytes:
        """Return Prometheus' text format of everything now, and of this process (memory, CPU, open files)."""
        return render(list(self.collect())) + render_process()

    def collect(self, is_full: Callable[[int], bool] = lambda _: False) -> "Iterator[Metric]":
        """Return every family for prometheus_client (its Collector interface), with its present rows.

        Called with a number of samples, `is_full` returns whether a family is divided after them: its rest follows as
        another one of the same name. One that is registered in between is left to the next time.
        """
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        dropped = 0
        for counters in tuple(self._counters.values()):
            dropped += counters.overflowed
            counted = ((values, counter.value) for values, counter in counters.children())
            new_counters = partial(CounterMetricFamily, counters.name, counters.help, labels=counters.label_names)
            yield from pieces(new_counters, chain(counted, counters.sampled()), is_full)
        for gauges in tuple(self._gauges.values()):
            dropped += gauges.overflowed
            gauged = ((values, gauge.read()) for values, gauge in gauges.children())
            new_gauges = partial(GaugeMetricFamily, gauges.name, gauges.help, labels=gauges.label_names)
            yield from pieces(new_gauges, chain(gauged, gauges.sampled()), is_full)
        for histograms in tuple(self._histograms.values()):
            dropped += histograms.overflowed
            observed = HistogramMetricFamily(histograms.name, histograms.help, labels=histograms.label_names)
            for values, histogram in histograms.children():
                observed.add_metric(values, histogram.buckets(), histogram.sum)
            yield observed
        for summary in tuple(self._summaries.values()):
            yield summary.collect()
        help_text = DEFINITIONS[metric_names.METRICS_OVERFLOWED].help
        yield GaugeMetricFamily(metric_names.METRICS_OVERFLOWED, help_text, value=dropped)

    def _described(self, name: str, help_text: str, labels: Sequence[str]) -> tuple[str, Sequence[str]]:
        taken = (*self._counters, *self._gauges, *self._histograms, *self._summaries)
        assert name not in taken, f"{name} already exists with another type"
        known = DEFINITIONS.get(name)
        if known is None:
            assert help_text, f"{name} is missing in metric_definitions"
            return help_text, labels
        assert not labels or tuple(labels) == known.labels, f"{name} has labels {known.labels}"
        return help_text or known.help, known.labels
