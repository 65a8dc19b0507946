"""The topics' records: Connect's own bytes, and what they mean."""

import json

import pytest

from kvorum.pipelines.connect import state as records
from kvorum.pipelines.connect.state import Condition, Manager, Record, Start, State, Status, Target, Topic, parse

STATUS = Status(state=Condition.RUNNING, worker_id="127.0.0.1:8083", generation=3)
START = {"partition": {"kafka_topic": "t", "kafka_partition": 0}, "offset": {"kafka_offset": 7}}
EVERY = [
    records.connector("a", {"x": "1"}),
    records.target("a", Target.STOPPED),
    Record(Topic.CONFIGS, "commit-a", {"tasks": 1}),
    Record(Topic.CONFIGS, "kvorum-start-a", {"run": 2, "offsets": [START]}),
    records.offset("a", {"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 7}),
    records.connector_status("a", STATUS),
    records.task_status("a", STATUS),
    records.topic_status("a", "t", 17),
    Record(Topic.CONFIGS, "kvorum-manager", {"id": "m", "worker_id": "h:8083", "checkpoints": "s3a://c"}),
]


@pytest.mark.parametrize("record", EVERY, ids=lambda record: record.key)
def test_a_record_is_read_as_it_was_written(record: Record) -> None:
    assert parse(record.topic, record.key.encode(), record.value_bytes()) == record
    gone = Record(record.topic, record.key, None)
    assert parse(record.topic, gone.key.encode(), gone.value_bytes()) == gone


def test_the_keys_are_connects() -> None:
    assert [record.key for record in EVERY] == [
        "connector-a",
        "target-state-a",
        "commit-a",
        "kvorum-start-a",
        '["a",{"kafka_topic":"t","kafka_partition":0}]',
        "status-connector-a",
        "status-task-a-0",
        "status-topic-t:connector-a",
        "kvorum-manager",
    ]


@pytest.mark.parametrize("key", [b"", None, b"\xff\xfe"])
def test_what_is_no_record_of_connects_is_stepped_over(key: bytes | None) -> None:
    assert parse(Topic.CONFIGS, key, b"{}") is None
    assert parse(Topic.CONFIGS, b"k", b"no json") is None
    assert parse(Topic.CONFIGS, b"k", b"[1]") is None


def test_the_state_is_what_the_records_say_and_deletions_take_it_away() -> None:
    state = State()
    state.replay(EVERY)
    connector = state.get("a")
    assert connector is not None
    assert (connector.properties, connector.target) == ({"x": "1"}, Target.STOPPED)
    assert connector.start.run == 2
    assert connector.positions() == [({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 7})]
    assert (state.names(), state.generation(), connector.topics) == (["a"], 3, {"t": 17})
    assert state.manager == Manager(id="m", worker_id="h:8083", checkpoints="s3a://c")
    state.replay(Record(each.topic, each.key, None) for each in EVERY)
    gone = state.connectors["a"]
    assert (state.names(), state.generation(), gone.positions(), gone.topics) == ([], 0, [], {})
    assert gone.start == Start() and state.get("a") is None


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ('{"state":"PAUSED"}', Target.PAUSED),
        ('{"state":"PAUSED","state.v2":"STOPPED"}', Target.STOPPED),
        ('{"state":"STARTED"}', Target.STARTED),
        ('{"state":"SOMETHING"}', Target.STARTED),
    ],
)
def test_target_states_of_older_and_newer_workers_are_understood(value: str, wanted: Target) -> None:
    state = State()
    found = Record(Topic.CONFIGS, "target-state-a", json.loads(value))
    state.replay([records.connector("a", {}), found])
    assert state.get("a").target is wanted  # type: ignore[union-attr]


OF_CONNECT = [
    (Topic.CONFIGS, "session-key", '{"key":"c2VjcmV0","algorithm":"HmacSHA256","creation-timestamp":1795354835914}'),
    (Topic.CONFIGS, "connector-out", '{"properties":{"connector.class":"FileStreamSink","topics":"lines"}}'),
    (Topic.CONFIGS, "task-out-0", '{"properties":{"task.class":"org.apache.kafka.connect.file.FileStreamSinkTask"}}'),
    (Topic.CONFIGS, "commit-out", '{"tasks":1}'),
    (Topic.CONFIGS, "restart-connector-out", '{"include-tasks":true,"only-failed":false}'),
    (Topic.CONFIGS, "target-state-out", '{"state":"PAUSED","state.v2":"PAUSED"}'),
    (
        Topic.STATUS,
        "status-connector-out",
        '{"state":"PAUSED","trace":null,"worker_id":"127.0.0.1:18083","generation":11,"version":"4.3.0"}',
    ),
    (
        Topic.STATUS,
        "status-task-out-0",
        '{"state":"PAUSED","trace":null,"worker_id":"127.0.0.1:18083","generation":12,"version":"4.3.0"}',
    ),
    (
        Topic.STATUS,
        "status-topic-lines:connector-out",
        '{"topic":{"name":"lines","connector":"out","task":0,"discoverTimestamp":1795354925867}}',
    ),
    (Topic.OFFSETS, '["lines",{"filename":"/data/in.txt"}]', '{"position":6}'),
]


def test_topics_that_connect_wrote_are_understood() -> None:
    """As a distributed worker of Connect 4.3.0 left them; what only it needs is stepped over."""
    state = State()
    found = [parse(topic, key.encode(), value.encode()) for topic, key, value in OF_CONNECT]
    state.replay(record for record in found if record is not None)
    connector = state.get("out")
    assert connector is not None and connector.target is Target.PAUSED
    assert connector.properties == {"connector.class": "FileStreamSink", "topics": "lines"}
    assert connector.status is not None and connector.task is not None
    assert (connector.status.state, connector.task.generation) == (Condition.PAUSED, 12)
    assert connector.topics == {"lines": 1795354925867}
    assert state.connectors["lines"].positions() == [({"filename": "/data/in.txt"}, {"position": 6})]
    assert state.manager is None
