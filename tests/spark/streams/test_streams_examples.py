"""The examples of docs/examples/streams do what their first lines say, on small real input."""

import importlib.util
import json
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from tests.spark.streams.folder_topics import TopologyTestDriver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long

ROOT = Path(__file__).parent.parent.parent.parent
EXAMPLES = ROOT / "docs" / "examples" / "streams"
LATER_MS = 60_000


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def driver_of(name: str, spark: "SparkSession", folder: Path) -> TopologyTestDriver:
    return TopologyTestDriver(example(name).topology(), spark, folder)


def log() -> list[tuple[str, str]]:
    """Return node and line of a log that three nodes wrote while their processes were killed."""
    lines = (EXAMPLES / "data" / "node.log").read_text().splitlines()
    return [(node, line) for node, _, line in (each.partition("\t") for each in lines)]


def test_word_count(spark: "SparkSession", tmp_path: Path) -> None:
    text = (ROOT / "LICENSE").read_text().splitlines()[:60]
    letters = "".join(each if "a" <= each <= "z" else " " for each in "\n".join(text).lower())
    with driver_of("word_count", spark, tmp_path) as driver:
        driver.pipe("lines", *((None, line, 1000 + number) for number, line in enumerate(text)))
        driver.run()
        found = {each.key: each.value for each in driver.read("counts")}
    assert found == {word: chr(0) * 7 + chr(count) for word, count in Counter(letters.split()).items()}


def test_page_views_by_region(spark: "SparkSession", tmp_path: Path) -> None:
    with driver_of("page_views", spark, tmp_path) as driver:
        driver.pipe("users", ("ada", '{"region": "eu"}', 1000), ("bo", '{"region": "us"}', 1000))
        views = [("ada", 2000), ("bo", 3000), ("ada", 4000), ("cy", 5000), ("ada", 61000)]
        driver.pipe("views", *((user, '{"page": "/docs"}', at) for user, at in views))
        driver.run()
        found = [(json.loads(each.key or ""), json.loads(each.value or "")) for each in driver.read("by-region")]
        by_region = {(key["key"], key["window"]["start"][11:16]): value for key, value in found}
        assert by_region == {
            ("eu", "00:00"): {"views": 2, "users": ["ada"]},
            ("us", "00:00"): {"views": 1, "users": ["bo"]},
            ("unknown", "00:00"): {"views": 1, "users": ["cy"]},
            ("eu", "00:01"): {"views": 1, "users": ["ada"]},
        }
        driver.pipe("users", ("ada", '{"region": "us"}', 62000))
        driver.pipe("views", ("ada", '{"page": "/"}', 63000))
        driver.run()
        (moved,) = driver.read("by-region")
        assert json.loads(moved.key or "")["key"] == "us", "who moved counts where he is"


def test_sessions_of_a_log(spark: "SparkSession", tmp_path: Path) -> None:
    lines = log()
    with driver_of("sessions", spark, tmp_path) as driver:
        driver.pipe("log", *((node, line, 0) for node, line in lines))
        driver.pipe("log", ("end", "2026-11-23T00:00:00.000Z INFO none", 0))
        driver.run()
        found = [(json.loads(each.key or ""), json.loads(each.value or "")) for each in driver.read("sessions")]
    assert {key["key"] for key, _ in found} == {"node-1", "node-2", "node-3"}
    assert sum(value["lines"] for _, value in found) == len(lines)
    assert 3 < len(found) < len(lines) and any("quorum" in value["rooms"] for _, value in found)


def test_top_errors_of_a_log(spark: "SparkSession", tmp_path: Path) -> None:
    lines = log()
    with driver_of("top_errors", spark, tmp_path) as driver:
        driver.pipe("log", *((node, line, 0) for node, line in lines))
        driver.pipe("log", ("end", "2026-11-23T00:00:00.000Z ERROR none end", 0))
        driver.run()
        driver.pipe("log", ("end", "2026-11-24T00:00:00.000Z ERROR none end", 0))
        driver.run()
        found = [(json.loads(each.key or ""), json.loads(each.value or "")) for each in driver.read("top-errors")]
    ranks = {key["window"]["start"][11:16]: value for key, value in found}
    bad = [line for _, line in lines if " ERROR " in line or "failed" in line]
    minutes = Counter(line[11:16] for line in bad)
    crashes = Counter(line[11:16] for line in bad if "role crashed" in line)
    for minute, count in minutes.items():
        assert sum(each["count"] for each in ranks[minute]) == count, "there are no more than three kinds"
        assert {"count": crashes[minute], "trouble": "cluster: role crashed"} in ranks[minute] or not crashes[minute]
