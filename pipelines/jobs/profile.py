"""Profile of a topic: keys, sizes, nulls, rates, formats; computed by Spark, shown as one HTML page (report).

One aggregation over the records gives most of it; times are those of the records. A bucket of the rates is a second, a
minute, an hour or a day, whichever gives BUCKETS_MAX bars at most.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from kvorum.pipelines.jobs.audit import text
from kvorum.pipelines.jobs.reading import Bounds, Cluster, Records

BUCKETS_MAX: Final = 120
BUCKETS_MS: Final = (1_000, 60_000, 3_600_000, 86_400_000, 7 * 86_400_000, 30 * 86_400_000)
TOP_KEYS: Final = 15
QUANTILES: Final = (0.5, 0.9, 0.99)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Bytes of keys or values; nulls are not among them."""

    total: int
    least: int
    most: int
    mean: float
    quantiles: Sequence[int]
    """QUANTILES, nearly."""
    histogram: Mapping[int, int]
    """Records by size: below 1, 2, 4, 8... bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionProfile:
    """One partition."""

    number: int
    records: int
    start: int
    end: int
    gaps: int
    """Offsets without a record: control records, what was aborted or compacted."""
    value_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A topic, or a stretch of it."""

    topic: str
    records: int
    partitions: Sequence[PartitionProfile]
    keys: int
    """Distinct keys, nearly."""
    null_keys: int
    null_values: int
    with_headers: int
    key_sizes: Sizes | None
    value_sizes: Sizes | None
    time_min: int
    time_max: int
    bucket_ms: int
    rates: Sequence[tuple[int, int, int]]
    """(begin of the bucket, records, bytes of keys and values)."""
    top_keys: Sequence[tuple[str, int]]
    headers: Sequence[tuple[str, int]]
    """Names and how many records have them."""
    formats: Mapping[str, int]
    """What values look like by their first bytes."""


