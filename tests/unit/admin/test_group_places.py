"""Places of groups in pages and as CSV, resets of several groups, lag in the list, configs of groups: over HTTP."""

import asyncio
from functools import partial
from typing import Any

import pytest

from kvorum.client.groups.lags import GROUPS_AT_ONCE, in_turn
from kvorum.client.groups.offset_csv import format_plan, parse_plan
from kvorum.client.groups.offset_reset import ResetError
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.offset_commit import OffsetCommitRequest
from kvorum.protocol.messages.offset_fetch import OffsetFetchRequest
from kvorum.protocol.topic_partition import TopicPartition
from tests.unit.admin.fake import Client, FakeCluster, call, with_fake
from tests.unit.admin.managed import ManagedCluster, with_managed
from tests.unit.admin.test_groups_routes import fill

OFFSETS = "/v1/groups/e/offsets"
RESET = "/v1/groups/e/offsets/reset"
SEVERAL = "/v1/group-offsets/reset"


def test_plans_are_read_and_written_as_kafkas_tool_does() -> None:
    places = {TopicPartition("a", 0): 5, TopicPartition("b-1", 2): 0}
    assert format_plan([("g", places)], with_group=False) == "a,0,5\nb-1,2,0\n"
    assert parse_plan("a,0,5\n\n b-1 , 2,0\n", "g") == {"g": places}
    several = format_plan([('g,"1"', places), ("h", {})], with_group=True)
    assert parse_plan(several, None) == {'g,"1"': places}
    assert parse_plan("a,0,5\na,0,6", "g") == {"g": {TopicPartition("a", 0): 6}}, "the last one, as with Kafka's tool"
    for text, group in (
        ("a,0,5\na,0,6", "g"),
        ("a,0", "g"),
        ("a,0,5", None),
        ("a,x,5", "g"),
        ("a,-1,5", "g"),
        ("a,0,-5", "g"),
        (f"a,{2**31},5", "g"),
        (f"a,0,{2**63}", "g"),
        ("a,0," + "5" * 200_000, "g"),
    ):
        with pytest.raises(ResetError, match=r"^line \d"):
            parse_plan(text, group, once=True)


def test_places_come_in_pages_with_one_tag_for_all_of_them() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        fill(cluster)
        status, page = await call(client, "GET", OFFSETS)
        rows = [(row["partition"], row["committed_offset"], row["end_offset"], row["lag"]) for row in page["offsets"]]
        assert (status, rows, page["next"], page["state"]) == (200, [(0, 5, 10, 5), (1, 1, 4, 3)], None, "Empty")
        first = (await call(client, "GET", f"{OFFSETS}?limit=1"))[1]
        assert ([row["partition"] for row in first["offsets"]], first["next"]) == ([0], "t:0")
        rest = (await call(client, "GET", f"{OFFSETS}?limit=1&after={first['next']}"))[1]
        assert ([row["partition"] for row in rest["offsets"]], rest["next"]) == ([1], None)
        assert page["revision"] == first["revision"] == rest["revision"]
        assert (await call(client, "GET", f"{OFFSETS}?topic=x"))[1]["offsets"] == []
        members = (await call(client, "GET", "/v1/groups/c/offsets"))[1]["offsets"]
        assert [(row["partition"], row["committed_offset"], row["member_id"]) for row in members] == [
            (0, 7, "m1"),
            (1, None, "m1"),
        ]
        assert (await call(client, "GET", "/v1/groups/none/offsets"))[0] == 404
        assert (await call(client, "GET", f"{OFFSETS}?after=t"))[1]["field"] == "after"

    with_fake(test)


def test_concurrent_offset_changes_of_a_group_do_not_overwrite_each_other() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        fill(cluster)

        async def tag() -> str:
            async with client.get(f"{OFFSETS}?limit=1") as answer:
                return answer.headers["ETag"]

        seen = await tag()
        mine = await call(client, "POST", f"{RESET}?dry_run=false", {"offset": 2}, headers={"If-Match": seen})
        assert mine[0] == 200 and cluster.offsets_of["e"]["t", 0] == 2
        for method, path, body in (
            ("POST", f"{RESET}?dry_run=false", {"offset": 3}),
            ("DELETE", f"{OFFSETS}/t?partitions=1", None),
            ("DELETE", "/v1/groups/e", None),
        ):
            status, problem = await call(client, method, path, body, headers={"If-Match": seen})
            assert (status, problem["error"]) == (412, "PRECONDITION_FAILED"), path
        assert cluster.offsets_of["e"] == {("t", 0): 2, ("t", 1): 2} and "e" in cluster.consumers
        now = await tag()
        assert (await call(client, "DELETE", f"{OFFSETS}/t?partitions=1", headers={"If-Match": now}))[0] == 200
        assert await tag() != now

    with_fake(test)


