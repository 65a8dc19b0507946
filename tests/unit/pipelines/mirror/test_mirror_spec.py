"""A mirror's file: what it may say, and how it is told what is wrong."""

from pathlib import Path

import pytest

from kvorum.pipelines.bridge.offsets import TopicPartition
from kvorum.pipelines.mirror.metrics import Figures, text
from kvorum.pipelines.mirror.run import BadCheckpoint, read_offsets
from kvorum.pipelines.mirror.spec import MirrorSpec, load
from kvorum.pipelines.spec import SpecError

FILE = """
kind: mirror
name: a-to-b
source: {alias: a, bootstrap: "one:9092", options: {kafka.security.protocol: PLAINTEXT}}
target: {alias: b, bootstrap: "two:9092"}
topics: ["orders.*", bills]
checkpoint: /tmp/x
trigger: available-now
sync: {interval: 500ms}
"""


def loads(folder: Path, text: str = FILE) -> MirrorSpec:
    file = folder / "mirror.yaml"
    file.write_text(text)
    return load(file)


def test_a_file(tmp_path: Path) -> None:
    spec = loads(tmp_path)
    assert spec.source.settings() == {"kafka.bootstrap.servers": "one:9092", "kafka.security.protocol": "PLAINTEXT"}
    assert spec.interval_seconds == 0.5 and not spec.marks_records
    assert spec.there(TopicPartition("orders", 1)) == TopicPartition("a.orders", 1)
    assert spec.trigger.arguments() == {"availableNow": True}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("alias: b", "alias: a", "same alias"),
        ("topics:", "topic:", "unknown key; did you mean 'topics'?"),
        ('"orders.*"', '"orders("', "not a regular expression"),
        ("500ms", "soon", "not a duration"),
        ("kind: mirror", "kind: pipeline", "'pipeline' is not one of"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(SpecError, match=message.replace("?", r"\?").replace("(", r"\(")) as caught:
        loads(tmp_path, FILE.replace(old, new))
    assert any(each.place is not None for each in caught.value.problems) or "alias" in message


def test_identity_marks_records_unless_told_otherwise(tmp_path: Path) -> None:
    assert loads(tmp_path, FILE + "policy: identity\n").marks_records
    assert not loads(tmp_path, FILE + "policy: identity\nprovenance: false\n").marks_records


def test_the_ends_of_a_micro_batch_are_read_from_sparks_file() -> None:
    told = 'v1\n{"batchWatermarkMs":0}\n{"t":{"0":5,"1":0},"@begun at":{"t":{"0":2}}}'
    starts, ends = read_offsets(told)
    assert starts == {TopicPartition("t", 0): 2} and ends == {TopicPartition("t", 0): 5, TopicPartition("t", 1): 0}
    for bad in ("", "v2\n{}\n{}", "v1\n{}\n", "v1\n{}\n[1]"):
        with pytest.raises(BadCheckpoint):
            read_offsets(bad)


def test_metrics_tell_the_lag_by_partition(tmp_path: Path) -> None:
    figures = Figures(
        source_ends={TopicPartition('t"x', 0): 9, TopicPartition("u", 1): 3}, mirrored={TopicPartition('t"x', 0): 4}
    )
    figures.last_batch = 1764000000.25
    told = text(loads(tmp_path), figures)
    both = 'mirror="a-to-b",source="a",target="b"'
    assert f'kvorum_mirror_lag_records{{{both},topic="t\\"x",partition="0"}} 5\n' in told
    assert f"kvorum_mirror_lag_records_total{{{both}}} 8\n" in told
    assert f"kvorum_mirror_last_batch_timestamp_seconds{{{both}}} 1764000000.25\n" in told
