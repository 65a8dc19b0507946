"""Spark's own connector and Kvorum's: each reads what the other one wrote, where the jars are ($KVORUM_SPARK_JARS)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kvorum.pipelines.session.connector import VARIABLE, look_into
from tests.pipelines.conftest import TopicFactory
from tests.pipelines.run.topics import consume, produce

pytestmark = pytest.mark.pipelines

SECONDS = 300.0
RECORDS = [(f"k{n}", json.dumps({"id": n})) for n in range(50)]


@pytest.fixture
def jars() -> str:
    folder = os.environ.get(VARIABLE)
    if folder is None:
        pytest.skip(f"missing jars: Spark's connector for topics ({VARIABLE} names no folder)")
    missing = look_into(folder).missing
    if missing:
        pytest.skip(f"missing jars: {', '.join(missing)} in {folder}")
    return folder


@pytest.mark.parametrize(("first", "second"), [("spark", "kvorum"), ("kvorum", "spark")])
def test_each_connector_reads_what_the_other_one_wrote(
    jars: str, first: str, second: str, bootstrap: str, make_topic: TopicFactory, tmp_path: Path
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
        path = tmp_path / f"{connector}.json"
        path.write_text(json.dumps(pipeline))
        command = [sys.executable, "-m", "kvorum.cli.main", "pipelines", "run", str(path), "--jars", jars]
        command += ["--master", "local[1]", "--memory", "512m"]
        result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS)
        assert result.returncode == 0, result.stderr
        assert f"connector: {connector}, as asked for" in result.stderr
    found = consume(bootstrap, topics[2], len(RECORDS))
    assert sorted((m.key().decode(), m.value().decode()) for m in found) == sorted(RECORDS)
    assert {tuple(sorted(key for key, _ in message.headers() or ())) for message in found} == {("kvorum", "spark")}
