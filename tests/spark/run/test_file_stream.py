"""Kafka Connect's first example on Spark: lines of a file into a topic, and its records into lines of a file."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kvorum.pipelines.run.state import Folder, State
from kvorum.pipelines.spec import Pipeline, from_connect
from tests.cluster.clients import eventually
from tests.spark.conftest import TopicFactory
from tests.spark.run.test_worker import SECONDS, running, until
from tests.unit.pipelines.run.topics import consume

pytestmark = pytest.mark.long

STRINGS = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
}


def forget_last(checkpoint: Path) -> None:
    """Leave a checkpoint as a kill between the sink's last step and the commit would."""
    last = max((path for path in (checkpoint / "commits").iterdir() if path.name.isdigit()), key=lambda p: int(p.name))
    last.unlink()
    (checkpoint / "commits" / f".{last.name}.crc").unlink(missing_ok=True)


def texts(bootstrap: str, topic: str, count: int) -> list[str]:
    return [message.value().decode() for message in consume(bootstrap, topic, count)]


def connector(kind: str, bootstrap: str, file: Path, **keys: str) -> Pipeline:
    properties = {"connector.class": f"org.apache.kafka.connect.file.FileStream{kind}Connector", "file": str(file)}
    return from_connect(f"{kind.lower()}-{file.parent.name}", properties | STRINGS | keys, bootstrap=bootstrap)


def test_lines_of_a_growing_file_pass_a_topic_and_are_appended_to_one_file_each_once(
    spark: SparkSession, bootstrap: str, make_topic: TopicFactory, tmp_path: Path
) -> None:
    topic, dead = make_topic(1), make_topic(1)
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    queue = "errors.deadletterqueue."
    errors = {"errors.tolerance": "all", f"{queue}topic.name": dead, f"{queue}context.headers.enable": "true"}
    reading = connector("Source", bootstrap, source, topic=topic, **errors, **{"batch.size": "2"})
    writing = connector("Sink", bootstrap, target, topics=topic)
    text = ["eins", "zw\u00f6lf", "", "\N{CHIPMUNK} 4", "5"]
    source.write_bytes("eins\nzw\u00f6lf\r\n\n\N{CHIPMUNK}".encode()[:-2])  # the last character is cut
    target.write_text("before\n")
    with running(spark, reading, tmp_path / "r") as folder:
        assert texts(bootstrap, topic, 3) == text[:3], "the last line is not complete"
        with source.open("ab") as file:
            file.write("\N{CHIPMUNK}".encode()[-2:] + b" 4\n5")
        assert texts(bootstrap, topic, 4) == text[:4]
        assert until(folder, lambda status: status.state is State.RUNNING).restarts == 0
    written = "before\n" + "\n".join(text[:4]) + "\n"
    with running(spark, writing, tmp_path / "w"):
        eventually(lambda: target.read_text() == written, lambda: target.read_text(), SECONDS)
    for root, pipeline in ((tmp_path / "r", reading), (tmp_path / "w", writing)):
        forget_last(Folder(root, pipeline.name).checkpoint)
    with source.open("ab") as file:
        file.write(b"\nno \xff text\n")
    source.rename(tmp_path / "in.txt.1")
    source.write_text("6\n")
    with running(spark, reading, tmp_path / "r"):
        assert texts(bootstrap, topic, 6) == [*text, "6"]
    with running(spark, writing, tmp_path / "w"):
        eventually(lambda: target.read_text().endswith("\n6\n"), lambda: target.read_text(), SECONDS)
    assert target.read_text().splitlines() == ["before", *text, "6"]
    (letter,) = consume(bootstrap, dead, 1)
    headers = dict(letter.headers())
    position = len("eins\nzw\u00f6lf\r\n\n\N{CHIPMUNK} 4\n5\n".encode())
    message = f"value: the line at byte {position} of {source} is not UTF-8"
    assert (letter.value(), headers["__connect.errors.exception.message"]) == (b"no \xff text", message.encode())
