"""Streams of what has no event of its own; who leads what; throttles; who one is: in front of fake clusters."""

import hashlib
from typing import Any

import pytest

from kvorum.admin.http.access import Access, tokens_of
from kvorum.admin.v1.metadata import live_routes
from kvorum.client.records import record_browser
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages import consumer_group_describe as cgd
from kvorum.protocol.messages.list_groups import ListGroupsRequest
from kvorum.protocol.messages.metadata import MetadataRequest
from kvorum.protocol.records import Record
from tests.unit.admin.fake import Client, FakeCluster, call, with_fake
from tests.unit.admin.operated import BROKER, CLUSTER, DEFAULT, DYNAMIC, OWN, TOPIC, OperatedCluster, with_operated
from tests.unit.admin.test_message_routes import events_of
from tests.unit.admin.test_message_routes import fill as fill_messages


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask at once again: what is told is held by what is other, not by when."""
    monkeypatch.setattr(live_routes, "SAMPLE_MS", 0)


def group(lag_group: str = "c", state: str = "Stable") -> cgd.DescribedGroup:
    return cgd.DescribedGroup(group_id=lag_group, group_state=state)


def test_a_changed_list_of_groups_is_sent() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        cluster.consumers["c"] = group()
        async with client.get("/v1/live/groups?limit=10&prefix=c") as answer:
            ((name, page),) = await events_of(answer.content, 1)
            assert name == "groups" and [(each["group_id"], each["state"]) for each in page["groups"]] == [
                ("c", "Stable")
            ]
            requested = len(asks(cluster))
            await cluster.until(lambda: len(asks(cluster)) >= requested + 3)  # looked at, and the same
            cluster.consumers["other"] = group("other")
            cluster.consumers["c"] = group(state="Empty")
            ((name, page),) = await events_of(answer.content, 1)
            assert [(each["group_id"], each["state"]) for each in page["groups"]] == [("c", "Empty")]
            cluster.codes[ListGroupsRequest] = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            ((name, trouble),) = await events_of(answer.content, 1)
            assert (name, trouble["error"]) == ("trouble", "COORDINATOR_LOAD_IN_PROGRESS")
            del cluster.codes[ListGroupsRequest]
            ((name, page),) = await events_of(answer.content, 1)
            assert name == "groups" and len(page["groups"]) == 1

    with_fake(test)


def asks(cluster: FakeCluster) -> list[Any]:
    return [each for each in cluster.requested if isinstance(each, ListGroupsRequest)]


@pytest.mark.parametrize(("name", "value"), [("state", "Ongoing"), ("type", "json"), ("limit", "0"), ("lag", "x")])
def test_a_wrong_parameter_is_refused_before_the_stream_begins(name: str, value: str) -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        status, problem = await call(client, "GET", f"/v1/live/groups?{name}={value}")
        assert (status, problem["field"]) == (400, name)

    with_fake(test)


def test_a_group_is_reported_as_its_lag_grows_without_any_committing() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        (log,) = cluster.add("t")
        log.append(Record(value=b"1"))
        cluster.consumers["c"] = group()
        cluster.offsets_of["c"] = {("t", 0): 1}
        async with client.get("/v1/live/groups/c?limit=3") as answer:
            ((name, found),) = await events_of(answer.content, 1)
            assert (name, [each["lag"] for each in found["offsets"]]) == ("group", [0])
            log.append(Record(value=b"2"), Record(value=b"3"))
            ((name, found),) = await events_of(answer.content, 1)
            assert [each["lag"] for each in found["offsets"]] == [2]
            cluster.reachable = False
            rest = await events_of(answer.content, 2)
            assert [(name, each.get("error")) for name, each in rest] == [
                ("trouble", "CLUSTER_UNREACHABLE"),
                ("end", None),
            ]

    with_fake(test)


def test_reassignments_are_reported_as_they_continue() -> None:
    async def test(client: Client, cluster: OperatedCluster) -> None:
        cluster.place("t", [1, 2])
        cluster.ends = {(1, "t", 0): 100, (2, "t", 0): 100, (3, "t", 0): 25}
        cluster.replicas["t", 0] = [1, 3, 2]
        cluster.under_way["t", 0] = ([3], [2])
        async with client.get("/v1/live/reassignments?limit=3") as answer:
            ((name, found),) = await events_of(answer.content, 1)
            assert name == "reassignments" and found["reassignments"][0]["progress"][0]["lag"] == 75
            cluster.ends[3, "t", 0] = 90
            ((_, found),) = await events_of(answer.content, 1)
            assert found["reassignments"][0]["progress"][0]["lag"] == 10
            cluster.finish()
            ((_, found),) = await events_of(answer.content, 1)
            assert found == {"reassignments": []}

    with_operated(test)


def test_non_preferred_leaders_are_found_with_one_metadata_response() -> None:
    async def test(client: Client, cluster: OperatedCluster) -> None:
        cluster.place("a", [1, 2], [2, 1], [3, 1])
        cluster.place("b", [4, 2], [1, 4])
        cluster.leaders["a", 1] = 1
        cluster.leaders["b", 0] = -1
        cluster.requested.clear()
        found = (await call(client, "GET", "/v1/leaders"))[1]
        assert [type(each) for each in cluster.requested] == [MetadataRequest]
        assert (found["partitions"], found["unpreferred"], found["leaderless"], found["more"]) == (5, 2, 1, False)
        rows = [(each["topic"], each["partition"], each["leader"], each["preferred"]) for each in found["rows"]]
        assert rows == [("b", 0, -1, 4), ("a", 1, 1, 2)], "those without a leader first"
        found = (await call(client, "GET", "/v1/leaders?only=leaderless"))[1]
        assert [each["topic"] for each in found["rows"]] == ["b"] and found["unpreferred"] == 2
        found = (await call(client, "GET", "/v1/leaders?limit=1"))[1]
        assert len(found["rows"]) == 1 and found["more"]
        assert (await call(client, "GET", "/v1/leaders?only=all"))[0] == 400

    with_operated(test)


def test_throttles_that_are_set_are_reported_and_taken_off() -> None:
    leader, follower = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
    log_dirs = "replica.alter.log.dirs.io.max.bytes.per.second"

    async def test(client: Client, cluster: OperatedCluster) -> None:
        cluster.place("t", [1, 2])
        cluster.layers[BROKER, "1"] = [[(leader, "5000", DYNAMIC)], [(follower, "5000", CLUSTER)]]
        cluster.layers[BROKER, "2"] = [[(leader, "9223372036854775807", DEFAULT)], [("other", "1", DYNAMIC)]]
        cluster.layers[BROKER, "3"] = [[(log_dirs, "70", DYNAMIC)]]
        cluster.silent = {4}
        found = (await call(client, "GET", "/v1/reassignments/throttle"))[1]
        assert [tuple(each.values()) for each in found["brokers"]] == [(1, 5000, None, None), (3, None, None, 70)]
        assert found["unreachable"] == [4]
        cluster.silent = set()
        cluster.layers[TOPIC, "t"] = [[("leader.replication.throttled.replicas", "0:1", OWN)]]
        status, was = await call(client, "DELETE", "/v1/reassignments/throttle")
        assert (status, was["brokers"]) == (200, found["brokers"])
        assert (BROKER, "1", dict.fromkeys((leader, follower, log_dirs))) in cluster.altered
        assert any((kind, name) == (TOPIC, "t") for kind, name, _ in cluster.altered)

    with_operated(test)


def test_each_caller_can_get_its_own_role() -> None:
    lines = "\n".join(f"{role} {hashlib.sha256(role.encode()).hexdigest()}" for role in ("read", "operate", "admin"))

    async def guarded(client: Client, cluster: FakeCluster) -> None:
        for role in ("read", "operate", "admin"):
            message = {"Authorization": f"Bearer {role}"}
            status, me = await call(client, "GET", "/v1/me", headers=message)
            assert (status, me.pop("name")[:6], me) == (200, "token ", {"role": role, "guarded": True})
        assert (await call(client, "GET", "/v1/me"))[0] == 401

    async def open_to_all(client: Client, cluster: FakeCluster) -> None:
        assert await call(client, "GET", "/v1/me") == (200, {"name": "this machine", "role": "admin", "guarded": False})

    with_fake(guarded, Access(tokens_of(lines)))
    with_fake(open_to_all)


def test_following_with_a_filter_reports_progress_without_matches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(record_browser, "TURN_RECORDS", 2)

    async def test(client: Client, cluster: FakeCluster) -> None:
        fill_messages(cluster, 20)
        async with client.get("/v1/topics/t/messages/stream?from=earliest&scanned=20&filter=value.number<0") as answer:
            lines = (await answer.content.read()).decode().split("\n\n")
        assert lines.count(":") >= 8, "one for each two that were looked at"
        assert "stopped_by" in lines[-2]

    with_fake(test)


def test_bytes_as_text_are_not_read_as_json() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        (log,) = cluster.add("t")
        for value in (b'{"n": 12345678901234567890.10, "m": 1e400}', b"\xff\xfe", b"plain", b"[1.10"):
            log.append(Record(value=value, key=value))
        page = (await call(client, "GET", "/v1/topics/t/messages?key_format=text&value_format=text"))[1]
        rows = [(each["value"], each["value_format"]) for each in page["messages"]]
        assert rows == [
            ('{"n": 12345678901234567890.10, "m": 1e400}', "string"),
            ("//4=", "base64"),
            ("plain", "string"),
            ("[1.10", "string"),
        ]
        assert [(each["key"], each["key_format"]) for each in page["messages"]] == rows
        log.append(Record(value=None, key=None))
        page = (await call(client, "GET", "/v1/topics/t/messages/newest?limit=1&key_format=text&value_format=text"))[1]
        (none,) = page["messages"]
        assert (none["key"], none["key_format"], none["value_format"]) == (None, "string", "string")

    with_fake(test)
