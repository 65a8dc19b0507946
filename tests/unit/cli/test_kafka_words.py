"""Where Kafka's scripts and the commands beside them once differed from Kafka 4.3, or from what their help says."""

import json
import sys
from pathlib import Path
from struct import pack
from typing import Any

import pytest
from click.testing import CliRunner

from kvorum.cli import completion
from kvorum.cli.groups.reset_texts import parse_duration
from kvorum.cli.kafka.entity_options import EntityError, parse_additions
from kvorum.cli.main import main
from kvorum.cli.output import Exit, cell, say
from kvorum.cli.records.control_records import control_text
from kvorum.client.values.offset_reset import ResetError
from kvorum.protocol.messages.update_features import UpdateFeaturesRequest
from kvorum.protocol.records import Record
from tests.unit.cli.fake_cluster import FakeCluster, Printed, run

HERE = ("--bootstrap-server", "broker:9092")


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster(logs={("orders", 0): (10, 100, {}), ("orders", 1): (0, 50, {})})
    made.configs[2, "orders"] = {"retention.ms": "1000"}
    return made


def script(cluster: FakeCluster, name: str, *words: str) -> Printed:
    return run(cluster, name, *HERE, *words)


@pytest.mark.parametrize(
    ("words", "other"),
    [
        (["--list", "--name", "foo"], "name"),
        (["--delete", "--name", "foo", "--interval", "5"], "interval"),
        (["--describe", "--match", "a=b"], "match"),
        (["--describe", "--generate-name"], "generate-name"),
    ],
)
def test_options_of_client_metrics_go_with_their_actions(cluster: FakeCluster, words: list[str], other: str) -> None:
    printed = script(cluster, "kafka-client-metrics", *words)
    message = f'Option "[{words[0][2:]}]" can\'t be used with option "[{other}]"'
    assert (printed.code, message in printed.err) == (Exit.FAILED, True), printed.err


def test_client_metrics_that_are_missing(cluster: FakeCluster) -> None:
    assert script(cluster, "kafka-client-metrics", "--list").out == "\n", "as Kafka joins no names"
    absent = script(cluster, "kafka-client-metrics", "--describe", "--name", "foo")
    assert absent.out == "The client metric resource foo doesn't exist and doesn't have dynamic config.\n"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--broker", "7"], "The broker '7' doesn't exist and doesn't have dynamic config."),
        (["--group", "nope"], "The group 'nope' doesn't exist and doesn't have dynamic config."),
        (["--entity-type", "broker-loggers", "--entity-name", "7"], "The broker-logger '7' doesn't exist"),
        (["--topic", "nope"], "The topic 'nope' doesn't exist and doesn't have dynamic config."),
    ],
)
def test_configs_of_missing_resources_are_no_error(cluster: FakeCluster, words: list[str], line: str) -> None:
    printed = script(cluster, "kafka-configs", "--describe", *words)
    assert (printed.code, printed.out.startswith(line)) == (Exit.DONE, True), printed


def test_configs_are_described_without_alter_options(cluster: FakeCluster) -> None:
    for words, message in (
        (["--topic", "orders", "--add-config", "a=b"], '"[describe]" can\'t be used with option "[add-config]"'),
        (["--entity-type", "broker-loggers"], "An entity name must be specified with --describe of broker-loggers"),
    ):
        printed = script(cluster, "kafka-configs", "--describe", *words)
        assert (printed.code, message in printed.err) == (Exit.FAILED, True), printed.err


def test_additions_are_cut_as_kafka_cuts_them() -> None:
    assert parse_additions("a=1,b=[x,y=z],c=,") == {"a": "1", "b": "x,y=z", "c": ""}
    assert parse_additions("org.apache.Outer$Inner=DEBUG") == {"org.apache.Outer$Inner": "DEBUG"}
    for wrong in ("k=a=b", "k", "a b=1", ","):
        with pytest.raises(EntityError):
            parse_additions(wrong)


def test_admin_config_is_the_old_name_of_command_config(cluster: FakeCluster, tmp_path: Path) -> None:
    file = tmp_path / "admin.properties"
    file.write_text("client.id=mine\nretries=3\n")
    words = ["--election-type", "preferred", "--all-topic-partitions", "--admin.config", str(file)]
    printed = script(cluster, "kafka-leader-election", *words)
    assert printed.code == Exit.DONE and "retries is ignored" in printed.err, "it is read"
    assert printed.lines[0] == (
        "Option --admin.config has been deprecated and will be removed in a future version. "
        "Use --command-config instead."
    )
    both = script(cluster, "kafka-leader-election", *words, "--command-config", str(file))
    assert (both.code, "cannot be specified together" in both.err) == (Exit.FAILED, True)


