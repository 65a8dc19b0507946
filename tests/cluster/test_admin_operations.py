"""The admin HTTP API beside three running nodes: quotas, reassignments, leaders, features, loggers, differences.

What HTTP sets an unmodified client of Kafka's protocol sees, and the other way round.
"""

import io
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from kvorum.cluster.local.local import LocalCluster
from kvorum.runtime import metric_names as names
from tests.cluster.clients import create_topic, eventually, leader_of
from tests.cluster.conftest import ROOT, clusters_in
from tests.cluster.test_admin_api import http
from tests.cluster.test_observability import scrape, total, urls
from tests.cluster.test_quotas import admin_of
from tests.unit.admin.fake_connect import FakeConnect, running

THROTTLE = 50_000_000
PAGES = ("node.json", "metrics.txt", "log.json")
"""Parts of a debug bundle that a process has."""
IN_COMMON, BY_DEFAULT = 3, 5
"""Where a config comes from, as Kafka's client tells it."""


@pytest.fixture(scope="module")
def connect() -> Iterator[tuple[FakeConnect, str]]:
    """Return a Kafka Connect in memory, and its address."""
    with running() as found:
        yield found


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, connect: tuple[FakeConnect, str]) -> Iterator[LocalCluster]:
    with clusters_in(tmp_path_factory.mktemp("operations")) as start:
        yield start("three-nodes.yaml", f"kvorum.connect.urls={connect[1]}")


def etag(cluster: LocalCluster, path: str) -> str:
    with urllib.request.urlopen(cluster.plan.admin_urls()[0] + path, timeout=60) as answer:
        found = answer.headers["ETag"]
        assert isinstance(found, str)
        return found