def test_places_are_taken_along_as_csv_and_brought_back() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        fill(cluster)
        async with client.get(f"{OFFSETS}?csv=true") as answer:
            assert answer.content_type == "text/csv"
            text = await answer.text()
        assert text == "t,0,5\nt,1,1\n"
        async with client.get(f"{OFFSETS}?csv=true&with_group=true&topic=t") as answer:
            assert await answer.text() == "e,t,0,5\ne,t,1,1\n"
        assert (await call(client, "POST", f"{RESET}?dry_run=false", {"to": "latest"}))[0] == 200
        result = (await call(client, "POST", RESET, {"csv": text}))[1]
        assert [(row["before"], row["after"]) for row in result["partitions"]] == [(10, 5), (4, 1)]
        assert cluster.offsets_of["e"] == {("t", 0): 10, ("t", 1): 4}, "a dry run"
        assert (await call(client, "POST", f"{RESET}?dry_run=false", {"csv": text}))[0] == 200
        assert cluster.offsets_of["e"] == {("t", 0): 5, ("t", 1): 1}
        for body, field in (
            ({"csv": "t,0"}, "csv"),
            ({"csv": "t,0,1\nt,0,2"}, "csv"),
            ({"csv": "other,t,0,1"}, "csv"),
            ({"csv": "\n"}, "csv"),
            ({"csv": ""}, "csv"),
            ({"csv": "t,0,1", "topics": {"t": None}}, None),
            ({"csv": "t,0,1", "to": "latest"}, None),
        ):
            status, problem = await call(client, "POST", RESET, body)
            assert (status, problem["field"]) == (400, field), body

    with_fake(test)


def test_several_groups_are_moved_each_on_its_own() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        fill(cluster)
        body = {"groups": ["e", "c", "new"], "topics": {"t": [0]}, "offset": 4}
        status, rows = await call(client, "POST", SEVERAL, body)
        assert status == 200
        assert [(row["group_id"], row["error"], len(row["partitions"]), row["dry_run"]) for row in rows] == [
            ("e", None, 1, True),
            ("c", "NON_EMPTY_GROUP", 0, True),
            ("new", None, 1, True),
        ]
        assert "Stable" in rows[1]["message"]
        assert not [each for each in cluster.requested if isinstance(each, OffsetCommitRequest)]
        await call(client, "POST", f"{SEVERAL}?dry_run=false", body)
        assert (cluster.offsets_of["e"]["t", 0], cluster.offsets_of["new"]["t", 0]) == (4, 4)
        assert cluster.offsets_of["c"] == {("t", 0): 7}
        rows = (await call(client, "POST", SEVERAL, {"all_groups": True, "to": "latest"}))[1]
        assert [(row["group_id"], row["error"]) for row in rows] == [
            ("c", "NON_EMPTY_GROUP"),
            ("e", None),
            ("k", "NON_EMPTY_GROUP"),
        ]
        plan = {"csv": "e,t,0,1\ne,t,1,2\nnew,t,1,3\n"}
        rows = (await call(client, "POST", f"{SEVERAL}?dry_run=false", plan))[1]
        assert [row["error"] for row in rows] == [None, None]
        assert cluster.offsets_of["e"] == {("t", 0): 1, ("t", 1): 2} and cluster.offsets_of["new"]["t", 1] == 3

    with_fake(test)


@pytest.mark.parametrize(
    "body",
    [
        {"to": "latest"},
        {"groups": [], "to": "latest"},
        {"groups": ["e", "e"], "to": "latest"},
        {"groups": ["e"], "all_groups": True, "to": "latest"},
        {"groups": ["e"], "csv": "e,t,0,1"},
        {"groups": ["e"]},
        {"csv": "t,0,1"},
    ],
)
def test_groups_are_selected_in_only_one_way(body: dict[str, Any]) -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        fill(cluster)
        assert (await call(client, "POST", SEVERAL, body))[0] == 400

    with_fake(test)


