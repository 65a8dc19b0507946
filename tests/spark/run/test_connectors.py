"""What needs jars that pip does not bring: Spark's own connector, beside Kvorum's, and Delta tables."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from tests.spark.conftest import TopicFactory
from tests.unit.pipelines.run.topics import consume, produce

pytestmark = pytest.mark.long

SECONDS = 300.0
RECORDS = [(f"k{n}", json.dumps({"id": n})) for n in range(50)]


def run(folder: Path, pipeline: dict[str, Any], jars: str) -> str:
    """Run a pipeline to its end and return what it said."""
    path = folder / f"{pipeline['name']}.json"
    path.write_text(json.dumps(pipeline))
    command = [sys.executable, "-m", "kvorum.cli.main", "pipelines", "run", str(path), "--jars", jars]
    command += ["--master", "local[1]", "--memory", "512m"]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS)
    assert result.returncode == 0, result.stderr
    return result.stderr


@pytest.mark.parametrize(("first", "second"), [("spark", "kvorum"), ("kvorum", "spark")])
def test_each_connector_reads_what_the_other_one_wrote(
    spark_jars: str, first: str, second: str, bootstrap: str, make_topic: TopicFactory, tmp_path: Path
) -> None:
    topics = [make_topic() for _ in range(3)]
    produce(bootstrap, topics[0], *RECORDS)
    for connector, source, target in ((first, topics[0], topics[1]), (second, topics[1], topics[2])):
        pipeline = {
            "name": f"{connector}-{target}",
            "source": {"type": "topics", "bootstrap": bootstrap, "topics": [source]},
            "sink": {"type": "topics", "bootstrap": bootstrap, "topic": target},
            "transforms": [{"type": "InsertHeader", "header": connector, "value.literal": "was here"}],
            "delivery": "at_least_once",
            "connector": connector,
            "trigger": "available-now",
        }
        said = run(tmp_path, pipeline, spark_jars)
        assert f"connector: {connector}, as asked for" in said
    found = consume(bootstrap, topics[2], len(RECORDS))
    assert sorted((m.key().decode(), m.value().decode()) for m in found) == sorted(RECORDS)
    assert {tuple(sorted(key for key, _ in message.headers() or ())) for message in found} == {("kvorum", "spark")}


def test_a_delta_table_has_each_record_once_though_a_batch_is_replayed(
    spark_jars: str, bootstrap: str, make_topic: TopicFactory, tmp_path: Path
) -> None:
    """The table is read back file by file as its own log says, by none of Delta's code."""
    topic, table = make_topic(), tmp_path / "table"
    pipeline = {
        "name": "to-delta",
        "source": {
            "type": "topics",
            "bootstrap": bootstrap,
            "topics": [topic],
            "value": {"format": "json", "schema": "id INT"},
        },
        "sink": {"type": "delta", "path": str(table), "include": ["offset"]},
        "checkpoint": str(tmp_path / "checkpoint"),
        "trigger": "available-now",
    }
    produce(bootstrap, topic, *RECORDS)
    run(tmp_path, pipeline, spark_jars)
    assert ids(table) == list(range(50))
    # As if the driver had died between the table's commit and the checkpoint's: the batch comes again.
    (commit,) = (tmp_path / "checkpoint" / "commits").glob("0")
    commit.unlink()
    (tmp_path / "checkpoint" / "commits" / ".0.crc").unlink(missing_ok=True)
    produce(bootstrap, topic, ("k", json.dumps({"id": 50})))
    run(tmp_path, pipeline, spark_jars)
    assert ids(table) == list(range(51))


def ids(table: Path) -> list[int]:
    """Return the column `id` of all files that the table's log adds."""
    lines = [json.loads(line) for file in table.glob("_delta_log/*.json") for line in file.read_text().splitlines()]
    assert not [line for line in lines if "remove" in line]
    files = [table / line["add"]["path"] for line in lines if "add" in line]
    return sorted(row for file in files for row in pyarrow.parquet.read_table(file)["id"].to_pylist())
