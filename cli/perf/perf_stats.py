"""Statistics of performance tests, and the lines they print, as Kafka's tools do. Sans-IO: times are arguments, in ms.

Source: Kafka's ProducerPerformance.Stats, ConsumerPerformance.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

MIB: Final = 1024 * 1024
REPORTING_MS: Final = 5_000
SAMPLES_MAX: Final = 500_000
"""Latencies that are kept for the percentiles; of more records only every so-many-th is."""
PERCENTILES: Final = (0.5, 0.95, 0.99, 0.999)
DATE_FORMAT: Final = "yyyy-MM-dd HH:mm:ss:SSS"
DATE_LETTERS: Final = {
    **{"yyyy": "%Y", "yy": "%y", "MM": "%m", "MMM": "%b", "MMMM": "%B", "dd": "%d", "HH": "%H", "hh": "%I"},
    **{"mm": "%M", "ss": "%S", "a": "%p", "EEE": "%a", "EEEE": "%A", "Z": "%z"},
}
"""Letters of Java's SimpleDateFormat as strftime has them; SSS are ms, and have no such letter."""

DATE_PART: Final = re.compile(r"'(?P<quoted>(?:[^']|'')*)'|(?P<letter>[A-Za-z'])(?P=letter)*")
"""A quoted text, or a run of one letter; a quote alone is none of either, and refused as a letter is."""


class DateFormatError(ValueError):
    """An invalid date format, or one with unknown letters."""


@dataclass(slots=True)
class Window:
    """Counts of one reporting interval."""

    start_ms: float
    count: int = 0
    size: int = 0
    latency_ms: int = 0
    latency_ms_max: int = 0

    def add(self, latency_ms: int, size: int) -> None:
        """Count a record."""
        self.count += 1
        self.size += size
        self.latency_ms += latency_ms
        self.latency_ms_max = max(self.latency_ms_max, latency_ms)

    def rates(self, now_ms: float) -> tuple[float, float]:
        """Return (records per second, MiB per second) so far."""
        seconds = max(now_ms - self.start_ms, 1e-3) / 1_000
        return self.count / seconds, self.size / seconds / MIB

    @property
    def latency_ms_average(self) -> float:
        """Return the mean latency; NaN of nothing, as in Java."""
        return self.latency_ms / self.count if self.count else float("nan")


