"""Results of commands as JSON; quotas, features, volumes, latencies, stopped nodes; completions of the shell."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from kvorum.cli.kafka import e2e_latency as e2e
from kvorum.cli.kafka import e2e_latency_run, server
from kvorum.cli.main import main
from kvorum.cli.output import Exit
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages import create_topics, describe_log_dirs
from kvorum.protocol.messages.describe_groups import DescribedGroup
from tests.unit.cli.fake_cluster import HANDLERS, FakeCluster, in_place_of_the_network, run
from tests.unit.cli.test_console_clients import FakeMessage


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster(logs={("orders", 0): (10, 100, {}), ("orders", 1): (0, 50, {}), ("pay", 0): (0, 1, {})})
    made.configs[2, "orders"] = {"retention.ms": "1000"}
    return made


def reported(cluster: FakeCluster, *words: str) -> Any:
    """Return what a command tells programs: the same in JSON and in YAML."""
    printed = run(cluster, *words, "-o", "json")
    assert printed.code == Exit.DONE, printed
    return json.loads(printed.out)


def test_topics_are_listed_by_pattern_and_by_problem(cluster: FakeCluster) -> None:
    assert [row["name"] for row in reported(cluster, "topics", "list", "or*")] == ["orders"]
    assert [row["name"] for row in reported(cluster, "topics", "list", "or")] == []
    assert [row["name"] for row in reported(cluster, "topics", "list", "--under-replicated")] == ["orders"]
    cluster.moving = {("orders", 1): ([3, 1], [3], [])}
    assert reported(cluster, "topics", "list", "--under-replicated") == [], "who is being added is not missing"


def test_several_topics_are_described_with_added_and_removed_replicas(cluster: FakeCluster) -> None:
    assert "ADDING" not in run(cluster, "topics", "describe", "orders").out
    cluster.moving = {("orders", 1): ([3, 1, 2], [3], [2])}
    shown = run(cluster, "topics", "describe", "orders", "pay").out
    assert "ADDING" in shown and "REMOVING" in shown and "\n\nname                pay\n" in shown
    one, other = reported(cluster, "topics", "describe", "orders", "pay")
    assert (one["details"][1]["adding_replicas"], one["details"][1]["removing_replicas"]) == ([3], [2])
    assert other["name"] == "pay" and reported(cluster, "topics", "describe", "pay")["name"] == "pay"


def test_one_of_several_topics_that_fails_does_not_hide_the_others(cluster: FakeCluster) -> None:
    printed = run(cluster, "topics", "describe", "orders", "ordres", "-o", "json")
    assert (printed.code, json.loads(printed.out)["name"]) == (Exit.NOT_FOUND, "orders")
    assert printed.err == "kvorum: no topic ordres; did you mean orders?\n"


def test_a_topic_is_made_with_replicas_of_ones_own(cluster: FakeCluster) -> None:
    run(cluster, "topics", "create", "new", "--assignment", "0:1,2", "--assignment", "1:2,1")
    (requested,) = [each for each in cluster.requested if isinstance(each, create_topics.CreateTopicsRequest)]
    assert [(each.partition_index, each.broker_ids) for each in requested.topics[0].assignments] == [
        (0, [1, 2]),
        (1, [2, 1]),
    ]
    before = len(cluster.requested)
    for words in (["--assignment", "0:x"], ["--assignment", "0:1", "-p", "1"], ["--assignment", "0"]):
        assert run(cluster, "topics", "create", "new", *words).code == Exit.USAGE
    assert len(cluster.requested) == before, "no request was sent"


def test_commands_that_change_state_report_the_change(cluster: FakeCluster) -> None:
    cluster.groups["idle"] = DescribedGroup(group_id="idle", group_state="Empty", protocol_type="consumer")
    assert reported(cluster, "topics", "alter", "orders", "--config", "a=1") == {
        **{"topic": "orders", "partitions": None, "replication_factor": None, "set": {"a": "1"}, "deleted": []}
    }
    assert reported(cluster, "topics", "delete", "pay") == [{"topic": "pay", "changed": True}]
    assert reported(cluster, "groups", "delete", "idle") == [{"group": "idle", "changed": True}]
    refused = run(cluster, "groups", "delete", "nope", "-o", "json")
    assert refused.code == Exit.NOT_FOUND and "GROUP_ID_NOT_FOUND" in refused.err
    assert reported(cluster, "configs", "alter", "topics", "orders", "--set", "b=2") == {
        **{"topic": "orders", "set": ["b=2"], "changed": True}
    }
    assert reported(cluster, "transactions", "force-terminate", "x")["changed"] is True
    assert reported(cluster, "features", "alter", "transaction.version=2")["changed"] is True
    shown = run(cluster, "features", "alter", "transaction.version=2", "-o", "yaml").out
    assert yaml.safe_load(shown)["levels"] == ["transaction.version=2"]
    assert run(cluster, "topics", "alter", "orders", "--config", "a=1").out == "orders altered\n"


def test_quotas_are_set_listed_and_removed(cluster: FakeCluster) -> None:
    alice = ("quotas", "alter", "--user", "alice", "--client-id", "app", "--set", "producer_byte_rate=5")
    done = run(cluster, *alice, "--dry-run")
    assert (done.code, done.out) == (Exit.DONE, "valid; nothing was changed\n")
    assert cluster.requested[-1].validate_only
    assert run(cluster, *alice).out == "quotas changed\n"
    run(cluster, "quotas", "alter", "--default", "user", "--set", "request_percentage=50")
    run(cluster, "quotas", "alter", "--ip", "10.0.0.7", "--set", "connection_creation_rate=2")
    rows = [
        ([(part["type"], part["name"]) for part in row["entity"]], row["quotas"])
        for row in reported(cluster, "quotas", "list")
    ]
    assert sorted(rows, key=str) == [
        ([("ip", "10.0.0.7")], {"connection_creation_rate": 2.0}),
        ([("user", "alice"), ("client_id", "app")], {"producer_byte_rate": 5.0}),
        ([("user", None)], {"request_percentage": 50.0}),
    ]
    assert "user:alice,client_id:app  producer_byte_rate=5.0" in run(cluster, "quotas", "list").out
    assert len(reported(cluster, "quotas", "list", "--default", "user")) == 1
    gone = reported(cluster, "quotas", "alter", "--default", "user", "--delete", "request_percentage")
    assert gone == {"default": "user", "delete": ["request_percentage"], "changed": True}
    assert [row["quotas"] for row in reported(cluster, "quotas", "list", "--default", "user")] == [{}]
    assert run(cluster, "quotas", "delete", "--ip", "10.0.0.7").out == "quotas deleted\n"
    assert sorted(map(bool, cluster.quotas.values())) == [False, False, True]


@pytest.mark.parametrize(
    "words",
    [
        ["alter", "--set", "producer_byte_rate=1"],
        ["alter", "--user", "a", "--default", "user", "--set", "x=1"],
        ["alter", "--user", "", "--set", "x=1"],
        ["alter", "--user", "a"],
        ["alter", "--user", "a", "--set", "producer_byte_rate"],
        ["alter", "--user", "a", "--set", "producer_byte_rate=much"],
        ["delete"],
        ["delete", "--user", "a", "producer_byte_rate"],
    ],
    ids=" ".join,
)
def test_quotas_that_cannot_be_are_wrong_usage(cluster: FakeCluster, words: list[str]) -> None:
    assert run(cluster, "quotas", *words).code == Exit.USAGE


def test_features_are_mapped_and_explained(cluster: FakeCluster) -> None:
    assert reported(cluster, "features", "version-mapping", "4.0-IV3")["metadata.version"] == 25
    assert run(cluster, "features", "version-mapping", "9.9").code == Exit.NOT_FOUND
    lines = run(cluster, "features", "dependencies", "eligible.leader.replicas.version=1").lines
    assert lines[0] == "eligible.leader.replicas.version=1 requires:"
    assert reported(cluster, "features", "dependencies", "group.version=1") == [
        {"feature": "group.version", "level": 1, "needs": None}
    ]
    assert run(cluster, "features", "dependencies", "x").code == Exit.USAGE
    assert run(cluster, "features", "describe", "--broker", "9").code == Exit.FAILED
    assert cluster.addresses[-1] is None and run(cluster, "features", "describe", "--broker", "1").code == Exit.DONE
    assert cluster.addresses[-1] is not None


def test_volumes_of_log_directories(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    (row,) = reported(cluster, "log-dirs", "list", "1")
    assert (row["log_dir"], row["replicas"], row["size_bytes"], row["total_bytes"]) == ("/data", 3, 300, None)
    assert reported(cluster, "log-dirs", "list", "1", "--topic", "pay")[0]["size_bytes"] == 100

    def newer(_: FakeCluster, __: object) -> object:
        full = describe_log_dirs.DescribeLogDirsResult(log_dir="/a", total_bytes=10, usable_bytes=0)
        gone = describe_log_dirs.DescribeLogDirsResult(log_dir="/b", error_code=ErrorCode.KAFKA_STORAGE_ERROR)
        return describe_log_dirs.DescribeLogDirsResponse(results=[full, gone])

    monkeypatch.setitem(HANDLERS, describe_log_dirs.DescribeLogDirsRequest, newer)
    printed = run(cluster, "log-dirs", "list", "1", "-o", "json")
    assert (printed.code, printed.err) == (Exit.FAILED, "kvorum: 1 of 2 failed\n")
    rows = [(row["log_dir"], row["total_bytes"], row["error"]) for row in json.loads(printed.out)]
    assert rows == [("/a", 10, None), ("/b", None, "KAFKA_STORAGE_ERROR")]


def completed(cluster: FakeCluster, typed: str) -> list[str]:
    environment = {
        "_KVORUM_COMPLETE": "bash_complete",
        "COMP_WORDS": f"kvorum {typed}",
        "COMP_CWORD": str(typed.count(" ") + 1),
    }
    with in_place_of_the_network(cluster):
        result = CliRunner().invoke(main, [], prog_name="kvorum", env=environment)
    return [line.removeprefix("plain,") for line in result.stdout.splitlines() if line]


def test_the_shell_completes_profiles_brokers_configs_and_scenarios(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("KVORUM_BOOTSTRAP", raising=False)
    run(cluster, "profile", "add", "staging", "-b", "one:1")
    run(cluster, "profile", "add", "production", "-b", "two:2")
    assert completed(cluster, "topics list --profile s") == ["staging"]
    assert completed(cluster, "profile use ") == ["production", "staging"]
    assert completed(cluster, "brokers describe ") == ["1"]
    assert completed(cluster, "topics create new --config ret") == ["retention.ms="]
    assert "n-minus-one" in completed(cluster, "chaos run n-m")
    assert completed(cluster, "consume -G ") == [] and completed(cluster, "consume or") == ["orders"]
    (tmp_path / "kvorum" / "profiles.json").write_text("{")
    assert completed(cluster, "topics list --profile s") == []


def test_the_shell_completes_the_nodes_of_a_folder(tmp_path: Path, cluster: FakeCluster) -> None:
    from kvorum.cluster.local.local import LocalCluster
    from kvorum.cluster.local.plan import plan_of
    from kvorum.runtime.cluster_file import load_cluster

    file = tmp_path / "two.yaml"
    file.write_text("nodes: [{id: 1}, {id: 2}]\n")
    folder = tmp_path / "data"
    LocalCluster.create(str(folder), plan_of(load_cluster(str(file), str(folder)), "q2dDxX0qSi6ZGo5pjBP2lw"))
    assert completed(cluster, f"nodes kill --dir {folder} node") == ["node-1", "node-2"]
    assert completed(cluster, f"nodes kill --dir {tmp_path} node") == []


def test_a_profile_is_shown_without_its_secrets(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert run(cluster, "profile", "show").code == Exit.NOT_FOUND
    run(cluster, "profile", "add", "one", "-b", "one:1", "-X", "ssl.key.password=${env:K}", "-X", "client.id=mine")
    assert reported(cluster, "profile", "show") == {
        **{"name": "one", "bootstrap": "one:1", "in_use": True, "command_config": None},
        "properties": {"ssl.key.password": "${env:K}", "client.id": "mine"},
    }
    assert reported(cluster, "profile", "use", "one") == {"name": "one", "in_use": True}
    assert reported(cluster, "profile", "remove", "one") == {"name": "one", "removed": True}


# kafka-e2e-latency


class Echo:
    """A producer and a consumer: what is sent is read, unless it is spoilt on the way."""

    spoilt = False
    queue: list[Any]

    def __init__(self, options: dict[str, Any]) -> None:
        Echo.queue = []

    def list_topics(self, topic: str | None = None, timeout: float = 0) -> Any:
        there = {"orders": type("Topic", (), {"partitions": {0: None}})}
        return type("Metadata", (), {"topics": there})

    def get_watermark_offsets(self, place: Any, timeout: float) -> tuple[int, int]:
        return 0, 7

    def assign(self, places: list[Any]) -> None:
        assert [(each.partition, each.offset) for each in places] == [(0, 7)]

    def produce(self, topic: str, value: bytes, key: bytes, headers: Any, on_delivery: Any) -> None:
        body = b"?" if Echo.spoilt else value
        Echo.queue.append(FakeMessage(body=body, name=key or None, marks=headers or []))
        on_delivery(None, None)

    def flush(self, seconds: float) -> int:
        return 0

    def poll(self, seconds: float) -> Any:
        return Echo.queue.pop(0) if Echo.queue else None

    def close(self) -> None:
        """Nothing to close."""


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Echo, "spoilt", False)
    monkeypatch.setattr("confluent_kafka.Producer", Echo)
    monkeypatch.setattr("confluent_kafka.Consumer", Echo)


E2E = ("kafka-e2e-latency", "--bootstrap-server", "b:1", "--topic", "orders")
SIZES = ("--producer-acks", "all", "--record-size", "10")


@pytest.mark.usefixtures("echo")
def test_records_are_timed_one_by_one(cluster: FakeCluster) -> None:
    more = (
        "--record-key-size",
        "3",
        "--num-headers",
        "2",
        "--record-header-key-size",
        "1",
        "--record-header-size",
        "-1",
    )
    for words in ((), more):
        printed = run(cluster, *E2E, "--num-records", "1001", *SIZES, *words)
        first, second, average, percentiles = printed.lines
        assert (printed.code, first.split("\t")[0], second.split("\t")[0]) == (Exit.DONE, "0", "1000")
        assert average.startswith("Avg latency: ") and percentiles.startswith("Percentiles: 50th = ")
    old = run(cluster, "kafka-e2e-latency", "b:1", "orders", "1", "all", "10")
    assert old.code == Exit.DONE and old.lines[0].startswith("WARNING: Positional argument usage is deprecated")


@pytest.mark.usefixtures("echo")
def test_a_topic_that_was_just_made_is_waited_for(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker that is asked may hear of it later than the one that made it."""
    requested = 0

    def list_topics(client: Echo, topic: str | None = None, timeout: float = 0) -> Any:
        nonlocal requested
        requested += topic is not None
        there = {"orders": type("Topic", (), {"partitions": {0: None} if requested > 3 else {}, "error": None})}
        return type("Metadata", (), {"topics": there})

    monkeypatch.setattr(Echo, "list_topics", list_topics)
    assert run(cluster, *E2E, "--num-records", "1", *SIZES).code == Exit.DONE and requested == 4
    monkeypatch.setattr(e2e, "METADATA_SECONDS", 0)
    requested = -100
    printed = run(cluster, *E2E, "--num-records", "1", *SIZES)
    assert (printed.code, "topic orders has no partitions" in printed.err) == (Exit.FAILED, True)


