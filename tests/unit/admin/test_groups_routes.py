"""Groups over HTTP, in front of a fake cluster that answers Kafka's requests."""

import struct
from typing import Any

import pytest

from kvorum.client.wire import coordinators
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages import consumer_group_describe as cgd
from kvorum.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from kvorum.protocol.messages.leave_group import LeaveGroupRequest
from kvorum.protocol.messages.list_groups import ListGroupsRequest
from kvorum.protocol.messages.offset_commit import OffsetCommitRequest
from kvorum.protocol.records import Record
from tests.unit.admin.fake import NOW_MS, Client, FakeClock, FakeCluster, call, serve, with_fake


def fill(cluster: FakeCluster) -> None:
    """Ten records in t-0 and four in t-1, a second apart; group `c` has members, `e` and `k` have not."""
    logs = cluster.add("t", 2)
    for log, count in zip(logs, (10, 4), strict=True):
        for number in range(count):
            log.append(Record(value=b"v", timestamp=NOW_MS - 10_000 + 1_000 * number))
    mine = cgd.Assignment(topic_partitions=[cgd.TopicPartitions(topic_name="t", partitions=[1, 0])])
    member = cgd.Member(
        member_id="m1", client_id="app", client_host="/127.0.0.1", member_epoch=3, member_type=1, assignment=mine
    )
    member.subscribed_topic_names = ["t"]
    cluster.consumers["c"] = cgd.DescribedGroup(
        group_id="c", group_state="Stable", group_epoch=3, assignment_epoch=3, assignor_name="uniform", members=[member]
    )
    cluster.consumers["e"] = cgd.DescribedGroup(group_id="e", group_state="Empty")
    given = struct.pack(">hih", 0, 1, 1) + b"t" + struct.pack(">ii", 1, 0) + struct.pack(">i", -1)
    old = DescribedGroupMember(member_id="old", client_id="k", client_host="/h", member_assignment=given)
    cluster.classics["k"] = DescribedGroup(
        group_id="k", group_state="Stable", protocol_type="consumer", protocol_data="range", members=[old]
    )
    cluster.offsets_of = {"c": {("t", 0): 7}, "e": {("t", 0): 5, ("t", 1): 1}, "k": {}}


def test_groups_come_in_pages_and_by_filters() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        fill(cluster)
        page = (await call(client, "GET", "/v1/groups?limit=2"))[1]
        assert [(g["group_id"], g["type"], g["state"]) for g in page["groups"]] == [
            ("c", "consumer", "Stable"),
            ("e", "consumer", "Empty"),
        ]
        assert page["next"] == "e" and page["groups"][0]["coordinator"] == 1
        page = (await call(client, "GET", "/v1/groups?limit=2&after=e"))[1]
        assert ([g["group_id"] for g in page["groups"]], page["next"]) == (["k"], None)
        wanted = {
            "state=Empty": ["e"],
            "type=classic": ["k"],
            "prefix=k": ["k"],
            "prefix=x": [],
            "filter=*[ck]": ["c", "k"],
        }
        for query, ids in wanted.items():
            page = (await call(client, "GET", f"/v1/groups?{query}"))[1]
            assert [g["group_id"] for g in page["groups"]] == ids, query

    with_fake(test)


def test_a_consumer_group_is_described_with_members_places_and_lag() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        fill(cluster)
        status, group = await call(client, "GET", "/v1/groups/c")
        assert (status, group["protocol"], group["epoch"]) == (200, "uniform", 3)
        (member,) = group["members"]
        assert (member["assignment"], member["topics"], member["protocol"]) == ({"t": [0, 1]}, ["t"], "consumer")
        rows = [(o["partition"], o["committed_offset"], o["end_offset"], o["lag"]) for o in group["offsets"]]
        assert rows == [(0, 7, 10, 3), (1, None, 4, None)]
        assert {o["member_id"] for o in group["offsets"]} == {"m1"}
        lag = (await call(client, "GET", "/v1/groups/c/lag"))[1]
        assert (lag["lag"], lag["partitions"], lag["partitions_unknown"]) == (3, 1, 1)
        lag = (await call(client, "GET", "/v1/groups/e/lag"))[1]
        assert (lag["lag"], lag["lag_max"], lag["lag_max_partition"]) == (8, 5, 0)
        assert lag["topics"] == [{"topic": "t", "partitions": 2, "lag": 8, "lag_max": 5}]

    with_fake(test)


