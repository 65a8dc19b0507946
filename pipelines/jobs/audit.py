"""Is a compacted topic equal to the last value by key of its archive?

Compaction may leave out what a later record of the same key has replaced, and tombstones after a while; nothing else.
The archive has everything that was ever written, so for each key its last record up to the archive's end is known, and
the topic must still have it, at the same offset and with the same bytes. What the audit finds:

    missing       the archive's last record of the key has a value, and the topic has none of the key
    stale         the topic's last record of the key lies before the archive's last
    resurrected   the same, where the archive's last is a tombstone: a deleted key has come back
    different     the same offset and other bytes
    unknown       the topic has a record of the archive's offsets that the archive does not have
    without-key   a record without a key in a compacted topic

Keys that changed after the archive's end are not judged: archive first. Replaced records that are still there are no
mistake; they are counted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from kvorum.pipelines.jobs.archive import read_back
from kvorum.pipelines.jobs.manifest import ArchiveError, Books, ends_of, starts_of
from kvorum.pipelines.jobs.reading import Bounds, Cluster, Records
from kvorum.pipelines.jobs.store import Store

EXAMPLES_MAX: Final = 10
"""Keys that are shown of each finding."""

VERDICTS: Final = ("missing", "stale", "resurrected", "different", "unknown", "without-key")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A difference of some keys. Examples are (partition, key as text, offset in the archive, in the topic)."""

    verdict: str
    count: int
    examples: Sequence[tuple[int, str, int | None, int | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """Result of an audit."""

    topic: str
    keys: int
    """Keys of the archive, deleted ones among them."""
    live: int
    """Keys whose last record has a value."""
    replaced: int
    """Records of the topic that a later one of the same key has replaced and the cleaner has not taken yet."""
    not_judged: int
    """Keys that changed after the archive's end, or may have."""
    findings: Sequence[Finding]

    @property
    def is_equal(self) -> bool:
        """Return whether the topic is what it should be."""
        return not self.findings


def audit(spark: SparkSession, cluster: Cluster, topic: str, path: str) -> Audit:
    """Compare a topic with its archive. Raises: ArchiveError where there is none, or it does not begin at the start."""
    store = Store(spark, f"{path.rstrip('/')}/{topic}")
    runs = Books(store).runs()
    archived = read_back(spark, store, *(run.plan.run for run in runs))
    if archived is None:
        raise ArchiveError(f"{store.url()} has no records to compare")
    records = Records(spark, cluster, topic)
    begin, end = records.begin(), records.end()
    if all(begin[number] >= offset for number, offset in end.items()):
        live = archived.select("key", "value", "partition", "offset").limit(0)
    else:
        live = records.frame(begin, end).select("key", "value", "partition", "offset")
    return compare(topic, archived, live, starts_of(runs), ends_of(runs), end)


def compare(topic: str, archived: DataFrame, live: DataFrame, starts: Bounds, reached: Bounds, end: Bounds) -> Audit:
    """Compare the records of an archive and a topic.

    The archive goes from `starts` to `reached`; the topic ended at `end` when it was read.
    """
    joined = (
        last_by_key(archived, "archive")
        .join(last_by_key(live, "topic"), ["partition", "id"], "full_outer")
        .withColumn("verdict", verdict(starts, reached, end))
    ).cache()
    try:
        return _told(topic, joined, archived)
    finally:
        joined.unpersist()


def _told(topic: str, joined: DataFrame, archived: DataFrame) -> Audit:
    totals = joined.agg(
        F.count("archive_offset").alias("keys"),
        F.count(F.when(F.col("archive_alive"), 1)).alias("live"),
        F.sum(F.coalesce(F.col("topic_count") - 1, F.lit(0))).alias("replaced"),
        F.count(F.when(F.col("verdict") == "not-judged", 1)).alias("not_judged"),
    ).collect()[0]
    wrong = joined.where(F.col("verdict").isin(*VERDICTS))
    counts = {row["verdict"]: row["count"] for row in wrong.groupBy("verdict").count().collect()}
    findings = []
    for name in VERDICTS:
        if name not in counts:
            continue
        shown = wrong.where(F.col("verdict") == name).orderBy("partition", "archive_offset", "topic_offset")
        key = F.coalesce("archive_key", "topic_key").alias("key")
        rows = shown.select("partition", key, "archive_offset", "topic_offset").limit(EXAMPLES_MAX).collect()
        examples = [(row["partition"], text(row["key"]), row["archive_offset"], row["topic_offset"]) for row in rows]
        findings.append(Finding(verdict=name, count=counts[name], examples=examples))
    return Audit(
        topic=topic,
        keys=totals["keys"],
        live=totals["live"],
        replaced=totals["replaced"] or 0,
        not_judged=totals["not_judged"],
        findings=findings,
    )


def last_by_key(frame: DataFrame, side: str) -> DataFrame:
    """Return the last record of each key of each partition; a record without a key stands for itself."""
    no_key = F.concat(F.lit("offset "), F.col("offset").cast("string"))
    digest = F.when(F.col("key").isNull(), no_key).otherwise(F.sha2("key", 256))
    last = F.max_by(F.struct("key", "offset", F.col("value").isNotNull().alias("alive"), value_digest()), "offset")
    return (
        frame.groupBy("partition", digest.alias("id"))
        .agg(last.alias("last"), F.count("*").alias(f"{side}_count"))
        .select(
            "partition",
            "id",
            f"{side}_count",
            F.col("last.key").alias(f"{side}_key"),
            F.col("last.offset").alias(f"{side}_offset"),
            F.col("last.alive").alias(f"{side}_alive"),
            F.col("last.digest").alias(f"{side}_digest"),
        )
    )


def value_digest() -> Column:
    """Return a value's digest, null for a tombstone."""
    return F.sha2("value", 256).alias("digest")


def verdict(starts: Bounds, reached: Bounds, end: Bounds) -> Column:
    """Return what is to be said of a key, null if it is as it should be."""
    archive, topic = F.col("archive_offset"), F.col("topic_offset")
    start, limit, bound = (_by_partition(offsets) for offsets in (starts, reached, end))
    later = bound > limit  # somebody wrote after the archive: a key that is not there may have been deleted since
    return (
        F.when(F.col("topic_count").isNotNull() & F.col("topic_key").isNull(), "without-key")
        .when(F.col("archive_count").isNotNull() & F.col("archive_key").isNull(), None)
        .when(topic >= limit, "not-judged")
        .when(topic.isNull() & ~F.col("archive_alive"), None)
        .when(topic.isNull(), F.when(later, "not-judged").otherwise("missing"))
        .when(archive.isNull(), F.when(topic < start, None).otherwise("unknown"))
        .when(topic > archive, "unknown")
        .when((topic < archive) & ~F.col("archive_alive") & ~F.col("topic_alive"), None)
        .when((topic < archive) & ~F.col("archive_alive"), F.when(later, "not-judged").otherwise("resurrected"))
        .when(topic < archive, F.when(later, "not-judged").otherwise("stale"))
        .when(~F.col("archive_digest").eqNullSafe(F.col("topic_digest")), "different")
    )


def _by_partition(offsets: Bounds) -> Column:
    """Return a partition's offset as a column, 0 for one that is not named."""
    pairs = [F.lit(each) for pair in sorted(offsets.items()) for each in pair]
    if not pairs:
        return F.lit(0)
    return F.coalesce(F.try_element_at(F.create_map(*pairs), F.col("partition")), F.lit(0))


def text(key: bytes | bytearray | None) -> str:
    """Return a key as people read it."""
    if key is None:
        return "none"
    try:
        return bytes(key).decode()
    except UnicodeDecodeError:
        return f"0x{bytes(key).hex()}"


def as_text(found: Audit) -> str:
    """Return an audit for people."""
    lines = [
        f"{found.topic}: {found.keys} keys in the archive, {found.live} of them live; "
        f"{found.replaced} replaced records not cleaned yet; {found.not_judged} keys not judged"
    ]
    for finding in found.findings:
        lines.append(f"{finding.verdict}: {finding.count} keys")
        for partition, key, archived, live in finding.examples:
            there = "not there" if live is None else f"offset {live}"
            was = "not there" if archived is None else f"offset {archived}"
            lines.append(f"  partition {partition} key {key}: archive {was}, topic {there}")
    lines.append("equal" if found.is_equal else "NOT EQUAL")
    return "\n".join(lines)
