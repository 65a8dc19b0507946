"""`kvorum reassign` against a cluster that is not there: what it asks for, what it prints, and how it ends."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from kvorum.cli.output import Exit
from kvorum.cli.reassign import commands as commands
from kvorum.cli.reassign import verify as reassign_verify
from kvorum.cli.reassign.plans import TIMEOUT_MS
from kvorum.client.partitions.log_dir_moves import LogDirMoves, MoveState, Replica, Started
from kvorum.client.reassignments.reassignments import Move, ReplicaFile, UnderWay
from kvorum.protocol.topic_partition import TopicPartition

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


class Moves(LogDirMoves):
    """Stands for LogDirMoves: what is asked, and what is answered."""

    def __init__(self) -> None:
        self.requested: list[Any] = []
        self.answer = Started([], [], {})
        self.found: dict[Replica, MoveState] = {}

    async def ask(self, wanted: Mapping[Replica, str]) -> Started:
        self.requested.append(dict(wanted))
        return self.answer if wanted else Started([], [], {})

    async def begin(self, wanted: Mapping[Replica, str], timeout_ms: int) -> Started:
        self.requested.append((dict(wanted), timeout_ms))
        return self.answer

    async def states(self, wanted: Mapping[Replica, str]) -> dict[Replica, MoveState]:
        return self.found

    async def throttle(self, brokers: Iterable[int], bytes_a_second: int) -> None:
        self.requested.append((set(brokers), bytes_a_second))


class Cluster:
    """Stands for Reassignments: a topic of two partitions on brokers 1 and 2 of four."""

    def __init__(self) -> None:
        self.ongoing: dict[TopicPartition, UnderWay] = {}
        self.replicas = {A0: [1, 2], A1: [2, 1]}
        self.racks: dict[int, str | None] = dict.fromkeys(range(1, 5))
        self.requested: list[Any] = []
        self.refusals: dict[TopicPartition, str] = {}
        self.moves = Moves()

    async def under_way(self) -> dict[TopicPartition, UnderWay]:
        return self.ongoing

    async def current(self, topics: Iterable[str]) -> dict[TopicPartition, list[int]]:
        return {place: replicas for place, replicas in self.replicas.items() if place.topic in set(topics)}

    async def brokers(self) -> dict[int, str | None]:
        return self.racks

    async def log_dirs(self, current: Mapping[TopicPartition, list[int]]) -> dict[tuple[TopicPartition, int], str]:
        return {(place, broker): f"/disk{broker}" for place, replicas in current.items() for broker in replicas}

    async def sizes(self, brokers: Iterable[int]) -> dict[ReplicaFile, int]:
        self.requested.append(set(brokers))
        return {ReplicaFile(A0, 1, False): 100, ReplicaFile(A0, 3, False): 30, ReplicaFile(A0, 1, True): 80}

    async def alter(
        self, wanted: Mapping[TopicPartition, list[int] | None], timeout_ms: int, *, may_resize: bool = True
    ) -> dict[TopicPartition, str]:
        self.requested.append((dict(wanted), timeout_ms, may_resize))
        return self.refusals

    async def throttle(self, moves: Mapping[TopicPartition, Move], bytes_a_second: int) -> None:
        self.requested.append((dict(moves), bytes_a_second))

    async def unthrottle(self, wanted: Mapping[TopicPartition, list[int]]) -> tuple[list[int], list[str]]:
        self.requested.append("unthrottle")
        return list(self.racks), sorted({place.topic for place in wanted})


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster()

    def with_it(bootstrap: str, work: Callable[[Any], Awaitable[Any]]) -> Any:
        async def run() -> Any:
            return await work(made)

        return asyncio.run(run())

    monkeypatch.setattr(commands, "with_reassignments", with_it)
    monkeypatch.setattr(reassign_verify, "with_reassignments", with_it)
    return made


def run(action: str, *options: str) -> Result:
    return CliRunner().invoke(commands.reassign, [action, *options])


@pytest.fixture
def plan(tmp_path: Path) -> tuple[str, str]:
    """A file that gives the first partition to 3 and 1."""
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"version": 1, "partitions": [{"topic": "a", "partition": 0, "replicas": [3, 1]}]}))
    return "--reassignment-json-file", str(file)


def test_generate_writes_a_plan_for_execute(cluster: Cluster, tmp_path: Path) -> None:
    topics = tmp_path / "topics.json"
    topics.write_text('{"version": 1, "topics": [{"topic": "a"}]}')
    options = ("--topics-to-move-json-file", str(topics), "--broker-list", "3,4")
    reported = run("generate", *options)
    assert reported.exit_code == Exit.DONE and '"replicas": [1, 2]' in reported.output.splitlines()[1]
    proposed = tmp_path / "proposed.json"
    proposed.write_text(run("generate", *options, "-o", "json").output)
    done = run("execute", "--reassignment-json-file", str(proposed))
    assert done.exit_code == Exit.DONE and done.output.endswith("partition reassignments for a-0,a-1\n")
    ((wanted, _, _),) = cluster.requested
    assert {place: sorted(replicas) for place, replicas in wanted.items()} == {A0: [3, 4], A1: [3, 4]}


def test_generate_keeps_permitted_replicas(cluster: Cluster, tmp_path: Path) -> None:
    topics = tmp_path / "topics.json"
    topics.write_text('{"topics": [{"topic": "a"}]}')
    options = ("--topics-to-move-json-file", str(topics), "--broker-list", "1,3", "--keep", "-o", "json")
    rows = json.loads(run("generate", *options).output)["partitions"]
    assert [row["replicas"] for row in rows] == [[1, 3], [1, 3]]


@pytest.mark.parametrize(
    ("brokers", "racks", "message", "code"),
    [
        ("3,9", None, "there is no broker 9", Exit.NOT_FOUND),
        ("3,3", None, "duplicate broker", Exit.USAGE),
        ("3,x", None, "invalid literal", Exit.USAGE),
        ("3", None, "a-0", Exit.FAILED),
        ("3,4", "east", "--disable-rack-aware", Exit.FAILED),
    ],
)
def test_generate_reports_impossible_requests(
    cluster: Cluster, tmp_path: Path, brokers: str, racks: str | None, message: str, code: Exit
) -> None:
    cluster.racks[3] = racks
    topics = tmp_path / "topics.json"
    topics.write_text('{"topics": [{"topic": "a"}]}')
    reported = run("generate", "--topics-to-move-json-file", str(topics), "--broker-list", brokers)
    assert reported.exit_code == code and message in reported.output


def test_a_throttle_comes_before_the_move(cluster: Cluster, plan: tuple[str, str]) -> None:
    options = ("--throttle", "1000", "--timeout", "77", "--disallow-replication-factor-change")
    done = run("execute", *plan, *options)
    assert done.exit_code == Exit.DONE
    moves = {A0: Move(frozenset({1, 2}), frozenset({3}))}
    assert cluster.requested == [(moves, 1000), ({A0: [3, 1]}, 77, False)]
    assert json.loads(done.output.splitlines()[2])["partitions"][0]["replicas"] == [1, 2], "to go back with"


def test_an_additional_reassignment_needs_the_option(cluster: Cluster, plan: tuple[str, str]) -> None:
    cluster.ongoing = {A1: UnderWay([4, 2, 1], [4], [1])}
    reported = run("execute", *plan)
    assert reported.exit_code == Exit.FAILED and "--additional" in reported.output and not cluster.requested
    assert run("execute", *plan, "--additional").exit_code == Exit.DONE and len(cluster.requested) == 1


def test_rejections_are_reported(cluster: Cluster, plan: tuple[str, str]) -> None:
    cluster.refusals = {A0: "INVALID_REPLICA_ASSIGNMENT: no"}
    reported = run("execute", *plan)
    assert reported.exit_code == Exit.FAILED and "a-0: INVALID_REPLICA_ASSIGNMENT: no" in reported.output
    del cluster.replicas[A0]
    assert run("execute", *plan).exit_code == Exit.NOT_FOUND


def test_verify_takes_throttles_off_once_nothing_is_under_way(cluster: Cluster, plan: tuple[str, str]) -> None:
    cluster.ongoing = {A0: UnderWay([3, 1, 2], [3], [2])}
    reported = run("verify", *plan)
    assert reported.exit_code == Exit.FAILED and "in progress" in reported.output and not cluster.requested
    cluster.ongoing = {}
    reported = run("verify", *plan, "--preserve-throttles")
    assert reported.exit_code == Exit.FAILED and "not as wanted" in reported.output and not cluster.requested
    cluster.replicas[A0] = [3, 1]
    reported = run("verify", *plan)
    assert reported.exit_code == Exit.DONE and "completed" in reported.output and cluster.requested == ["unthrottle"]


def test_cancel_ends_only_the_files_pending_reassignments(cluster: Cluster, plan: tuple[str, str]) -> None:
    reported = run("cancel", *plan)
    assert reported.exit_code == Exit.DONE and "None of the specified" in reported.output
    cluster.requested.clear()
    cluster.ongoing = {A0: UnderWay([3, 1, 2], [3], [2]), A1: UnderWay([4, 2, 1], [4], [1])}
    reported = run("cancel", *plan, "--preserve-throttles")
    assert reported.exit_code == Exit.DONE and "cancelled partition reassignment for: a-0" in reported.output
    assert cluster.requested == [({A0: None}, TIMEOUT_MS, True)]


def test_pending_reassignments_are_listed(cluster: Cluster) -> None:
    assert run("list").output == "No partition reassignments found.\n"
    cluster.ongoing = {A0: UnderWay([3, 1, 2], [3], [2])}
    row = {"topic": "a", "partition": 0, "replicas": [3, 1, 2], "adding": [3], "removing": [2]}
    assert json.loads(run("list", "-o", "json").output) == [row]


def test_a_file_that_is_wrong_is_reported(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "wrong.json"
    file.write_text('{"version": 1, "partitions": []}')
    reported = run("execute", "--reassignment-json-file", str(file))
    assert reported.exit_code == Exit.USAGE and "no partition" in reported.output


def test_verify_waits_until_nothing_of_the_file_is_under_way(
    cluster: Cluster, plan: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reassign_verify, "WAIT_PAUSE_SECONDS", 0.0)
    requested = 0

    async def under_way() -> dict[TopicPartition, UnderWay]:
        nonlocal requested
        requested += 1
        if requested == 3:
            cluster.replicas[A0] = [3, 1]
        return {A0: UnderWay([3, 1, 2], [3], [2])} if requested < 3 else {}

    monkeypatch.setattr(cluster, "under_way", under_way)
    reported = run("verify", *plan, "--wait", "60")
    assert reported.exit_code == Exit.DONE and "completed" in reported.output and requested == 4


def test_verify_waits_no_longer_than_its_timeout(
    cluster: Cluster, plan: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.ongoing = {A0: UnderWay([3, 1, 2], [3], [2])}
    monkeypatch.setattr(reassign_verify, "WAIT_PAUSE_SECONDS", 0.01)
    reported = run("verify", *plan, "--wait", "0.001")
    assert reported.exit_code == Exit.FAILED and "in progress" in reported.output


def test_verify_waits_for_moves_between_directories_too(
    cluster: Cluster, moving: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reassign_verify, "WAIT_PAUSE_SECONDS", 0.0)
    requested = 0

    async def states(wanted: Mapping[Replica, str]) -> dict[Replica, MoveState]:
        nonlocal requested
        requested += 1
        return {A01: MoveState("/a", "/b", "/b") if requested < 3 else MoveState("/b", None, "/b")}

    monkeypatch.setattr(cluster.moves, "states", states)
    reported = run("verify", *moving, "--wait", "60")
    assert reported.exit_code == Exit.DONE and requested == 4 and "unthrottle" in cluster.requested


def test_remaining_bytes_to_copy_are_counted(cluster: Cluster) -> None:
    async def left(moves: dict[Replica, str]) -> int | None:
        found: Any = cluster
        return await reassign_verify.bytes_left(found, {A0: [3, 1]}, moves)

    assert asyncio.run(left({})) is None
    cluster.ongoing = {A0: UnderWay([3, 1, 2], [3], [2]), A1: UnderWay([4, 1], [4], [])}
    assert asyncio.run(left({})) == 70 and cluster.requested[-1] == {1, 2, 3}
    cluster.moves.found = {A01: MoveState("/a", "/b", "/b")}
    assert asyncio.run(left({A01: "/b"})) == 70 + 20


@pytest.fixture
def moving(tmp_path: Path) -> tuple[str, str]:
    """A file that leaves the first partition on 1 and 2, and has 1's replica lie in /b."""
    file = tmp_path / "moving.json"
    row = {"topic": "a", "partition": 0, "replicas": [1, 2], "log_dirs": ["/b", "any"]}
    file.write_text(json.dumps({"version": 1, "partitions": [row]}))
    return "--reassignment-json-file", str(file)