def test_the_list_has_lags_where_they_are_requested() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        fill(cluster)
        cluster.offsets_of["e"]["gone", 0] = 1

        async def lags(query: str) -> list[tuple[Any, ...]]:
            page = (await call(client, "GET", f"/v1/groups{query}"))[1]
            return [(row["group_id"], row["lag"], row["lag_partitions"], row["lag_unknown"]) for row in page["groups"]]

        assert await lags("") == [(each, None, None, None) for each in ("c", "e", "k")]
        assert not [each for each in cluster.requested if isinstance(each, OffsetFetchRequest)]
        assert await lags("?lag=true") == [("c", 3, 1, 0), ("e", 8, 2, 1), ("k", 0, 0, 0)]
        assert await lags("?lag=true&limit=1&after=c") == [("e", 8, 2, 1)]
        cluster.codes[OffsetFetchRequest] = ErrorCode.GROUP_AUTHORIZATION_FAILED
        assert await lags("?lag=true") == [(each, None, None, None) for each in ("c", "e", "k")]

    with_fake(test)


def test_very_many_groups_are_requested_in_batches() -> None:
    async def run() -> None:
        at_once, most, go_on, full = 0, 0, asyncio.Event(), asyncio.Event()

        async def ask(number: int) -> int:
            nonlocal at_once, most
            at_once += 1
            most = max(most, at_once)
            if at_once == GROUPS_AT_ONCE:
                full.set()
            await go_on.wait()
            at_once -= 1
            return number

        requested = asyncio.ensure_future(in_turn(partial(ask, number) for number in range(5 * GROUPS_AT_ONCE)))
        async with asyncio.timeout(10):
            await full.wait()
            go_on.set()
            assert await requested == list(range(5 * GROUPS_AT_ONCE))
        assert most == GROUPS_AT_ONCE

    asyncio.run(run())


def test_configs_of_groups_and_subscriptions_are_shown_changed_and_listed() -> None:
    async def test(client: Client, cluster: ManagedCluster) -> None:
        path = "/v1/groups/g/configs"
        assert await call(client, "GET", path) == (200, [])
        change = {"set": {"consumer.session.timeout.ms": "50000"}}
        assert await call(client, "PATCH", f"{path}?validate_only=true", change) == (204, None)
        assert cluster.config(32, "g") == {}
        async with client.get(path) as answer:
            tag = answer.headers["ETag"]
        assert await call(client, "PATCH", path, change, headers={"If-Match": tag}) == (204, None)
        assert (await call(client, "PATCH", path, change, headers={"If-Match": tag}))[0] == 412
        (row,) = (await call(client, "GET", path))[1]
        assert (row["name"], row["value"], row["source"]) == ("consumer.session.timeout.ms", "50000", "GROUP_CONFIG")
        assert await call(client, "GET", "/v1/group-configs") == (200, [{"name": "g", "configs": change["set"]}])

        made = {"set": {"metrics": "*", "interval.ms": "10000"}}
        for name in ("b", "a", "c"):
            assert await call(client, "PATCH", f"/v1/client-metrics/{name}", made) == (204, None)
        async with client.get("/v1/client-metrics?limit=2") as answer:
            assert [row["name"] for row in await answer.json()] == ["a", "b"]
            link = answer.headers["Link"]
        assert link == '<?limit=2&after=b>; rel="next"'
        async with client.get(f"/v1/client-metrics{link[1 : link.index('>')]}") as answer:
            assert await answer.json() == [{"name": "c", "configs": made["set"]}] and "Link" not in answer.headers
        assert {row["name"] for row in (await call(client, "GET", "/v1/client-metrics/a"))[1]} == set(made["set"])
        assert await call(client, "DELETE", "/v1/client-metrics/a") == (204, None)
        assert (await call(client, "DELETE", "/v1/client-metrics/a"))[0] == 404
        assert [row["name"] for row in (await call(client, "GET", "/v1/client-metrics"))[1]] == ["b", "c"]
        assert (await call(client, "PATCH", path, {}))[0] == 422

    with_managed(test)
