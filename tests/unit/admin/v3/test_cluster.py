"""The cluster, brokers, partitions, replicas and reassignments by Confluent's paths."""

from typing import Any

import pytest

from kvorum.protocol.records import Record
from tests.unit.admin.fake import Client, call
from tests.unit.admin.v3.fake import BASE, ConfiguredCluster, url, with_cluster


def test_there_is_one_cluster_and_it_leads_to_all_the_rest() -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        status, body = await call(client, "GET", "/v3/clusters")
        me = url(client, "")
        assert (status, body["kind"]) == (200, "KafkaClusterList")
        assert body["metadata"] == {"self": me.removesuffix("/c"), "next": None}
        expected = {
            "kind": "KafkaCluster",
            "metadata": {"self": me, "resource_name": "crn:///kafka=c"},
            "cluster_id": "c",
            "controller": {"related": f"{me}/brokers/1"},
            "acls": {"related": f"{me}/acls"},
            "brokers": {"related": f"{me}/brokers"},
            "broker_configs": {"related": f"{me}/broker-configs"},
            "consumer_groups": {"related": f"{me}/consumer-groups"},
            "topics": {"related": f"{me}/topics"},
            "partition_reassignments": {"related": f"{me}/topics/-/partitions/-/reassignment"},
        }
        assert body["data"] == [expected]
        assert await call(client, "GET", BASE) == (200, expected)

    with_cluster(test)


def test_links_use_the_callers_host() -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        body = (await call(client, "GET", f"/kafka{BASE}"))[1]
        assert body["topics"]["related"] == str(client.make_url(f"/kafka{BASE}/topics"))
        (listed,) = (await call(client, "GET", "/kafka/v3/clusters"))[1]["data"]
        assert listed["metadata"]["self"] == str(client.make_url(f"/kafka{BASE}"))

    with_cluster(test)


def test_brokers_are_listed_with_their_replicas() -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        cluster.add("t", 2)
        me = url(client, "/brokers/1")
        expected = {
            "kind": "KafkaBroker",
            "metadata": {"self": me, "resource_name": "crn:///kafka=c/broker=1"},
            "cluster_id": "c",
            "broker_id": 1,
            "host": "127.0.0.1",
            "port": 9001,
            "rack": None,
            "configs": {"related": f"{me}/configs"},
            "partition_replicas": {"related": f"{me}/partition-replicas"},
        }
        body = (await call(client, "GET", f"{BASE}/brokers"))[1]
        assert (body["kind"], body["data"]) == ("KafkaBrokerList", [expected])
        assert await call(client, "GET", f"{BASE}/brokers/1") == (200, expected)
        body = (await call(client, "GET", f"{BASE}/brokers/1/partition-replicas"))[1]
        assert [(row["kind"], row["topic_name"], row["partition_id"]) for row in body["data"]] == [
            ("KafkaReplica", "t", 0),
            ("KafkaReplica", "t", 1),
        ]
        assert body["metadata"]["self"] == f"{me}/partition-replicas"

    with_cluster(test)


def test_a_partition_reports_its_leader_replicas_and_offsets() -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        logs = cluster.add("t", 2)
        for _ in range(3):
            logs[0].append(Record(value=b"v"))
        logs[0].start = 1
        logs[1].leader = -1
        me = url(client, "/topics/t/partitions/0")
        name = "crn:///kafka=c/topic=t/partition=0"
        partition = {
            "kind": "KafkaPartition",
            "metadata": {"self": me, "resource_name": name},
            "cluster_id": "c",
            "topic_name": "t",
            "partition_id": 0,
            "leader": {"related": f"{me}/replicas/1"},
            "replicas": {"related": f"{me}/replicas"},
            "reassignment": {"related": f"{me}/reassignment"},
        }
        body = (await call(client, "GET", f"{BASE}/topics/t/partitions"))[1]
        assert (body["kind"], body["data"][0]) == ("KafkaPartitionList", partition)
        assert body["data"][1]["leader"] is None
        path = f"{BASE}/topics/t/partitions/0"
        assert await call(client, "GET", path) == (200, partition)
        replica = {
            "kind": "KafkaReplica",
            "metadata": {"self": f"{me}/replicas/1", "resource_name": f"{name}/replica=1"},
            "cluster_id": "c",
            "topic_name": "t",
            "partition_id": 0,
            "broker_id": 1,
            "is_leader": True,
            "is_in_sync": True,
            "broker": {"related": url(client, "/brokers/1")},
        }
        assert (await call(client, "GET", f"{path}/replicas"))[1]["data"] == [replica]
        assert await call(client, "GET", f"{path}/replicas/1") == (200, replica)
        offsets = (await call(client, "GET", f"{path}/offset"))[1]
        assert (offsets["kind"], offsets["earliest_offset"], offsets["latest_offset"]) == (
            "KafkaPartitionWithOffsets",
            1,
            3,
        )
        assert offsets["metadata"]["resource_name"] == f"{name}/offset_type=earliest_and_latest"

    with_cluster(test)