@pytest.mark.usefixtures("echo")
def test_an_unexpected_response_is_an_error(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Echo, "spoilt", True)
    printed = run(cluster, *E2E, "--num-records", "1", *SIZES)
    assert (printed.code, "did not match the message value sent" in printed.err) == (Exit.FAILED, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--num-records", "0", *SIZES], "--num-records must be a positive integer"),
        (["--num-records", "1", "--producer-acks", "0", "--record-size", "1"], "Please use '1' or 'all'"),
        (["--num-records", "1", "--producer-acks", "1", "--record-size", "-1"], "--record-size must be"),
        (["--num-records", "1", *SIZES, "--record-header-size", "-2"], "--record-header-size must be"),
    ],
)
def test_an_invalid_latency_test_is_refused(cluster: FakeCluster, words: list[str], message: str) -> None:
    printed = run(cluster, *E2E, *words)
    assert (printed.code, message in printed.err) == (Exit.FAILED, True)
    few = run(cluster, "kafka-e2e-latency", "b:1", "orders")
    assert "Expected 5 or 6 positional arguments, but got 2" in few.err


def test_latencies_are_cut_to_whole_milliseconds() -> None:
    lines = e2e_latency_run.result_lines([1_900_000] * 990 + [5_000_000] * 10)
    assert lines == ["Avg latency: 1.9310 ms", "Percentiles: 50th = 1, 99th = 5, 99.9th = 5"]


