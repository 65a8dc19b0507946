"""Archive, replay, audit and profile on a real cluster: what goes out comes back, and tampering is found."""

import os
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from tests.spark.conftest import TopicFactory
from tests.unit.pipelines.mirror.kit import BASE_MS, produce, produce_transactions, records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long

RECORDS = min(int(os.environ.get("KVORUM_RECORDS", "4000")), 100_000)


def send(bootstrap: str, topic: str, rows: list[tuple[bytes | None, bytes | None]]) -> None:
    """Write keys and values into partition 0."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for key, value in rows:
        producer.produce(topic, value, key, partition=0, timestamp=BASE_MS)
    assert producer.flush(60) == 0


def test_an_archive_is_whole_resumes_and_comes_back(
    spark: "SparkSession",
    bootstrap: str,
    make_topic: TopicFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Runs of a third; one is cut off after it wrote; then new records, replays, and a file that somebody changed."""
    from kvorum.pipelines.jobs import archive as archiving
    from kvorum.pipelines.jobs.manifest import ArchiveError, Books
    from kvorum.pipelines.jobs.reading import Cluster
    from kvorum.pipelines.jobs.replay import FromArchive, FromTopic, Replay, replay
    from kvorum.pipelines.jobs.store import Store

    topic, copy = make_topic(2, "archived", retention_ms="-1"), make_topic(2, "replayed", retention_ms="-1")
    produce(bootstrap, topic, 2, RECORDS)
    produce_transactions(bootstrap, topic, 5)
    cluster = Cluster(bootstrap=bootstrap)
    path = str(tmp_path / "archive")
    wanted = archiving.Archiving(cluster=cluster, topic=topic, path=path, records_max=RECORDS // 2)

    def cut_off(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(archiving, "written", cut_off)
        archiving.archive(spark, wanted)
    assert len(archiving.archive(spark, wanted)) >= 2
    assert archiving.archive(spark, wanted) == [], "nothing is new"
    produce(bootstrap, topic, 2, 50, start=RECORDS)
    (last,) = archiving.archive(spark, wanted)
    assert last.count == 50 and archiving.verify(spark, path, topic) == []

    runs = Books(Store(spark, f"{path}/{topic}")).runs()
    there = {n: records(bootstrap, topic, n) for n in range(2)}
    assert sum(run.count for run in runs) == sum(map(len, there.values()))
    hours = {
        f"{datetime.fromtimestamp(each[2][1] / 1000, UTC):day=%Y-%m-%d/hour=%H}" for n in there for each in there[n]
    }
    assert {"/".join(file.path.split("/")[1:3]) for run in runs for file in run.files} == hours

    again = Replay(
        name=f"r-{copy}",
        source=FromArchive(path=path, topic=topic),
        target=cluster,
        topic=copy,
        state=str(tmp_path / "replay"),
    )
    assert replay(spark, again) == sum(map(len, there.values()))
    replay(spark, again)  # a second call writes nothing
    assert {n: records(bootstrap, copy, n) for n in range(2)} == there

    middle, part = BASE_MS + RECORDS * 500, make_topic(1, "part", retention_ms="-1")
    by_time = Replay(
        name=f"r-{part}",
        source=FromTopic(cluster=cluster, topic=topic),
        target=cluster,
        topic=part,
        state=str(tmp_path / "by-time"),
        since_ms=middle,
        until_ms=middle + 100_000,
        partitions="by-key",
    )
    wanted_rows = [each for n in there for each in there[n] if middle <= each[2][1] < middle + 100_000]
    assert replay(spark, by_time) == len(wanted_rows) > 0
    assert sorted(records(bootstrap, part, 0), key=repr) == sorted(wanted_rows, key=repr)

    victim = tmp_path / "archive" / topic / runs[0].files[0].path
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 1
    victim.write_bytes(bytes(data))
    victim.with_name(f".{victim.name}.crc").unlink(missing_ok=True)
    (problem,) = archiving.verify(spark, path, topic)
    assert "is not what was written" in problem
    fresh = Replay(name="never", source=again.source, target=cluster, topic=copy, state=str(tmp_path / "never"))
    with pytest.raises(ArchiveError, match="not what was written"):
        replay(spark, fresh)


def test_a_compacted_topic_is_held_against_its_archive(
    spark: "SparkSession", bootstrap: str, make_topic: TopicFactory, tmp_path: Path
) -> None:
    """The topic as it is; then one that lacks what it must have, through replays that leave records out."""
    from pyspark.sql import functions as F

    from kvorum.pipelines.jobs.archive import Archiving, archive, read_back
    from kvorum.pipelines.jobs.audit import as_text, audit, compare
    from kvorum.pipelines.jobs.reading import Cluster
    from kvorum.pipelines.jobs.store import Store

    topic = make_topic(1, "compacted", cleanup_policy="compact")
    chance = random.Random(4)
    rows: list[tuple[bytes | None, bytes | None]] = [
        (b"k%d" % chance.randrange(30), None if chance.random() < 0.2 else b"%d" % n) for n in range(200)
    ]
    send(bootstrap, topic, rows)
    cluster, path = Cluster(bootstrap=bootstrap), str(tmp_path)
    archive(spark, Archiving(cluster=cluster, topic=topic, path=path))
    found = audit(spark, cluster, topic, path)
    last = dict(rows)
    assert found.is_equal and found.keys == len(last) and found.live == sum(v is not None for v in last.values())
    assert found.replaced == 200 - len(last)

    archived = read_back(spark, Store(spark, f"{path}/{topic}"), 1)
    assert archived is not None
    offsets = {key: n for n, (key, _) in enumerate(rows)}
    live = sorted(n for key, n in offsets.items() if last[key] is not None)
    dead = sorted(n for key, n in offsets.items() if last[key] is None)
    before = {key: [n for n, row in enumerate(rows) if row[0] == key and n != offsets[key]][-1:] for key in offsets}
    stale = next(n for n in live if before[rows[n][0]])
    back = next(n for n in dead if any(rows[m][1] is not None for m in before[rows[n][0]]))
    missing, different = [n for n in live if n != stale][:2]
    gone = archived.where(F.col("offset") != stale).where(F.col("offset") != back)
    gone = gone.where(F.col("key") != F.lit(rows[missing][0]))
    gone = gone.withColumn("value", F.when(F.col("offset") == different, F.lit(b"x")).otherwise(F.col("value")))
    topic_like = gone.select("key", "value", "partition", "offset")
    wrong = compare(topic, archived, topic_like, {0: 0}, {0: 200}, {0: 200})
    assert {each.verdict: each.count for each in wrong.findings} == {
        "missing": 1,
        "stale": 1,
        "resurrected": 1,
        "different": 1,
    }
    assert "NOT EQUAL" in as_text(wrong)
    later = compare(topic, archived, topic_like, {0: 0}, {0: 200}, {0: 201})
    assert {each.verdict for each in later.findings} == {"different"} and later.not_judged == 3


def test_a_profile_counts_what_is_there(spark: "SparkSession", bootstrap: str, make_topic: TopicFactory) -> None:
    from kvorum.pipelines.jobs.profile import profile
    from kvorum.pipelines.jobs.reading import Cluster
    from kvorum.pipelines.jobs.report import page

    topic = make_topic(2, "profiled", retention_ms="-1")
    assert profile(spark, Cluster(bootstrap=bootstrap), topic) is None
    produce(bootstrap, topic, 2, 770)
    send(bootstrap, topic, [(b"k", b'{"a":1}'), (b"k", b"hello"), (b"k", b"<a/>"), (b"k", b"")])
    found = profile(spark, Cluster(bootstrap=bootstrap), topic)
    assert found is not None
    there = [each for n in range(2) for each in records(bootstrap, topic, n)]
    values = [len(each[1]) for each in there if each[1] is not None]
    assert found.records == len(there) == 774
    assert found.null_keys == sum(each[0] is None for each in there)
    assert found.null_values == sum(each[1] is None for each in there)
    assert found.with_headers == sum(bool(each[3]) for each in there)
    assert found.value_sizes is not None and found.value_sizes.total == sum(values)
    assert found.value_sizes.most == max(values) and sum(found.value_sizes.histogram.values()) == len(values)
    assert found.keys == pytest.approx(len({each[0] for each in there if each[0] is not None}), rel=0.1)
    assert sum(count for _, count, _ in found.rates) == 774
    assert {"JSON", "text", "XML", "empty", "null"} <= set(found.formats)
    assert dict(found.headers)["h"] == found.with_headers
    assert "<svg" in page(found)
