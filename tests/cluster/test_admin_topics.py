"""The admin HTTP API beside three running nodes: topics as documents, copied, by size; partitions verified, throttled,
moved between disks; records by key; groups as CSV. All tests share a cluster.
"""

import json
import struct
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource
from kafka import KafkaProducer

from kvorum.cluster.local.local import LocalCluster
from kvorum.protocol.batch_header import HEADER_SIZE
from tests.cluster.clients import create_topic, eventually, isr_of, leader_of, told_of
from tests.cluster.conftest import clusters_in
from tests.cluster.test_admin_api import http
from tests.cluster.test_log_directories import two_directories

DOCUMENT = """
apiVersion: kafka.strimzi.io/v1
kind: KafkaTopic
metadata: {name: documented, generation: 7}
spec:
  partitions: 2
  replicas: 1
  config:
    retention.ms: 604800000
    cleanup.policy: [compact, delete]
"""


class Shared(NamedTuple):
    """The cluster; node 1 has the log directories a and b below `folder`."""

    cluster: LocalCluster
    folder: Path

    @property
    def bootstrap(self) -> str:
        return self.cluster.plan.bootstrap

    def get(self, path: str) -> Any:
        status, found = http(self.cluster, "GET", path)
        assert status == 200, found
        return found

    def events(self, path: str) -> list[tuple[str, Any]]:
        """Return all server-sent events of a stream that ends by itself."""
        with urllib.request.urlopen(self.cluster.plan.admin_urls()[0] + path, timeout=120) as answer:
            text = answer.read().decode()
        blocks = [block.partition("\ndata: ") for block in text.strip().split("\n\n")]
        return [(name.removeprefix("event: "), json.loads(data)) for name, _, data in blocks]

    def put_yaml(self, path: str, text: str) -> tuple[int, Any]:
        headers = {"Content-Type": "application/yaml"}
        request = urllib.request.Request(self.cluster.plan.admin_urls()[0] + path, text.encode(), headers, method="PUT")
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def replicas(self, topic: str, partition: int) -> list[int]:
        return sorted(told_of(self.bootstrap, topic, partition).replicas)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    folder = tmp_path_factory.mktemp("topics")
    with clusters_in(folder) as start:
        yield Shared(start(two_directories(folder), "group.initial.rebalance.delay.ms=0"), folder)


def write(shared: Shared, topic: str, count: int, partition: int = 0, size: int = 60) -> None:
    producer = Producer({"bootstrap.servers": shared.bootstrap, "acks": "all"})
    for number in range(count):
        producer.produce(topic, (b"%06d" % number).ljust(size, b"x"), b"k%d" % (number % 7), partition)
        producer.poll(0)
    assert producer.flush(60) == 0