def patch_if(cluster: LocalCluster, path: str, body: object, tag: str) -> int:
    """Return the status of a PATCH with If-Match."""
    headers = {"Content-Type": "application/json", "If-Match": tag}
    request = urllib.request.Request(
        cluster.plan.admin_urls()[0] + path, json.dumps(body).encode(), headers, method="PATCH"
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_quotas_set_over_http_are_returned_to_clients(cluster: LocalCluster) -> None:
    path = "/v1/quotas?client_id=app"
    assert http(cluster, "PATCH", f"{path}&validate_only=true", {"set": {"producer_byte_rate": 1}}) == (204, None)
    assert http(cluster, "PATCH", path, {"set": {"producer_byte_rate": 1024}}) == (204, None)
    status, problem = http(cluster, "PATCH", path, {"set": {"producer_byte_rate": -1}})
    assert (status, problem["error"], problem["field"]) == (422, "INVALID_REQUEST", "set")
    with admin_of(cluster.plan.bootstrap) as admin:
        wanted = [([("client-id", "app")], {"producer_byte_rate": 1024.0})]
        eventually(lambda: admin.described() == wanted, lambda: f"{admin.described()}")
        eventually(lambda: http(cluster, "GET", path)[1] != [], "the quota at the broker asked over HTTP")
        tag = etag(cluster, path)
        assert admin.alter([("client-id", "app")], producer_byte_rate=2048) == [0]
        eventually(lambda: etag(cluster, path) != tag, "another quota")
        assert patch_if(cluster, path, {"delete": ["producer_byte_rate"]}, tag) == 412
        (row,) = http(cluster, "GET", "/v1/quotas")[1]
        assert row == {"entity": [{"type": "client_id", "name": "app"}], "quotas": {"producer_byte_rate": 2048.0}}
        assert http(cluster, "DELETE", path) == (204, None)
        eventually(lambda: admin.described() == [], lambda: f"{admin.described()}")


def test_a_topic_moves_by_a_proposal_and_its_leader_is_moved(cluster: LocalCluster) -> None:
    bootstrap = cluster.plan.bootstrap
    create_topic(bootstrap, "moved", 2, 1)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(200):
        producer.produce("moved", bytes(1000), partition=number % 2)
    assert producer.flush(30) == 0
    target = min({1, 2, 3} - {leader_of(bootstrap, "moved", 0), leader_of(bootstrap, "moved", 1)})
    body = {"topics": ["moved"], "brokers": [target]}
    status, proposal = http(cluster, "POST", "/v1/reassignments/propose", body)
    moving = [row["partition"] for row in proposal["partitions"]]
    assert status == 200 and moving and all(row["replicas"] == [target] for row in proposal["partitions"])
    assert proposal["moved_bytes"] > 100 * 1000 * len(moving)
    plan = [{key: row[key] for key in ("topic", "partition", "replicas")} for row in proposal["partitions"]]
    begun = {"partitions": plan, "throttle_bytes_per_second": THROTTLE}
    status, started = http(cluster, "POST", "/v1/reassignments", begun)
    assert (status, {row["error"] for row in started}) == (200, {None}), started

    def completed() -> bool:
        for row in http(cluster, "GET", "/v1/reassignments?topic=moved")[1]:
            assert (row["adding"], row["target"]) == ([target], [target])
        return bool(http(cluster, "POST", "/v1/reassignments/verify", {"partitions": plan})[1]["completed"])

    eventually(completed, "the topic on the broker it was to go to")
    configs = http(cluster, "GET", "/v1/topics/moved/configs")[1]
    assert not [row for row in configs if "throttled" in row["name"]], "the throttle is off again"
    for partition in moving:
        eventually(lambda partition=partition: leader_of(bootstrap, "moved", partition) == target, "its leader")

    create_topic(bootstrap, "led", 1, 3)
    before = eventually(lambda: leader_of(bootstrap, "led", 0), "a leader")
    for broker in sorted({1, 2, 3} - {before}):
        status, led = http(cluster, "POST", "/v1/topics/led/partitions/0/leader", {"broker": broker})
        assert (status, led["leader"], led["replicas"][0]) == (200, broker, broker), led
        eventually(lambda broker=broker: leader_of(bootstrap, "led", 0) == broker, f"broker {broker} leads")
        eventually(
            lambda broker=broker: http(cluster, "GET", "/v1/topics/led/partitions/0")[1]["leader"] == broker,
            "the broker asked over HTTP knows it",
        )
    assert http(cluster, "POST", "/v1/topics/led/partitions/0/leader", {"broker": 9})[1]["field"] == "broker"


def test_features_loggers_and_differences_are_those_of_the_cluster(cluster: LocalCluster) -> None:
    features = {row["name"]: row for row in http(cluster, "GET", "/v1/features")[1]}
    assert features["metadata.version"]["level"] == 30 and features["transaction.version"]["level"] == 2
    too_high = {"levels": {"transaction.version": 9}}
    assert http(cluster, "PATCH", "/v1/features", too_high)[1]["error"] == "INVALID_UPDATE_VERSION"
    assert http(cluster, "PATCH", "/v1/features?validate_only=true", {"levels": {"kraft.version": 1}}) == (204, None)
    down = {"levels": {"transaction.version": 1}, "kind": "safe_downgrade"}
    assert http(cluster, "PATCH", "/v1/features?validate_only=true", down) == (204, None)
    assert http(cluster, "PATCH", "/v1/features", down) == (204, None)
    level = lambda: {row["name"]: row["level"] for row in http(cluster, "GET", "/v1/features")[1]}  # noqa: E731
    eventually(lambda: level()["transaction.version"] == 1, "the lower level")
    up = {"levels": {"transaction.version": 2}}
    assert http(cluster, "PATCH", "/v1/features", up) == (204, None)

    path = "/v1/brokers/2/loggers"
    assert http(cluster, "PATCH", path, {"set": {"network": "DEBUG"}}) == (204, None)
    assert {"name": "network", "level": "DEBUG"} in http(cluster, "GET", path)[1]
    assert {"name": "network", "level": "INFO"} in http(cluster, "GET", "/v1/brokers/1/loggers")[1]
    assert http(cluster, "PATCH", path, {"delete": ["network"]}) == (204, None)
    assert http(cluster, "PATCH", path, {"set": {"nobody": "INFO"}})[1]["field"] == "set.nobody"

    admin = AdminClient({"bootstrap.servers": cluster.plan.bootstrap})
    change = ConfigEntry("log.retention.ms", "3600000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.BROKER, "3", incremental_configs=[change])
    admin.incremental_alter_configs([resource])[resource].result(30)

    def differences(columns: str) -> dict[str, list[Any]]:
        status, diff = http(cluster, "GET", f"/v1/configs/diff?of={columns}")
        assert status == 200, diff
        rows = [row for row in diff["rows"] if not row["own"]]
        return {row["name"]: [cell and cell["value"] for cell in row["cells"]] for row in rows}

    found = eventually(lambda: differences("broker:1,broker:3"), "a difference")
    assert found["log.retention.ms"] == [None, "3600000"]
    assert differences("broker:3,broker:3:static") == {"log.retention.ms": ["3600000", None]}
    create_topic(cluster.plan.bootstrap, "differing", 1, 1)
    body = {"set": {"retention.ms": "604800000", "segment.bytes": "2097152"}}
    assert http(cluster, "PATCH", "/v1/topics/differing/configs", body) == (204, None)
    eventually(lambda: len(http(cluster, "GET", "/v1/topics/differing/configs")[1]) >= 2, "the topic's configs")
    assert differences("topic:differing,topic:differing:broker")["segment.bytes"] == ["2097152", "1073741824"]


def test_brokers_report_api_versions_and_common_configs(cluster: LocalCluster) -> None:
    found = http(cluster, "GET", "/v1/brokers/2/api-versions")[1]
    fetch = next(row for row in found["apis"] if row["name"] == "FETCH")
    assert (found["broker"], fetch["key"], fetch["min_version"] <= 12 <= fetch["max_version"]) == (2, 1, True)
    assert {row["name"]: row["level"] for row in found["features"]}["metadata.version"] == 30
    assert http(cluster, "GET", "/v1/brokers/9/api-versions")[1]["error"] == "BROKER_ID_NOT_REGISTERED"

    path, key = "/v1/brokers/configs", "log.cleaner.backoff.ms"
    admin = AdminClient({"bootstrap.servers": cluster.plan.bootstrap})
    second = ConfigResource(ConfigResource.Type.BROKER, "2")

    def at_second() -> tuple[str, int]:
        row = admin.describe_configs([second])[second].result(30)[key]
        return row.value, row.source

    def values(path: str) -> dict[str, tuple[str, str]]:
        return {row["name"]: (row["value"], row["source"]) for row in http(cluster, "GET", path)[1]}

    body = {"set": {key: "16000"}}
    assert http(cluster, "PATCH", f"{path}?validate_only=true", body) == (204, None)
    for wrong in ({key: "-1"}, {"listeners": "PLAINTEXT://127.0.0.1:1"}):
        status, problem = http(cluster, "PATCH", path, {"set": wrong})
        assert (status, problem["error"]) == (422, "INVALID_REQUEST"), problem
    assert key not in values(path)
    assert http(cluster, "PATCH", path, body) == (204, None)
    eventually(lambda: at_second() == ("16000", IN_COMMON), "what all brokers have at one of them, by Kafka's client")
    common = ("16000", "DYNAMIC_DEFAULT_BROKER_CONFIG")
    eventually(lambda: values(path).get(key) == common, "the same over HTTP")
    eventually(lambda: values("/v1/brokers/2/configs").get(key) == common, "the broker with what all have")
    assert http(cluster, "PATCH", "/v1/brokers/2/configs?validate_only=true", {"set": {key: "17000"}}) == (204, None)
    assert http(cluster, "PATCH", path, {"delete": [key]}) == (204, None)
    eventually(lambda: key not in values(path), "nothing in common any more")
    eventually(lambda: at_second() == ("15000", BY_DEFAULT), "nor of its own: that was only checked")

    quorum = http(cluster, "GET", "/v1/quorum")[1]
    leaders = {each["id"]: each for each in quorum["voters"]}
    assert len(leaders) == 3 and all(each["listeners"][0]["port"] > 0 for each in leaders.values())
    assert all(each["last_fetch_ms"] > 0 for id_, each in leaders.items() if id_ != quorum["leader_id"])


def test_a_transaction_is_described_and_aborted_over_http(cluster: LocalCluster) -> None:
    bootstrap = cluster.plan.bootstrap
    create_topic(bootstrap, "in-doubt", 2, 3)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "doubtful"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("in-doubt", b"x", partition=1)
    assert producer.flush(30) == 0
    (row,) = eventually(lambda: http(cluster, "GET", "/v1/transactions/doubtful/partitions")[1], "its partition")
    assert (row["topic"], row["partition"], row["start_offset"], row["error"]) == ("in-doubt", 1, 0, None)
    assert http(cluster, "POST", "/v1/transactions/doubtful/abort") == (204, None)

    def state() -> str:
        found = http(cluster, "GET", "/v1/transactions/doubtful")[1]["state"]
        assert isinstance(found, str)
        return found

    eventually(lambda: state() in ("Empty", "CompleteAbort"), state)
    with pytest.raises(Exception, match=r"fenced|FENCED|newer|epoch"):
        producer.commit_transaction(30)


def bundle_of(cluster: LocalCluster) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Return {part: what it says} of a debug bundle, and its manifest."""
    with urllib.request.urlopen(f"{cluster.plan.admin_urls()[0]}/v1/debug-bundle", timeout=180) as answer:
        archive = zipfile.ZipFile(io.BytesIO(answer.read()))
    found = {name: archive.read(name) for name in archive.namelist()}
    return found, json.loads(found["manifest.json"])


def test_processes_report_themselves_and_a_snapshot_is_written(cluster: LocalCluster) -> None:
    brokers = http(cluster, "GET", "/v1/brokers")[1]
    assert [row["id"] for row in brokers] == [1, 2, 3]
    for row in brokers:
        one = http(cluster, "GET", f"/v1/brokers/{row['id']}")[1]
        assert (one["registration_error"], one["process_error"]) == (None, None), one["process_message"]
        assert one["version"] == version("kvorum") and one["uptime_ms"] >= 0 < one["started_ms"]
        assert one["epoch"] >= 0 and one["incarnation_id"]
        assert [each["online"] for each in one["log_dirs"]] == [True]
    assert len({row["incarnation_id"] for row in brokers}) == 3

    consumer = Consumer({"bootstrap.servers": cluster.plan.bootstrap, "group.id": "seen", "client.id": "seen"})

    def seen() -> list[dict[str, Any]]:
        consumer.list_topics(timeout=30)  # librdkafka leaves its first connection when it knows who that is
        reported = [http(cluster, "GET", f"/v1/brokers/{broker}/connections?limit=1000")[1] for broker in (1, 2, 3)]
        assert all(each["total"] >= len(each["connections"]) for each in reported)
        return [row for each in reported for row in each["connections"] if row["client_id"] == "seen"]

    rows = eventually(seen, "the client's connection")
    assert rows[0]["listener"] == "PLAINTEXT" and "kafka" in rows[0]["software_name"]
    consumer.close()
    for path in ("brokers/2/log?lines=5", "quorum/controllers/2/log?lines=5"):
        status, log = http(cluster, "GET", f"/v1/{path}")
        assert status == 200 and 1 <= len(log["lines"]) <= 5, log
    assert http(cluster, "GET", "/v1/quorum/controllers/9/log")[1]["error"] == "VOTER_NOT_FOUND"

    leader = http(cluster, "GET", "/v1/quorum")[1]["leader_id"]
    last = http(cluster, "GET", "/v1/metadata/tree")[1]["last"]
    status, active = http(cluster, "POST", "/v1/metadata/snapshot")
    assert (status, active["controller"]) == (200, leader) and active["end_offset"] > 0 < active["bytes"], active
    other = 1 + leader % 3
    status, named = http(cluster, "POST", f"/v1/metadata/snapshot?controller={other}")
    assert (status, named["controller"]) == (200, other), named
    assert active["end_offset"] <= last + 1_000 and http(cluster, "GET", "/v1/metadata/tree")[0] == 200

    found, manifest = bundle_of(cluster)
    assert manifest["missing"] == []
    names = {f"{role}s/{node}/{name}" for role in ("broker", "controller") for node in (1, 2, 3) for name in PAGES}
    assert names <= found.keys() and json.loads(found["health.json"])["controller_id"] == leader
    assert b"kvorum_build_info" in found[f"controllers/{leader}/metrics.txt"]


PAGE = ROOT / "docs" / "admin-api.md"
BLOCK = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
STREAM_SECONDS = 1
CURL = """#!{python}
import json, subprocess, sys
arguments = [each.replace("localhost:18080", "{address}") for each in sys.argv[1:]]
limit = ["--max-time", "{seconds}"] if "-N" in arguments else []
done = subprocess.run(["{curl}", "-sS", "-w", "\\n%{{http_code}}", *limit, *arguments], capture_output=True, text=True)
body, _, status = done.stdout.rpartition("\\n")
with open("{calls}", "a") as calls:
    print(json.dumps([" ".join(sys.argv[1:]), int(status), body]), file=calls)
print(body)
"""
"""A `curl` that asks the node at hand, and notes what it was asked and answered."""
JQ = """#!{python}
import json, sys
print(json.load(sys.stdin)["data"][0]["cluster_id"])
"""


NOT_HERE = {
    "-X PUT localhost:18080/v1/brokers/3/decommission": "INVALID_REPLICATION_FACTOR",
    "-X DELETE localhost:18080/v1/brokers/3": "INVALID_REQUEST",
    "groups/orders-app/members/MEMBER-ID": "UNKNOWN_MEMBER_ID",
    "v1/reassignments/propose": "BROKER_ID_NOT_REGISTERED",
    "-X PUT localhost:18080/v1/reassignments/throttle": "NO_REASSIGNMENT_IN_PROGRESS",
    '"topic_name": "orders", "partitions_count": 3': 40002,
    "v1/quorum/voters": "UNSUPPORTED_VERSION",
    "v1/tokens": "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED",
    "at=1200": "INVALID_REQUEST",
}
"""{a line of the page: the error}, as this is not the page's cluster: three brokers of a static quorum, few changes."""
KAFKA_TOPIC = """apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaTopic
metadata: {name: orders}
spec: {partitions: 3}
"""


def is_expected(requested: str, reported: dict[str, Any]) -> bool:
    """Return whether a line of the page may be refused so here."""
    found = reported.get("error") or reported.get("error_code")
    return any(text in requested and found == error for text, error in NOT_HERE.items())


@pytest.mark.skipif(shutil.which("curl") is None, reason="missing tool: curl")
def test_the_lines_of_the_admin_apis_page_are_answered(
    cluster: LocalCluster, connect: tuple[FakeConnect, str], tmp_path: Path
) -> None:
    """Typed as they stand. What cannot be here (a member, a broker 4) is refused with Kafka's error."""
    bootstrap, calls = cluster.plan.bootstrap, tmp_path / "calls"
    create_topic(bootstrap, "orders", 3, 3)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "orders-app"})
    consumer.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
    consumer.close()
    address = cluster.plan.admin_urls()[0].removeprefix("http://")
    for name, text in (("curl", CURL), ("jq", JQ)):
        command = tmp_path / "bin" / name
        command.parent.mkdir(exist_ok=True)
        facts = {"address": address, "seconds": STREAM_SECONDS, "curl": shutil.which("curl"), "calls": calls}
        command.write_text(text.format(python=sys.executable, **facts))
        command.chmod(0o755)
    (tmp_path / "orders.yaml").write_text(KAFKA_TOPIC)
    (tmp_path / "alice.json").write_text('{"password": "a long password"}')
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    for block in BLOCK.findall(PAGE.read_text()):
        if "curl " in block:
            subprocess.run(["bash", "-u"], input=block, cwd=tmp_path, env={"PATH": path}, text=True, check=True)
    answered = [json.loads(line) for line in calls.read_text().splitlines()]
    refused = [(requested, json.loads(body)) for requested, status, body in answered if not 200 <= status < 300]
    assert len(answered) - len(refused) > 30
    wrong = [(requested, reported) for requested, reported in refused if not is_expected(requested, reported)]
    assert not wrong, wrong
    jobs = [(each.method, each.path) for each in connect[0].requested]
    assert ("POST", "/connectors") in jobs and jobs[-1] == ("DELETE", "/connectors/lines"), jobs


