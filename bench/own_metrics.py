"""Metrics of Kvorum's processes from /metrics."""

import re
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.systems import System
from kvorum.runtime.metric_names import EVENT_LOOP_LAG, EVENT_LOOP_LAG_MAX

SECONDS = 5.0
PROCESS_START = "process_start_time_seconds"
LAG_SHARE = 0.99

Buckets = Sequence[tuple[float, float]]
"""(bound, how many are at most it), of a histogram; the last bound is infinite."""


def text_of(url: str) -> str:
    """Return all metrics of a process; none if it does not respond: these figures are optional."""
    try:
        with urllib.request.urlopen(url, timeout=SECONDS) as answer:
            return str(answer.read().decode())
    except (OSError, urllib.error.URLError):
        return ""


def value_in(text: str, name: str) -> float | None:
    """Return a metric, under the first of its labels."""
    match = re.search(rf"^{name}(?:{{.*}})? (\S+)", text, re.MULTILINE)
    return float(match[1]) if match else None


def metric_values(urls: Iterable[str], name: str) -> list[float]:
    """Return a metric of each process that answers."""
    found = [value_in(text_of(url), name) for url in urls]
    return [value for value in found if value is not None]


@dataclass(frozen=True, slots=True)
class Seen:
    """Delays of a process's event loop since its start."""

    began: float
    """Identity of the process: after a restart another one has the address."""
    buckets: Buckets
    greatest: float
    """In the last minute, in seconds."""


@dataclass(frozen=True, slots=True)
class Lag:
    """Delays of an event loop over a time, with the number of due callbacks."""

    p99_ms: float
    greatest_ms: float

    @staticmethod
    def worst(found: Iterable["Lag"]) -> "Lag | None":
        """Return the greatest of each, of several processes; None of none."""
        lags = list(found)
        if not lags:
            return None
        return Lag(max(lag.p99_ms for lag in lags), max(lag.greatest_ms for lag in lags))


def seen_in(text: str) -> Seen | None:
    """Read a process's /metrics; None if there is nothing of its event loop."""
    began, greatest = value_in(text, PROCESS_START), value_in(text, EVENT_LOOP_LAG_MAX)
    pattern = rf'^{EVENT_LOOP_LAG}_bucket{{le="(\S+)"}} (\S+)'
    buckets = [(float(bound), float(count)) for bound, count in re.findall(pattern, text, re.MULTILINE)]
    return Seen(began, buckets, greatest) if began is not None and greatest is not None and buckets else None


def look(system: System) -> dict[str, Seen]:
    """Return the event loop metrics of each broker and controller that responds; none for Apache Kafka."""
    urls = [url for role in ("broker", "controller") for url in system.metrics_urls(role)]
    return {url: seen for url in urls if (seen := seen_in(text_of(url))) is not None}


def lags_between(before: Mapping[str, Seen], after: Mapping[str, Seen]) -> dict[str, Lag]:
    """Return how late the event loop was between two looks: of a process that is new, since it began."""
    found = {url: lag_between(before.get(url), seen) for url, seen in after.items()}
    return {url: lag for url, lag in found.items() if lag is not None}


def lag_between(before: Seen | None, after: Seen) -> Lag | None:
    """Return it for one process; None if nothing came due."""
    old = [0.0] * len(after.buckets)
    if before is not None and before.began == after.began:
        old = [count for _, count in before.buckets]
    counts = [(bound, count - count_before) for (bound, count), count_before in zip(after.buckets, old, strict=True)]
    total = counts[-1][1]
    if not total:
        return None
    lower, upper = bucket_at(counts, total)
    greatest = after.greatest if lower < after.greatest <= upper or upper == float("inf") else upper
    return Lag(min(quantile_in(counts, LAG_SHARE), greatest) * 1000, greatest * 1000)


def bucket_at(counts: Buckets, rank: float) -> tuple[float, float]:
    """Return the bounds around the value of a rank."""
    bounds = [0.0, *(bound for bound, _ in counts)]
    index = next(index for index, (_, count) in enumerate(counts) if count >= rank)
    return bounds[index], bounds[index + 1]


def quantile_in(counts: Buckets, share: float) -> float:
    """Return a quantile's value like Prometheus' histogram_quantile: evenly distributed within a bucket."""
    rank = share * counts[-1][1]
    lower, upper = bucket_at(counts, rank)
    if upper == float("inf"):
        return lower
    below = max((count for bound, count in counts if bound <= lower), default=0.0)
    within = next(count for bound, count in counts if bound == upper) - below
    return lower + (upper - lower) * (rank - below) / within


def lag_text(lag: Lag | None) -> str:
    """Append it to other figures; nothing if there is none."""
    return "" if lag is None else f"; event-loop lag p99 {lag.p99_ms:.1f} ms, at most {lag.greatest_ms:.0f} ms"
