"""Everything that is wrong with a file is told at once, without Spark: its shape, plugins' options, schemas."""

import json
from pathlib import Path

import fastavro
import pytest

from kvorum.pipelines.run import compile as compiling
from kvorum.pipelines.spec import SpecError

TYPOS = """\
name: typos
source:
  type: jdbc
  ulr: jdbc:sqlite:shop.db
  table: orders
  mode: timestmp
  timestmp: changed
  vlaue: json
transforms:
  - {type: InsertField, static.field: a, static.value: b}
  - {type: MaskFeild$Value, fields: [a]}
  - {typ: Filter}
  - {type: Filter, predicate: gon}
predicates:
  gone: {type: RecordIsTombston}
sink:
  type: topics
  bootstrap: ${env:KVORUM_TEST_NO_SUCH}
  tpoic: x
  value: {format: jsn}
trigger: soon
errors: {tolerance: skp}
paralelism: 3
name: twice
"""


def wrong(file: Path, text: str) -> list[str]:
    """Return what is wrong with a file's text: line:column: path: message."""
    file.write_text(text)
    with pytest.raises(SpecError) as caught:
        compiling.loaded(file)
    return [str(problem).removeprefix(f"{file}:") for problem in caught.value.problems]


def test_all_mistakes_of_a_file_are_told_at_once(tmp_path: Path) -> None:
    assert wrong(tmp_path / "typos.yaml", TYPOS) == [
        "2:1: source.url: is missing",
        "4:3: source.ulr: unknown key; did you mean 'url'?",
        "6:3: source.mode: 'timestmp' is not one of 'bulk', 'incrementing', 'timestamp' or 'timestamp+incrementing'"
        "; did you mean 'timestamp'?",
        "7:3: source.timestmp: unknown key; did you mean 'timestamp'?",
        "8:3: source.vlaue: unknown key; did you mean 'value'?",
        "10:6: transforms[0].type: write InsertField$Key or InsertField$Value",
        "11:6: transforms[1].type: there is no transform 'MaskFeild'; did you mean 'MaskField'?",
        "12:5: transforms[2].type: is missing; is it what 'typ' is meant to be?",
        "13:20: transforms[3].predicate: there is no predicate 'gon'; did you mean 'gone'?",
        "15:10: predicates.gone.type: there is no predicate 'RecordIsTombston'; did you mean 'RecordIsTombstone'?",
        "18:3: sink.bootstrap: ${env:KVORUM_TEST_NO_SUCH}: not set in the environment",
        "19:3: sink.tpoic: unknown key; did you mean 'topic'?",
        "20:11: sink.value.format: there is no format 'jsn'; did you mean 'json'?",
        "21:1: trigger: 'soon' is not a duration such as 500ms, 10s, 5m or 1h",
        "22:10: errors.tolerance: 'skp' is not one of 'fail', 'skip' or 'dead-letter'; did you mean 'skip'?",
        "23:1: paralelism: unknown key; did you mean 'parallelism'?",
        "24:1: name: stands twice",
    ]


CONNECTOR = """\
name=shop
connector.class=io.confluent.connect.jdbc.JdbcSinkConnector
tasks.max=many
connection.url=jdbc:mysql://h/d
pk.feilds=id
transforms=a
transforms.a.typ=Filter
errors.tolerance=some
value.converter=org.apache.kafka.connect.json.JsonConverter
value.converter.schema=amount DUBBLE
"""


def test_all_mistakes_of_a_connectors_configuration_are_told_at_once(tmp_path: Path) -> None:
    assert wrong(tmp_path / "shop.properties", CONNECTOR) == [
        " topics: a sink needs one of topics and topics.regex",
        " source.bootstrap: is missing",
        " table.name.format: is missing",
        "3:1: tasks.max: input should be a valid integer, unable to parse string as an integer",
        "4:1: connection.url: jdbc:mysql://h/d: unsupported scheme 'mysql'; use sqlite or postgresql",
        "5:1: pk.feilds: unknown key; did you mean 'pk.fields'?",
        "6:1: transforms.a.type: is missing; is it what 'typ' is meant to be?",
        "8:1: errors.tolerance: 'some' is not one of 'none' or 'all'",
        "10:1: value.converter.schema: there is no type 'DUBBLE'; did you mean 'DOUBLE'?",
    ]


def test_options_are_placed_however_they_are_written(tmp_path: Path) -> None:
    text = """\
name: a
source:
  type: jdbc
  url: sqlite:x
  query: SELECT 1
  mode: bulk
  poll_interval_ms: often
  batch.max.rows: 0
sink: {type: jdbc, url: oracle:x, table: ""}
"""
    assert wrong(tmp_path / "a.yaml", text) == [
        "7:3: source.poll_interval_ms: input should be a valid integer, unable to parse string as an integer",
        "8:3: source.batch.max.rows: input should be greater than or equal to 1",
        "9:20: sink.url: oracle:x: unsupported scheme 'oracle'; use sqlite or postgresql",
        "9:35: sink.table: string should have at least 1 character",
    ]


def with_format(**value: object) -> str:
    source = {"type": "topics", "bootstrap": "a:1", "topics": ["t"], "value": value}
    return json.dumps({"name": "a", "source": source, "sink": {"type": "console"}})


