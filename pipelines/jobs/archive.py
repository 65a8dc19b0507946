"""A topic's records into Parquet files by day and hour (UTC, of the record's timestamp), run after run.

A run is planned (offsets), written, and booked, in this order. A run that was cut off is done again with the same
offsets into the same folders, which it replaces: nothing is there twice, nothing is left out. A call takes all that is
there now, in runs of `records_max`, so a long archive can be cut off anywhere and goes on from its last whole run.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # it has no stubs
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from kvorum.pipelines.bridge.offsets import TopicPartition, limited
from kvorum.pipelines.jobs.manifest import ArchiveError, Books, File, Part, Plan, Run, ends_of
from kvorum.pipelines.jobs.reading import Bounds, Cluster, Records, bounds
from kvorum.pipelines.jobs.store import Store

logger = logging.getLogger(__name__)

FILE_RECORDS_MAX: Final = 2_000_000
"""Records of one file: it is read whole for its checksum, so it must stay below 2 GiB."""

COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
HOUR_US: Final = 3_600_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Archiving:
    """Topic to archive, and target."""

    cluster: Cluster
    topic: str
    path: str
    """The archive; each topic has a folder in it."""
    by: Literal["hour", "day"] = "hour"
    records_max: int = 5_000_000
    """Offsets a run takes."""
    allow_gaps: bool = False
    """Continue although records were deleted before they were archived."""


def archive(spark: SparkSession, wanted: Archiving) -> list[Run]:
    """Archive what the topic has now; return the runs that were made, none if there was nothing new.

    Raises: ArchiveError for a gap, or an archive that is not whole.
    """
    store = Store(spark, f"{wanted.path.rstrip('/')}/{wanted.topic}")
    books = Books(store)
    runs = books.runs()
    if runs and runs[-1].plan.by != wanted.by:
        raise ArchiveError(f"{store.url()} is partitioned by {runs[-1].plan.by}; this cannot be changed")
    records = Records(spark, wanted.cluster, wanted.topic)
    until = records.end()
    made: list[Run] = []
    while True:
        number = len(runs) + 1
        plan = books.pending(number) or plan_run(number, wanted, ends_of(runs), records.begin(), until)
        if plan is None:
            return made
        books.begin(plan)
        write(records, plan, store)
        files = list(written(spark, store, number))
        counts = counts_of(files)
        run = Run(plan=plan, files=files, count=sum(counts.values()), counts=counts)
        books.finish(run)
        runs.append(run)
        made.append(run)
        logger.info("archive of %s: run %d, %d records in %d files", wanted.topic, number, run.count, len(files))


def plan_run(number: int, wanted: Archiving, reached: Bounds, begin: Bounds, until: Bounds) -> Plan | None:
    """Return what a run takes, None if there is nothing. Pure.

    Raises: ArchiveError if records were deleted before they were archived, or the topic has been made anew.
    """
    back = [n for n, end in reached.items() if until.get(n, -1) < end]
    if back:
        raise ArchiveError(
            f"{wanted.topic}: partitions {back} end before the archived offsets: was the topic recreated?"
        )
    gaps = {str(n): [reached[n], begin[n]] for n in reached if begin[n] > reached[n]}
    if gaps and not wanted.allow_gaps:
        raise ArchiveError(f"{wanted.topic}: deleted before it was archived (partition: from, up to): {gaps}")
    start = {n: max(begin[n], reached.get(n, 0)) for n in until}
    places = {n: TopicPartition(wanted.topic, n) for n in until}
    end = bounds(
        limited(
            {places[n]: offset for n, offset in start.items()},
            {places[n]: offset for n, offset in until.items()},
            wanted.records_max,
        )
    )
    if all(end[n] <= start[n] for n in end):
        return None
    return Plan(run=number, topic=wanted.topic, start=start, end=end, by=wanted.by, gaps=gaps)


def write(records: Records, plan: Plan, store: Store) -> None:
    """Write a run's records into its folders, in place of what an earlier try left there."""
    folders = ["day", "hour", "run"] if plan.by == "hour" else ["day", "run"]
    frame = records.frame(plan.start, plan.end).select(*COLUMNS)
    for name, column in (("day", day()), ("hour", hour()), ("run", F.lit(f"{plan.run:06}"))):
        if name in folders:
            frame = frame.withColumn(name, column)
    (
        frame.write.mode("overwrite")
        .option("partitionOverwriteMode", "dynamic")
        .option("maxRecordsPerFile", FILE_RECORDS_MAX)
        .partitionBy(*folders)
        .parquet(store.url("data"))
    )


