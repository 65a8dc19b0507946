"""Whole topics elected, throttles by themselves, replicas moved between log directories: over HTTP."""

from typing import Any

import pytest

from kvorum.admin.v1.partitions import log_dir_routes
from kvorum.protocol.messages.elect_leaders import ElectLeadersRequest
from kvorum.protocol.records import Record
from tests.unit.admin.fake import Client, call
from tests.unit.admin.managed import ManagedCluster, with_managed
from tests.unit.admin.operated import BROKER, TOPIC

THROTTLE = "/v1/reassignments/throttle"
MOVES = "/v1/reassignments/log-dirs"
PATH = "/v1/reassignments"
LEADERS, FOLLOWERS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LOG_DIRS = "replica.alter.log.dirs.io.max.bytes.per.second"


def test_whole_topics_are_elected() -> None:
    async def test(client: Client, cluster: ManagedCluster) -> None:
        cluster.place("t", [1, 2], [2, 1], [1, 2])
        cluster.place("u", [1, 2], [1, 2])
        cluster.leaders |= {("t", 0): 2, ("t", 2): 2, ("u", 1): 2, ("u", 0): 2}
        status, rows = await call(client, "POST", "/v1/leaders/elect", {"partitions": {"t": None, "u": [1]}})
        assert status == 200
        assert {(row["topic"], row["partition"]): row["error"] for row in rows} == {
            ("t", 0): None,
            ("t", 1): "ELECTION_NOT_NEEDED",
            ("t", 2): None,
            ("u", 1): None,
        }
        assert cluster.leaders["u", 0] == 2, "it was not named"
        status, problem = await call(client, "POST", "/v1/leaders/elect", {"partitions": {"none": None}})
        assert (status, problem["error"], problem["field"]) == (422, "UNKNOWN_TOPIC_OR_PARTITION", "partitions")
        assert len([each for each in cluster.requested if isinstance(each, ElectLeadersRequest)]) == 1

    with_managed(test)


def begin(cluster: ManagedCluster) -> None:
    """t-0 goes from 2 to 3."""
    cluster.place("t", [1, 2], [1, 2])
    cluster.place("u", [1])
    cluster.replicas["t", 0] = [1, 3, 2]
    cluster.under_way["t", 0] = ([3], [2])


def test_an_operation_in_progress_is_throttled_and_released() -> None:
    async def test(client: Client, cluster: ManagedCluster) -> None:
        begin(cluster)
        empty: dict[str, Any] = {"brokers": [], "topics": [], "unreachable": []}
        assert await call(client, "GET", THROTTLE) == (200, empty)
        status, now = await call(client, "PUT", THROTTLE, {"bytes_per_second": 1_000})
        rate = {"leader_rate": 1_000, "follower_rate": 1_000, "log_dirs_rate": None}
        assert (status, now["brokers"]) == (200, [{"broker": each, **rate} for each in (1, 2, 3)])
        assert now["topics"] == [{"topic": "t", "leaders": "0:1,0:2", "followers": "0:3"}]
        now = (await call(client, "PUT", THROTTLE, {"bytes_per_second": 2_000}))[1]
        assert now["brokers"][0]["leader_rate"] == 2_000 and (await call(client, "GET", THROTTLE))[1] == now
        cluster.set_config(TOPIC, "u", FOLLOWERS, "*")
        cluster.set_config(TOPIC, "u", "retention.ms", "5")
        cluster.set_config(BROKER, "4", RATES[0], "7")
        left = (await call(client, "DELETE", THROTTLE))[1]
        assert [row["topic"] for row in left["topics"]] == ["t", "u"], "what there was, left over ones too"
        assert [(row["broker"], row["follower_rate"]) for row in left["brokers"]][3] == (4, None)
        assert await call(client, "GET", THROTTLE) == (200, empty)
        assert cluster.config(TOPIC, "u") == {"retention.ms": "5"}
        assert ("t", 0) in cluster.under_way, "the move goes on"
        cluster.finish()
        status, problem = await call(client, "PUT", THROTTLE, {"bytes_per_second": 1})
        assert (status, problem["error"]) == (409, "NO_REASSIGNMENT_IN_PROGRESS")

    with_managed(test)


