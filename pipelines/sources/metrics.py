"""The machine's own metrics, out of /proc: a record a metric, {host, name, value, labels}, at each look.

Counters are as the kernel counts, since it started: a rate is the difference of two records. A look cannot be made
again: a micro-batch that is replayed holds the metrics of then, under the time of then.
"""

import datetime
import os
import socket
import time
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, Field
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from kvorum.pipelines.frames import record_frame
from kvorum.pipelines.plugins import Context
from kvorum.pipelines.sources.options import Options

SCHEMA = "name string, value double, labels map<string,string>, at timestamp"
CPU_STATES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
MEMORY: Mapping[str, str] = {
    "MemTotal": "memory_total",
    "MemAvailable": "memory_available",
    "SwapTotal": "swap_total",
    "SwapFree": "swap_free",
    "Dirty": "memory_dirty",
}
TICKS = os.sysconf("SC_CLK_TCK")
SECTOR_BYTES = 512
Metric = tuple[str, float, Mapping[str, str]]


class MetricsOptions(Options):
    """`source: {type: metrics, ...}`."""

    interval_ms: int = Field(default=1000, ge=10)
    topic: str | None = None


class MetricsSource:
    """Source of scraped metrics."""

    Options: ClassVar[type[BaseModel]] = MetricsOptions

    def read(self, spark: SparkSession, options: Any, context: Context) -> DataFrame:
        """Return the metrics: key is host:name, value a struct."""
        spark.dataSource.register(MetricsStream)
        rows = spark.readStream.format(MetricsStream.name()).option("interval_ms", options.interval_ms).load()
        host = F.lit(socket.gethostname())
        return record_frame(
            rows.select(
                F.concat(host, F.lit(":"), "name").alias("key"),
                F.struct(host.alias("host"), "name", "value", "labels").alias("value"),
                F.lit(options.topic).cast("string").alias("topic"),
                F.col("at").alias("timestamp"),
            )
        )


class MetricsStream(DataSource):
    """The source's registration."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Take the options."""
        super().__init__(options)
        self.interval_ms = int(options["interval_ms"])

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "kvorum-metrics"

    def schema(self) -> str:
        """Return the columns."""
        return SCHEMA

    def simpleStreamReader(self, schema: Any) -> "MetricsReader":
        """Return the reader, which runs in the driver: it is the driver's machine that is measured."""
        return MetricsReader(self.interval_ms)


class MetricsReader(SimpleDataSourceStreamReader, SupportsTriggerAvailableNow):
    """Looks at the machine; an offset is the time of the last look."""

    def __init__(self, interval_ms: int) -> None:
        """Take the pause between looks."""
        self._interval_ms = interval_ms
        self._looks: int | None = None

    def initialOffset(self) -> dict[str, int]:
        """Return the offset before the first look."""
        return {"at_ms": 0}

    def prepareForTriggerAvailableNow(self) -> None:
        """Look once."""
        self._looks = 1

    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[Any, ...]], dict[str, int]]:
        """Look, if it is time."""
        now_ms = time.time_ns() // 1_000_000
        if self._looks == 0 or now_ms - start["at_ms"] < self._interval_ms:
            return iter(()), start
        if self._looks is not None:
            self._looks -= 1
        return rows(now_ms), {"at_ms": now_ms}

    def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Iterator[tuple[Any, ...]]:
        """Look again, for a micro-batch that is replayed."""
        return rows(time.time_ns() // 1_000_000)


def rows(now_ms: int) -> Iterator[tuple[Any, ...]]:
    """Return the rows of one look; iterators are copied by Spark, so it is one of a list."""
    at = datetime.datetime.fromtimestamp(now_ms / 1000, datetime.UTC)
    return iter([(name, value, dict(labels), at) for name, value, labels in metrics()])


def metrics(proc: Path = Path("/proc")) -> Iterator[Metric]:
    """Yield what /proc says: load, processor, memory, disks, networks."""
    for name, text in zip(("load_1m", "load_5m", "load_15m"), (proc / "loadavg").read_text().split(), strict=False):
        yield name, float(text), {}
    yield from processor((proc / "stat").read_text())
    for line in (proc / "meminfo").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name in MEMORY:
            yield f"{MEMORY[name]}_bytes", float(rest.split()[0]) * 1024, {}
    for line in (proc / "diskstats").read_text().splitlines():
        fields = line.split()
        if any(field != "0" for field in fields[3:]):
            yield "disk_read_bytes", float(fields[5]) * SECTOR_BYTES, {"device": fields[2]}
            yield "disk_written_bytes", float(fields[9]) * SECTOR_BYTES, {"device": fields[2]}
    for line in (proc / "net" / "dev").read_text().splitlines()[2:]:
        interface, _, rest = line.partition(":")
        counts = rest.split()
        yield "network_received_bytes", float(counts[0]), {"interface": interface.strip()}
        yield "network_sent_bytes", float(counts[8]), {"interface": interface.strip()}


def processor(stat: str) -> Iterator[Metric]:
    """Yield the seconds of all processors by state, processes and switches."""
    for line in stat.splitlines():
        name, *counts = line.split()
        if name == "cpu":
            for state, ticks in zip(CPU_STATES, counts, strict=False):
                yield "cpu_seconds", float(ticks) / TICKS, {"state": state}
        elif name in ("ctxt", "processes", "procs_running", "procs_blocked"):
            yield name, float(counts[0]), {}