def day() -> Column:
    """Return the day of a record's timestamp in UTC, whatever the session's time zone."""
    days = F.floor(F.unix_micros("timestamp") / F.lit(24 * HOUR_US)).cast("int")
    return F.date_from_unix_date(days).cast("string")


def hour() -> Column:
    """Return the hour of a record's timestamp in UTC, two digits."""
    return F.lpad(F.pmod(F.floor(F.unix_micros("timestamp") / F.lit(HOUR_US)), F.lit(24)).cast("string"), 2, "0")


def written(spark: SparkSession, store: Store, number: int) -> Iterator[File]:
    """Yield what a run has written, as it is on disk: what is booked was read back."""
    frame = read_back(spark, store, number)
    if frame is None:
        return
    parts = (
        frame.groupBy(relative(store, F.col("_metadata.file_path")).alias("file"), "partition")
        .agg(
            F.min("offset").alias("first"),
            F.max("offset").alias("last"),
            F.count("*").alias("count"),
            F.min(F.unix_millis("timestamp")).alias("time_min"),
            F.max(F.unix_millis("timestamp")).alias("time_max"),
        )
        .collect()
    )
    held: dict[str, list[tuple[str, Part, int, int]]] = {}
    for row in parts:
        part = Part(first=row["first"], last=row["last"], count=row["count"])
        held.setdefault(row["file"], []).append((str(row["partition"]), part, row["time_min"], row["time_max"]))
    for path, (size, digest) in sorted(sums_of(spark, store, number).items()):
        inside = sorted(held.get(path, []), key=lambda each: each[0])
        if inside:
            yield File(
                path=path,
                size=size,
                sha256=digest,
                count=sum(part.count for _, part, _, _ in inside),
                time_min=min(low for _, _, low, _ in inside),
                time_max=max(high for _, _, _, high in inside),
                partitions={name: part for name, part, _, _ in inside},
            )


def sums_of(spark: SparkSession, store: Store, number: int) -> dict[str, tuple[int, str]]:
    """Return size and SHA-256 of a run's files, by path."""
    folders = list(_folders(store, number))
    if not folders:
        return {}
    files = (
        spark.read.format("binaryFile")
        .option("recursiveFileLookup", "true")
        .option("pathGlobFilter", "*.parquet")
        .load(folders)
        .select(relative(store, F.col("path")).alias("file"), "length", F.sha2("content", 256).alias("sha256"))
    )
    return {row["file"]: (row["length"], row["sha256"]) for row in files.collect()}


def read_back(spark: SparkSession, store: Store, *numbers: int) -> DataFrame | None:
    """Return the records of some runs, None if they have none."""
    folders = [folder for number in numbers for folder in _folders(store, number)]
    if not folders:
        return None
    return spark.read.option("basePath", store.url("data")).parquet(*folders)


def _folders(store: Store, number: int) -> Iterator[str]:
    """Yield the folders of a run, wherever by hour or by day."""
    run = f"run={number:06}"
    for each_day in store.names("data"):
        if not each_day.startswith("day="):
            continue
        for inner in store.names(f"data/{each_day}"):
            if inner == run:
                yield store.url(f"data/{each_day}/{run}")
            elif inner.startswith("hour=") and store.exists(f"data/{each_day}/{inner}/{run}"):
                yield store.url(f"data/{each_day}/{inner}/{run}")


def relative(store: Store, path: Column) -> Column:
    """Return a file's path below the topic's folder."""
    return F.concat(F.lit("data/day="), F.element_at(F.split(path, "/data/day="), -1))


def counts_of(files: list[File]) -> dict[str, int]:
    """Return how many records files have, by partition."""
    counts: dict[str, int] = {}
    for file in files:
        for name, part in file.partitions.items():
            counts[name] = counts.get(name, 0) + part.count
    return counts


def verify(spark: SparkSession, path: str, topic: str) -> list[str]:
    """Return what is wrong with an archive's files, in sentences: missing, changed, or not as booked."""
    store = Store(spark, f"{path.rstrip('/')}/{topic}")
    problems: list[str] = []
    for run in Books(store).runs():
        try:
            there = sums_of(spark, store, run.plan.run)
        except (PySparkException, Py4JJavaError) as error:
            problems.append(f"run {run.plan.run}: its files cannot be read: {str(error).splitlines()[0]}")
            continue
        for file in run.files:
            now = there.pop(file.path, None)
            if now is None:
                problems.append(f"run {run.plan.run}: {file.path} is missing")
            elif now != (file.size, file.sha256):
                problems.append(f"run {run.plan.run}: {file.path} is not what was written")
        problems += [f"run {run.plan.run}: {path} is in no manifest" for path in there]
    return problems
