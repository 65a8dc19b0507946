"""Progress of a pipeline: records, rates, lag and offsets, from Spark's reports of its micro-batches."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from kvorum.pipelines.bridge.offsets import Offsets, from_json
from kvorum.pipelines.bridge.sink import rows_written

NO_ROWS = -1
"""What Spark reports of a sink that does not count."""


@dataclass(slots=True)
class Progress:
    """Sums since the process began, of the query of the sink; looked at often enough that no report is missed."""

    batches: int = 0
    records_in: int = 0
    records_out: int | None = None
    """None where the sink does not count: one that is handed micro-batches, but Kvorum's to topics."""
    rate_in: float = 0.0
    rate_processed: float = 0.0
    lag: int | None = None
    batch_ms: int | None = None
    last_batch: str | None = None
    offsets: dict[str, Any] = field(default_factory=dict)
    _seen: dict[str, int] = field(default_factory=dict)
    _stamps: dict[str, str] = field(default_factory=dict)
    """The newest report that was looked at: all of them are fetched only when there is a newer one."""

    def look(self, query: StreamingQuery) -> None:
        """Take what is new."""
        rows = None if query.name is None else rows_written.get(query.name)  # of Kvorum's own sink to topics
        if rows is not None:
            self.records_out = rows
        run, last = str(query.runId), query.lastProgress
        stamp = "" if last is None else f"{last.batchId} {last.timestamp}"
        if self._stamps.get(run, "") == stamp:
            return
        self._stamps[run] = stamp
        for report in query.recentProgress:
            data = json.loads(report.json)
            if data["batchId"] > self._seen.get(run, -1):
                self._take(data)
                if data["numInputRows"] > 0 or data["durationMs"].get("addBatch"):
                    self._seen[run] = data["batchId"]

    def _take(self, data: Mapping[str, Any]) -> None:
        """Take one report."""
        written = data["sink"].get("numOutputRows", NO_ROWS)
        self.batches += bool(data["durationMs"].get("addBatch"))
        self.records_in += data["numInputRows"]
        if written != NO_ROWS:
            self.records_out = (self.records_out or 0) + written
        self.rate_in = data.get("inputRowsPerSecond") or 0.0
        self.rate_processed = data.get("processedRowsPerSecond") or 0.0
        self.batch_ms = data.get("batchDuration", data["durationMs"].get("triggerExecution"))
        self.last_batch = data["timestamp"]
        lags = [lag(each.get("latestOffset"), each.get("endOffset")) for each in data["sources"]]
        self.lag = None if not lags or None in lags else sum(each or 0 for each in lags)
        for each in data["sources"]:
            self.offsets[each["description"].partition("[")[0]] = parsed(each.get("endOffset"))

    def line(self) -> str:
        """Return it for people; unknown figures are left out."""
        out = None if self.records_out is None else f"{self.records_out} records out"
        lag = None if self.lag is None else f"lag {self.lag}"
        last = None if self.batch_ms is None else f"last micro-batch {self.batch_ms} ms"
        read = f"{self.batches} micro-batches, {self.records_in} records in ({self.rate_in:.1f}/s)"
        return ", ".join(each for each in (read, out, lag, last) if each is not None)

    def data(self) -> dict[str, Any]:
        """Return it for the status."""
        return {
            "batches": self.batches,
            "records_in": self.records_in,
            "records_out": self.records_out,
            "records_in_per_second": round(self.rate_in, 1),
            "records_processed_per_second": round(self.rate_processed, 1),
            "lag": self.lag,
            "batch_ms": self.batch_ms,
            "last_batch": self.last_batch,
        }


def parsed(offset: Any) -> Any:
    """Return an offset as data: Spark's reports have it as JSON, or as text with JSON in it.

    What begins with @ is a source's note to itself; no topic is called so.
    """
    if isinstance(offset, str):
        try:
            offset = json.loads(offset)
        except ValueError:
            return offset
    if isinstance(offset, dict):
        return {name: value for name, value in offset.items() if not str(name).startswith("@")}
    return offset


def lag(latest: Any, end: Any) -> int | None:
    """Return how many records a source of topics is behind: a sum over {topic: {partition: offset}}. None: unknown."""
    last, done = topic_offsets(parsed(latest)), topic_offsets(parsed(end))
    if last is None or done is None:
        return None
    return sum(max(0, offset - done.get(place, offset)) for place, offset in last.items())


def topic_offsets(offset: Any) -> Offsets | None:
    """Return the offsets of a source of topics; None for any other source."""
    try:
        found = from_json(offset)
    except (AttributeError, TypeError, ValueError):
        return None
    return found if all(type(number) is int for number in found.values()) else None
