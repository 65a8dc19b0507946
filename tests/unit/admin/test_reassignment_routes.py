"""Reassignments and leaders over HTTP, in front of a fake cluster; and what is proposed."""

from random import Random

import pytest

from kvorum.client.reassignments.proposals import check_racks, keep, spread
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from kvorum.protocol.topic_partition import TopicPartition
from tests.unit.admin.fake import Client, call
from tests.unit.admin.operated import BROKER, CONTROLLER, TOPIC, OperatedCluster, with_operated

PATH = "/v1/reassignments"
A = [TopicPartition("a", number) for number in range(6)]


def plan(*rows: tuple[int, list[int]], **options: object) -> dict[str, object]:
    """Of topic `t`: (partition, replicas)."""
    return {"partitions": [{"topic": "t", "partition": index, "replicas": to} for index, to in rows], **options}


def test_a_spread_plan_balances_replicas_over_racks() -> None:
    proposed = spread({place: [1, 2] for place in A}, {3: "east", 4: "east", 5: "west", 6: "west"}, Random(1))
    assert list(proposed) == A
    for replicas in proposed.values():
        assert len(replicas) == 2 and len({"east" if each < 5 else "west" for each in replicas}) == 2
    assert {broker for replicas in proposed.values() for broker in replicas} == {3, 4, 5, 6}
    with pytest.raises(KafkaError) as refused:
        spread({A[0]: [1, 2]}, {3: None}, Random(1))
    assert refused.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
    with pytest.raises(KafkaError, match="not all of these brokers"):
        check_racks({1: "east", 2: None})


def test_a_plan_with_keep_moves_as_few_replicas_as_possible() -> None:
    current = {A[0]: [1, 2], A[1]: [2, 3], A[2]: [3, 1], A[3]: [4, 1]}
    found = keep(current, {1: None, 2: None, 4: None})
    assert (found[A[0]], found[A[3]]) == ([1, 2], [4, 1]), "who stays, stays"
    assert found[A[1]] == [2, 4] and found[A[2]][0] == 1, "the emptiest comes, and a replica that stays leads"
    assert found[A[2]][1] in (2, 4)
    racks = {1: "east", 2: "east", 4: "west"}
    assert keep({A[0]: [1, 3]}, racks)[A[0]] == [1, 4], "into another rack"
    with pytest.raises(KafkaError) as refused:
        keep({A[0]: [1, 2, 3]}, {1: None, 2: None})
    assert refused.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert keep({place: [3] for place in A}, {1: None, 2: None}) == {place: [1 + place.partition % 2] for place in A}, (
        "equally good ones take turns"
    )


def test_a_plan_is_proposed_carried_out_watched_and_verified() -> None:
    async def test(client: Client, cluster: OperatedCluster) -> None:
        cluster.place("t", [1, 2], [2, 1])
        cluster.ends = {(1, "t", 0): 100, (2, "t", 1): 50}
        body = {"topics": ["t"], "brokers": [1, 3], "keep": True}
        proposal = (await call(client, "POST", f"{PATH}/propose", body))[1]
        rows = [(row["partition"], row["current"], row["replicas"], row["adding"]) for row in proposal["partitions"]]
        assert rows == [(0, [1, 2], [1, 3], [3]), (1, [2, 1], [1, 3], [3])]
        assert (proposal["moved_replicas"], proposal["moved_bytes"], proposal["unchanged"]) == (2, 1500, 0)
        assert cluster.under_way == {}, "proposed only"

        wanted = plan((0, [1, 3]), (1, [1, 3]))
        started = (await call(client, "POST", PATH, {**wanted, "throttle_bytes_per_second": 5000}))[1]
        assert [(row["before"], row["error"]) for row in started] == [([1, 2], None), ([2, 1], None)]
        assert set(cluster.under_way) == {("t", 0), ("t", 1)}
        assert (BROKER, "3", dict.fromkeys(RATES, "5000")) in cluster.altered
        assert any(kind == TOPIC and name == "t" for kind, name, _ in cluster.altered)

        cluster.ends[3, "t", 0] = 25
        (first, second) = (await call(client, "GET", PATH))[1]
        assert (first["leader"], first["target"], first["adding"], first["removing"]) == (1, [1, 3], [3], [2])
        assert (first["size_bytes"], first["end_offset"]) == (1000, 100)
        assert first["progress"] == [{"broker": 3, "in_sync": False, "size_bytes": 250, "end_offset": 25, "lag": 75}]
        assert second["progress"] == [
            {"broker": 3, "in_sync": False, "size_bytes": None, "end_offset": None, "lag": None}
        ]
        cluster.silent = {3}
        assert (await call(client, "GET", f"{PATH}?topic=t"))[1][0]["progress"][0]["lag"] is None, "told all the same"
        cluster.silent = set()
        assert (await call(client, "GET", f"{PATH}?topic=other"))[1] == []

        cluster.altered.clear()
        verified = (await call(client, "POST", f"{PATH}/verify", wanted))[1]
        assert not verified["completed"] and {row["state"] for row in verified["partitions"]} == {"in progress"}
        assert cluster.altered == [], "throttles stay while something is under way"
        cluster.finish()
        verified = (await call(client, "POST", f"{PATH}/verify", wanted))[1]
        assert verified["completed"] and verified["unthrottled_brokers"] == [1, 2, 3, 4]
        assert len(cluster.altered) == 5, "each broker, and the topic"
        other = plan((0, [2, 4]), preserve_throttles=True)
        verified = (await call(client, "POST", f"{PATH}/verify", other))[1]
        assert (verified["completed"], verified["partitions"][0]["state"]) == (False, "not as wanted")
        assert verified["unthrottled_brokers"] == [] and len(cluster.altered) == 5

    with_operated(test)


RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")


def test_a_plan_is_refused_before_anything_of_it_is_done() -> None:
    async def test(client: Client, cluster: OperatedCluster) -> None:
        cluster.place("t", [1, 2], [2, 1])
        for body, status, error, field in (
            (plan((0, [1, 9])), 422, "BROKER_ID_NOT_REGISTERED", "partitions"),
            (plan((7, [1, 2])), 422, "UNKNOWN_TOPIC_OR_PARTITION", "partitions"),
            (plan((0, [1, 1])), 400, "INVALID_REQUEST", "partitions.0"),
            (plan((0, [])), 400, "INVALID_REQUEST", "partitions.0.replicas"),
            (plan((0, [1]), (0, [2])), 400, "INVALID_REQUEST", None),
            (plan(), 400, "INVALID_REQUEST", "partitions"),
            (plan((0, [1, 3]), throttle_bytes_per_second=0), 400, "INVALID_REQUEST", "throttle_bytes_per_second"),
            (plan((0, [1, 3]), version=2), 400, "INVALID_REQUEST", "version"),
        ):
            reported, problem = await call(client, "POST", PATH, body)
            assert (reported, problem["error"], problem["field"]) == (status, error, field), body
        assert cluster.under_way == {} and cluster.altered == []
        kafkas = {"topic": "t", "partition": 0, "replicas": [1, 3], "log_dirs": ["any", "any"]}
        assert (await call(client, "POST", PATH, {"version": 1, "partitions": [kafkas]}))[0] == 200
        status, problem = await call(client, "POST", PATH, plan((1, [1, 3])))
        assert (status, problem["error"], problem["field"]) == (409, "REASSIGNMENT_IN_PROGRESS", "additional")
        started = (await call(client, "POST", PATH, plan((1, [1, 3]), additional=True)))[1]
        assert [row["error"] for row in started] == [None]
        for body, field in (
            ({"topics": ["none"]}, "topics"),
            ({"topics": ["t"], "brokers": [9]}, "brokers"),
            ({"topics": ["t"], "brokers": [1]}, "brokers"),
        ):
            assert (await call(client, "POST", f"{PATH}/propose", body))[1]["field"] == field
        cluster.racks[1] = "east"
        problem = (await call(client, "POST", f"{PATH}/propose", {"topics": ["t"]}))[1]
        assert (problem["error"], problem["field"]) == ("INVALID_REPLICA_ASSIGNMENT", "rack_aware")
        assert (await call(client, "POST", f"{PATH}/propose", {"topics": ["t"], "rack_aware": False}))[0] == 200

    with_operated(test)


@pytest.mark.parametrize("down", ["fenced", "silent, and not fenced yet"])
def test_a_throttled_move_off_a_broker_that_is_down_begins_and_its_throttle_goes(down: str) -> None:
    """Its rate is set by the controller: should it come back, it copies no faster than the others."""

    async def test(client: Client, cluster: OperatedCluster) -> None:
        cluster.place("t", [1, 3])
        cluster.silent = {3}
        cluster.fenced = {3} if down == "fenced" else set()
        begun = plan((0, [1, 2]), throttle_bytes_per_second=5000)
        status, (started,) = await call(client, "POST", PATH, begun)
        assert (status, started["error"], set(cluster.under_way)) == (200, None, {("t", 0)})
        rates = {name: set(changes.values()) for kind, name, changes in cluster.altered if kind == BROKER}
        assert rates == {each: {"5000"} for each in ("1", "2", "3")}
        cluster.finish()
        cluster.altered.clear()
        verified = (await call(client, "POST", f"{PATH}/verify", plan((0, [1, 2]))))[1]
        assert (verified["completed"], verified["unthrottled_brokers"]) == (True, [1, 2, 3, 4])
        assert {name for kind, name, _ in cluster.altered if kind == BROKER} == {"1", "2", "3", "4"}

    with_operated(test)


