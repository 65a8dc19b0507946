"""Records back into a topic: an archive's, or a stretch of time of a topic, into the same or another cluster.

Order within a partition, keys, headers, timestamps and partitions are kept (the last two if wanted). A replay has a
name and a folder of its own: what it takes is written down there first, and exactly once means that a call after a
crash writes what the one before did not, and a call after a success nothing at all.
"""

import json
import logging
from dataclasses import dataclass
from typing import Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kvorum.pipelines.bridge.sink import Delivery, write_batch
from kvorum.pipelines.jobs import archive
from kvorum.pipelines.jobs.manifest import ArchiveError, Books
from kvorum.pipelines.jobs.reading import Bounds, Cluster, Records, numbers, texts
from kvorum.pipelines.jobs.store import Store

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FromArchive:
    """A topic's records in an archive."""

    path: str
    topic: str
    verify: bool = True
    """Look first whether its files are what was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FromTopic:
    """A topic's records."""

    cluster: Cluster
    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Records to write again, and the target."""

    name: str
    """Unique on the target's cluster."""
    source: FromArchive | FromTopic
    target: Cluster
    topic: str
    state: str
    """A folder: what the replay takes, and how far it is."""
    since_ms: int | None = None
    until_ms: int | None = None
    """Records of these timestamps only: from `since_ms` up to but not including `until_ms`."""
    partitions: Literal["keep", "by-key"] = "keep"
    timestamps: Literal["keep", "now"] = "keep"
    delivery: Delivery = Delivery.EXACTLY_ONCE


def replay(spark: SparkSession, wanted: Replay) -> int:
    """Write the records; return how many were taken (also if an earlier call has written them).

    Raises: ArchiveError for an archive that is not whole, or a target that lacks partitions.
    """
    state = Store(spark, wanted.state)
    frame = _archived(spark, wanted, state) if isinstance(wanted.source, FromArchive) else _read(spark, wanted, state)
    if frame is None:
        return 0
    frame = _within(frame, wanted)
    taken = frame.agg(F.count("*"), F.max("partition")).collect()[0]
    if not taken[0]:
        return 0
    if wanted.partitions == "keep":
        _check_partitions(wanted, taken[1] + 1)
    rows = frame.select(
        "key",
        "value",
        F.lit(wanted.topic).alias("topic"),
        *(["partition"] if wanted.partitions == "keep" else []),
        *(["timestamp"] if wanted.timestamps == "keep" else []),
        "headers",
    )
    write_batch(
        rows,
        wanted.target.settings(),
        delivery=wanted.delivery,
        query=wanted.name,
        batch_id=0,
        checkpoint=state.url("sink") if wanted.delivery is Delivery.EXACTLY_ONCE else None,
    )
    logger.info("replay %s: %d records into %s", wanted.name, taken[0], wanted.topic)
    return int(taken[0])


def _archived(spark: SparkSession, wanted: Replay, state: Store) -> DataFrame | None:
    """Return an archive's records, each partition's in their order, in one task."""
    source = wanted.source
    assert isinstance(source, FromArchive)
    store = Store(spark, f"{source.path.rstrip('/')}/{source.topic}")
    runs = Books(store).runs()
    told = state.read("plan.json")
    if told is None:
        if source.verify and (problems := archive.verify(spark, source.path, source.topic)):
            raise ArchiveError("; ".join(problems[:10]))
        told = json.dumps({"runs": len(runs)})
        state.write("plan.json", told)
    taken = int(json.loads(told)["runs"])
    frame = archive.read_back(spark, store, *range(1, taken + 1))
    if frame is None:
        return None
    partitions = max(len(run.counts) for run in runs[:taken])
    return frame.repartition(max(1, partitions), "partition").sortWithinPartitions("partition", "offset")


def _read(spark: SparkSession, wanted: Replay, state: Store) -> DataFrame | None:
    """Return a topic's records from the first of the time on; what comes after the end is left out by its time."""
    source = wanted.source
    assert isinstance(source, FromTopic)
    records = Records(spark, source.cluster, source.topic)
    told = state.read("plan.json")
    if told is None:
        start = records.begin() if wanted.since_ms is None else records.at(wanted.since_ms)
        told = json.dumps({"start": texts(start), "end": texts(records.end())})
        state.write("plan.json", told)
    plan = json.loads(told)
    start, end = numbers(plan["start"]), numbers(plan["end"])
    return records.frame(start, end) if _any(start, end) else None


def _any(start: Bounds, end: Bounds) -> bool:
    return any(start[number] < offset for number, offset in end.items())


def _within(frame: DataFrame, wanted: Replay) -> DataFrame:
    time = F.unix_millis("timestamp")
    if wanted.since_ms is not None:
        frame = frame.where(time >= F.lit(wanted.since_ms))
    if wanted.until_ms is not None:
        frame = frame.where(time < F.lit(wanted.until_ms))
    return frame


def _check_partitions(wanted: Replay, needed: int) -> None:
    there = len(wanted.target.lookup().of_topic(wanted.topic))
    if needed > there:
        raise ArchiveError(f"topic {wanted.topic} has {there} partitions, the records require {needed}")
