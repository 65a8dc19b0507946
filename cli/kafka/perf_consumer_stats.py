"""Statistics of a consumer's performance test, and their lines. Sans-IO: times are arguments, in ms.

Source: Kafka's ConsumerPerformance.
"""

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from kvorum.cli.kafka.perf_producer_stats import MIB

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
class ConsumerStats:
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

    def add_join(self, took_ms: int) -> None:
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