def test_concurrent_throttles_do_not_overwrite_each_other() -> None:
    async def test(client: Client, cluster: ManagedCluster) -> None:
        begin(cluster)
        async with client.get(THROTTLE) as answer:
            seen = {"If-Match": answer.headers["ETag"]}
        assert (await call(client, "PUT", THROTTLE, {"bytes_per_second": 1_000}, headers=seen))[0] == 200
        assert (await call(client, "PUT", THROTTLE, {"bytes_per_second": 1}, headers=seen))[0] == 412
        assert (await call(client, "DELETE", THROTTLE, headers=seen))[0] == 412
        assert cluster.config(BROKER, "1")[RATES[0]] == "1000"

    with_managed(test)


def test_a_broker_that_does_not_answer_is_named_among_the_throttles() -> None:
    async def test(client: Client, cluster: ManagedCluster) -> None:
        begin(cluster)
        cluster.set_config(BROKER, "1", LOG_DIRS, "9")
        cluster.silent = {3}
        reported = (await call(client, "GET", THROTTLE))[1]
        assert (reported["unreachable"], [row["log_dirs_rate"] for row in reported["brokers"]]) == ([3], [9])

    with_managed(test)


@pytest.mark.parametrize("body", [{}, {"bytes_per_second": 0}, {"rate": 5}, {"log_dirs_bytes_per_second": -1}])
def test_a_throttle_is_a_rate(body: dict[str, int]) -> None:
    async def test(client: Client, cluster: ManagedCluster) -> None:
        begin(cluster)
        assert (await call(client, "PUT", THROTTLE, body))[0] == 400
        assert cluster.altered == []

    with_managed(test)


def plan(log_dirs: list[str] | None, replicas: list[int] | None = None, **options: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"topic": "t", "partition": 0, "replicas": replicas or [1, 2]}
    if log_dirs is not None:
        row["log_dirs"] = log_dirs
    return {"partitions": [row], **options}


def test_replicas_move_between_log_directories_by_a_plan() -> None:
    async def test(client: Client, cluster: ManagedCluster) -> None:
        cluster.place("t", [1, 2])
        cluster.logs["t"][0].append(Record(value=bytes(500)))
        wanted = plan(["/b", "any"], log_dirs_throttle_bytes_per_second=77)
        (row,) = (await call(client, "POST", PATH, wanted))[1]
        assert row["log_dirs"] == [{"broker": 1, "log_dir": "/b", "error": None}] and row["error"] is None
        assert cluster.moving == {(1, "t", 0): "/b"} and cluster.config(BROKER, "1") == {LOG_DIRS: "77"}
        assert cluster.config(BROKER, "2") == {}
        (move,) = (await call(client, "GET", MOVES))[1]
        assert (move["broker"], move["current"], move["target"]) == (1, "/a", "/b")
        assert move["size_bytes"] == len(cluster.logs["t"][0].batches[0])
        verified = (await call(client, "POST", f"{PATH}/verify", plan(["/b", "any"])))[1]
        assert not verified["completed"] and verified["unthrottled_brokers"] == []
        (state,) = verified["partitions"][0]["log_dirs"]
        assert (state["current"], state["target"], state["state"]) == ("/a", "/b", "in progress")
        cluster.lies[1, "t", 0] = cluster.moving.pop((1, "t", 0))
        verified = (await call(client, "POST", f"{PATH}/verify", plan(["/b", "any"])))[1]
        assert verified["completed"] and verified["unthrottled_brokers"] == [1, 2, 3, 4]
        assert verified["partitions"][0]["log_dirs"][0]["state"] == "completed"
        assert cluster.config(BROKER, "1") == {}
        back = (await call(client, "POST", f"{PATH}/verify", plan(["/a", "/a"])))[1]
        assert not back["completed"] and back["partitions"][0]["state"] == "completed"
        states = {each["broker"]: each["state"] for each in back["partitions"][0]["log_dirs"]}
        assert states == {1: "not as wanted", 2: "completed"}

    with_managed(test)