def test_reassignments_are_reported_for_all_for_a_topic_and_for_a_partition() -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        for name in ("a", "b"):
            cluster.add(name, 2)
        cluster.moving = {("b", 1): ([2, 3], [1]), ("a", 0): ([4], [])}
        me = url(client, "/topics/b/partitions/1")
        moving = {
            "kind": "KafkaReassignment",
            "metadata": {
                "self": f"{me}/reassignment",
                "resource_name": "crn:///kafka=c/topic=b/partition=1/reassignment",
            },
            "cluster_id": "c",
            "topic_name": "b",
            "partition_id": 1,
            "adding_replicas": [2, 3],
            "removing_replicas": [1],
            "replicas": {"related": f"{me}/replicas"},
        }
        body = (await call(client, "GET", f"{BASE}/topics/-/partitions/-/reassignment"))[1]
        assert (body["kind"], [row["topic_name"] for row in body["data"]]) == ("KafkaReassignmentList", ["a", "b"])
        assert (await call(client, "GET", f"{BASE}/topics/b/partitions/-/reassignment"))[1]["data"] == [moving]
        assert await call(client, "GET", f"{BASE}/topics/b/partitions/1/reassignment") == (200, moving)
        assert (await call(client, "GET", f"{BASE}/topics/b/partitions/0/reassignment"))[0] == 404

    with_cluster(test)


@pytest.mark.parametrize(
    ("path", "refusal"),
    [
        ("/v3/clusters/other", (404, 404, "Cluster other cannot be found.")),
        ("/v3/clusters/other/topics", (404, 404, "Cluster other cannot be found.")),
        (f"{BASE}/brokers/9", (404, 404, "Broker 9 cannot be found.")),
        (f"{BASE}/brokers/x", (400, 400, "broker_id: 'x' is not a number from 0 to 2147483647")),
        (f"{BASE}/topics/t/partitions/5", (404, 404, "HTTP 404 Not Found")),
        (f"{BASE}/topics/t/partitions/0/replicas/3", (404, 404, "HTTP 404 Not Found")),
        (f"{BASE}/topics/no/partitions", (404, 40403, "This server does not host this topic-partition.")),
        (f"{BASE}/topics/t/partitions/0/offset?offset_type=x", (400, 400, "offset_type: x is invalid")),
        (f"{BASE}/nothing", (404, 404, f"GET {BASE}/nothing")),
        (f"{BASE}/acls", (400, 40002, "No Authorizer is configured.")),
    ],
)
def test_missing_resources_have_confluents_error_format(path: str, refusal: tuple[int, int, str]) -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        cluster.add("t")
        status, reported = await call(client, "GET", path)
        assert (status, reported) == (refusal[0], {"error_code": refusal[1], "message": refusal[2]})

    with_cluster(test)


ACL = dict.fromkeys(
    ("resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission"), "x"
)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [("POST", "/acls", ACL), ("DELETE", "/acls?resource_type=ANY", None), ("POST", "/acls:batch", {"data": [ACL]})],
)
def test_without_an_authorizer_permissions_are_refused_as_kafka_does(method: str, path: str, body: Any) -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        refused = {"error_code": 40002, "message": "No Authorizer is configured."}
        assert await call(client, method, BASE + path, body) == (400, refused)

    with_cluster(test)


def test_a_cluster_out_of_reach_and_a_wrong_method_have_confluents_shape_too() -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        async with client.delete(BASE) as answer:
            assert answer.status == 405 and "GET" in answer.headers["Allow"]
            assert (await answer.json())["error_code"] == 405
        async with client.post(f"{BASE}/topics", data="topic_name=x") as answer:
            assert (answer.status, (await answer.json())["error_code"]) == (415, 415)
        cluster.reachable = False
        status, reported = await call(client, "GET", f"{BASE}/topics")
        assert (status, reported["error_code"]) == (503, 50302)

    with_cluster(test)
