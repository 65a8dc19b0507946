"""A reassignment is no damage: replicas that are being added are missed by nobody."""

import asyncio
from typing import Any

import pytest

from kvorum.admin.v1.topics import topic_list
from kvorum.client.partitions.replication import is_under_replicated, replication_factor
from kvorum.client.reassignments.reassignments import UnderWay
from kvorum.network.addresses import Address
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.describe_quorum import DescribeQuorumRequest
from kvorum.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from kvorum.protocol.messages.metadata import MetadataResponsePartition
from kvorum.protocol.schema import Message
from tests.unit.admin.fake import Client, call, serve
from tests.unit.admin.operated import OWN, TOPIC, OperatedCluster, with_operated

LEADERS, FOLLOWERS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"


@pytest.mark.parametrize(
    ("replicas", "isr", "moving", "factor", "under"),
    [
        ([1, 2], [1, 2], None, 2, False),
        ([1, 2], [1], None, 2, True),
        ([3, 4, 1, 2], [1, 2], UnderWay([3, 4, 1, 2], [3, 4], [1, 2]), 2, False),
        ([3, 1, 2], [1], UnderWay([3, 1, 2], [3], []), 2, True),
        ([3, 1, 2], [1, 2, 3], UnderWay([3, 1, 2], [3], []), 2, False),
        ([1, 2], [1], UnderWay([3, 1, 2], [3], []), 2, True),
    ],
    ids=["whole", "one short", "moving whole", "moving one short", "moved", "over meanwhile"],
)
def test_replicas_that_are_being_added_do_not_count(
    replicas: list[int], isr: list[int], moving: UnderWay | None, factor: int, under: bool
) -> None:
    row = MetadataResponsePartition(partition_index=0, replica_nodes=replicas, isr_nodes=isr)
    assert (replication_factor(row, moving), is_under_replicated(row, moving)) == (factor, under)


def begin_move(cluster: OperatedCluster) -> None:
    """Of topic t, partition 0 moves from 1, 2 to 3, 4, with a throttle; partition 1 stays."""
    cluster.place("t", [1, 2], [2, 1])
    cluster.under_way["t", 0] = ([3, 4], [1, 2])
    cluster.replicas["t", 0] = [3, 4, 1, 2]
    own = [("retention.ms", "5", OWN), (LEADERS, "0:1,0:2", OWN), (FOLLOWERS, "0:3,0:4", OWN)]
    cluster.layers[TOPIC, "t"] = [[each] for each in own]


def test_a_topic_on_the_move_is_whole() -> None:
    async def test(client: Client, cluster: OperatedCluster) -> None:
        begin_move(cluster)
        (listed,) = (await call(client, "GET", "/v1/topics"))[1]["topics"]
        found = (await call(client, "GET", "/v1/topics/t"))[1]
        for each in (listed, found):
            assert (each["replication_factor"], each["under_replicated"]) == (2, 0)
        health = (await call(client, "GET", "/v1/health"))[1]
        assert (health["under_replicated_partitions"], health["partitions"]) == (0, [])
        cluster.isrs["t", 0] = [1]
        health = (await call(client, "GET", "/v1/health"))[1]
        assert (health["under_replicated_partitions"], health["partitions"]) == (1, ["t-0"])

    with_operated(test)


def test_without_information_about_moves_the_topics_are_reported_with_unknown_moves() -> None:
    async def test(client: Client, cluster: OperatedCluster) -> None:
        begin_move(cluster)
        page = (await call(client, "GET", "/v1/topics"))[1]
        assert page["reassigning_known"] is True
        cluster.codes[ListPartitionReassignmentsRequest] = ErrorCode.NOT_CONTROLLER
        for query in ("", "?order=under_replicated", "?under_replicated=true"):
            page = (await call(client, "GET", f"/v1/topics{query}"))[1]
            (listed,) = page["topics"]
            assert (listed["replication_factor"], listed["under_replicated"]) == (4, 1)
            assert page["reassigning_known"] is False

    with_operated(test)