def test_a_brokers_directory_errors_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(client: Client, cluster: ManagedCluster) -> None:
        cluster.place("t", [1, 2])
        (row,) = (await call(client, "POST", PATH, plan(["/nowhere", "/b"])))[1]
        assert [each["error"] for each in row["log_dirs"]] == ["LOG_DIR_NOT_FOUND", None]
        monkeypatch.setattr(log_dir_routes, "BEGIN_MS", 0)
        cluster.absent = {(3, "t", 0)}
        (row,) = (await call(client, "POST", PATH, plan(["any", "/b"], [1, 3], additional=True)))[1]
        assert [(each["broker"], each["error"]) for each in row["log_dirs"]] == [(3, "REPLICA_NOT_AVAILABLE")]
        cluster.absent = set()
        (row,) = (await call(client, "POST", PATH, plan(["any", "/b"], [1, 3], additional=True)))[1]
        assert row["log_dirs"][0]["error"] is None and cluster.moving[3, "t", 0] == "/b"
        refused = {"partitions": [{"topic": "t", "partition": 0, "replicas": [1, 9], "log_dirs": ["any", "/b"]}]}
        assert (await call(client, "POST", PATH, {**refused, "additional": True}))[0] == 422
        for wrong in (["/b"], ["", "any"], []):
            assert (await call(client, "POST", PATH, plan(wrong)))[0] == 400, wrong

    with_managed(test)


def test_moves_between_directories_are_listed_in_pages_and_stopped() -> None:
    async def test(client: Client, cluster: ManagedCluster) -> None:
        cluster.place("t", [1, 2], [1, 2])
        cluster.place("u", [2, 3])
        for key in ((1, "t", 0), (2, "t", 0), (2, "t", 1), (3, "u", 0)):
            cluster.moving[key] = "/b"

        def key(row: dict[str, Any]) -> tuple[str, int, int]:
            return row["topic"], row["partition"], row["broker"]

        rows = (await call(client, "GET", MOVES))[1]
        everything = [("t", 0, 1), ("t", 0, 2), ("t", 1, 2), ("u", 0, 3)]
        assert [key(row) for row in rows] == everything
        async with client.get(f"{MOVES}?limit=1") as answer:
            assert answer.headers["Link"] == '<?limit=1&after=t%3A0%3A1>; rel="next"'
        rows = (await call(client, "GET", f"{MOVES}?after=t%3A0%3A1"))[1]
        assert [key(row) for row in rows] == everything[1:]
        assert [key(row) for row in (await call(client, "GET", f"{MOVES}?topic=u"))[1]] == [("u", 0, 3)]
        assert (await call(client, "GET", f"{MOVES}?after=t:0"))[1]["field"] == "after"
        rows = (await call(client, "POST", f"{MOVES}/cancel", {"partitions": {"t": [0, 7]}}))[1]
        assert [(key(row), row["error"]) for row in rows] == [(("t", 0, 1), None), (("t", 0, 2), None)]
        assert sorted(cluster.moving) == [(2, "t", 1), (3, "u", 0)]
        for wrong in ({}, {"all": False}, {"partitions": {}}, {"partitions": {"t": [0]}, "all": True}):
            assert (await call(client, "POST", f"{MOVES}/cancel", wrong))[0] == 400, wrong
        assert len((await call(client, "POST", f"{MOVES}/cancel", {"all": True}))[1]) == 2 and not cluster.moving

    with_managed(test)


def test_moves_between_directories_are_throttled_by_themselves() -> None:
    async def test(client: Client, cluster: ManagedCluster) -> None:
        cluster.place("t", [1, 2])
        body = {"log_dirs_bytes_per_second": 55}
        assert (await call(client, "PUT", THROTTLE, body))[0] == 409
        cluster.moving[2, "t", 0] = "/b"
        assert (await call(client, "PUT", THROTTLE, body))[0] == 200
        assert cluster.config(BROKER, "2") == {LOG_DIRS: "55"} and cluster.config(BROKER, "1") == {}
        assert (await call(client, "DELETE", THROTTLE))[0] == 200 and cluster.config(BROKER, "2") == {}

    with_managed(test)
