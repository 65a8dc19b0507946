"""What needs jars that pip does not bring: Spark's own connector, beside Kvorum's."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

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