def test_columns_of_files_are_looked_at(tmp_path: Path) -> None:
    text = "name: a\nsource: {type: files, path: x, format: csv, schema: %s}\nsink: {type: console}\n"
    assert wrong(tmp_path / "a.yaml", text % '"id INTT"') == [
        "2:45: source.schema: there is no type 'INTT'; did you mean 'INT'?"
    ]
    assert "columns are needed" in wrong(tmp_path / "a.yaml", text % "INT")[0]


RECORD = {"type": "record", "name": "A", "fields": [{"name": "x", "type": "long"}]}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"format": "json", "schema": {"type": "struct", "fields": [{"name": "a", "type": "int64"}]}},
         "schema: the schema is not Kafka Connect's: 'field' is missing"),
        ({"format": "json", "schema": {"type": "struct", "fields": [{"field": "a", "type": "in64"}]}},
         "schema: 'in64' is not a type of Kafka Connect; did you mean 'int64'?"),
        ({"format": "json", "schema": {"type": "array"}},
         "schema: the schema is not Kafka Connect's: 'items' is missing"),
        ({"format": "json", "schema": '{"type": '}, "schema: the schema is not JSON: Expecting value: line 1"),
        ({"format": "csv", "schema": "STRING"}, "schema: columns are needed, `name TYPE, name TYPE`, not 'STRING'"),
        ({"format": "csv", "schema": {"type": "array", "items": {"type": "int32"}}},
         "schema: a schema of fields is needed, not array<int>"),
        ({"format": "avro", "schema": {**RECORD, "fields": [{"name": "x", "type": "lng"}]}},
         "schema: not an Avro schema: unknown type 'lng'; did you mean 'long'?"),
        ({"format": "avro", "schema": RECORD, "writer.schema": {"type": "recrd"}},
         "writer.schema: not an Avro schema: unknown type 'recrd'; did you mean 'record'?"),
        ({"format": "avro", "schema": {"type": "array"}}, "schema: not an Avro schema: 'items' is missing"),
        ({"format": "avro", "wire": "confluent", "schemas": {1: RECORD, 2: "sting"}},
         "schemas.2: not an Avro schema: unknown type 'sting'; did you mean 'string'?"),
        ({"format": "protobuf", "descriptor.file": "/none", "message": "t.M"},
         "descriptor.file: /none cannot be read: No such file or directory"),
    ],
)  # fmt: skip
def test_schemas_of_all_formats_are_looked_at(tmp_path: Path, value: dict[str, object], message: str) -> None:
    (found,) = wrong(tmp_path / "a.yaml", with_format(**value))
    assert found.partition(": source.value.")[2].startswith(message)


def test_schemas_in_files_are_looked_at(tmp_path: Path) -> None:
    from google.protobuf import descriptor_pb2

    (tmp_path / "a.ddl").write_text("id BIGINT,\n  amount DUBBLE,\n  label STRNG\n")
    (tmp_path / "a.avsc").write_text(json.dumps(RECORD).replace("long", "lng"))
    (tmp_path / "cut.json").write_text('{"type": "struct",\n "fields": [')
    file = descriptor_pb2.FileDescriptorProto(name="t.proto", package="t", syntax="proto3")
    file.message_type.add(name="Order")
    (tmp_path / "t.desc").write_bytes(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())
    (tmp_path / "none.desc").write_bytes(b"no descriptors")

    def told(**value: object) -> str:
        (found,) = wrong(tmp_path / "a.yaml", with_format(**value))
        return found.partition(": source.value.")[2].replace(f"{tmp_path}/", "")

    assert told(format="json", schema=f"file:{tmp_path}/a.ddl") == (
        "schema: a.ddl: there is no type 'DUBBLE'; did you mean 'DOUBLE'?"
    )
    assert told(format="json", schema=f"file:{tmp_path}/cut.json").startswith(
        "schema: cut.json: the schema is not JSON: Expecting value: line 2 column 13"
    )
    assert told(format="avro", schema=f"file:{tmp_path}/a.avsc") == (
        "schema: a.avsc: not an Avro schema: unknown type 'lng'; did you mean 'long'?"
    )
    assert "none.ddl cannot be read" in told(format="csv", schema=f"file:{tmp_path}/none.ddl")
    protobuf = {"format": "protobuf", "descriptor.file": f"{tmp_path}/t.desc"}
    assert told(**protobuf, message="t.Ordre") == (
        "message: message 't.Ordre' is not in the descriptor file; did you mean 't.Order'?"
    )
    protobuf["descriptor.file"] = f"{tmp_path}/none.desc"
    assert told(**protobuf, message="t.Order").startswith("message: not a descriptor file")


def test_what_is_right_passes(tmp_path: Path) -> None:
    (tmp_path / "a.avsc").write_text(json.dumps(fastavro.parse_schema(RECORD)))
    file = tmp_path / "a.yaml"
    for value in (
        {"format": "json", "schema": "id BIGINT, tags ARRAY<STRING>"},
        {"format": "json", "schema": {"type": "struct", "fields": [{"field": "a", "type": "int64"}]}},
        {"format": "avro", "schema": f"file:{tmp_path}/a.avsc"},
        {"format": "avro", "schema": "long"},
    ):
        file.write_text(with_format(**value))
        assert compiling.loaded(file).source.value is not None
