"""The list of topics, copies of topics, and the groups of one, over HTTP in front of a fake cluster."""

from typing import Any

import pytest

from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages import consumer_group_describe as cgd
from kvorum.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kvorum.protocol.messages.offset_fetch import OffsetFetchRequest
from kvorum.protocol.records import Record
from tests.unit.admin.fake import Client, call
from tests.unit.admin.managed import ManagedCluster, with_managed
from tests.unit.admin.operated import TOPIC


def fill(cluster: ManagedCluster) -> None:
    """Four topics: `b` is the largest, `c` has two partitions that are under-replicated, `d` has three in all."""
    cluster.place("a", [1])
    cluster.place("b", [1, 2])
    cluster.place("c", [2, 3], [3, 2])
    cluster.place("d", [1], [1], [1])
    cluster.logs["a"][0].append(Record(value=bytes(100)))
    cluster.logs["b"][0].append(Record(value=bytes(1_000)))
    cluster.isrs["c", 0] = cluster.isrs["c", 1] = [2]


async def names(client: Client, query: str) -> tuple[list[str], str | None]:
    status, page = await call(client, "GET", f"/v1/topics?{query}")
    assert status == 200, page
    return [row["name"] for row in page["topics"]], page["next"]


def test_topics_are_listed_in_an_order_page_by_page() -> None:
    async def test(client: Client, cluster: ManagedCluster) -> None:
        fill(cluster)
        for query, found in (
            ("", ["a", "b", "c", "d"]),
            ("under_replicated=true", ["c"]),
            ("order=size", ["b", "a", "c", "d"]),
            ("order=partitions", ["d", "c", "a", "b"]),
            ("order=under_replicated", ["c", "a", "b", "d"]),
            ("order=size&filter=[bd]", ["b", "d"]),
        ):
            assert await names(client, query) == (found, None), query
            pages, after = [], ""
            while True:
                page, following = await names(client, f"{query}&limit=1{after}")
                pages += page
                if following is None:
                    break
                after = f"&after={following}"
            assert pages == found, query
        first = await names(client, "order=size&limit=2")
        cluster.logs["a"][0].append(Record(value=bytes(9_000)))
        cluster.place("b2", [1])
        assert await names(client, f"order=size&after={first[1]}") == (["b2", "c", "d"], None), (
            "who comes behind the last row that was told, whatever became of those before"
        )

    with_managed(test)


def test_a_list_has_the_policy_and_retention_of_topics_on_request() -> None:
    async def test(client: Client, cluster: ManagedCluster) -> None:
        fill(cluster)
        cluster.set_config(TOPIC, "a", "cleanup.policy", "compact")
        page = (await call(client, "GET", "/v1/topics?configs=true&limit=2"))[1]
        assert {row["name"]: row["configs"] for row in page["topics"]} == {"a": {"cleanup.policy": "compact"}, "b": {}}
        assert page["next"] == "b"
        cluster.set_config(TOPIC, "a", "retention.ms", "1000")
        rows = (await call(client, "GET", "/v1/topics/a/configs?documentation=true"))[1]
        described = {row["name"]: row["choices"] for row in rows}
        assert described == {"cleanup.policy": ["compact", "delete"], "retention.ms": None}
        assert (await call(client, "GET", "/v1/topics/a/configs"))[1][0]["choices"] is None

    with_managed(test)


def test_sizes_are_of_the_leaders_and_of_all_replicas() -> None:
    async def test(client: Client, cluster: ManagedCluster) -> None:
        fill(cluster)
        size = sum(map(len, cluster.logs["b"][0].batches))

        async def sizes(query: str) -> dict[str, tuple[int | None, int | None]]:
            page = (await call(client, "GET", f"/v1/topics?{query}"))[1]
            return {row["name"]: (row["size_bytes"], row["replicas_bytes"]) for row in page["topics"]}

        found = await sizes("sizes=true")
        assert found["b"] == (size, 2 * size) and found["d"] == (0, 0)
        cluster.requested.clear()
        assert await sizes("filter=b") == {"b": (None, None)}
        assert not [each for each in cluster.requested if isinstance(each, DescribeLogDirsRequest)], (
            "nobody asked for them"
        )
        cluster.requested.clear()
        assert (await sizes("sizes=true&limit=1&after=a"))["b"] == (size, 2 * size)
        requested = [each for each in cluster.requested if isinstance(each, DescribeLogDirsRequest)]
        assert requested and all([each.topic for each in one.topics or ()] == ["b"] for one in requested), (
            "of the page alone"
        )
        cluster.silent = {2}
        found = await sizes("sizes=true")
        assert found["b"] == (size, size) and found["c"] == (None, 0), "what its leader did not tell is not known"
        assert (await names(client, "order=size"))[0][-1] == "c"

    with_managed(test)


