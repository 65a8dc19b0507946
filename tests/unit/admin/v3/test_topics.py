"""Topics by Confluent's paths."""

from typing import Any

import pytest

from kvorum.admin.http.problems import DAMAGED, UNAVAILABLE
from kvorum.client.wire.cluster_client import ResourceType
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.create_topics import CreateTopicsRequest
from tests.unit.admin.fake import Client, call
from tests.unit.admin.v3.fake import BASE, ConfiguredCluster, url, with_cluster


def topic(client: Client, name: str, partitions: int, **fields: Any) -> dict[str, Any]:
    """Return what Confluent's server says of a topic, link by link."""
    me = url(client, f"/topics/{name}")
    return {
        "kind": "KafkaTopic",
        "metadata": {"self": me, "resource_name": f"crn:///kafka=c/topic={name}"},
        "cluster_id": "c",
        "topic_name": name,
        "is_internal": False,
        "replication_factor": 1,
        "partitions_count": partitions,
        "partitions": {"related": f"{me}/partitions"},
        "configs": {"related": f"{me}/configs"},
        "partition_reassignments": {"related": f"{me}/partitions/-/reassignment"},
        "authorized_operations": [],
        **fields,
    }


def test_topics_are_listed_by_name_and_each_has_its_own_page() -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        cluster.add("b", 3)
        cluster.add("a")
        status, body = await call(client, "GET", f"{BASE}/topics")
        assert (status, body["kind"]) == (200, "KafkaTopicList")
        assert body["metadata"] == {"self": url(client, "/topics"), "next": None}
        assert body["data"] == [topic(client, "a", 1), topic(client, "b", 3)]
        assert await call(client, "GET", f"{BASE}/topics/b") == (200, topic(client, "b", 3))
        requested = await call(client, "GET", f"{BASE}/topics/b?include_authorized_operations=true")
        assert requested == (200, topic(client, "b", 3, authorized_operations=["READ", "DESCRIBE"]))

    with_cluster(test)


def test_a_topic_is_created_where_the_answer_says() -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        body = {
            "topic_name": "new",
            "partitions_count": 3,
            "replication_factor": 1,
            "configs": [{"name": "cleanup.policy", "value": "compact"}],
        }
        async with client.post(f"{BASE}/topics", json=body) as answer:
            assert (answer.status, await answer.json()) == (201, topic(client, "new", 3))
            assert answer.headers["Location"] == url(client, "/topics/new")
        assert len(cluster.logs["new"]) == 3
        assert cluster.set[ResourceType.TOPIC, "new"] == {"cleanup.policy": "compact"}

    with_cluster(test)


def test_a_validated_topic_is_not_created() -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        body = {"topic_name": "new", "validate_only": True}
        assert await call(client, "POST", f"{BASE}/topics", body) == (200, topic(client, "new", 2))
        assert "new" not in cluster.logs

    with_cluster(test)


def test_assignments_replace_partition_count_and_replication_factor() -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        body = {
            "topic_name": "new",
            "partitions_count": 9,
            "replication_factor": 9,
            "replicas_assignments": {"0": [1], "1": [1]},
        }
        assert await call(client, "POST", f"{BASE}/topics", body) == (201, topic(client, "new", 2))
        (requested,) = [each for each in cluster.requested if isinstance(each, CreateTopicsRequest)]
        (wanted,) = requested.topics
        assert (wanted.num_partitions, wanted.replication_factor) == (-1, -1)
        assert [(each.partition_index, each.broker_ids) for each in wanted.assignments] == [(0, [1]), (1, [1])]

    with_cluster(test)


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        ({"topic_name": "t"}, (400, 40002, "Topic 't' already exists.")),
        ({"topic_name": "no way"}, (422, 42206, "Payload error. Invalid topic name.")),
        ({"topic_name": ".."}, (422, 42206, "Payload error. Invalid topic name.")),
        ({}, (400, 400, "topic_name: Field required")),
        ({"topic_name": "x", "partition_count": 1}, (400, 400, "partition_count: Extra inputs are not permitted")),
    ],
)
def test_a_topic_that_cannot_be_is_refused(body: Any, refusal: tuple[int, int, str]) -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        cluster.add("t")
        status, reported = await call(client, "POST", f"{BASE}/topics", body)
        assert (status, reported) == (refusal[0], {"error_code": refusal[1], "message": refusal[2]})

    with_cluster(test)


def test_partitions_grow_and_never_shrink() -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        cluster.add("t", 2)
        path = f"{BASE}/topics/t"
        assert await call(client, "PATCH", path, {"partitions_count": 4}) == (200, topic(client, "t", 4))
        assert len(cluster.logs["t"]) == 4
        refused = {"error_code": 40002, "message": "Topic already has 4 partitions."}
        assert await call(client, "PATCH", path, {"partitions_count": 4}) == (400, refused)

    with_cluster(test)


def test_a_topic_that_is_deleted_is_gone() -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        cluster.add("t")
        unknown = {"error_code": 40403, "message": "This server does not host this topic-partition."}
        assert await call(client, "DELETE", f"{BASE}/topics/t") == (204, None)
        for method in ("GET", "DELETE"):
            assert await call(client, method, f"{BASE}/topics/t") == (404, unknown)

    with_cluster(test)


def test_kafkas_retriable_errors_are_marked_retriable() -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        for code, refusal in (
            (ErrorCode.NOT_CONTROLLER, (500, 50003)),
            (ErrorCode.THROTTLING_QUOTA_EXCEEDED, (429, 42901)),
            (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, (403, 40301)),
            (ErrorCode.INVALID_REPLICATION_FACTOR, (400, 40002)),
            (ErrorCode.POLICY_VIOLATION, (400, 40002)),
            (ErrorCode.INVALID_REPLICA_ASSIGNMENT, (400, 40002)),
        ):
            cluster.codes[CreateTopicsRequest] = code
            status, reported = await call(client, "POST", f"{BASE}/topics", {"topic_name": "x"})
            assert (status, reported["error_code"], reported["message"]) == (*refusal, "as the test wants"), code

    with_cluster(test)


@pytest.mark.parametrize(
    "configs", [None, [], [{"name": "retention.ms"}], [{"name": "a", "value": "x"}, {"name": "b"}]]
)
def test_a_refused_topic_is_the_callers_error_in_the_shape_of_this_api(configs: Any) -> None:
    """Whatever code the cluster answers: only what may be tried again, and unknown or damaged data, is a 5xx."""

    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        for code in set(ErrorCode) - {ErrorCode.NONE}:
            cluster.codes[CreateTopicsRequest] = code
            status, body = await call(client, "POST", f"{BASE}/topics", {"topic_name": "new", "configs": configs})
            assert body == {"error_code": body["error_code"], "message": "as the test wants"} or status == 404
            assert status < 500 or code in UNAVAILABLE | DAMAGED | {ErrorCode.UNKNOWN_SERVER_ERROR}, (code, status)

    with_cluster(test)


@pytest.mark.parametrize("path", ["/v3", "/v3/", "/v3/nope", "/kafka/v3/nope"])
def test_a_path_that_does_not_exist_is_refused_in_the_shape_of_this_api(path: str) -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        assert await call(client, "GET", path) == (404, {"error_code": 404, "message": f"GET {path}"})

    with_cluster(test)