# kafka-server-start, -stop


def process(proc: Path, pid: int, words: list[str], parent: int = 1, properties: str = "") -> None:
    """Make what the system tells of a process."""
    folder = proc / str(pid)
    (folder / "cwd").mkdir(parents=True)
    (folder / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in words))
    (folder / "stat").write_text(f"{pid} (a (b) c) S {parent} 0 0")
    (folder / "cwd" / "node.properties").write_text(properties)


@pytest.fixture
def stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Two nodes, a process of one of them, and others; whom SIGTERM reaches."""
    python = ["/usr/bin/python", "-m", "kvorum.cli.main"]
    process(
        tmp_path, 10, [*python, "node", "node.properties"], properties="node.id=1\nprocess.roles=broker,controller\n"
    )
    process(tmp_path, 11, [*python, "node", "node.properties"], parent=10)
    started = ["/venv/bin/kvorum", "kafka-server-start", "node.properties", "--override", "node.id=7"]
    process(tmp_path, 12, started, properties="node.id=2\nprocess.roles=broker\n")
    process(tmp_path, 13, [*python, "topics", "list"])
    process(tmp_path, 14, ["vi", "node", "node.properties"])
    (tmp_path / "self").mkdir()
    reached: list[int] = []

    def kill(pid: int, number: int) -> None:
        assert number == signal.SIGTERM
        reached.append(pid)

    monkeypatch.setattr(server, "PROC", tmp_path)
    monkeypatch.setattr(os, "kill", kill)
    return reached


@pytest.mark.parametrize(
    ("words", "pids"),
    [
        ([], [10, 12]),
        (["--process-role=controller"], [10]),
        (["--process-role=broker"], [10, 12]),
        (["--node-id=7"], [12]),
        (["--node-id", "1"], [10]),
    ],
)
def test_nodes_of_this_machine_are_stopped(stopped: list[int], words: list[str], pids: list[int]) -> None:
    assert run(FakeCluster(), "kafka-server-stop", *words).code == Exit.DONE
    assert stopped == pids


def test_a_stopped_cluster_is_reported(stopped: list[int]) -> None:
    printed = run(FakeCluster(), "kafka-server-stop", "--node-id", "99")
    assert (printed.code, printed.out, stopped) == (Exit.FAILED, "No kafka server to stop\n", [])


def test_a_node_is_started_here_or_in_the_background(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config = tmp_path / "node.properties"
    config.touch()
    begun: list[Any] = []
    monkeypatch.setattr("kvorum.cluster.process.child.main", lambda words: begun.append(words))
    monkeypatch.setattr("kvorum.cli.local.node.folder_of", lambda *_: "folder")
    assert run(FakeCluster(), "kafka-server-start", str(config), "--override", "a=b").code == Exit.DONE
    assert begun == [["node", "--config", str(config), "--dir", "folder", "--log-to-stderr", "--override", "a=b"]]
    monkeypatch.setenv("LOG_DIR", str(tmp_path / "logs"))
    monkeypatch.setattr("subprocess.Popen", lambda words, **how: begun.append((words[2:], how["start_new_session"])))
    assert run(FakeCluster(), "kafka-server-start", "-daemon", str(config), "--override", "a=b").code == Exit.DONE
    assert begun[1] == (["kvorum.cli.main", "node", str(config), "--override", "a=b"], True)
    assert (tmp_path / "logs" / "kafkaServer.out").exists()
