"""kafka-reassign-partitions against a cluster that is not there: Kafka's options, and the lines that scripts parse."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kvorum.cli.kafka import reassign_partitions as script
from kvorum.cli.main import main
from kvorum.cli.output import Exit
from kvorum.client.partitions.log_dir_moves import MoveState, Started
from kvorum.client.reassignments.reassignments import Move, UnderWay
from kvorum.protocol.topic_partition import TopicPartition
from tests.unit.cli.test_reassign import A0, A01, A1, Cluster, moving

__all__ = ["moving"]  # a fixture of these tests, too
NOW = '{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[1,2],"log_dirs":["any","any"]}]}'
CLEARED = ["Clearing broker-level throttles on brokers 1,2,3,4", "Clearing topic-level throttles on topic a"]


class WithDirectories(Cluster):
    """Tells the directory of one replica."""

    async def log_dirs(self, current: dict[TopicPartition, list[int]]) -> dict[tuple[TopicPartition, int], str]:
        return {(A0, 2): "/data"}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = WithDirectories()

    def ask(connection: object, work: Callable[[Any], Awaitable[Any]]) -> Any:
        async def run() -> Any:
            return await work(made)

        return asyncio.run(run())

    monkeypatch.setattr(script, "ask", ask)
    return made


@pytest.fixture
def plan(tmp_path: Path) -> tuple[str, str]:
    """A file that gives the first partition to 3 and 1."""
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"version": 1, "partitions": [{"topic": "a", "partition": 0, "replicas": [3, 1]}]}))
    return "--reassignment-json-file", str(file)


def run(*words: str, code: Exit = Exit.DONE) -> list[str]:
    """Return what it prints to standard output."""
    found = CliRunner().invoke(main, ["kafka-reassign-partitions.sh", "--bootstrap-server", "broker:9092", *words])
    assert found.exit_code == code, found.output
    return found.output.splitlines() if code == Exit.FAILED else found.stdout.splitlines()


def test_generate_prints_the_current_and_the_proposed_assignment(cluster: Cluster, tmp_path: Path) -> None:
    topics = tmp_path / "topics.json"
    topics.write_text('{"topics": [{"topic": "a"}], "version": 1}')
    words = ("--generate", "--topics-to-move-json-file", str(topics))
    lines = run(*words, "--broker-list", "3,4")
    assert [lines[0], lines[2], lines[3], len(lines)] == [
        "Current partition replica assignment",
        "",
        "Proposed partition reassignment configuration",
        5,
    ]
    assert lines[1].startswith(NOW.replace('"any"]}]}', '"/data"]}')), (
        "as Kafka writes JSON: no blanks, its order of keys"
    )
    assert {each for row in json.loads(lines[4])["partitions"] for each in row["replicas"]} == {3, 4}
    assert run(*words, "--broker-list", "3,3", code=Exit.FAILED) == [
        "Error: Broker list contains duplicate entries: [3]"
    ]
    cluster.racks[3] = "east"
    (line,) = run(*words, "--broker-list", "3,4", code=Exit.FAILED)
    assert line.startswith("Error: Not all brokers have rack information. Add --disable-rack-aware")
    assert len(run(*words, "--broker-list", "3,4", "--disable-rack-aware")) == 5
    topics.write_text('{"topics": [{"topic": "gone"}]}')
    assert run(*words, "--broker-list", "3", code=Exit.FAILED) == ["Error: Topic gone not found."]


def test_execute_throttles_first_and_prints_the_rollback(cluster: Cluster, plan: tuple[str, str]) -> None:
    lines = run("--execute", *plan, "--throttle", "1000", "--timeout", "77", "--disallow-replication-factor-change")
    assert lines == [
        "Current partition replica assignment",
        "",
        NOW.replace('"any"]', '"/data"]'),
        "",
        "Save this to use as the --reassignment-json-file option during rollback",
        script.VERIFY_PERIODICALLY,
        "The inter-broker throttle limit was set to 1000 B/s",
        "Successfully started partition reassignment for a-0",
    ]
    moves = {A0: Move(frozenset({1, 2}), frozenset({3}))}
    assert cluster.requested == [(moves, 1000), ({A0: [3, 1]}, 77, False)]


def test_execute_is_refused_beside_another_until_additional_is_given(cluster: Cluster, plan: tuple[str, str]) -> None:
    cluster.ongoing = {A1: UnderWay([4, 2, 1], [4], [1])}
    (line,) = run("--execute", *plan, code=Exit.FAILED)
    assert line.startswith("Cannot execute because there is an existing partition assignment.  Use --additional")
    assert not cluster.requested
    assert run("--execute", *plan, "--additional")[-1] == "Successfully started partition reassignment for a-0"
    cluster.refusals = {A0: "INVALID_REPLICA_ASSIGNMENT: no"}
    lines = run("--execute", *plan, "--additional", code=Exit.FAILED)
    assert lines[-2:] == ["Error reassigning partition(s):", "a-0: INVALID_REPLICA_ASSIGNMENT: no"]
    del cluster.racks[3]
    assert run("--execute", *plan, "--additional", code=Exit.FAILED) == ["Error: Unknown broker id 3"]


def test_verify_prints_the_progress_and_exits_with_0(cluster: Cluster, plan: tuple[str, str]) -> None:
    head = "Status of partition reassignment:"
    cluster.ongoing = {A0: UnderWay([3, 1, 2], [3], [2])}
    assert run("--verify", *plan) == [head, "Reassignment of partition a-0 is still in progress.", ""]
    cluster.ongoing = {}
    other = (
        "There is no active reassignment of partition a-0, but replica set is 1,2 rather than 3,1.",
        "",
    )
    assert run("--verify", *plan, "--preserve-throttles") == [head, *other]
    assert not cluster.requested
    cluster.replicas[A0] = [3, 1]
    assert run("--verify", *plan) == [head, "Reassignment of partition a-0 is completed.", "", *CLEARED]
    assert cluster.requested == ["unthrottle"]


def test_cancel_ends_pending_reassignments_of_the_file(cluster: Cluster, plan: tuple[str, str]) -> None:
    moves = "None of the specified partition moves are active."
    none = "None of the specified partition reassignments are active."
    assert run("--cancel", *plan) == [none, moves + CLEARED[0], CLEARED[1]]
    cluster.ongoing = {A0: UnderWay([3, 1, 2], [3], [2]), A1: UnderWay([4, 2, 1], [4], [1])}
    lines = run("--cancel", *plan, "--preserve-throttles")
    assert lines == ["Successfully cancelled partition reassignment for: a-0", moves]
    assert cluster.requested == ["unthrottle", ({A0: None}, script.TIMEOUT_MS, True)]


def test_list_prints_a_partition_a_line(cluster: Cluster) -> None:
    assert run("--list") == ["No partition reassignments found."]
    cluster.ongoing = {A0: UnderWay([3, 1, 2], [3], [2]), A1: UnderWay([4, 2, 1], [4], [])}
    assert run("--list") == [
        "Current partition reassignments:",
        "a-0: replicas: 3,1,2. adding: 3. removing: 2.",
        "a-1: replicas: 4,2,1. adding: 4.",
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--list", "--verify"), "Command must include exactly one action: --generate, --execute, --verify"),
        (("--verify",), 'Missing required argument "[reassignment-json-file]"'),
        (("--generate", "--broker-list", "1"), 'Missing required argument "[topics-to-move-json-file]"'),
        (("--list", "--throttle", "1"), 'Option "[throttle]" can\'t be used with action "[list]"'),
        (("--list", "--additional"), 'Option "[additional]" can\'t be used with action "[list]"'),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_conflicting_options_are_refused_with_kafkas_messages(
    cluster: Cluster, words: tuple[str, ...], message: str
) -> None:
    assert message in "\n".join(run(*words, code=Exit.FAILED))


def test_a_controller_is_queried_only_to_list_and_to_cancel(cluster: Cluster, plan: tuple[str, str]) -> None:
    words = ["kafka-reassign-partitions", "--bootstrap-controller", "controller:9093"]
    assert CliRunner().invoke(main, [*words, "--list"]).exit_code == Exit.DONE
    refused = CliRunner().invoke(main, [*words, "--verify", *plan])
    assert (refused.exit_code, 'can\'t be used with action "[verify]"' in refused.output) == (Exit.FAILED, True)


def test_a_file_that_is_wrong_is_reported(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "wrong.json"
    file.write_text('{"version": 1, "partitions": []}')
    (line,) = run("--execute", "--reassignment-json-file", str(file), code=Exit.FAILED)
    assert line.startswith("Error: ") and "no partition" in line


def test_replicas_move_between_log_directories(cluster: Cluster, moving: tuple[str, str]) -> None:
    cluster.moves.answer = Started([A01], [], {})
    lines = run("--execute", *moving, "--replica-alter-log-dirs-throttle", "5", "--timeout", "7")
    assert cluster.moves.requested == [({1}, 5), ({A01: "/b"}, 7)]
    assert lines[-1] == "Successfully started moving log directory to /b for replica a-0 with broker 1 "
    cluster.moves.answer = Started([], [A01], {})
    lines = run("--execute", *moving, code=Exit.FAILED)
    assert lines[-1] == "Timed out before log directory move could be started for: a-0-1"
    cluster.moves.answer = Started([], [], {A01: "LOG_DIR_NOT_FOUND"})
    assert run("--execute", *moving, code=Exit.FAILED)[-2:] == ["Failed to alter dir:", "a-0-1: LOG_DIR_NOT_FOUND"]


@pytest.mark.parametrize(
    ("state", "line", "is_over"),
    [
        (MoveState("/a", "/b", "/b"), "Reassignment of replica a-0-1 is still in progress.", False),
        (MoveState("/a", "/c", "/b"), "Partition a-0 on broker 1 is being moved to log dir /c instead of /b.", False),
        (MoveState("/a", None, "/b"), "Partition a-0 on broker 1 is not being moved from log dir /a to /b.", True),
        (MoveState("", None, "/b"), "Partition a-0 cannot be found in any live log directory on broker 1.", True),
        (MoveState("/b", None, "/b"), "Reassignment of replica a-0-1 completed successfully.", True),
    ],
)
def test_verify_reports_moves_between_log_directories(
    cluster: Cluster, moving: tuple[str, str], state: MoveState, line: str, is_over: bool
) -> None:
    cluster.moves.found = {A01: state}
    lines = run("--verify", *moving)
    assert line in lines and any(each.startswith("Clearing broker-level") for each in lines) is is_over


def test_cancel_has_replicas_stay_in_their_directories(cluster: Cluster, moving: tuple[str, str]) -> None:
    cluster.moves.found, cluster.moves.answer = {A01: MoveState("/a", "/b", "/b")}, Started([A01], [], {})
    lines = run("--cancel", *moving)
    assert "Successfully started moving log directory to /a for replica a-0 with broker 1 " in lines, "Kafka's words"
    assert cluster.moves.requested == [{A01: "/a"}]