def test_a_page_of_groups_with_lag_has_members_and_topics_by_one_request_per_protocol() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        fill(cluster)
        page = (await call(client, "GET", "/v1/groups?lag=true"))[1]
        rows = {row["group_id"]: (row["members"], row["topics"], row["lag"]) for row in page["groups"]}
        assert rows == {"c": (1, ["t"], 3), "e": (0, ["t"], 8), "k": (1, ["t"], 0)}
        batches = [each.group_ids for each in cluster.requested if isinstance(each, cgd.ConsumerGroupDescribeRequest)]
        assert batches == [["c", "e"]]
        plain = (await call(client, "GET", "/v1/groups"))[1]["groups"][0]
        assert (plain["members"], plain["topics"]) == (None, None)

    with_fake(test)


def test_a_classic_group_is_described_the_same_way() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        fill(cluster)
        group = (await call(client, "GET", "/v1/groups/k"))[1]
        assert (group["type"], group["protocol"], group["epoch"]) == ("classic", "range", None)
        assert group["members"][0]["assignment"] == {"t": [0]} and group["members"][0]["target_assignment"] is None
        status, problem = await call(client, "GET", "/v1/groups/none")
        assert (status, problem["error"], problem["status"]) == (404, "GROUP_ID_NOT_FOUND", 404)

    with_fake(test)


RESETS: list[tuple[dict[str, Any], list[int]]] = [
    ({"to": "earliest"}, [0, 0]),
    ({"to": "latest"}, [10, 4]),
    ({"to": "current"}, [5, 1]),
    ({"offset": 3}, [3, 3]),
    ({"shift_by": -2}, [3, 0]),
    ({"timestamp_ms": NOW_MS - 5_500}, [5, 4]),
    ({"at": "2023-11-14T22:13:12"}, [2, 2]),
    ({"at": "2023-11-14T23:13:12+01:00"}, [2, 2]),
    ({"by_duration": "PT9S"}, [1, 1]),
    ({"offsets": [{"topic": "t", "partition": 0, "offset": 9}, {"topic": "t", "partition": 1, "offset": 2}]}, [9, 2]),
]


@pytest.mark.parametrize(("body", "after"), RESETS, ids=[next(iter(body)) for body, _ in RESETS])
def test_a_reset_is_a_dry_run_by_default(body: dict[str, Any], after: list[int]) -> None:
    async def test() -> None:
        cluster = FakeCluster()
        async with serve(cluster, clock=FakeClock()) as client:
            fill(cluster)
            before = dict(cluster.offsets_of["e"])
            status, result = await call(client, "POST", "/v1/groups/e/offsets/reset", body)
            assert status == 200, result
            assert [row["after"] for row in result["partitions"]] == after and result["dry_run"] is True
            assert cluster.offsets_of["e"] == before
            assert not [each for each in cluster.requested if isinstance(each, OffsetCommitRequest)]
            done = (await call(client, "POST", "/v1/groups/e/offsets/reset?dry_run=false", body))[1]
            assert done == {**result, "dry_run": False}
            assert [cluster.offsets_of["e"]["t", each] for each in (0, 1)] == after

    import asyncio

    asyncio.run(test())


def test_a_reset_of_a_group_with_members_is_refused_with_its_state() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        fill(cluster)
        for group in ("c", "k"):
            status, problem = await call(
                client, "POST", f"/v1/groups/{group}/offsets/reset?dry_run=false", {"to": "latest"}
            )
            assert (status, problem["error"]) == (409, "NON_EMPTY_GROUP") and "Stable" in problem["message"]
        assert cluster.offsets_of["c"] == {("t", 0): 7}

    with_fake(test)


def test_a_reset_can_begin_a_group_for_topics_that_are_named() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        fill(cluster)
        path = "/v1/groups/new/offsets/reset?dry_run=false"
        assert (await call(client, "POST", path, {"to": "earliest"}))[1]["partitions"] == []
        body = {"to": "latest", "topics": {"t": [1]}}
        assert (await call(client, "POST", path, body))[1]["partitions"][0]["after"] == 4
        assert cluster.offsets_of["new"] == {("t", 1): 4}
        status, problem = await call(client, "POST", path, {"to": "latest", "topics": {"none": None}})
        assert (status, problem["error"], problem["field"]) == (422, "UNKNOWN_TOPIC_OR_PARTITION", "topics")
        status, problem = await call(client, "POST", path, {"shift_by": 1, "topics": {"t": [0]}})
        assert (status, problem["error"]) == (422, "INVALID_REQUEST")

    with_fake(test)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"to": "earliest", "offset": 1},
        {"to": "somewhere"},
        {"offset": -1},
        {"offset": 2**63},
        {"at": "yesterday"},
        {"by_duration": "soon"},
        {"offsets": []},
        {"offsets": [{"topic": "t", "partition": 0, "offset": 1}], "topics": {"t": None}},
    ],
)
def test_a_reset_goes_exactly_one_way(body: dict[str, Any]) -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        fill(cluster)
        status, problem = await call(client, "POST", "/v1/groups/e/offsets/reset?dry_run=false", body)
        assert (status, problem["error"]) == (400, "INVALID_REQUEST")
        assert cluster.offsets_of["e"] == {("t", 0): 5, ("t", 1): 1}

    with_fake(test)