def counted_by(admin: AdminClient) -> tuple[int, int, list[str], int]:
    """Return how many partitions have too few in sync, how many lost a replica and have just enough, the first hundred
    amiss, and how many have just enough as brokers count them."""
    topics = admin.list_topics(timeout=30).topics
    resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in topics]
    reported = {resource.name: found.result(30) for resource, found in admin.describe_configs(resources).items()}
    under = at = at_of_brokers = 0
    amiss = []
    for name, topic in topics.items():
        for row in topic.partitions.values():
            enough = min(int(reported[name]["min.insync.replicas"].value), len(row.replicas))
            too_few = row.leader < 0 or len(row.isrs) < enough
            under += too_few
            at_of_brokers += row.leader >= 0 and len(row.isrs) == enough
            at += row.leader >= 0 and len(row.isrs) == enough < len(row.replicas)
            if too_few or len(row.isrs) < len(row.replicas):
                amiss.append((name, row.id))
    amiss.sort(key=lambda row: (row[0].startswith("__"), row))  # internal topics last
    named = [f"{name}-{partition}" for name, partition in amiss[:100]]
    return under, at, named, at_of_brokers


def at_by_metrics(cluster: LocalCluster, *nodes: str) -> float:
    """Return AtMinIsrPartitionCount of brokers, in sum."""
    return sum(total(scrape(urls(cluster, node)[0]), names.AT_MIN_ISR_PARTITION_COUNT) for node in nodes)


