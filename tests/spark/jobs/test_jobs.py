"""Archive and replay on a real cluster: what goes out comes back, and tampering is found."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.conftest import TopicFactory
from tests.unit.pipelines.mirror.kit import BASE_MS, produce, produce_transactions, records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long

RECORDS = min(int(os.environ.get("KVORUM_RECORDS", "4000")), 100_000)


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