A01 = Replica("a", 0, 1)


def test_log_dirs_of_the_file_are_moves_on_their_brokers(cluster: Cluster, moving: tuple[str, str]) -> None:
    cluster.moves.answer = Started([A01], [], {})
    done = run("execute", *moving, "--replica-alter-log-dirs-throttle", "5", "--timeout", "7")
    assert done.exit_code == Exit.DONE, done.output
    assert cluster.moves.requested == [({1}, 5), ({A01: "/b"}, 7)]
    assert "The replica-alter-dir throttle limit was set to 5 B/s" in done.output
    assert done.output.endswith("Successfully started moving log directory to /b for replica a-0 with broker 1\n")


def test_the_json_output_has_the_changes_and_the_rollback_has_directories(
    cluster: Cluster, moving: tuple[str, str], plan: tuple[str, str]
) -> None:
    cluster.moves.answer = Started([A01], [], {})
    reported = json.loads(run("execute", *moving, "-o", "json").output)
    assert reported["before"]["partitions"][0]["log_dirs"] == ["/disk1", "/disk2"]
    assert reported["started"] == ["a-0"] and reported["log_dir_moves"] == [
        {"topic": "a", "partition": 0, "broker": 1, "log_dir": "/b"}
    ]
    cluster.ongoing = {A0: UnderWay([3, 1, 2], [3], [2])}
    gone = json.loads(run("cancel", *plan, "--preserve-throttles", "-o", "json").output)
    assert gone == {"cancelled": ["a-0"], "log_dir_moves": []}


