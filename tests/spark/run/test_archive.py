"""docs/pipelines/archive.md: a topic into files and back, by the page's own pipelines."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kvorum.pipelines import spec
from tests.spark.conftest import TopicFactory
from tests.unit.pipelines.mirror.kit import BASE_MS, Seen, produce, produce_transactions, records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long

PAGE = Path(__file__).parents[3] / "docs" / "pipelines" / "archive.md"
SECONDS = 300
RESTARTS_MAX = 10
PARTITIONS = 2
WHERE = re.compile(r" *WHERE .*\n")


def run(spark: "SparkSession", name: str, folder: Path, changes: dict[str, str]) -> None:
    """Run one of the page's pipelines to its end, with other texts in it."""
    from pyspark.errors import StreamingQueryException

    from kvorum.pipelines.run import compile as compiling
    from kvorum.pipelines.run.failures import passing

    (text,) = [
        each for each in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL) if each.startswith(name, 2)
    ]
    for old, new in {"/archive/": f"{folder}/", **changes}.items():
        assert old in text, old
        text = text.replace(old, new)
    pipeline = spec.loads(text)
    ends = compiling.validate(pipeline)
    checkpoint = pipeline.checkpoint or str(folder / f"{pipeline.name}-checkpoint")
    context = compiling.context_of(pipeline, checkpoint, "kvorum")
    for _ in range(RESTARTS_MAX):
        (query,) = compiling.start(spark, pipeline, ends, context)
        try:
            assert query.awaitTermination(SECONDS), "the pipeline did not end"
            return
        except StreamingQueryException as error:  # as the worker of a pipeline does: a busy machine starts Python late
            if not passing(error):
                raise
    raise AssertionError("too many restarts")


def forget_last(checkpoint: Path) -> None:
    """Leave the checkpoint as a kill between the sink's last step and the commit would."""
    last = max((path for path in (checkpoint / "commits").iterdir() if path.name.isdigit()), key=lambda p: int(p.name))
    last.unlink()
    (checkpoint / "commits" / f".{last.name}.crc").unlink(missing_ok=True)


def test_a_topic_is_archived_and_replayed_whole_in_order_and_once(
    spark: "SparkSession", bootstrap: str, make_topic: TopicFactory, tmp_path: Path
) -> None:
    """Some runs, one of which is cut off, then a replay of all, cut off as well, and one of some time by key."""
    topic, copy, part = (make_topic(count, prefix) for count, prefix in ((2, "archived"), (2, "replayed"), (1, "part")))
    names = {"localhost:9092": bootstrap, "[orders]": f"[{topic}]", "archive-orders": f"archive-{topic}"}
    produce(bootstrap, topic, PARTITIONS, 400)
    produce_transactions(bootstrap, topic, 5)
    run(spark, "archive.yaml", tmp_path, names)
    produce(bootstrap, topic, PARTITIONS, 50, start=400)
    run(spark, "archive.yaml", tmp_path, names)
    forget_last(tmp_path / "orders-checkpoint")
    run(spark, "archive.yaml", tmp_path, names)
    assert [path.name for path in (tmp_path / "orders").glob("day=*")] == ["day=2023-11-14"]

    whole = {number: records(bootstrap, topic, number) for number in range(PARTITIONS)}
    text = WHERE.search(PAGE.read_text())
    assert text is not None
    names = {"localhost:9092": bootstrap, "replay-orders": f"replay-{copy}", "orders-2": copy, text[0]: ""}
    run(spark, "replay.yaml", tmp_path, names)
    forget_last(tmp_path / f"replay-{copy}-checkpoint")
    run(spark, "replay.yaml", tmp_path, names)
    assert {number: records(bootstrap, copy, number) for number in range(PARTITIONS)} == whole

    middle = BASE_MS + 100_000
    names = {"localhost:9092": bootstrap, "replay-orders": f"replay-{part}", "orders-2": part, "partitions: keep, ": ""}
    times = {"2026-01-31T07:00:00Z": "2023-11-14T22:15:00Z", "2026-01-31T09:00:00Z": "2023-11-14T22:17:00Z"}
    run(spark, "replay.yaml", tmp_path, names | times)
    found = records(bootstrap, part, 0)
    wanted = [each for rows in whole.values() for each in rows if middle <= each[2][1] < middle + 120_000]
    assert sorted(found, key=repr) == sorted(wanted, key=repr) and len(found) > 50
    for key in {each[0] for each in wanted} - {None}:
        assert of_key(found, key) == of_key(wanted, key)


def of_key(rows: list[Seen], key: bytes | None) -> list[Seen]:
    return [each for each in rows if each[0] == key]
