"""How commands print: tables for people, JSON and YAML that programs can read back."""

import json

import pytest
import yaml
from click.testing import CliRunner

from kvorum.cli.main import main
from kvorum.cli.output import Exit, pairs, show
from kvorum.cli.records.record_formats import text_of
from kvorum.cli.records.record_lines import RecordLineFormat
from kvorum.protocol.api import BROKER_APIS, CONTROLLER_APIS

ROWS = [
    {"topic": "orders", "partitions": 6, "isr": [1, 2], "internal": False, "configs": {"a": "1"}, "leader": None},
    {"topic": "a-much-longer-name", "partitions": 12, "isr": [], "internal": True, "configs": {}, "leader": 3},
]


def test_a_table_has_a_title_line_and_columns_in_line(capsys: pytest.CaptureFixture[str]) -> None:
    show(ROWS, "table")
    assert capsys.readouterr().out.splitlines() == [
        "TOPIC               PARTITIONS  ISR  INTERNAL  CONFIGS  LEADER",
        "orders              6           1,2  no        a=1      -",
        "a-much-longer-name  12               yes                3",
    ]


def test_an_empty_table_still_has_its_title(capsys: pytest.CaptureFixture[str]) -> None:
    show([], "table", ("topic", "partitions"))
    assert capsys.readouterr().out == "TOPIC  PARTITIONS\n"


def test_a_lone_value_is_a_list_of_names_and_values(capsys: pytest.CaptureFixture[str]) -> None:
    show({"leader_id": 1, "high_watermark": 17}, "table")
    assert capsys.readouterr().out == "leader_id       1\nhigh_watermark  17\n"


@pytest.mark.parametrize("value", [ROWS, ROWS[0], []], ids=["rows", "one", "none"])
def test_json_and_yaml_can_be_read_back(value: object, capsys: pytest.CaptureFixture[str]) -> None:
    assert isinstance(value, list | dict)
    show(value, "json")
    assert json.loads(capsys.readouterr().out) == value
    show(value, "yaml")
    assert yaml.safe_load(capsys.readouterr().out) == value


@pytest.mark.parametrize("listener", ["broker", "controller"])
def test_protocol_prints_served_and_kafkas_versions(listener: str) -> None:
    result = CliRunner().invoke(main, ["protocol", "--listener", listener, "-o", "json"])
    assert result.exit_code == Exit.DONE, result.output
    rows = {row["key"]: row for row in json.loads(result.output)}
    kafka = BROKER_APIS if listener == "broker" else CONTROLLER_APIS
    assert {key: row["kafka"] for key, row in rows.items()} == {
        int(key): f"{first}-{last}" for key, (first, last) in kafka.items()
    }
    served = {key: row for key, row in rows.items() if row["kvorum"] is not None}
    assert {row["name"] for row in served.values()} >= {"Fetch", "ApiVersions", "CreateTopics", "DescribeQuorum"}
    assert all(row["kvorum"] == row["kafka"] for row in served.values()), "all versions of an API, or none"
    assert len(served) < len(rows), "share groups are not there yet"


def test_protocol_as_a_table_marks_unserved_apis() -> None:
    lines = CliRunner().invoke(main, ["protocol"]).output.splitlines()
    assert lines[0].split() == ["KEY", "NAME", "KAFKA", "KVORUM"]
    assert next(line for line in lines if "ApiVersions" in line).split() == ["18", "ApiVersions", "0-4", "0-4"]
    assert next(line for line in lines if "ShareFetch" in line).split()[-1] == "-"


def test_options_are_key_equals_value_and_the_value_may_hold_anything() -> None:
    assert pairs(["a=b=c", "d="], "--set") == {"a": "b=c", "d": ""}


def test_a_line_is_split_at_its_first_separator_only() -> None:
    assert RecordLineFormat(key_separator=b":").of_line(b"key:value:more")[:2] == (b"key", b"value:more")
    assert RecordLineFormat(key_separator=b":").of_line(b"no separator")[:2] == (None, b"no separator")
    assert RecordLineFormat(key_separator=None).of_line(b"key:value")[:2] == (None, b"key:value")


def test_binary_data_is_shown_as_base64() -> None:
    assert text_of("é".encode()) == "é"
    assert text_of(b"\xff\x00") == {"base64": "/wA="}
    assert text_of(None) is None