def test_members_of_groups_of_either_protocol_are_removed() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        fill(cluster)
        group = cluster.classics["k"]
        names = {"a": None, "b": "static/1", "c": None}
        group.members = [DescribedGroupMember(member_id=m, group_instance_id=i) for m, i in names.items()]
        assert (await call(client, "DELETE", "/v1/groups/k/members/a?reason=stuck"))[0] == 204
        requested = cluster.requested[-1]
        assert isinstance(requested, LeaveGroupRequest)
        assert requested.members[0].reason == "stuck"
        status, rows = await call(client, "DELETE", "/v1/groups/k/members?instance=static%2F1")
        assert (status, rows) == (200, [{"member_id": None, "instance_id": "static/1", "error": None}])
        assert [each.member_id for each in group.members] == ["c"]
        status, problem = await call(client, "DELETE", "/v1/groups/k/members/a")
        assert (status, problem["error"]) == (404, "UNKNOWN_MEMBER_ID")
        rows = (await call(client, "DELETE", "/v1/groups/k/members?all=true"))[1]
        assert [(row["member_id"], row["error"]) for row in rows] == [("c", None)] and not group.members
        assert await call(client, "DELETE", "/v1/groups/k/members?all=true") == (200, [])
        rows = (await call(client, "DELETE", "/v1/groups/c/members?all=true"))[1]
        assert [row["error"] for row in rows] == [None] and not cluster.consumers["c"].members
        assert (await call(client, "DELETE", "/v1/groups/none/members?all=true"))[0] == 404
        for query in ("", "?all=true&instance=x", f"?all=true&reason={'x' * 256}"):
            status, problem = await call(client, "DELETE", f"/v1/groups/k/members{query}")
            assert (status, problem["error"]) == (400, "INVALID_REQUEST"), query

    with_fake(test)


def test_a_group_and_its_offsets_are_deleted() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        fill(cluster)
        status, rows = await call(client, "DELETE", "/v1/groups/e/offsets/t?partitions=1,5")
        assert status == 200
        assert [(row["partition"], row["error"]) for row in rows] == [(1, None), (5, "UNKNOWN_TOPIC_OR_PARTITION")]
        assert cluster.offsets_of["e"] == {("t", 0): 5}
        assert len((await call(client, "DELETE", "/v1/groups/e/offsets/t"))[1]) == 1
        assert (await call(client, "DELETE", "/v1/groups/e/offsets/t"))[0] == 404
        assert (await call(client, "DELETE", "/v1/groups/e"))[0] == 204
        assert (await call(client, "DELETE", "/v1/groups/e"))[1]["error"] == "GROUP_ID_NOT_FOUND"
        status, problem = await call(client, "DELETE", "/v1/groups/c")
        assert (status, problem["error"]) == (409, "NON_EMPTY_GROUP")

    with_fake(test)


def test_a_missing_coordinator_is_looked_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinators, "RETRY_PAUSE_SECONDS", 0.0)

    async def test(client: Client, cluster: FakeCluster) -> None:
        fill(cluster)
        cluster.loading = coordinators.RETRIES - 1
        assert (await call(client, "GET", "/v1/groups/c"))[0] == 200
        cluster.loading = 1_000
        status, problem = await call(client, "GET", "/v1/groups/c")
        assert (status, problem["error"]) == (503, "COORDINATOR_NOT_AVAILABLE")

    with_fake(test)


def test_a_refusal_of_the_cluster_has_its_name() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        cluster.codes[ListGroupsRequest] = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        status, problem = await call(client, "GET", "/v1/groups")
        assert (status, problem["error"], problem["type"]) == (403, "CLUSTER_AUTHORIZATION_FAILED", "about:blank")
        cluster.reachable = False
        assert (await call(client, "GET", "/v1/groups/c"))[1]["error"] == "CLUSTER_UNREACHABLE"

    with_fake(test)


def test_duplicate_or_misspelt_parameters_are_refused() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        fill(cluster)
        twice = [{"topic": "t", "partition": 0, "offset": offset} for offset in (1, 2)]
        status, problem = await call(client, "POST", "/v1/groups/e/offsets/reset", {"offsets": twice})
        assert (status, problem["field"]) == (400, "offsets")
        status, problem = await call(client, "GET", "/v1/groups?state=Stabel")
        assert (status, problem["field"]) == (400, "state") and "Stable" in problem["message"]
        assert (await call(client, "GET", "/v1/groups?state=stable,EMPTY"))[0] == 200

    with_fake(test)