class Leaderless(OperatedCluster):
    """Has no controller: brokers that wait for one answer nothing."""

    async def ask(self, request: Message, response: type, address: Address | None = None, **options: Any) -> Any:  # type: ignore[override]
        if not isinstance(request, ListPartitionReassignmentsRequest):
            return await super().ask(request, response, address, **options)
        assert options["timeout_ms"] == topic_list.ASK_MS // 2, "the next broker gets some of the time"
        await asyncio.get_running_loop().create_future()


def test_the_list_does_not_wait_for_a_controller_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever of the brokers is asked, and however many: all of it takes a second, and the page is told."""
    assert topic_list.ASK_MS == 1_000
    monkeypatch.setattr(topic_list, "ASK_MS", 20)

    async def test() -> None:
        cluster = Leaderless()
        begin_move(cluster)
        async with asyncio.timeout(10), serve(cluster) as client:
            page = (await call(client, "GET", "/v1/topics"))[1]
        assert (page["topics"][0]["under_replicated"], page["reassigning_known"]) == (1, False)

    asyncio.run(test())


def test_the_health_check_queries_only_known_controllers() -> None:
    """It would wait as long again for an answer that nobody gives."""

    async def test(client: Client, cluster: OperatedCluster) -> None:
        begin_move(cluster)
        cluster.codes[DescribeQuorumRequest] = ErrorCode.NOT_CONTROLLER
        health = (await call(client, "GET", "/v1/health"))[1]
        assert (health["controller_id"], health["under_replicated_partitions"]) == (-1, 1)
        assert not [each for each in cluster.requested if isinstance(each, ListPartitionReassignmentsRequest)]

    with_operated(test)


def test_the_controller_is_queried_only_for_the_current_page() -> None:
    async def test(client: Client, cluster: OperatedCluster) -> None:
        begin_move(cluster)
        cluster.place("a", [1, 2])
        page = (await call(client, "GET", "/v1/topics?limit=1"))[1]
        assert ([each["name"] for each in page["topics"]], page["next"]) == (["a"], "a")
        assert not [each for each in cluster.requested if isinstance(each, ListPartitionReassignmentsRequest)]

    with_operated(test)


def test_the_controller_is_not_queried_where_all_are_in_sync() -> None:
    async def test(client: Client, cluster: OperatedCluster) -> None:
        cluster.place("t", [1, 2], [2, 1])
        assert (await call(client, "GET", "/v1/topics"))[1]["topics"][0]["under_replicated"] == 0
        assert not [each for each in cluster.requested if isinstance(each, ListPartitionReassignmentsRequest)]

    with_operated(test)


def test_a_put_in_the_middle_of_a_move_takes_neither_offence_nor_its_throttle() -> None:
    async def test(client: Client, cluster: OperatedCluster) -> None:
        begin_move(cluster)
        spec = {"partitions": 2, "replication_factor": 2, "configs": {"retention.ms": "5"}}
        status, applied = await call(client, "PUT", "/v1/topics/t", spec)
        assert (status, applied["changes"], cluster.altered) == (200, [], [])
        spec["configs"] = {"retention.ms": "5", LEADERS: "0:1"}
        status, applied = await call(client, "PUT", "/v1/topics/t", spec)
        assert [each["what"] for each in applied["changes"]] == [f"configs.{LEADERS}"], "who names it means it"

    with_operated(test)


def test_the_tag_of_a_topic_is_not_changed_by_a_throttle() -> None:
    async def test(client: Client, cluster: OperatedCluster) -> None:
        begin_move(cluster)
        async with client.get("/v1/topics/t") as answer:
            tag = answer.headers["ETag"]
        del cluster.layers[TOPIC, "t"][1:]
        cluster.finish()
        async with client.get("/v1/topics/t") as answer:
            assert answer.headers["ETag"] == tag

    with_operated(test)
