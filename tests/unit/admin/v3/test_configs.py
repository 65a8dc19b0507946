"""Configs by Confluent's paths."""

from typing import Any

import pytest

from kvorum.client.wire.cluster_client import METADATA_TOPIC, ResourceType
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tests.unit.admin.fake import Client, call
from tests.unit.admin.v3.fake import BASE, ConfiguredCluster, url, with_cluster

TOPIC = f"{BASE}/topics/t/configs"
BROKER = f"{BASE}/brokers/1/configs"
ALL = f"{BASE}/broker-configs"
SYNONYM = {"name": "cleanup.policy", "value": "delete", "source": "DEFAULT_CONFIG"}


def config(me: str, crn: str, **fields: Any) -> dict[str, Any]:
    """Return cleanup.policy as Confluent's server says it, at its default."""
    return {
        "metadata": {"self": f"{me}/cleanup.policy", "resource_name": f"crn:///kafka=c/{crn}config=cleanup.policy"},
        "cluster_id": "c",
        "name": "cleanup.policy",
        "value": "delete",
        "is_default": True,
        "is_read_only": False,
        "is_sensitive": False,
        "source": "DEFAULT_CONFIG",
        "synonyms": [SYNONYM],
        **fields,
    }


def compacted(source: str, *more: dict[str, str]) -> dict[str, Any]:
    """Return the fields of cleanup.policy that was set."""
    own = {"name": "cleanup.policy", "value": "compact", "source": source}
    return {"value": "compact", "is_default": False, "source": source, "synonyms": [own, *more]}


def test_a_topics_configs_are_reported_with_their_source() -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        cluster.add("t")
        me = url(client, "/topics/t/configs")
        reported: dict[str, Any] = {"kind": "KafkaTopicConfig", "topic_name": "t"}
        expected = config(me, "topic=t/", **reported)
        assert await call(client, "GET", f"{TOPIC}/cleanup.policy") == (200, expected)
        cluster.set[ResourceType.TOPIC, "t"] = {"cleanup.policy": "compact"}
        expected = config(me, "topic=t/", **reported, **compacted("DYNAMIC_TOPIC_CONFIG", SYNONYM))
        assert await call(client, "GET", f"{TOPIC}/cleanup.policy") == (200, expected)
        status, body = await call(client, "GET", TOPIC)
        assert (status, body["kind"], body["metadata"]) == (200, "KafkaTopicConfigList", {"self": me, "next": None})
        assert [row["name"] for row in body["data"]] == ["cleanup.policy", "retention.ms", "ssl.key.password"]
        assert body["data"][0] == expected

    with_cluster(test)


def test_no_secret_is_reported() -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        cluster.add("t")
        row = (await call(client, "GET", f"{TOPIC}/ssl.key.password"))[1]
        assert (row["is_sensitive"], row["value"], row["synonyms"][0]["value"]) == (True, None, None)

    with_cluster(test)


@pytest.mark.parametrize(
    ("path", "kind", "name"), [(TOPIC, ResourceType.TOPIC, "t"), (BROKER, ResourceType.BROKER, "1")]
)
def test_a_config_is_set_and_set_back(path: str, kind: ResourceType, name: str) -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        cluster.add("t")
        one = f"{path}/cleanup.policy"
        assert await call(client, "PUT", one, {"value": "compact"}) == (204, None)
        assert cluster.set[kind, name] == {"cleanup.policy": "compact"}
        assert (await call(client, "GET", one))[1]["value"] == "compact"
        assert await call(client, "DELETE", one) == (204, None)
        assert cluster.set[kind, name] == {}
        for method, body in (("PUT", {"value": "1"}), ("DELETE", None)):
            status, reported = await call(client, method, f"{path}/no.such", body)
            assert (status, reported["error_code"]) == (404, 404)
            message = f"Config no.such cannot be found for {kind.name} {name} in cluster c."
            assert reported["message"] == message
        assert (await call(client, "GET", f"{path}/no.such"))[0] == 404

    with_cluster(test)


@pytest.mark.parametrize(
    ("path", "kind", "name"), [(TOPIC, ResourceType.TOPIC, "t"), (BROKER, ResourceType.BROKER, "1")]
)
def test_changes_are_made_together_or_only_checked(path: str, kind: ResourceType, name: str) -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        cluster.add("t")
        cluster.set[kind, name] = {"retention.ms": "1"}
        changes = {
            "data": [{"name": "cleanup.policy", "value": "compact"}, {"name": "retention.ms", "operation": "DELETE"}]
        }
        assert await call(client, "POST", f"{path}:alter", {**changes, "validate_only": True}) == (204, None)
        assert cluster.set[kind, name] == {"retention.ms": "1"}
        assert await call(client, "POST", f"{path}:alter", changes) == (204, None)
        assert cluster.set[kind, name] == {"cleanup.policy": "compact"}
        changes["data"].append({"name": "no.such", "value": "1"})
        assert (await call(client, "POST", f"{path}:alter", changes))[0] == 404
        requested = [each for each in cluster.requested if isinstance(each, IncrementalAlterConfigsRequest)]
        assert len(requested) == 2 and len(requested[1].resources[0].configs) == 2

    with_cluster(test)


