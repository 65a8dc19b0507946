"""The admin HTTP API beside a running node: groups of an unmodified client, their lag and places; records; events.

All tests but one share a cluster of one node.
"""

import hashlib
import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kvorum.cluster.local.local import LocalCluster
from tests.cluster.clients import create_topic, eventually
from tests.cluster.conftest import KEPT, Start, clusters_in

COUNT = 20
START_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """`places` has two partitions with COUNT records in each, a second apart."""
    with clusters_in(tmp_path_factory.mktemp("admin")) as start:
        cluster = start("single.yaml", "group.initial.rebalance.delay.ms=0", KEPT)
        create_topic(cluster.plan.bootstrap, "places", 2, 1)
        producer = Producer({"bootstrap.servers": cluster.plan.bootstrap, "compression.type": "lz4"})
        for number in range(COUNT):
            for partition in (0, 1):
                value = json.dumps({"number": number, "partition": partition}).encode()
                producer.produce(
                    "places", value, b"k", partition, timestamp=START_MS + 1_000 * number, headers={"h": b"v"}
                )
        assert producer.flush(30) == 0
        yield cluster


def http(
    cluster: LocalCluster, method: str, path: str, body: object = None, token: str | None = None
) -> tuple[int, Any]:
    """Return (status, what the JSON says)."""
    data = None if body is None else json.dumps(body).encode()
    url = cluster.plan.admin_urls()[0] + path
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    request = urllib.request.Request(url, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read()
            return answer.status, json.loads(text) if text else None
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_is_described_and_moved_when_its_members_are_gone(cluster: LocalCluster, protocol: str) -> None:
    group = f"readers-{protocol}"
    options = {"bootstrap.servers": cluster.plan.bootstrap, "group.id": group, "group.protocol": protocol}
    consumer = Consumer(options | {"auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe(["places"])
    read = []

    def all_read() -> bool:
        read.extend(message for message in consumer.consume(100, 0.2) if message.error() is None)
        return len(read) == 2 * COUNT

    eventually(all_read, "all records")
    consumer.commit(offsets=[TopicPartition("places", 0, 12), TopicPartition("places", 1, COUNT)], asynchronous=False)

    status, found = http(cluster, "GET", f"/v1/groups/{group}")
    assert (status, found["type"], found["state"]) == (200, protocol, "Stable")
    (member,) = found["members"]
    assert (member["assignment"], member["protocol"]) == ({"places": [0, 1]}, protocol)
    rows = [(row["partition"], row["committed_offset"], row["end_offset"], row["lag"]) for row in found["offsets"]]
    assert rows == [(0, 12, COUNT, COUNT - 12), (1, COUNT, COUNT, 0)]
    assert {row["member_id"] for row in found["offsets"]} == {member["member_id"]}
    assert http(cluster, "GET", f"/v1/groups/{group}/lag")[1]["lag"] == COUNT - 12
    listed = http(cluster, "GET", f"/v1/groups?type={protocol}&prefix=readers")[1]["groups"]
    assert [(each["group_id"], each["state"]) for each in listed] == [(group, "Stable")]

    reset = f"/v1/groups/{group}/offsets/reset"
    status, problem = http(cluster, "POST", f"{reset}?dry_run=false", {"to": "earliest"})
    assert (status, problem["error"]) == (409, "NON_EMPTY_GROUP") and "Stable" in problem["detail"]
    consumer.close()
    eventually(lambda: http(cluster, "GET", f"/v1/groups/{group}")[1]["state"] == "Empty", "an empty group")

    wanted = {"timestamp_ms": START_MS + 4_500}
    status, reported = http(cluster, "POST", reset, wanted)
    assert (status, reported["dry_run"]) == (200, True)
    moves = [(row["partition"], row["before"], row["after"], row["error"]) for row in reported["partitions"]]
    assert moves == [(0, 12, 5, None), (1, COUNT, 5, None)]
    assert http(cluster, "GET", f"/v1/groups/{group}/lag")[1]["lag"] == COUNT - 12, "a dry run moves nothing"
    assert http(cluster, "POST", f"{reset}?dry_run=false", wanted)[1] == {**reported, "dry_run": False}
    assert http(cluster, "GET", f"/v1/groups/{group}/lag")[1]["lag"] == 2 * (COUNT - 5)

    again = Consumer(options | {"auto.offset.reset": "error"})
    places = [TopicPartition("places", partition) for partition in (0, 1)]
    assert [each.offset for each in again.committed(places, 30)] == [5, 5], "as the client sees it, too"
    again.close()
    assert http(cluster, "DELETE", f"/v1/groups/{group}/offsets/places?partitions=1")[0] == 200
    assert len(http(cluster, "GET", f"/v1/groups/{group}")[1]["offsets"]) == 1
    assert http(cluster, "DELETE", f"/v1/groups/{group}") == (204, None)
    assert http(cluster, "GET", f"/v1/groups/{group}")[1]["error"] == "GROUP_ID_NOT_FOUND"


def test_a_member_that_is_removed_comes_back_as_another(cluster: LocalCluster) -> None:
    group, path = "removed", "/v1/groups/removed/members"
    options = {"bootstrap.servers": cluster.plan.bootstrap, "group.id": group}
    consumers = [Consumer(options), Consumer(options | {"group.instance.id": "still/here"})]
    for consumer in consumers:
        consumer.subscribe(["places"])

    def settled(among: list[Consumer], gone: str = "") -> dict[str | None, str]:
        """Return {instance: member id} once all of these have partitions, and nobody is the one that is gone."""
        found: dict[str | None, str] = {}

        def check() -> bool:
            for consumer in among:
                consumer.poll(0.1)
            members = http(cluster, "GET", f"/v1/groups/{group}")[1]["members"]
            found.clear()
            found.update({member["instance_id"]: member["member_id"] for member in members if member["assignment"]})
            return len(found) == len(among) and gone not in found.values()

        eventually(check, f"{len(among)} members, none of them {gone}")
        return found

    before = settled(consumers)
    assert http(cluster, "DELETE", f"{path}/{before[None]}?reason=slow") == (204, None)
    after = settled(consumers, gone=before[None])
    assert after["still/here"] == before["still/here"], "the other one stays who it is"
    status, problem = http(cluster, "DELETE", f"{path}/{before[None]}")
    assert (status, problem["error"]) == (404, "UNKNOWN_MEMBER_ID")
    consumers.pop().close()  # a static member does not leave when it closes
    assert len(http(cluster, "GET", f"/v1/groups/{group}")[1]["members"]) == 2
    status, rows = http(cluster, "DELETE", f"{path}?instance=still%2Fhere")
    assert (status, rows) == (200, [{"member_id": None, "instance_id": "still/here", "error": None}])
    assert list(settled(consumers)) == [None]
    consumers.pop().close()


def test_records_are_browsed_and_written(cluster: LocalCluster) -> None:
    path = "/v1/topics/places/messages"
    status, page = http(cluster, "GET", f"{path}?limit=5&filter=value.number%3E=3")
    assert (status, page["stopped_by"]) == (200, "limit")
    rows = [(each["value"]["number"], each["partition"], each["offset"]) for each in page["messages"]]
    assert rows == [(3, 0, 3), (3, 1, 3), (4, 0, 4), (4, 1, 4), (5, 0, 5)]
    assert page["messages"][0]["headers"] == [{"key": "h", "value": "v", "format": "string"}]
    rest = http(cluster, "GET", f"{path}?limit=1000&isolation=read_committed&offsets={page['next']}")[1]
    assert (len(rest["messages"]), rest["stopped_by"]) == (2 * COUNT - 11, "end")
    assert len(http(cluster, "GET", f"{path}?tail=2")[1]["messages"]) == 4

    create_topic(cluster.plan.bootstrap, "written", 1, 1)
    body = {"records": [{"key": "a", "value": {"n": 1}}, {"key": "a", "value": None}], "compression": "zstd"}
    result = http(cluster, "POST", "/v1/topics/written/messages", body)[1]
    assert [(row["offset"], row["error"]) for row in result["records"]] == [(0, None), (1, None)]
    consumer = Consumer({"bootstrap.servers": cluster.plan.bootstrap, "group.id": "w"})
    consumer.assign([TopicPartition("written", 0, 0)])
    found = eventually(lambda: consumer.consume(2, 5), "both records")
    assert [(each.key(), each.value()) for each in found] == [(b"a", b'{"n":1}'), (b"a", None)]
    consumer.close()
    deleted = http(cluster, "POST", "/v1/topics/written/records/delete", {"partitions": {"0": 1}})[1]
    assert deleted == [{"partition": 0, "low_watermark": 1, "error": None}]
    one = http(cluster, "GET", "/v1/topics/written/partitions/0")[1]
    assert (one["earliest_offset"], one["latest_offset"], one["last_stable_offset"]) == (1, 2, 2)
    assert one["details"][0]["size_bytes"] > 0 and one["details"][0]["log_dir"]


def test_events_are_reported_and_writes_followed(cluster: LocalCluster) -> None:
    base = cluster.plan.admin_urls()[0]
    path = f"{base}/v1/events?type=topic_created,topic_deleted"
    with urllib.request.urlopen(f"{path}&limit=1", timeout=30) as events:
        assert events.readline() == b": following\n"
        create_topic(cluster.plan.bootstrap, "first", 1, 1)
        reported = events.read().decode()
    (seen,) = re.findall(r"id: (\d+)\nevent: topic_created\n", reported)
    create_topic(cluster.plan.bootstrap, "meanwhile", 1, 1)
    again = urllib.request.Request(f"{path}&limit=3", headers={"Last-Event-ID": seen})
    with urllib.request.urlopen(again, timeout=30) as events:
        assert events.readline() == b": following\n"
        assert event(events) == ("topic_created", "meanwhile"), "what happened while nobody listened"
        create_topic(cluster.plan.bootstrap, "brief", 1, 1)
        assert event(events) == ("topic_created", "brief")
        with urllib.request.urlopen(f"{base}/v1/topics/brief/messages/stream?limit=1", timeout=30) as stream:
            assert stream.readline() == b": following\n"
            producer = Producer({"bootstrap.servers": cluster.plan.bootstrap})
            producer.produce("brief", b"news")
            assert producer.flush(30) == 0
            assert event(stream, "value") == ("message", "news")
        assert http(cluster, "DELETE", "/v1/topics/brief")[0] == 204
        assert event(events) == ("topic_deleted", "brief")


def test_a_node_with_tokens_requires_one(start_cluster: Start, tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"read {hashlib.sha256(b'look').hexdigest()}\nadmin {hashlib.sha256(b'change').hexdigest()} ops\n")
    cluster = start_cluster("single.yaml", f"kvorum.admin.tokens.file={file}")
    assert http(cluster, "GET", "/v1/cluster")[1]["error"] == "UNAUTHENTICATED"
    assert http(cluster, "GET", "/v1/cluster", token="look")[1]["brokers"] == 1
    assert http(cluster, "POST", "/v1/topics", {"name": "t"}, token="look")[1]["error"] == "FORBIDDEN_ROLE"
    assert http(cluster, "POST", "/v1/topics", {"name": "t"}, token="change")[0] == 201
    assert http(cluster, "GET", "/v1/brokers/1/log", token="look")[1]["lines"], "the token goes along to the process"
    ends = "/v1/brokers/1/controlled-shutdown"
    assert http(cluster, "POST", ends, token="look")[1]["error"] == "FORBIDDEN_ROLE"
    process = cluster.plan.nodes[0].properties["metrics.listener"]
    assert asked_itself(f"{process}/v1/node/log") == 401
    lines = Path(cluster.node(cluster.plan.nodes[0].name).log("admin")).read_text().splitlines()
    (change,) = [line for line in lines if "admin request accepted" in line and "/v1/topics" in line]
    assert "who=ops" in change and "method=POST" in change and "status=201" in change
    assert [line for line in lines if "request rejected" in line and "UNAUTHENTICATED" in line]


def asked_itself(url: str) -> int:
    """Return the status of a process's own page, asked without a token."""
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def event(stream: Any, field: str = "topic") -> tuple[str, Any]:
    """Return the next server-sent event's name and a field of its data."""
    name = ""
    for line in stream:
        if line.startswith(b"event: "):
            name = line[7:].decode().strip()
        elif line.startswith(b"data: "):
            return name, json.loads(line[6:]).get(field)
    raise AssertionError("the stream ended")