def configs_of(shared: Shared, topic: str) -> dict[str, str | None]:
    """Return what an unmodified client is told is set on a topic."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": shared.bootstrap})
    found = admin.describe_configs([resource])[resource].result(30)
    return {name: each.value for name, each in found.items() if each.source == 1}


def test_a_topic_is_brought_about_by_a_document_copied_and_found_by_size(shared: Shared) -> None:
    status, reported = shared.put_yaml("/v1/topics/documented", DOCUMENT)
    assert (status, reported["created"]) == (200, True), reported
    eventually(lambda: len(shared.replicas("documented", 0)) == 1, "the topic")
    wanted = {"retention.ms": "604800000", "cleanup.policy": "compact,delete"}
    eventually(lambda: configs_of(shared, "documented") == wanted, "its configs")
    again = eventually(
        lambda: (
            reported if not (reported := shared.put_yaml("/v1/topics/documented", DOCUMENT)[1])["created"] else None
        ),
        "the broker that was asked knows it",
    )
    assert (again["changes"], again["status"]["observedGeneration"]) == ([], 7)
    assert [each["type"] for each in again["status"]["conditions"]] == ["Ready"]

    more = DOCUMENT.replace("replicas: 1", "replicas: 3")
    status, reported = shared.put_yaml("/v1/topics/documented", more)
    assert (status, reported["changes"]) == (200, [{"what": "replication_factor", "before": 1, "after": 3}]), reported
    assert reported["status"]["replicasChange"] == {"targetReplicas": 3, "state": "ongoing"}
    eventually(lambda: shared.replicas("documented", 1) == [1, 2, 3], "three replicas")
    done = lambda: shared.put_yaml("/v1/topics/documented", more)[1]["status"]["replicasChange"] is None  # noqa: E731
    eventually(done, "the change is over")
    status, problem = shared.put_yaml("/v1/topics/documented", more.replace("replicas: 3", "replicas: 4"))
    assert (status, problem["error"], problem["field"]) == (422, "INVALID_REPLICATION_FACTOR", "spec.replicas")
    status, problem = shared.put_yaml("/v1/topics/documented", more.replace("604800000", "soon"))
    assert (status, problem["error"], problem["field"]) == (422, "INVALID_CONFIG", "spec.config.retention.ms")

    body = {"name": "copied", "partitions": 1, "configs": {"cleanup.policy": None}}
    status, made = http(shared.cluster, "POST", "/v1/topics/documented/clone", body)
    assert (status, made["partitions"], made["replication_factor"]) == (201, 1, 3), made
    eventually(lambda: len(isr_of(shared.bootstrap, "copied", 0)) == 3, "the copy")
    assert configs_of(shared, "copied") == {"retention.ms": "604800000"}

    write(shared, "copied", 200)
    page = shared.get("/v1/topics?filter=*ed&order=size&limit=1")
    (largest,) = page["topics"]
    assert (largest["name"], largest["under_replicated"]) == ("copied", 0)
    assert largest["size_bytes"] > 10_000 and largest["replicas_bytes"] == 3 * largest["size_bytes"]
    assert [row["name"] for row in shared.get(f"/v1/topics?filter=*ed&order=size&after={page['next']}")["topics"]] == [
        "documented"
    ]

    names = dict(shared.events("/v1/topics/copied/analysis"))
    assert list(names) == ["progress", "result", "end"]
    result = names["result"]
    assert (result["records"], result["distinct_keys"], result["distinct_values"]) == (200, 7, 200)
    assert (result["stopped_by"], result["values"]["p50"], result["keys"]["max"]) == ("end", 60, 2)


def test_replicas_are_verified_and_a_damaged_one_is_found(shared: Shared) -> None:
    create_topic(shared.bootstrap, "checked", 1, 3)
    write(shared, "checked", 500)
    write(shared, "checked", 4, size=500_000)  # what came last is read from memory, and the first of all from the disk
    path = "/v1/topics/checked/partitions/0"

    def verified() -> tuple[list[Any], Any]:
        found = shared.events(f"{path}/verify")
        return [data for name, data in found if name == "fault"], dict(found)["result"]

    def caught_up() -> Any:
        faults, result = verified()
        assert faults == [] and result["sound"], result
        return result if {row["end_offset"] for row in result["replicas"]} == {504} else None

    result = eventually(caught_up, "followers that know the high watermark")
    assert len({(row["batches"], row["bytes"]) for row in result["replicas"]}) == 1 and result["compared"]
    leader = leader_of(shared.bootstrap, "checked", 0)
    follower = next(each for each in (2, 3) if each != leader)
    (log,) = Path(shared.cluster.node(f"node-{follower}").data).rglob("checked-0/00000000000000000000.log")
    with log.open("r+b") as file:
        file.seek(HEADER_SIZE + 5)
        byte = file.read(1)
        file.seek(HEADER_SIZE + 5)
        file.write(bytes([byte[0] ^ 1]))
    faults, result = verified()
    assert [(each["broker"], each["kind"], each["base_offset"]) for each in faults] == [(follower, "damaged", 0)]
    reported = {row["broker"]: row["damaged"] for row in result["replicas"]}
    assert not result["sound"] and reported == {each: int(each == follower) for each in (1, 2, 3)}


def test_a_partitions_leaders_are_reported_and_a_whole_topic_is_elected(shared: Shared) -> None:
    create_topic(shared.bootstrap, "led", 2, 3)
    path = "/v1/topics/led/partitions/0"
    first = eventually(lambda: leader_of(shared.bootstrap, "led", 0), "a leader")
    write(shared, "led", 10)
    second = next(each for each in (1, 2, 3) if each != first)
    assert http(shared.cluster, "POST", f"{path}/leader", {"broker": second})[0] == 200
    eventually(lambda: leader_of(shared.bootstrap, "led", 0) == second, "another leader")
    write(shared, "led", 5)
    newest, oldest = eventually(
        lambda: found if len(found := shared.get(f"{path}/epochs")["epochs"]) == 2 else None, "two epochs"
    )
    assert (oldest["start_offset"], oldest["end_offset"]) == (0, 10) and oldest["epoch"] < newest["epoch"]
    assert (newest["start_offset"], newest["end_offset"]) == (10, 15)
    history = shared.get(f"{path}/history")
    kinds = [row["type"] for row in history["events"]]
    assert kinds[0] == "partition_created" and not history["more"], history
    elected = next(row for row in history["events"] if row["type"] == "leader_elected")
    assert (elected["before"]["leader"], elected["after"]["leader"], elected["partition"]) == (first, second, 0)
    status, rows = http(shared.cluster, "POST", "/v1/leaders/elect", {"partitions": {"led": None}})
    assert status == 200 and all(row["error"] in (None, "ELECTION_NOT_NEEDED") for row in rows), rows
    assert {row["partition"] for row in rows} <= {0, 1}


def test_a_throttled_move_completes_after_the_throttles_removal(shared: Shared) -> None:
    admin = AdminClient({"bootstrap.servers": shared.bootstrap})
    create_topic(shared.bootstrap, "moved", 1, 1)
    write(shared, "moved", 30_000)
    source = leader_of(shared.bootstrap, "moved", 0)
    target = 1 if source != 1 else 2
    plan = [{"topic": "moved", "partition": 0, "replicas": [target]}]
    throttle = "/v1/reassignments/throttle"
    assert shared.get(throttle) == {"brokers": [], "topics": [], "unreachable": []}
    begun = {"partitions": plan, "throttle_bytes_per_second": 1_000}
    assert http(shared.cluster, "POST", "/v1/reassignments", begun)[0] == 200
    reported = eventually(lambda: found if (found := shared.get(throttle))["topics"] else None, "the throttle")
    assert {row["leader_rate"] for row in reported["brokers"]} == {1_000}
    assert reported["topics"] == [{"topic": "moved", "leaders": f"0:{source}", "followers": f"0:{target}"}]
    assert http(shared.cluster, "PUT", throttle, {"bytes_per_second": 2_000})[0] == 200
    rates = lambda: {row["follower_rate"] for row in shared.get(throttle)["brokers"]}  # noqa: E731
    eventually(lambda: rates() == {2_000}, "the other rate")
    assert shared.get("/v1/reassignments"), "2 kB a second: it takes a quarter of an hour"
    status, before = http(shared.cluster, "DELETE", throttle)
    assert (status, [row["topic"] for row in before["topics"]]) == (200, ["moved"])
    eventually(lambda: shared.replicas("moved", 0) == [target], "the topic has moved")
    eventually(lambda: shared.get(throttle)["topics"] == shared.get(throttle)["brokers"] == [], "no throttle")
    assert http(shared.cluster, "PUT", throttle, {"bytes_per_second": 1})[1]["error"] == "NO_REASSIGNMENT_IN_PROGRESS"

    if target != 1:
        assert (
            http(shared.cluster, "POST", "/v1/reassignments", {"partitions": [{**plan[0], "replicas": [1]}]})[0] == 200
        )
        eventually(lambda: shared.replicas("moved", 0) == [1], "it is on broker 1")
    segments = eventually(
        lambda: found if (found := segments_of(shared))[0] == 200 else None, lambda: f"{segments_of(shared)}"
    )[1]
    assert segments["broker"] == 1 and segments["segments"][-1]["next_offset"] is None
    assert segments["size_bytes"] == sum(row["size_bytes"] for row in segments["segments"]) > 1_000_000
    here = Path(segments["log_dir"]).name
    there = shared.folder / ("b" if here == "a" else "a")
    wanted = {"partitions": [{"topic": "moved", "partition": 0, "replicas": [1], "log_dirs": [str(there)]}]}
    (row,) = http(shared.cluster, "POST", "/v1/reassignments", wanted)[1]
    assert row["log_dirs"] == [{"broker": 1, "log_dir": str(there), "error": None}]

    def arrived() -> bool:
        found = http(shared.cluster, "POST", "/v1/reassignments/verify", wanted)[1]
        return bool(found["completed"]) and found["partitions"][0]["log_dirs"][0]["current"] == str(there)

    eventually(arrived, "the replica in the other directory")
    assert shared.get("/v1/reassignments/log-dirs") == []
    eventually(lambda: segments_of(shared)[1]["log_dir"] == str(there), "its segments there")
    status, problem = http(shared.cluster, "GET", "/v1/topics/moved/partitions/0/segments?broker=3")
    assert (status, problem["error"]) == (421, "MISDIRECTED_REQUEST")
    dirs = shared.get("/v1/brokers/1/log-dirs?topic=moved")
    assert {Path(each["log_dir"]).name: each["replicas"] for each in dirs} == {here: 0, there.name: 1}
    admin.delete_topics(["moved"])["moved"].result(30)


def segments_of(shared: Shared) -> tuple[int, Any]:
    return http(shared.cluster, "GET", "/v1/topics/moved/partitions/0/segments")


def test_records_of_all_producers_are_found_by_key_and_decoded_as_numbers(shared: Shared) -> None:
    create_topic(shared.bootstrap, "keyed", 12, 1)
    sender = Producer({"bootstrap.servers": shared.bootstrap})
    java = KafkaProducer(bootstrap_servers=shared.bootstrap)
    for number in range(50):
        key = struct.pack(">q", number)
        sender.produce("keyed", struct.pack(">d", number / 4), key)
        java.send("keyed", struct.pack(">d", -number / 4), key)
    assert sender.flush(30) == 0
    java.flush(30)
    java.close()
    path = "/v1/topics/keyed/messages?key_format=int64&value_format=double"
    seen = 0
    for number in (3, 17, 42):
        page = shared.get(f"{path}&key={number}")
        found = sorted((row["key"], row["value"]) for row in page["messages"])
        assert found == [(number, -number / 4), (number, number / 4)], page
        seen += page["scanned"]
    assert seen < 3 * 100, "not all partitions were looked through"
    assert len(shared.get(f"{path}&filter=key==42%26%26value<0")["messages"]) == 1
    body = {"records": [{"key": 9, "key_format": "int64", "value": 5, "value_format": "int32"}]}
    assert http(shared.cluster, "POST", "/v1/topics/keyed/messages", body)[1]["written"] == 1
    assert len(shared.get("/v1/topics/keyed/messages?key_format=int64&key=9&partitioner=murmur2")["messages"]) >= 1


def test_groups_are_moved_by_csv_several_at_a_time_and_have_configs(shared: Shared) -> None:
    create_topic(shared.bootstrap, "placed", 2, 3)
    for partition in (0, 1):
        write(shared, "placed", 10, partition)
    for group in ("csv-a", "csv-b"):
        consumer = Consumer({"bootstrap.servers": shared.bootstrap, "group.id": group})
        consumer.commit(offsets=[TopicPartition("placed", each, 4) for each in (0, 1)], asynchronous=False)
        consumer.close()
    listed = eventually(lambda: lags(shared) if len(lags(shared)) == 2 else None, "both groups")
    assert listed == {"csv-a": 12, "csv-b": 12}
    users = {
        row["group_id"]: (row["lag"], row["partitions"]) for row in shared.get("/v1/topics/placed/groups")["groups"]
    }
    assert users == {"csv-a": (12, 2), "csv-b": (12, 2)}
    with urllib.request.urlopen(
        f"{shared.cluster.plan.admin_urls()[0]}/v1/groups/csv-a/offsets?csv=true&with_group=true", timeout=30
    ) as answer:
        text = answer.read().decode()
        assert answer.headers.get_content_type() == "text/csv"
    assert text == "csv-a,placed,0,4\ncsv-a,placed,1,4\n"
    several = "/v1/group-offsets/reset?dry_run=false"
    status, rows = http(shared.cluster, "POST", several, {"groups": ["csv-a", "csv-b"], "to": "latest"})
    assert (status, [(row["group_id"], row["error"]) for row in rows]) == (200, [("csv-a", None), ("csv-b", None)])
    assert lags(shared) == {"csv-a": 0, "csv-b": 0}
    with urllib.request.urlopen(f"{shared.cluster.plan.admin_urls()[0]}/v1/groups/csv-a/offsets") as answer:
        tag = answer.headers["ETag"]
    assert http(shared.cluster, "POST", several, {"csv": text})[0] == 200
    assert lags(shared) == {"csv-a": 12, "csv-b": 0}
    reset = urllib.request.Request(
        f"{shared.cluster.plan.admin_urls()[0]}/v1/groups/csv-a/offsets/reset?dry_run=false",
        json.dumps({"to": "earliest"}).encode(),
        {"Content-Type": "application/json", "If-Match": tag},
    )
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(reset, timeout=30)
    assert refused.value.code == 412
    refused.value.close()

    offsets = shared.get("/v1/topics/__consumer_offsets/messages?filter=key.data.group==%22csv-a%22")
    commits = [row["value"]["data"]["offset"] for row in offsets["messages"] if row["key"]["type"] == "1"]
    assert commits[:2] == [4, 4] and commits[-2:] == [4, 4] and 10 in commits

    path = "/v1/groups/csv-a/configs"
    change = {"set": {"consumer.session.timeout.ms": "50000"}}
    assert http(shared.cluster, "PATCH", path, change) == (204, None)
    eventually(lambda: shared.get("/v1/group-configs") == [{"name": "csv-a", "configs": change["set"]}], "its config")
    assert [(row["name"], row["value"]) for row in shared.get(path)] == [("consumer.session.timeout.ms", "50000")]
    assert http(shared.cluster, "PATCH", path, {"set": {"nobody.knows": "1"}})[1]["field"] == "set.nobody.knows"
    assert http(shared.cluster, "PATCH", path, {"delete": ["consumer.session.timeout.ms"]}) == (204, None)
    eventually(lambda: shared.get("/v1/group-configs") == [], "no config")
    metrics = {"set": {"metrics": "*", "interval.ms": "10000"}}
    assert http(shared.cluster, "PATCH", "/v1/client-metrics/mine", metrics) == (204, None)
    eventually(lambda: [row["name"] for row in shared.get("/v1/client-metrics")] == ["mine"], "the subscription")
    assert http(shared.cluster, "DELETE", "/v1/client-metrics/mine") == (204, None)
    eventually(lambda: shared.get("/v1/client-metrics") == [], "no subscription")


def lags(shared: Shared) -> dict[str, int | None]:
    """Return the lag of each group as the list tells it."""
    return {row["group_id"]: row["lag"] for row in shared.get("/v1/groups?prefix=csv-&lag=true")["groups"]}