def test_several_topics_are_changed_and_those_that_were_not_are_named() -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        for name in ("a", "b"):
            cluster.add(name)
        entry = {"name": "retention.ms", "value": "1"}
        body = {"data": [{"topic_name": name, "configs": [entry]} for name in ("a", "b")]}
        path = f"{BASE}/topics/-/configs:alter"
        assert await call(client, "POST", path, body) == (204, None)
        assert cluster.set[ResourceType.TOPIC, "a"] == cluster.set[ResourceType.TOPIC, "b"] == {"retention.ms": "1"}
        cluster.refused["a"] = ErrorCode.INVALID_CONFIG
        status, reported = await call(client, "POST", path, body)
        failure = {"topic_name": "a", "error_code": 40002, "message": "INVALID_CONFIG"}
        assert (status, reported) == (207, {"failures": [failure]})
        body["data"].append({"topic_name": "c", "configs": [entry]})
        cluster.set.clear()
        assert (await call(client, "POST", path, body))[0] == 404
        assert not cluster.set, "nothing is changed before all of it is there"

    with_cluster(test)


def test_all_topics_and_all_brokers_are_listed_at_once() -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        for name in ("b", "a"):
            cluster.add(name)
        body = (await call(client, "GET", f"{BASE}/topics/-/configs"))[1]
        assert [(row["topic_name"], row["name"]) for row in body["data"][::3]] == [
            ("a", "cleanup.policy"),
            ("b", "cleanup.policy"),
        ]
        assert body["metadata"]["self"] == url(client, "/topics/-/configs")
        body = (await call(client, "GET", f"{BASE}/brokers/-/configs"))[1]
        assert body["kind"] == "KafkaBrokerConfigList"
        me = url(client, "/brokers/1/configs")
        assert body["data"][0] == config(me, "broker=1/", kind="KafkaBrokerConfig", broker_id=1)

    with_cluster(test)


def test_cluster_wide_configs_are_the_dynamic_defaults() -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        assert (await call(client, "GET", ALL))[1]["data"] == []
        one = f"{ALL}/cleanup.policy"
        assert (await call(client, "GET", one))[0] == (await call(client, "DELETE", one))[0] == 404
        assert await call(client, "PUT", one, {"value": "compact"}) == (204, None)
        found = compacted("DYNAMIC_DEFAULT_BROKER_CONFIG")
        expected = config(url(client, "/broker-configs"), "broker-", kind="KafkaClusterConfig", config_type="BROKER")
        assert await call(client, "GET", one) == (200, {**expected, **found})
        assert await call(client, "DELETE", one) == (204, None)
        changes = {"data": [{"name": "cleanup.policy", "value": "compact", "operation": "SET"}]}
        assert await call(client, "POST", f"{ALL}:alter", changes) == (204, None)
        assert cluster.set[ResourceType.BROKER, ""] == {"cleanup.policy": "compact"}

    with_cluster(test)


def test_the_defaults_of_a_topic_are_reported_whether_it_exists_or_not() -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        cluster.add("t")
        cluster.set[ResourceType.TOPIC, "t"] = {"cleanup.policy": "compact"}
        for name in ("t", "none"):
            status, body = await call(client, "GET", f"{BASE}/topics/{name}/default-configs")
            assert status == 200 and body["metadata"]["self"] == url(client, f"/topics/{name}/default-configs")
            row = body["data"][0]
            assert (row["name"], row["value"], row["source"]) == ("cleanup.policy", "delete", "DEFAULT_CONFIG")
            assert row["synonyms"] == [SYNONYM] and row["is_default"] and row["topic_name"] == name
        assert set(cluster.logs) == {METADATA_TOPIC, "t"}

    with_cluster(test)


@pytest.mark.parametrize(
    ("method", "path", "body", "refusal"),
    [
        ("GET", f"{BASE}/topics/none/configs", None, (404, 40403)),
        ("PUT", f"{BASE}/topics/none/configs/retention.ms", {"value": "1"}, (404, 40403)),
        ("GET", f"{BASE}/brokers/7/configs", None, (404, 404)),
        ("GET", f"{BASE}/brokers/x/configs", None, (400, 400)),
        ("POST", f"{TOPIC}:alter", {"data": [{"name": "a", "operation": "APPEND"}]}, (400, 400)),
        ("POST", f"{TOPIC}:alter", {}, (400, 400)),
    ],
)
def test_missing_or_wrong_resources_are_refused(method: str, path: str, body: Any, refusal: tuple[int, int]) -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        cluster.add("t")
        status, reported = await call(client, method, path, body)
        assert (status, reported["error_code"]) == refusal

    with_cluster(test)
