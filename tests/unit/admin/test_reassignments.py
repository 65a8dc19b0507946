"""Files of reassignments as Kafka's tool has them, and which replicas a throttle names."""

import json

import pytest

from kvorum.client.reassignments.reassignments import (
    FOLLOWERS,
    LEADERS,
    Move,
    UnderWay,
    as_file,
    moves_of,
    read_assignment,
    read_topics,
    throttled_replicas,
)
from kvorum.protocol.topic_partition import TopicPartition

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def text(*rows: object, version: object = 1, key: str = "partitions") -> str:
    return json.dumps({"version": version, key: list(rows)})


def row(topic: object = "a", partition: object = 0, replicas: object = (1, 2), **others: object) -> dict[str, object]:
    return {"topic": topic, "partition": partition, "replicas": replicas, **others}


def test_the_written_plan_equals_that_of_kafkas_tool_and_is_read_back() -> None:
    written = as_file({A1: [2, 3], A0: [1, 2]})
    assert json.dumps(written, separators=(",", ":")) == (
        '{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[1,2],"log_dirs":["any","any"]},'
        '{"topic":"a","partition":1,"replicas":[2,3],"log_dirs":["any","any"]}]}'
    )
    assert read_assignment(json.dumps(written)) == {A0: [1, 2], A1: [2, 3]}
    assert read_assignment('{"partitions":[{"topic":"a","partition":0,"replicas":[1]}]}') == {A0: [1]}
    assert read_topics('{"version":1,"topics":[{"topic":"a"},{"topic":"b"}]}') == ["a", "b"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not JSON"),
        ("[]", "version 1"),
        (text(row(), version=2), "version 1"),
        (text(), "no partition"),
        (text(row(), row()), "duplicate partition"),
        (text(row(replicas=[1, 1])), "duplicate broker"),
        (text(row(replicas=[])), "at least one"),
        (text(row(replicas=["1"])), "broker id"),
        (text(row(partition="0")), "not a topic"),
        (text(row(topic=None)), "not a topic"),
        (text("a"), "list of objects"),
        (text(row(log_dirs=["any"])), "the same length"),
        (text(row(log_dirs=["any", 7])), "log_dirs must be paths"),
    ],
)
def test_an_invalid_file_is_refused_with_the_reason(content: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_assignment(content)


@pytest.mark.parametrize("rows", [[], [{"topic": 1}], [{"topic": "a"}, {"topic": "a"}]])
def test_a_wrong_list_of_topics_is_refused(rows: list[object]) -> None:
    with pytest.raises(ValueError):
        read_topics(text(*rows, key="topics"))


def test_a_move_goes_from_the_replicas_there_are_to_the_new_ones() -> None:
    under_way = {A0: UnderWay([3, 1, 2], [3], [1, 2])}
    moves = moves_of(under_way, {A0: [3, 1, 2], A1: [1, 2]}, {A1: [2, 4]})
    assert moves == {A0: Move(frozenset({1, 2}), frozenset({3})), A1: Move(frozenset({1, 2}), frozenset({4}))}
    again = moves_of(under_way, {A0: [3, 1, 2]}, {A0: [4, 1]})
    assert again == {A0: Move(frozenset({1, 2}), frozenset({4}))}, "who is being added is no source"
    assert throttled_replicas(moves) == {"a": {LEADERS: "0:1,0:2,1:1,1:2", FOLLOWERS: "0:3,1:4"}}
