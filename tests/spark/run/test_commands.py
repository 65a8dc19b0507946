"""A new user's way, by the command alone: a table, a topic, a transformed topic, Parquet; and what is wrong is said.

The pipelines are the shipped examples, each in a process of its own, as `--detach` starts it; one is killed on the way.
"""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from tests.spark.conftest import TopicFactory
from tests.unit.pipelines.run.topics import consume, produce

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "configs" / "pipelines"
SECONDS = 300.0
SMALL = ("--master", "local[1]", "--memory", "512m")
Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def kvorum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Command]:
    """Return a function that runs `kvorum pipelines` in the test's folder; what it left running is stopped."""
    monkeypatch.delenv("KVORUM_PIPELINES_DIR", raising=False)
    monkeypatch.delenv("KVORUM_SPARK_JARS", raising=False)

    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "kvorum.cli.main", "pipelines", *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS)

    yield run
    for status in tmp_path.glob("kvorum-pipelines/*/status.json"):
        run("stop", status.parent.name, "--timeout", "10")


def good(result: "subprocess.CompletedProcess[str]") -> str:
    assert result.returncode == 0, result.stderr
    return result.stdout


def wait(kvorum: Command, name: str, fits: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    until = time.monotonic() + SECONDS
    while True:
        found: dict[str, Any] = json.loads(good(kvorum("status", name, "-o", "json")))
        if fits(found):
            return found
        assert time.monotonic() < until and found["state"] != "FAILED", found


def test_a_file_that_is_not_right_is_answered_with_lines(kvorum: Command, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(
        "name: bad\nsource: {type: jdcb}\nsink:\n  type: files\n  pth: x\ntrigger: soon\n"
    )
    (tmp_path / "worse.yaml").write_text("name: worse\n")
    lines = [
        "bad.yaml:2:10: source.type: there is no source 'jdcb'; did you mean 'jdbc'?",
        "bad.yaml:3:1: sink.path: is missing",
        "bad.yaml:5:3: sink.pth: unknown key; did you mean 'path'?",
        "bad.yaml:6:1: trigger: 'soon' is not a duration such as 500ms, 10s, 5m or 1h",
    ]
    result = kvorum("run", "bad.yaml")
    assert result.returncode == 2 and result.stderr.splitlines() == [*lines, "kvorum: 4 problems"]
    (tmp_path / "good.yaml").write_text("name: good\nsource: {type: generator}\nsink: {type: console}\n")
    result = kvorum("validate", "bad.yaml", "good.yaml", "worse.yaml")
    worse = [f"worse.yaml: {end}: is missing" for end in ("source", "sink")]
    assert result.returncode == 2 and result.stderr.splitlines() == [*lines, *worse, "kvorum: 6 problems"]
    assert result.stdout == "good.yaml: pipeline good, generator to console\n", "one bad file does not hide the next"


def test_a_cluster_that_is_not_there_is_told_of_in_one_line(kvorum: Command, tmp_path: Path) -> None:
    """In seconds, before Spark is started; the log has the trace."""
    text = "name: away\nsource: {type: topics, bootstrap: '127.0.0.1:1', topics: [t]}\nsink: {type: console}\n"
    (tmp_path / "away.yaml").write_text(text)
    why = "source topics: no broker answers at 127.0.0.1:1: Connection refused"
    result = kvorum("run", "away.yaml", "--retries", "0")
    assert result.returncode == 1 and why in result.stderr and len(result.stderr.splitlines()) == 5, result.stderr
    log = tmp_path / "kvorum-pipelines" / "away" / "worker.log"
    assert result.stderr.splitlines()[-1] == f"complete log: {log} (kvorum pipelines logs away)"
    assert "Traceback" in good(kvorum("logs", "away")) and "Traceback" not in result.stderr
    assert "reason" in good(kvorum("status", "away")) and why in good(kvorum("status", "away"))
    result = kvorum("run", "away.yaml", "--detach", "--retries", "1")
    assert result.returncode == 1 and result.stderr.splitlines()[1:] == [
        f"kvorum: pipeline away is not running yet: {why}",
        "(retried automatically; kvorum pipelines stop away ends it)",
    ]


def test_every_shipped_example_is_valid(kvorum: Command) -> None:
    printed = good(kvorum("validate", *(str(path) for path in sorted(EXAMPLES.glob("*.yaml")))))
    assert "pipeline orders-clean, topics to topics, 3 transforms" in printed


def test_commands_about_a_pipeline_that_is_not_there_say_which_there_are(kvorum: Command) -> None:
    result = kvorum("status", "nope")
    assert result.returncode == 4 and "no pipeline 'nope' in" in result.stderr


def test_the_doctor_and_the_plugins_answer(kvorum: Command) -> None:
    rows = json.loads(kvorum("doctor", "-o", "json").stdout)
    assert {"java", "memory", "pyspark", "connector"} <= {row["what"] for row in rows}
    assert "kvorum.pipelines.cdc.source:PostgresqlSource" in good(kvorum("plugins"))


@pytest.mark.long
def test_a_table_becomes_a_topic_a_transformed_topic_and_parquet(
    kvorum: Command, bootstrap: str, make_topic: TopicFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOOTSTRAP", bootstrap)
    names = {name: make_topic(prefix=name) for name in ("orders", "orders-clean", "orders-dead")}
    for path in EXAMPLES.glob("orders-*.yaml"):
        text = path.read_text()
        for name, topic in sorted(names.items(), reverse=True):
            text = text.replace(f"topics: [{name}]", f"topics: [{topic}]").replace(
                f"topic: {name}\n", f"topic: {topic}\n"
            )
            text = text.replace(f"topic: {name}}}", f"topic: {topic}}}")
        (tmp_path / path.name).write_text(text)
    with closing(sqlite3.connect(tmp_path / "shop.db")) as shop:
        shop.execute(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT, card TEXT, amount REAL, changed TIMESTAMP)"
        )
        rows = [(n, f"c{n}", "4111", n * 1.5, f"2024-01-01 00:00:{n:02}") for n in range(20)]
        shop.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?)", rows)
        shop.commit()
        assert "pipeline orders-in is RUNNING" in good(kvorum("run", "orders-in.yaml", "--detach", *SMALL))
        wait(kvorum, "orders-in", lambda status: status["progress"]["records_in"] == 20)
        wait(kvorum, "orders-in", lambda status: status["progress"]["records_out"] == 20)
        shop.execute("UPDATE orders SET amount = 99, changed = '2024-01-02 00:00:00' WHERE id = 3")
        shop.commit()
        wait(kvorum, "orders-in", lambda status: status["progress"]["records_in"] == 21)
    found = consume(bootstrap, names["orders"], 21)
    assert len(found) == 21 and json.loads(found[0].key() or b"")["id"] in range(20)
    offsets = json.loads(good(kvorum("offsets", "orders-in", "-o", "json")))["sources"]
    assert offsets == [{"timestamp": "2024-01-02 00:00:00", "incrementing": 3}]
    assert "pipeline orders-in is STOPPED" in good(kvorum("stop", "orders-in"))

    produce(bootstrap, names["orders"], ("x", "no JSON at all"))
    good(kvorum("run", "orders-clean.yaml", "--detach", *SMALL))
    first = wait(kvorum, "orders-clean", lambda status: status["progress"]["records_in"] == 22)
    os.kill(first["pid"], signal.SIGKILL)
    assert json.loads(kvorum("status", "orders-clean", "-o", "json").stdout)["state"] == "FAILED"
    assert "is RUNNING" in good(kvorum("restart", "orders-clean"))
    produce(bootstrap, names["orders"], ("y", '{"id": 77, "card": "1", "amount": 1}'))
    wait(kvorum, "orders-clean", lambda status: status["progress"]["records_in"] >= 1)
    assert "connector: kvorum" in good(kvorum("logs", "orders-clean", "-n", "10000"))
    good(kvorum("stop", "orders-clean"))
    clean = [json.loads(each.value() or b"") for each in consume(bootstrap, names["orders-clean"], 22)]
    assert len(clean) == 22 and {(each["card"], each["currency"]) for each in clean} == {("", "EUR")}
    assert [each.value() for each in consume(bootstrap, names["orders-dead"], 1)] == [b"no JSON at all"]

    text = (tmp_path / "orders-out.yaml").read_text()
    (tmp_path / "orders-out.yaml").write_text(text.replace("trigger: 5s", "trigger: available-now"))
    good(kvorum("run", "orders-out.yaml", *SMALL))
    table = pyarrow.parquet.read_table(tmp_path / "lake" / "orders", partitioning="hive").to_pylist()
    assert len(table) == 22 and {row["currency"] for row in table} == {"EUR"}
    assert sorted({row["id"] for row in table}) == [*range(20), 77]
    listed = json.loads(good(kvorum("list", "-o", "json")))
    assert {row["name"]: row["state"] for row in listed} == {
        "orders-in": "STOPPED",
        "orders-clean": "STOPPED",
        "orders-out": "FINISHED",
    }