def test_without_a_controller_a_stopped_broker_is_not_waited_for() -> None:
    async def test(client: Client, cluster: OperatedCluster) -> None:
        cluster.place("t", [1, 3])
        cluster.silent, cluster.fenced = {3, CONTROLLER}, {3}
        status, (started,) = await call(client, "POST", PATH, plan((0, [1, 2]), throttle_bytes_per_second=5000))
        assert (status, started["error"]) == (200, None)
        assert {name for kind, name, _ in cluster.altered if kind == BROKER} == {"1", "2"}
        cluster.under_way.clear()
        verified = (await call(client, "POST", f"{PATH}/verify", plan((0, [1, 2]))))[1]
        assert verified["unthrottled_brokers"] == [1, 2, 4]

    with_operated(test)


def test_pending_reassignments_are_cancelled_and_the_last_one_removes_the_throttles() -> None:
    async def test(client: Client, cluster: OperatedCluster) -> None:
        cluster.place("t", [1, 2], [2, 1], [1, 2])
        await call(client, "POST", PATH, plan((0, [1, 3]), (1, [1, 3])))
        rows = (await call(client, "POST", f"{PATH}/cancel", {"partitions": {"t": [0, 2]}}))[1]
        assert [(row["partition"], row["error"]) for row in rows] == [(0, None)], "what is not under way is left out"
        assert (list(cluster.under_way), cluster.altered) == ([("t", 1)], [])
        assert cluster.replicas["t", 0] == [1, 2]
        for unclear, field in (({}, "partitions"), ({"partitions": {"t": [1]}, "all": True}, "all")):
            status, problem = await call(client, "POST", f"{PATH}/cancel", unclear)
            assert (status, problem["field"], set(cluster.under_way)) == (400, field, {("t", 1)})
        rows = (await call(client, "POST", f"{PATH}/cancel", {"all": True}))[1]
        assert [row["partition"] for row in rows] == [1] and len(cluster.altered) == 5
        assert (await call(client, "POST", f"{PATH}/cancel", {"all": True}))[1] == []

    with_operated(test)


def test_a_leader_is_moved_by_order_and_election() -> None:
    async def test(client: Client, cluster: OperatedCluster) -> None:
        cluster.place("t", [1, 2, 3])
        path = "/v1/topics/t/partitions/0/leader"
        status, led = await call(client, "POST", path, {"broker": 3})
        assert (status, led["before"], led["leader"], led["replicas"]) == (200, 1, 3, [3, 1, 2])
        assert (cluster.leaders["t", 0], cluster.replicas["t", 0]) == (3, [3, 1, 2])
        cluster.requested.clear()
        assert (await call(client, "POST", path, {"broker": 3}))[0] == 200, "who leads already may"
        assert not any(isinstance(each, AlterPartitionReassignmentsRequest) for each in cluster.requested)
        cluster.isrs["t", 0] = [1, 3]
        for broker, error in ((4, "INVALID_REPLICA_ASSIGNMENT"), (2, "PREFERRED_LEADER_NOT_AVAILABLE")):
            status, problem = await call(client, "POST", path, {"broker": broker})
            assert (status, problem["error"], problem["field"]) == (422, error, "broker")
        cluster.under_way["t", 0] = ([4], [1])
        status, problem = await call(client, "POST", path, {"broker": 1})
        assert (status, problem["error"]) == (409, "REASSIGNMENT_IN_PROGRESS")
        assert cluster.leaders["t", 0] == 3
        for wrong in ("/v1/topics/t/partitions/5/leader", "/v1/topics/none/partitions/0/leader"):
            assert (await call(client, "POST", wrong, {"broker": 1}))[0] == 404

    with_operated(test)


def test_an_order_that_would_move_records_is_taken_back() -> None:
    async def test(client: Client, cluster: OperatedCluster) -> None:
        """The broker asked is behind: the partition has another replica already."""
        cluster.place("t", [1, 2])
        topic = cluster._topic("t")
        cluster.replicas["t", 0] = [1, 3]

        async def stale(name: str) -> object:
            return topic

        topic.partitions[0].replica_nodes = [1, 2]
        cluster.topic = stale  # type: ignore[method-assign,assignment]
        status, problem = await call(client, "POST", "/v1/topics/t/partitions/0/leader", {"broker": 2})
        assert (status, problem["error"]) == (409, "REASSIGNMENT_IN_PROGRESS")
        assert cluster.under_way == {} and cluster.leaders["t", 0] == 1

    with_operated(test)
