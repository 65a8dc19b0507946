"""Connect's configurations as pipelines."""

import json
from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict, Field

from kvorum.pipelines import spec, transforms

SINK = {
    "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector",
    "tasks.max": "4",
    "topics": "orders, returns",
    "connection.url": "jdbc:sqlite:x",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": False,
    "transforms": "insert,drop",
    "transforms.insert.type": "org.apache.kafka.connect.transforms.InsertField$Value",
    "transforms.insert.static.field": "a",
    "transforms.insert.static.value": "1",
    "transforms.drop.type": "org.apache.kafka.connect.transforms.Filter",
    "transforms.drop.predicate": "gone",
    "transforms.drop.negate": "true",
    "predicates": "gone",
    "predicates.gone.type": "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone",
    "errors.tolerance": "all",
    "errors.deadletterqueue.topic.name": "dead",
    "errors.deadletterqueue.context.headers.enable": "true",
    "consumer.override.max.poll.records": "10",
    "kvorum.trigger": "5s",
    "kvorum.spark.spark.sql.shuffle.partitions": "3",
}


def test_a_sink_connector() -> None:
    made = spec.from_connect("to-db", SINK, bootstrap="127.0.0.1:9092")
    assert made.as_data() == {
        "name": "to-db",
        "source": {
            "type": "topics",
            "bootstrap": "127.0.0.1:9092",
            "topics": ["orders", "returns"],
            "startingOffsets": "earliest",
            "key": {"format": "string"},
            "value": {"format": "json", "schemas.enable": "false"},
            "options": {"kafka.max.poll.records": "10"},
        },
        "transforms": [
            {
                "type": "org.apache.kafka.connect.transforms.InsertField$Value",
                "name": "insert",
                "static.field": "a",
                "static.value": "1",
            },
            {"type": "org.apache.kafka.connect.transforms.Filter", "name": "drop", "predicate": "gone", "negate": True},
        ],
        "predicates": {"gone": {"type": "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone"}},
        "sink": {"type": "jdbc", "connection.url": "jdbc:sqlite:x"},
        "errors": {"tolerance": "dead-letter", "topic": "dead"},
        "trigger": {"interval": "5s"},
        "parallelism": 4,
        "spark": {"spark.sql.shuffle.partitions": "3"},
    }
    assert [step.plain for step in made.transforms] == ["InsertField", "Filter"]
    assert made.predicates["gone"].plain == "RecordIsTombstone"


def test_a_source_connector() -> None:
    config = {
        "name": "log",
        "connector.class": "FileStreamSource",
        "file": "/var/log/x",
        "batch.size": "100",
        "topic": "lines",
        "value.converter": "JsonConverter",
        "producer.override.linger.ms": "5",
        "errors.tolerance": "none",
    }
    made = spec.from_connect("", config, bootstrap="b:1")
    assert made.name == "log" and made.errors.tolerance == "fail"
    assert made.source.type == "file-stream"
    assert made.source.settings == {"file": "/var/log/x", "batch.size": "100"}
    assert made.sink.settings == {"bootstrap": "b:1", "topic": "lines", "options": {"kafka.linger.ms": "5"}}
    assert made.sink.value is not None and made.sink.value.settings == {"schemas.enable": True}


def test_both_ends_at_once() -> None:
    config = {
        "connector.class": "Pipeline",
        "source.type": "topics",
        "source.topics": "a,b",
        "source.value.format": "json",
        "source.value.schema": "a INT",
        "source.options.kafka.client.id": "x",
        "sink.type": "files",
        "sink.path": "/tmp/x",
    }
    made = spec.from_connect("both", config, bootstrap="b:1")
    assert made.as_data() == {
        "name": "both",
        "source": {
            "type": "topics",
            "topics": ["a", "b"],
            "bootstrap": "b:1",
            "value": {"format": "json", "schema": "a INT"},
            "options": {"kafka.client.id": "x"},
        },
        "sink": {"type": "files", "path": "/tmp/x"},
    }


def test_rest_and_properties_files(tmp_path: Path) -> None:
    rest, properties = tmp_path / "c.json", tmp_path / "c.properties"
    rest.write_text(json.dumps({"name": "a", "config": SINK}))
    lines = {"name": "a", **{key: str(value).lower() if value is False else str(value) for key, value in SINK.items()}}
    properties.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    assert spec.load(rest).as_data() == spec.load(properties).as_data()


class Jdbc(BaseModel):
    model_config = ConfigDict(extra="forbid")
    url: str = Field(alias="connection.url")
    mode: str = Field(alias="insert.mode")


def test_plugins_options_are_told_in_connects_keys_too() -> None:
    config = {**SINK, "connection.ulr": "x", "transforms.insert.static.feld": "a"}
    del config["transforms.insert.static.value"]
    made = spec.from_connect("a", config)
    wrong = made.parts.wrong_settings({**transforms.models(), "sink.jdbc": Jdbc}, made.places)
    assert sorted(str(problem).removeprefix("<pipeline>: ") for problem in wrong) == [
        "connection.ulr: unknown key; did you mean 'connection.url'?",
        "insert.mode: is missing",
        "transforms.insert.static.feld: unknown key; did you mean 'static.field'?",
    ]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"tasks.max": "x"}, ":3:1: tasks.max: input should be a valid integer, unable to parse string as an integer"),
        ({"errors.tolerance": "some"}, ":18:1: errors.tolerance: 'some' is not one of 'none' or 'all'"),
        ({"transforms.insert.type": None}, ":9:1: transforms.insert.type: is missing"),
        ({"transforms": "drop"}, ":10:1: transforms.insert.type: there is no transform 'insert' in transforms"),
        (
            {"transforms.drop.predicate": "gon"},
            ":14:1: transforms.drop.predicate: there is no predicate 'gon'; did you mean 'gone'?",
        ),
        ({"topics": None}, ": topics: a sink needs one of topics and topics.regex"),
        ({"connector.class": "FileStreem"}, ":2:1: connector.class: 'FileStreem' ends neither in Source nor in Sink"),
        ({"kvorum.trigger": "often"}, ":22:1: kvorum.trigger: 'often' is not a duration such as 500ms, 10s, 5m or 1h"),
    ],
)
def test_what_is_wrong_is_told_in_connects_keys(tmp_path: Path, change: dict[str, str | None], problem: str) -> None:
    file = tmp_path / "c.properties"
    merged = {"name": "a", **{key: str(value) for key, value in SINK.items()}, **change}
    file.write_text("".join(f"{key}={value}\n" for key, value in merged.items() if value is not None))
    with pytest.raises(spec.SpecError) as caught:
        spec.load(file)
    found = str(caught.value.problems[0])
    assert found.removeprefix(str(file)).startswith(problem)