@dataclass(slots=True, kw_only=True)
class Sent:
    """The statistics of a producer: all of it, and since the last line."""

    expected: int
    start_ms: float
    is_steady: bool = False
    """Whether it counts records after the warm-up."""
    reporting_ms: int = REPORTING_MS
    is_quiet: bool = False
    """Whether its windows are no longer printed."""
    total: Window = field(init=False)
    window: Window = field(init=False)
    latencies_ms: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Begin."""
        self.total, self.window = Window(self.start_ms), Window(self.start_ms)

    def record(self, latency_ms: int, size: int, now_ms: float) -> list[str]:
        """Count an acknowledged record; return the lines to print now."""
        if self.total.count % max(1, self.expected // SAMPLES_MAX) == 0:
            self.latencies_ms.append(latency_ms)
        self.total.add(latency_ms, size)
        self.window.add(latency_ms, size)
        if now_ms - self.window.start_ms < self.reporting_ms:
            return []
        first = self.is_steady and self.total.count == self.window.count
        lines = ["In steady state."] if first else []
        if not self.is_quiet:
            lines.append(self.window_line(now_ms))
        self.window = Window(now_ms)
        return lines

    def window_line(self, now_ms: float) -> str:
        """Return the line of the last window."""
        window = self.window
        records, mib = window.rates(now_ms)
        return (
            f"{window.count} records sent, {records:.1f} records/sec ({mib:.2f} MB/sec), "
            f"{window.latency_ms_average:.1f} ms avg latency, {window.latency_ms_max:.1f} ms max latency."
        )

    def total_line(self, now_ms: float) -> str:
        """Return the last line."""
        total = self.total
        records, mib = total.rates(now_ms)
        half, most, nearly_all, all_but_few = percentiles(self.latencies_ms)
        return (
            f"{total.count}{' steady state' if self.is_steady else ''} records sent, {records:.6f} records/sec "
            f"({mib:.2f} MB/sec), {total.latency_ms_average:.2f} ms avg latency, {total.latency_ms_max:.2f} ms max "
            f"latency, {half} ms 50th, {most} ms 95th, {nearly_all} ms 99th, {all_but_few} ms 99.9th."
        )


def percentiles(latencies_ms: Sequence[int]) -> list[int]:
    """Return the latencies at PERCENTILES; 0 of nothing."""
    found = sorted(latencies_ms)
    return [found[int(each * len(found))] if found else 0 for each in PERCENTILES]


@dataclass(slots=True)
class Read:
    """The statistics of a consumer, and the time it spent joining its group."""

    start_ms: float
    count: int = 0
    size: int = 0
    joined_ms: int = 0
    joined_ms_round: int = 0
    """Since the last line."""
    _last: tuple[float, int, int] = field(init=False)

    def __post_init__(self) -> None:
        """Begin."""
        self._last = (self.start_ms, 0, 0)

    def joined(self, took_ms: int) -> None:
        """Count a rebalance."""
        self.joined_ms += took_ms
        self.joined_ms_round += took_ms

    def is_due(self, now_ms: float, interval_ms: int) -> bool:
        """Return whether the next line is due."""
        return now_ms - self._last[0] >= interval_ms

    def progress_line(self, now_ms: float, date_format: str) -> str:
        """Return the line since the last one, with threadId 0: there is one thread."""
        then_ms, count, size = self._last
        took_ms, read, mib = max(now_ms - then_ms, 1e-3), self.count - count, (self.size - size) / MIB
        fetched_ms = int(took_ms) - self.joined_ms_round
        fetch_mib, fetch_records = (
            (1_000 * mib / fetched_ms, 1_000 * read / fetched_ms) if fetched_ms > 0 else (0.0, 0.0)
        )
        line = (
            f"{date_text(now_ms, date_format)}, 0, {self.size / MIB:.4f}, {1_000 * mib / took_ms:.4f}, {self.count}, "
            f"{1_000 * read / took_ms:.4f}, {self.joined_ms_round}, {fetched_ms}, {fetch_mib:.4f}, {fetch_records:.4f}"
        )
        self._last, self.joined_ms_round = (now_ms, self.count, self.size), 0
        return line

    def total_line(self, now_ms: float, date_format: str) -> str:
        """Return the last line."""
        seconds = max(now_ms - self.start_ms, 1e-3) / 1_000
        fetched_ms = int(now_ms - self.start_ms) - self.joined_ms
        fetched = max(fetched_ms, 1e-3) / 1_000
        mib = self.size / MIB
        return (
            f"{date_text(self.start_ms, date_format)}, {date_text(now_ms, date_format)}, {mib:.4f}, "
            f"{mib / seconds:.4f}, {self.count}, {self.count / seconds:.4f}, {self.joined_ms}, {fetched_ms}, "
            f"{mib / fetched:.4f}, {self.count / fetched:.4f}"
        )


def header_line(*, detailed: bool) -> str:
    """Return the header of a consumer's lines."""
    first = "time, threadId" if detailed else "start.time, end.time"
    rest = "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec"
    return f"{first}, {rest}, rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"


def date_text(time_ms: float, java_format: str) -> str:
    """Return a time in this machine's zone, as Java's SimpleDateFormat writes it. Raises DateFormatError."""
    moment = datetime.fromtimestamp(time_ms / 1_000).astimezone()

    def text(match: re.Match[str]) -> str:
        if match["quoted"] is not None:
            return match["quoted"].replace("''", "'") or "'"
        letters = match[0]
        if letters in DATE_LETTERS:
            return moment.strftime(DATE_LETTERS[letters])
        if letters[0] == "S":
            return f"{moment.microsecond // 1_000:0{len(letters)}d}"
        raise DateFormatError(f"{java_format!r}: unknown pattern {letters}; use {', '.join(DATE_LETTERS)}, SSS")

    return DATE_PART.sub(text, java_format)