def test_a_proposal_is_yaml_if_that_is_wanted(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "topics.json"
    file.write_text('{"version": 1, "topics": [{"topic": "a"}]}')
    reported = run("generate", "--topics-to-move-json-file", str(file), "--broker-list", "3,4", "-o", "yaml")
    found = yaml.safe_load(reported.output)
    assert found["version"] == 1 and {each["partition"] for each in found["partitions"]} == {0, 1}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Started([], [A01], {}), "Timed out before log directory move could be started for: a-0-1"),
        (Started([], [], {A01: "LOG_DIR_NOT_FOUND"}), "a-0-1: LOG_DIR_NOT_FOUND"),
    ],
)
def test_moves_that_do_not_begin_are_reported(
    cluster: Cluster, moving: tuple[str, str], answer: Started, words: str
) -> None:
    cluster.moves.answer = answer
    done = run("execute", *moving)
    assert done.exit_code == Exit.FAILED and words in done.output


@pytest.mark.parametrize(
    ("state", "words", "is_done"),
    [
        (MoveState("/a", "/b", "/b"), "in progress", False),
        (MoveState("/a", "/c", "/b"), "moves to /c", False),
        (MoveState("/a", None, "/b"), "not as wanted", False),
        (MoveState("", None, "/b"), "not found", False),
        (MoveState("/b", None, "/b"), "completed", True),
    ],
)
def test_verify_reports_how_far_moves_are(
    cluster: Cluster, moving: tuple[str, str], state: MoveState, words: str, is_done: bool
) -> None:
    cluster.moves.found = {A01: state}
    done = run("verify", *moving)
    assert words in done.output and (done.exit_code == Exit.DONE) is is_done
    assert ("unthrottle" in cluster.requested) is (state.future is None)


def test_cancel_has_replicas_stay_where_they_are(cluster: Cluster, moving: tuple[str, str]) -> None:
    cluster.moves.found, cluster.moves.answer = {A01: MoveState("/a", "/b", "/b")}, Started([A01], [], {})
    assert "Successfully cancelled log directory move for: a-0-1" in run("cancel", *moving).output
    assert cluster.moves.requested == [{A01: "/a"}]
    cluster.moves.found = {A01: MoveState("/b", None, "/b")}
    assert "None of the specified partition moves are active." in run("cancel", *moving).output