def profile(spark: SparkSession, cluster: Cluster, topic: str, records_max: int | None = None) -> Profile | None:
    """Return a topic's profile, None for an empty one. `records_max`: the newest so many offsets only, about."""
    records = Records(spark, cluster, topic)
    start, end = records.begin(), records.end()
    if records_max is not None:
        total = sum(max(0, end[number] - start[number]) for number in end)
        if total > records_max:
            start = {number: end[number] - (end[number] - start[number]) * records_max // total for number in end}
    if all(start[number] >= end[number] for number in end):
        return None
    return of_frame(topic, records.frame(start, end), start, end)


def of_frame(topic: str, frame: DataFrame, start: Bounds, end: Bounds) -> Profile | None:
    """Return the profile of records between these offsets."""
    sized = frame.select(
        "partition",
        "key",
        "headers",
        F.unix_millis("timestamp").alias("time"),
        F.octet_length("key").alias("key_size"),
        F.octet_length("value").alias("value_size"),
        looks_like(F.col("value")).alias("format"),
    ).persist()
    try:
        return _of_sized(topic, sized, start, end)
    finally:
        sized.unpersist()


def _of_sized(topic: str, sized: DataFrame, start: Bounds, end: Bounds) -> Profile | None:
    totals = sized.agg(
        F.count("*").alias("records"),
        F.approx_count_distinct("key", 0.02).alias("keys"),
        F.count(F.when(F.col("key").isNull(), 1)).alias("null_keys"),
        F.count(F.when(F.col("value_size").isNull(), 1)).alias("null_values"),
        F.count(F.when(F.size("headers") > 0, 1)).alias("with_headers"),
        F.min("time").alias("time_min"),
        F.max("time").alias("time_max"),
        *_size_columns("key_size"),
        *_size_columns("value_size"),
    ).collect()[0]
    if not totals["records"]:
        return None
    bucket = bucket_of(totals["time_max"] - totals["time_min"])
    rates = (
        sized.groupBy((F.floor(F.col("time") / F.lit(bucket)) * F.lit(bucket)).alias("at"))
        .agg(F.count("*").alias("n"), F.sum(_size("key_size") + _size("value_size")).alias("bytes"))
        .orderBy("at")
    )
    by_key = sized.where(F.col("key").isNotNull()).groupBy("key").count().orderBy(F.desc("count"), "key")
    names = sized.select(F.explode(F.array_distinct(F.transform("headers", lambda each: each["key"]))).alias("name"))
    by_partition = sized.groupBy("partition").agg(F.count("*").alias("n"), F.sum(_size("value_size")).alias("bytes"))
    held = {row["partition"]: row for row in by_partition.collect()}
    formats = sized.groupBy("format").count().orderBy(F.desc("count")).collect()
    return Profile(
        topic=topic,
        records=totals["records"],
        partitions=[_partition(number, held.get(number), start, end) for number in sorted(end)],
        keys=totals["keys"],
        null_keys=totals["null_keys"],
        null_values=totals["null_values"],
        with_headers=totals["with_headers"],
        key_sizes=_sizes(totals, "key_size", _histogram(sized, "key_size")),
        value_sizes=_sizes(totals, "value_size", _histogram(sized, "value_size")),
        time_min=totals["time_min"],
        time_max=totals["time_max"],
        bucket_ms=bucket,
        rates=[(row["at"], row["n"], row["bytes"]) for row in rates.collect()],
        top_keys=[(text(row["key"]), row["count"]) for row in by_key.limit(TOP_KEYS).collect()],
        headers=[
            (row["name"], row["count"])
            for row in names.groupBy("name").count().orderBy(F.desc("count"), "name").limit(TOP_KEYS).collect()
        ],
        formats={row["format"]: row["count"] for row in formats},
    )


def _size(name: str) -> Column:
    return F.coalesce(F.col(name), F.lit(0)).cast("long")


def _size_columns(name: str) -> list[Column]:
    return [
        F.sum(F.col(name).cast("long")).alias(f"{name}_total"),
        F.min(name).alias(f"{name}_least"),
        F.max(name).alias(f"{name}_most"),
        F.avg(name).alias(f"{name}_mean"),
        F.percentile_approx(name, list(QUANTILES)).alias(f"{name}_quantiles"),
    ]


def _sizes(totals: Row, name: str, histogram: Mapping[int, int]) -> Sizes | None:
    if totals[f"{name}_total"] is None:
        return None
    return Sizes(
        total=totals[f"{name}_total"],
        least=totals[f"{name}_least"],
        most=totals[f"{name}_most"],
        mean=totals[f"{name}_mean"],
        quantiles=list(totals[f"{name}_quantiles"]),
        histogram=histogram,
    )


def _histogram(sized: DataFrame, name: str) -> dict[int, int]:
    """Return records by size: {8: those of 4 to 7 bytes}, every power of two up to the largest."""
    power = F.when(F.col(name) == 0, 0).otherwise(F.floor(F.log2(F.col(name))) + 1).cast("int")
    rows = sized.where(F.col(name).isNotNull()).groupBy(power.alias("power")).count().collect()
    counts = {row["power"]: row["count"] for row in rows}
    return {2**power: counts.get(power, 0) for power in range(max(counts, default=-1) + 1)}


def _partition(number: int, row: Row | None, start: Bounds, end: Bounds) -> PartitionProfile:
    records = 0 if row is None else row["n"]
    return PartitionProfile(
        number=number,
        records=records,
        start=start[number],
        end=end[number],
        gaps=max(0, end[number] - start[number] - records),
        value_bytes=0 if row is None else row["bytes"],
    )


def bucket_of(span_ms: int) -> int:
    """Return how long a bar of the rates is."""
    return next((each for each in BUCKETS_MS if span_ms / each < BUCKETS_MAX), BUCKETS_MS[-1])


def looks_like(value: Column) -> Column:
    """Return what a value looks like: a guess for people, by its first and last bytes."""
    first = F.hex(F.substring(value, 1, 1))
    as_text = F.decode(F.substring(value, 1, 200), "ISO-8859-1")
    return (
        F.when(value.isNull(), "null")
        .when(F.octet_length(value) == 0, "empty")
        .when(first.isin("7B", "5B") & F.hex(F.substring(value, -1, 1)).isin("7D", "5D", "0A"), "JSON")
        .when((first == "00") & (F.octet_length(value) > 5), "schema registry's (Avro, Protobuf)")
        .when(first == "3C", "XML")
        .when(as_text.rlike("^-?[0-9]+(\\.[0-9]+)?$"), "number as text")
        .when(as_text.rlike("^[\\x09\\x0a\\x0d\\x20-\\x7e\\x80-\\xff]*$"), "text")
        .otherwise("binary")
    )
