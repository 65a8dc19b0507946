"""Classes and configurations as people have them, and the pipelines that they become."""

from typing import Any

import pytest

from kvorum.pipelines.connect import catalogue, validation
from kvorum.pipelines.connect.catalogue import Cluster
from kvorum.pipelines.connect.errors import ConnectError
from kvorum.pipelines.connect.state import Connector, Start, positions_of

BOOTSTRAP = "managers:9092"
CLUSTER = Cluster(bootstrap=BOOTSTRAP, client={"sasl.password": "${env:KVORUM_TEST_SASL}"})
DEBEZIUM = {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "tasks.max": "1",
    "plugin.name": "pgoutput",
    "database.hostname": "h",
    "database.port": "5432",
    "database.user": "u",
    "database.password": "secret",
    "database.dbname": "d",
    "topic.prefix": "srv",
    "table.include.list": "public.orders",
    "slot.name": "s",
    "publication.name": "p",
}
JDBC = {
    "connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector",
    "connection.url": "jdbc:postgresql://h/d",
    "connection.user": "u",
    "connection.password": "p",
    "mode": "incrementing",
    "incrementing.column.name": "id",
    "topic.prefix": "x-",
    "table.whitelist": "orders",
}
JDBC_SINK = {
    "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector",
    "connection.url": "jdbc:postgresql://h/d",
    "topics": "orders",
    "insert.mode": "upsert",
    "pk.mode": "record_key",
    "pk.fields": "id",
}
TOPICS = {"connector.class": "TopicSource", "topics": "a, b", "bootstrap": "elsewhere:9092", "topic": "c"}
WHOLE = {
    "connector.class": "Pipeline",
    "source.type": "topics",
    "source.topics": "a,b",
    "source.value.format": "json",
    "source.value.schema": "a INT",
    "sink.type": "files",
    "sink.path": "/data/out",
    "sink.format": "json",
}


@pytest.mark.parametrize(
    ("config", "type_", "ends"),
    [
        (DEBEZIUM, "source", ("postgresql", "topics")),
        (JDBC, "source", ("jdbc", "topics")),
        (JDBC_SINK, "sink", ("topics", "jdbc")),
        (TOPICS, "source", ("topics", "topics")),
        (WHOLE, "sink", ("topics", "files")),
    ],
    ids=lambda value: value.get("connector.class") if isinstance(value, dict) else None,
)
def test_configurations_that_people_have_are_taken(config: dict[str, str], type_: str, ends: tuple[str, str]) -> None:
    assert validation.check("n", config, BOOTSTRAP) == []
    made = catalogue.pipeline_of("n", config, BOOTSTRAP)
    assert (made.source.type, made.sink.type) == ends
    assert catalogue.type_of(config) == type_


def test_a_jdbc_sink_of_one_topic_has_the_table_that_connect_gives_it() -> None:
    def table(**more: str) -> object:
        return catalogue.pipeline_of("n", {**JDBC_SINK, **more}, BOOTSTRAP).sink.settings["table.name.format"]

    assert table() == "orders"
    assert table(**{"table.name.format": "kafka_${topic}"}) == "kafka_orders"
    assert validation.check("n", {**JDBC_SINK, "topics": "a,b"}, BOOTSTRAP)


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"mode": "sideways"}, "mode"),
        ({"incrementing.column.nam": "id"}, "incrementing.column.nam"),
        (
            {"transforms": "t", "transforms.t.type": "InsertField$Value", "transforms.t.nonsense": "1"},
            "transforms.t.nonsense",
        ),
        ({"transforms": "t", "transforms.t.type": "Nothing"}, "transforms.t.type"),
        ({"value.converter": "x.NoConverter"}, "value.converter"),
        ({"errors.tolerance": "some"}, "errors.tolerance"),
        ({"tasks.max": "0"}, "tasks.max"),
    ],
)
def test_what_is_wrong_is_said_of_the_key_it_is_about(change: dict[str, str], key: str) -> None:
    found = validation.check("n", {**JDBC, **change}, BOOTSTRAP)
    assert [about for about, _ in found] == [key]
    configs = validation.validated({**JDBC, **change, "name": "n"}, BOOTSTRAP)
    assert configs["error_count"] == 1
    assert [each["value"]["name"] for each in configs["configs"] if each["value"]["errors"]] == [key]


