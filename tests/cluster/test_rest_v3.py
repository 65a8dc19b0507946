"""Confluent's REST v3 paths of a running node; what they did is looked at with another client, and what it did here.

All tests share a cluster of one node.
"""

import base64
import http.client
import json
import urllib.parse
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from kvorum.cluster.local.local import LocalCluster
from tests.cluster.clients import create_topic, eventually
from tests.cluster.conftest import clusters_in
from tests.cluster.test_admin_api import http as ask


class Rest:
    """Confluent's paths of one cluster, by way of their own links."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.bootstrap = cluster.plan.bootstrap
        self.address = cluster.plan.admin_urls()[0].removeprefix("http://")
        self._cluster = cluster
        status, clusters = ask(cluster, "GET", "/kafka/v3/clusters")
        assert status == 200
        self.cluster: dict[str, Any] = clusters["data"][0]

    def __call__(self, method: str, url: str, body: object = None) -> tuple[int, Any]:
        """Ask for a link."""
        parts = urllib.parse.urlsplit(url)
        assert parts.netloc == self.address, "a link leads to where the caller came from"
        return ask(self._cluster, method, parts.path, body)

    def related(self, name: str) -> str:
        return str(self.cluster[name]["related"])


@pytest.fixture(scope="module")
def rest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rest]:
    with clusters_in(tmp_path_factory.mktemp("rest")) as start:
        yield Rest(start("single.yaml", "group.initial.rebalance.delay.ms=0"))


def config_is(bootstrap: str, topic: str, name: str, value: str) -> None:
    """Wait until another client sees a config so."""
    admin, resource = AdminClient({"bootstrap.servers": bootstrap}), ConfigResource(ResourceType.TOPIC, topic)
    eventually(lambda: admin.describe_configs([resource])[resource].result(30)[name].value == value, f"{name}={value}")


def test_a_topic_lives_as_terraform_has_it_live(rest: Rest) -> None:
    """Create, read, change configs and partitions, delete, read until it is gone."""
    topics = rest.related("topics")
    wanted = {"topic_name": "tf", "partitions_count": 2, "configs": [{"name": "cleanup.policy", "value": "compact"}]}
    assert rest("POST", topics, {**wanted, "validate_only": True})[0] == 200
    assert rest("GET", f"{topics}/tf")[0] == 404
    status, made = rest("POST", topics, wanted)
    assert (status, made["partitions_count"], made["replication_factor"]) == (201, 2, 1)
    status, refused = rest("POST", topics, wanted)
    assert (status, refused) == (400, {"error_code": 40002, "message": "Topic 'tf' already exists."})
    me, configs = made["metadata"]["self"], made["configs"]["related"]

    def known() -> Any:
        status, reported = rest("GET", me)
        return reported if status == 200 else None

    assert eventually(known, "the new topic")["partitions_count"] == 2
    changes = [{"name": "retention.ms", "value": "60000"}, {"name": "cleanup.policy", "operation": "DELETE"}]
    assert rest("POST", f"{configs}:alter", {"data": changes}) == (204, None)
    config_is(rest.bootstrap, "tf", "retention.ms", "60000")
    config_is(rest.bootstrap, "tf", "cleanup.policy", "delete")
    found = rest("GET", f"{configs}/retention.ms")[1]
    assert (found["source"], found["synonyms"][0]["source"]) == ("DYNAMIC_TOPIC_CONFIG",) * 2
    assert rest("PUT", f"{configs}/retention.ms", {"value": "never"})[1]["error_code"] == 40002
    defaults = {row["name"]: row["value"] for row in rest("GET", f"{me}/default-configs")[1]["data"]}
    assert defaults["retention.ms"] == "604800000", "whatever was set on the topic"
    assert rest("DELETE", f"{configs}/retention.ms") == (204, None)
    config_is(rest.bootstrap, "tf", "retention.ms", defaults["retention.ms"])
    assert defaults.keys() == {row["name"] for row in rest("GET", configs)[1]["data"]}
    status, grown = rest("PATCH", me, {"partitions_count": 3})
    assert (status, grown["partitions_count"]) == (200, 3)
    assert rest("PATCH", me, {"partitions_count": 3})[1]["error_code"] == 40002
    assert rest("DELETE", me) == (204, None)
    eventually(lambda: rest("GET", me)[0] == 404, "the topic to be gone")
    assert rest("DELETE", me)[1]["error_code"] == 40403


def test_configs_of_a_broker_and_of_all_are_changed(rest: Rest) -> None:
    everyone, name = rest.related("broker_configs"), "log.retention.ms"

    def values() -> dict[str, str]:
        rows = rest("GET", everyone)[1]["data"]
        assert {row["source"] for row in rows} <= {"DYNAMIC_DEFAULT_BROKER_CONFIG"}
        return {row["name"]: row["value"] for row in rows}

    before = values()
    assert name not in before
    assert rest("PUT", f"{everyone}/{name}", {"value": "3600000"}) == (204, None)
    eventually(lambda: values() == {**before, name: "3600000"}, "the config of all brokers")
    (broker,) = rest("GET", rest.related("brokers"))[1]["data"]
    own = broker["configs"]["related"]
    assert rest("PUT", f"{own}/{name}", {"value": "7200000"}) == (204, None)

    def reported() -> list[str]:
        return [each["value"] for each in rest("GET", f"{own}/{name}")[1]["synonyms"]]

    eventually(lambda: reported()[:2] == ["7200000", "3600000"], "the config of the broker")
    assert rest("DELETE", f"{own}/{name}") == rest("DELETE", f"{everyone}/{name}") == (204, None)
    eventually(lambda: values() == before, "the config to be set back")
    assert rest("DELETE", f"{everyone}/{name}")[0] == 404
    assert rest("GET", broker["metadata"]["self"])[1] == broker
    assert len(rest("GET", f"{rest.related('brokers')}/-/configs")[1]["data"]) > 100


def test_records_written_here_are_read_with_another_client(rest: Rest) -> None:
    create_topic(rest.bootstrap, "records", 2, 1)
    url = f"{rest.related('topics')}/records/records"
    body = {
        "partition_id": 1,
        "headers": [{"name": "h", "value": base64.b64encode(b"\xff").decode()}],
        "key": {"type": "BINARY", "data": base64.b64encode(b"\x00").decode()},
        "value": {"type": "JSON", "data": {"a": 1}},
        "timestamp": "2023-11-14T22:13:20.001Z",
    }
    status, reported = rest("POST", url, body)
    assert (status, reported["error_code"], reported["offset"], reported["timestamp"]) == (
        200,
        200,
        0,
        body["timestamp"],
    )
    consumer = Consumer({"bootstrap.servers": rest.bootstrap, "group.id": "reader", "enable.auto.commit": False})
    consumer.assign([TopicPartition("records", 1, 0)])
    message = consumer.poll(30)
    assert message is not None and message.error() is None
    assert (message.key(), message.value(), message.headers()) == (b"\x00", b'{"a":1}', [("h", b"\xff")])
    assert message.timestamp()[1] == 1_700_000_000_001
    consumer.close()
    entries = [{"id": "a", "value": {"type": "STRING", "data": "v"}}, {"id": "b", "partition_id": 9}]
    status, reported = rest("POST", f"{url}:batch", {"entries": entries})
    assert (status, reported["successes"][0]["id"], reported["failures"][0]["error_code"]) == (207, "a", 40402)


def test_a_stream_of_records_is_answered_while_it_runs(rest: Rest) -> None:
    create_topic(rest.bootstrap, "stream", 1, 1)
    path = urllib.parse.urlsplit(f"{rest.related('topics')}/stream/records").path
    connection = http.client.HTTPConnection(rest.address, timeout=60)
    connection.putrequest("POST", path)
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Transfer-Encoding", "chunked")
    connection.endheaders()

    def send(data: bytes) -> None:
        connection.send(b"%x\r\n%b\r\n" % (len(data), data))

    def record(value: str) -> bytes:
        return json.dumps({"value": {"type": "STRING", "data": value}}).encode()

    send(record("0"))
    answer = connection.getresponse()
    offsets = [json.loads(answer.readline())["offset"]]
    for number in range(1, 4):
        send(record(str(number)) + b"\n" + record(f"{number}b"))
        offsets += [json.loads(answer.readline())["offset"] for _ in range(2)]
    connection.send(b"0\r\n\r\n")
    assert answer.read() == b"" and offsets == list(range(7))
    connection.close()
    partition = f"{rest.related('topics')}/stream/partitions/0"
    reported = rest("GET", f"{partition}/offset")[1]
    assert (reported["earliest_offset"], reported["latest_offset"]) == (0, 7)
    (replica,) = rest("GET", f"{partition}/replicas")[1]["data"]
    assert replica["is_leader"] and rest("GET", replica["metadata"]["self"])[1] == replica
    held = rest("GET", rest("GET", replica["broker"]["related"])[1]["partition_replicas"]["related"])[1]["data"]
    assert replica in held
    assert rest("GET", rest.related("partition_reassignments"))[1]["data"] == []


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_is_followed_to_its_members_partitions_and_lag(rest: Rest, protocol: str) -> None:
    topic = group = f"lagging-{protocol}"
    create_topic(rest.bootstrap, topic, 1, 1)
    producer = Producer({"bootstrap.servers": rest.bootstrap})
    for _ in range(5):
        producer.produce(topic, b"v")
    assert producer.flush(30) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": rest.bootstrap,
            "group.id": group,
            "client.id": "follower",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    message = eventually(lambda: consumer.poll(0.5), "a message")
    consumer.commit(message, asynchronous=False)
    listed = {row["consumer_group_id"]: row for row in rest("GET", rest.related("consumer_groups"))[1]["data"]}
    found = listed[group]
    assert (found["state"], found["type"], found["is_simple"]) == ("STABLE", protocol.upper(), False)
    assert rest("GET", found["coordinator"]["related"])[1]["kind"] == "KafkaBroker"
    (member,) = rest("GET", found["consumers"]["related"])[1]["data"]
    assert member["client_id"] == "follower"
    (assigned,) = rest("GET", member["assignments"]["related"])[1]["data"]
    lag = rest("GET", assigned["lag"]["related"])[1]
    assert (lag["current_offset"], lag["log_end_offset"], lag["lag"]) == (1, 5, 4)
    assert lag["consumer_id"] == member["consumer_id"]
    summary = rest("GET", found["lag_summary"]["related"])[1]
    assert (summary["total_lag"], summary["max_lag"], summary["max_lag_topic_name"]) == (4, 4, topic)
    assert rest("GET", summary["max_lag_consumer"]["related"])[1] == member
    consumer.close()


def test_permissions_are_refused_as_kafka_refuses_them(rest: Rest) -> None:
    assert rest("GET", rest.related("acls")) == (400, {"error_code": 40002, "message": "No Authorizer is configured."})