def test_a_transactional_id_is_terminated_with_kafkas_command() -> None:
    printed = run(FakeCluster(), "kafka-transactions", *HERE, "forceTerminateTransaction", "--transactionalId", "x")
    assert (printed.code, printed.out) == (Exit.DONE, "")


def test_consumer_groups_wait_as_long_as_kafkas(cluster: FakeCluster) -> None:
    from kvorum.cli.kafka.consumer_groups import consumer_groups

    defaults = {option.name: option.default for option in consumer_groups.params}
    assert defaults["timeout_ms"] == 30_000


def test_too_long_durations_are_reported() -> None:
    with pytest.raises(ResetError, match="too long for a duration"):
        parse_duration("P9999999999D")


def test_a_feature_may_be_requested_at_level_0_and_is_not_dropped(cluster: FakeCluster) -> None:
    run(cluster, "features", "alter", "transaction.version=0")
    (requested,) = [each for each in cluster.requested if isinstance(each, UpdateFeaturesRequest)]
    assert [(each.feature, each.max_version_level) for each in requested.feature_updates] == [
        ("transaction.version", 0)
    ]


@pytest.mark.parametrize("option", ["-b", "--bootstrap-server"])
def test_completion_uses_the_typed_cluster(option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    requested: list[str] = []

    def ask(bootstrap: str, *_: Any, **__: Any) -> list[str]:
        requested.append(bootstrap)
        return ["orders"]

    monkeypatch.setattr(completion, "with_cluster", ask)
    words = "kvorum topics describe" if option == "-b" else "kvorum kafka-topics"
    typed = f"{words} {option} there:1 " + ("" if option == "-b" else "--topic ")
    environment = {
        "_KVORUM_COMPLETE": "bash_complete",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(typed.split(" ")) - 1),
    }
    result = CliRunner().invoke(main, [], prog_name="kvorum", env=environment)
    assert (requested, result.output) == (["there:1"], "plain,orders\n")


class Terminal:
    """A standard output that a person looks at."""

    def __init__(self) -> None:
        self.text = ""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        """Nothing waits."""


def test_names_in_lists_and_lines_of_scripts_do_nothing_to_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cell(["a\x1b[31m", "b"]) == r"a\x1b[31m,b" and cell({"\x07": "\n"}) == r"\x07=\n"
    terminal: Any = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    say("Topic: a\x1b]0;owned\x07\tnext\nline")
    assert terminal.text == "Topic: a\\x1b]0;owned\\x07\tnext\nline\n"


def test_file_output_is_unescaped(capsys: pytest.CaptureFixture[str]) -> None:
    say("payload: \x1b[31mred\x1b[0m")
    assert capsys.readouterr().out == "payload: \x1b[31mred\x1b[0m\n"


UUID = bytes(range(16))
VOTERS = (
    pack(">h", 0)
    + b"\x02"  # one voter
    + pack(">i", 3)
    + UUID
    + b"\x02\x0bCONTROLLER\x05host"
    + pack(">H", 9093)
    + b"\x00"  # no tags of the endpoint
    + pack(">hh", 0, 1)
    + b"\x00\x00\x00"
)


@pytest.mark.parametrize(
    ("kind", "value", "title", "data"),
    [
        (
            2,
            pack(">hi", 0, 3) + b"\x02" + pack(">i", 3) + b"\x00" + b"\x02" + pack(">i", 1) + b"\x00\x00",
            "LeaderChange:",
            {"version": 0, "leaderId": 3, "voters": [{"voterId": 3}], "grantingVoters": [{"voterId": 1}]},
        ),
        (
            2,
            pack(">hi", 1, 3) + b"\x02" + pack(">i", 3) + UUID + b"\x00" + b"\x01\x00",
            "LeaderChange:",
            {
                **{"version": 1, "leaderId": 3, "grantingVoters": []},
                "voters": [{"voterId": 3, "voterDirectoryId": "AAECAwQFBgcICQoLDA0ODw"}],
            },
        ),
        (5, pack(">hh", 0, 1) + b"\x00", "KRaftVersion", {"version": 0, "kRaftVersion": 1}),
        (
            6,
            VOTERS,
            "KRaftVoters",
            {
                "version": 0,
                "voters": [
                    {
                        "voterId": 3,
                        "voterDirectoryId": "AAECAwQFBgcICQoLDA0ODw",
                        "endpoints": [{"name": "CONTROLLER", "host": "host", "port": 9093}],
                        "kRaftVersionFeature": {"minSupportedVersion": 0, "maxSupportedVersion": 1},
                    }
                ],
            },
        ),
    ],
)
def test_control_records_of_a_quorum_are_reported(kind: int, value: bytes, title: str, data: dict[str, Any]) -> None:
    text = control_text(Record(key=pack(">hh", 0, kind), value=value))
    assert text.startswith(f" {title} ") and json.loads(text.removeprefix(f" {title} ")) == data