def test_a_class_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(ConnectError, match="JdbcSource") as caught:
        validation.validated({"connector.class": "Nothing", "name": "n"}, BOOTSTRAP)
    assert caught.value.status == 400


def test_all_connectors_can_be_asked_for_what_they_take() -> None:
    for plugin in catalogue.connectors():
        try:
            keys = validation.keys_of(plugin)
        except Exception as error:  # a plugin may lack a library of its own; it must say so
            assert "cannot be loaded" in str(error)
            continue
        names = [key.name for key in keys]
        assert len(names) == len(set(names)) and names[0] == "name"
        assert all(key.name == "connector.class" or key.group for key in keys)


def test_secrets_are_hidden_wherever_they_turn_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVORUM_TEST_SECRET", "open sesame")
    config = {**JDBC, "connection.password": "${env:KVORUM_TEST_SECRET}", "mode": "${env:KVORUM_TEST_SECRET}"}
    found = validation.check("n", config, BOOTSTRAP)
    assert found and "sesame" not in str(found)
    shown = validation.validated({**config, "name": "n"}, BOOTSTRAP)
    assert "sesame" not in str(shown) and "${env:KVORUM_TEST_SECRET}" in str(shown)
    plain = validation.validated({**DEBEZIUM, "name": "n"}, BOOTSTRAP)
    values = {each["value"]["name"]: each["value"]["value"] for each in plain["configs"]}
    assert values["database.password"] == "[hidden]"
    hidden = validation.without_secrets("tulip99 at postgresql://u:pw@h/d", {"database.password": "tulip99"})
    assert hidden == "[hidden] at postgresql://u:[hidden]@h/d"


def test_what_a_worker_gets_has_references_and_its_own_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVORUM_TEST_SECRET", "open sesame")
    config = {**JDBC, "connection.password": "${env:KVORUM_TEST_SECRET}"}

    def made(start: Start, **more: str) -> dict[str, Any]:
        connector = Connector("n", True, {**config, **more}, start=start)
        return catalogue.runnable(connector, CLUSTER, "/c/n").as_data()

    assert "sesame" not in str(made(Start())) and made(Start())["checkpoint"] == "/c/n"
    assert made(Start(run=2), **{"kvorum.checkpoint": "/own/"})["checkpoint"] == "/own-2"
    assert made(Start())["sink"]["options"] == {"kafka.sasl.password": "${env:KVORUM_TEST_SASL}"}
    elsewhere = made(Start(), **{"kafka.bootstrap.servers": "other:9092"})["sink"]
    assert elsewhere["bootstrap"] == "other:9092" and "options" not in elsewhere


def test_offsets_of_a_file_are_connects() -> None:
    offset = {"filename": "/data/in.txt", "position": 6, "inode": 7, "tail": 1, "start": 0}
    assert positions_of({"sources": [offset]}, "log") == [({"filename": "/data/in.txt"}, {"position": 6})]


def test_a_files_position_that_was_set_is_where_the_next_run_starts() -> None:
    properties = {"connector.class": "FileStreamSource", "file": "/data/in.txt", "topic": "t"}
    assert (catalogue.offsets_of(properties), catalogue.offsets_of(JDBC), catalogue.offsets_of(JDBC_SINK)) == (
        "file",
        "source",
        "sink",
    )
    start = Start(
        run=1, offsets=(({"filename": "/data/in.txt"}, {"position": 6}), ({"filename": "/x"}, {"position": 9}))
    )
    made = catalogue.runnable(Connector("p", True, properties, start=start), CLUSTER, "/c")
    assert made.source.settings == {"file": "/data/in.txt", "position": 6}