@pytest.mark.parametrize("query", ["order=x", "order=size&after=a", "order=size&after=x:a", "under_replicated=x"])
def test_a_list_that_cannot_be_is_refused(query: str) -> None:
    async def test(client: Client, cluster: ManagedCluster) -> None:
        fill(cluster)
        status, problem = await call(client, "GET", f"/v1/topics?{query}")
        assert (status, problem["field"]) == (400, query.split("&")[-1].partition("=")[0])

    with_managed(test)


def test_a_topic_is_made_after_another_one() -> None:
    async def test(client: Client, cluster: ManagedCluster) -> None:
        cluster.place("a", [1, 2], [2, 1])
        throttled = {"leader.replication.throttled.replicas": "0:1", "follower.replication.throttled.replicas": "0:2"}
        for name, value in {"retention.ms": "7", "cleanup.policy": "compact", **throttled}.items():
            cluster.set_config(TOPIC, "a", name, value)
        path = "/v1/topics/a/clone"
        status, made = await call(client, "POST", f"{path}?validate_only=true", {"name": "b"})
        assert (status, made["partitions"], made["replication_factor"], made["validated_only"]) == (201, 2, 2, True)
        assert "b" not in cluster.logs
        status, made = await call(client, "POST", path, {"name": "b"})
        assert (status, made["configs"]) == (201, {"cleanup.policy": "compact", "retention.ms": "7"})
        assert cluster.config(TOPIC, "b") == made["configs"] and len(cluster.logs["b"]) == 2
        other: dict[str, Any] = {"name": "c", "partitions": 5, "replication_factor": 1}
        other["configs"] = {"retention.ms": None, "segment.bytes": "1048576"}
        assert (await call(client, "POST", path, other))[0] == 201
        assert cluster.config(TOPIC, "c") == {"cleanup.policy": "compact", "segment.bytes": "1048576"}
        assert len(cluster.logs["c"]) == 5 and cluster.replicas["c", 4] == [1]
        for body, status, field in (
            ({"name": "b"}, 409, "name"),
            ({"name": "d", "replication_factor": 9}, 422, "replication_factor"),
            ({"name": "d", "partitions": 0}, 400, "partitions"),
            ({}, 400, "name"),
        ):
            answer = await call(client, "POST", path, body)
            assert (answer[0], answer[1]["field"]) == (status, field), body
        assert (await call(client, "POST", "/v1/topics/none/clone", {"name": "d"}))[0] == 404

    with_managed(test)


def member(name: str, topic: str, *partitions: int) -> cgd.Member:
    """Return a member with partitions of a topic."""
    mine = cgd.Assignment(topic_partitions=[cgd.TopicPartitions(topic_name=topic, partitions=list(partitions))])
    return cgd.Member(member_id=name, client_id="app", client_host="/h", assignment=mine)


def test_the_groups_of_a_topic_are_those_with_a_place_or_a_member_in_it() -> None:
    async def test(client: Client, cluster: ManagedCluster) -> None:
        cluster.place("t", [1], [1])
        cluster.place("other", [1])
        for _ in range(10):
            cluster.logs["t"][0].append(Record(value=b"v"))
        for number in range(40):
            cluster.consumers[f"idle-{number:02}"] = cgd.DescribedGroup(group_state="Empty")
        cluster.offsets_of["idle-30"] = {("t", 0): 4, ("other", 0): 0}
        cluster.offsets_of["idle-31"] = {("other", 0): 0}
        cluster.consumers["new"] = cgd.DescribedGroup(
            group_id="new", group_state="Stable", members=[member("m", "t", 0), member("n", "t", 1), member("o", "x")]
        )
        status, page = await call(client, "GET", "/v1/topics/t/groups")
        assert status == 200 and page["next"] is None
        rows = [
            (row["group_id"], row["members"], row["partitions"], row["lag"], row["partitions_unknown"])
            for row in page["groups"]
        ]
        assert rows == [("idle-30", 0, 1, 6, 0), ("new", 2, 2, 0, 2)]
        first = (await call(client, "GET", "/v1/topics/t/groups?limit=1"))[1]
        assert ([row["group_id"] for row in first["groups"]], first["next"]) == (["idle-30"], "idle-30")
        rest = (await call(client, "GET", "/v1/topics/t/groups?limit=1&after=idle-30"))[1]
        assert ([row["group_id"] for row in rest["groups"]], rest["next"]) == (["new"], None)
        assert (await call(client, "GET", "/v1/topics/none/groups"))[0] == 404
        assert page["unreachable"] == []
        cluster.silent = {3}
        page = (await call(client, "GET", "/v1/topics/t/groups"))[1]
        assert ([row["group_id"] for row in page["groups"]], page["unreachable"]) == (["idle-30", "new"], [3])
        cluster.silent = set()
        cluster.codes[OffsetFetchRequest] = ErrorCode.GROUP_AUTHORIZATION_FAILED
        rows = (await call(client, "GET", "/v1/topics/t/groups"))[1]["groups"]
        assert [row["group_id"] for row in rows] == ["new"], "the others are told all the same"

    with_managed(test)