def test_control_records_that_cannot_be_read_stop_nothing() -> None:
    assert control_text(Record(key=pack(">hh", 0, 99), value=b"")) == " controlType: UNKNOWN(99)"
    assert "of version 7" in control_text(Record(key=pack(">hh", 0, 5), value=pack(">hh", 7, 1)))
    assert "UNKNOWN (" in control_text(Record(key=pack(">hh", 0, 6), value=VOTERS[:9]))
    assert "UNKNOWN (" in control_text(Record(key=b"", value=b""))


def test_a_file_of_properties_and_a_profile_of_another_cluster(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cluster: FakeCluster
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("KVORUM_BOOTSTRAP", raising=False)
    run(
        cluster,
        "profile",
        "add",
        "one",
        "-b",
        "one:1",
        "-X",
        "security.protocol=SASL_SSL",
        "-X",
        "sasl.mechanism=PLAIN",
    )
    elsewhere = run(cluster, "topics", "list", "--profile", "one", "-b", "two:2")
    assert elsewhere.code == Exit.DONE and "the profile's properties are ignored" in elsewhere.err
    assert "left out" not in run(cluster, "topics", "list", "-b", "two:2").err
    assert "sasl.jaas.config: is not set" in run(cluster, "topics", "list").err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--describe", "--group", "g", "--topic", "t"], 'Option "[topic]" can\'t be used with option "[describe]"'),
        (["--list", "--topic", "t"], 'Option "[topic]" can\'t be used with option "[list]"'),
        (["--list", "--group", "g"], 'Option "[group]" can\'t be used with option "[list]"'),
        (["--delete-offsets", "--group", "g", "--all-groups", "--topic", "t"], 'option "[all-groups]"'),
        (["--list", "--type", "share"], "Valid types are: Classic, Consumer"),
    ],
)
def test_options_of_consumer_groups_that_do_not_go_together(
    cluster: FakeCluster, words: list[str], message: str
) -> None:
    printed = script(cluster, "kafka-consumer-groups", *words)
    assert (printed.code, message in printed.err) == (Exit.FAILED, True), printed.err


def test_an_invalid_pattern_is_reported_without_failure(cluster: FakeCluster) -> None:
    printed = script(cluster, "kafka-consumer-groups", "--validate-regex", "a(")
    assert (printed.code, printed.out) == (Exit.DONE, "The regular expression `a(` is invalid: missing ): a(.\n")


def test_a_reset_to_a_time_without_records_explains_the_end_offset(cluster: FakeCluster) -> None:
    words = ["--group", "g", "--topic", "orders:1", "--reset-offsets", "--to-datetime", "2030-01-01T00:00:00.000"]
    printed = script(cluster, "kafka-consumer-groups", *words, "--dry-run")
    assert printed.lines[:2] == [
        "",
        "Warn: Partition 1 from topic orders is empty. Falling back to latest known offset.",
    ]
    ours = run(cluster, "groups", "reset-offsets", "g", "--topic", "orders:1", "--to-datetime", "2030-01-01T00:00:00")
    assert "warning: orders-1: no record with such a timestamp: the latest offset is used" in ours.err


@pytest.mark.parametrize(
    ("number", "option", "source"),
    [(32, "--group", "DYNAMIC_GROUP_CONFIG"), (16, "--client-metrics", "DYNAMIC_CLIENT_METRICS_CONFIG")],
)
def test_sources_of_configs_have_the_names_of_kafkas_admin_client(
    cluster: FakeCluster, number: int, option: str, source: str
) -> None:
    cluster.configs[number, "pay"] = {"some.key": "5"}
    printed = script(cluster, "kafka-configs", "--describe", option, "pay")
    assert printed.lines[-1] == f"  some.key=5 sensitive=false synonyms={{{source}:some.key=5}}"


def test_client_metrics_are_altered_without_a_change(cluster: FakeCluster) -> None:
    printed = script(cluster, "kafka-client-metrics", "--alter", "--name", "all")
    assert (printed.code, printed.out) == (Exit.DONE, "Altered client metrics config for all.\n")