def test_a_throttled_move_off_a_broker_that_is_dead(cluster: LocalCluster) -> None:
    """Last but one in this file: node 3 is started again, its connections are others."""
    bootstrap = cluster.plan.bootstrap
    body = {"name": "orphaned", "assignments": {"0": [3, 1]}}
    assert http(cluster, "POST", "/v1/topics", body)[0] == 201
    producer = Producer({"bootstrap.servers": bootstrap})
    for _ in range(100):
        producer.produce("orphaned", bytes(1000))
    assert producer.flush(30) == 0
    for name, nodes in (("held", [3, 1]), ("thin", [1, 2, 3]), ("lone", [1]), ("whole", [1, 2])):
        body = {"name": name, "assignments": {"0": nodes}, "configs": {"min.insync.replicas": "2"}}
        assert http(cluster, "POST", "/v1/topics", body)[0] == 201
    cluster.kill("node-3")
    eventually(lambda: http(cluster, "GET", "/v1/brokers/3")[1]["fenced"], "the dead broker fenced")
    assert http(cluster, "GET", "/v1/brokers/3/api-versions")[1]["error"] == "CLUSTER_UNREACHABLE"
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def health_as_counted() -> bool:
        health, (under, at, amiss, at_of_brokers) = http(cluster, "GET", "/v1/health")[1], counted_by(admin)
        found = health["under_min_isr_partitions"], health["at_min_isr_partitions"], health["partitions"]
        metric = at_by_metrics(cluster, "node-1", "node-2")
        return found == (under, at, amiss) and under > 0 and at_of_brokers == metric

    eventually(health_as_counted, "what is amiss, as a client counts it, and with just enough, as the brokers do")
    plan = [{"topic": "orphaned", "partition": 0, "replicas": [1, 2]}]
    begun = {"partitions": plan, "throttle_bytes_per_second": THROTTLE}
    status, started = http(cluster, "POST", "/v1/reassignments", begun)
    assert (status, [row["error"] for row in started]) == (200, [None]), started

    def completed() -> bool:
        status, found = http(cluster, "POST", "/v1/reassignments/verify", {"partitions": plan})
        assert status == 200, found
        return bool(found["completed"]) and found["unthrottled_brokers"] == [1, 2, 3]

    eventually(completed, "the partition on the living, and the throttles gone")
    assert set(cluster.start("node-3").values()) == {"ready"}
    configs = http(cluster, "GET", "/v1/brokers/3/configs")[1]
    assert not [row for row in configs if "throttled" in row["name"]]


def test_a_broker_is_shut_down_over_http_and_gives_up_its_leaders_before(cluster: LocalCluster) -> None:
    """Last in this file: node 3 is stopped."""
    create_topic(cluster.plan.bootstrap, "given-up", 6, 3)
    before = http(cluster, "GET", "/v1/metadata/tree")[1]["last"]
    assert http(cluster, "POST", "/v1/brokers/3/controlled-shutdown") == (202, {"stopping": True})
    gone = eventually(lambda: (row := http(cluster, "GET", "/v1/brokers/3")[1])["fenced"] and row, "it fenced")
    eventually(lambda: http(cluster, "GET", "/v1/brokers/3")[1]["process_error"] == "NODE_UNREACHABLE", "it gone")
    assert gone["leaders"] == 0
    records = http(cluster, "GET", f"/v1/metadata/records?offset={before}&limit=1000")[1]["records"]
    changes = [row["record"] for row in records if row["type"] == "BrokerRegistrationChange"]
    assert [each["broker_id"] for each in changes if each.get("in_controlled_shutdown")] == [3]
    assert http(cluster, "POST", "/v1/brokers/3/controlled-shutdown")[1]["error"] == "NODE_UNREACHABLE"
