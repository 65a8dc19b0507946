"""PUT of a topic with Strimzi's KafkaTopic, in JSON and YAML; and how YAML and other numbers of replicas are read."""

from typing import Any

import pytest

from kvorum.admin.http import yaml_texts
from kvorum.admin.v1.topics.topic_document import YAML_BYTES_MAX
from kvorum.client.reassignments.replica_count import resized
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.topic_partition import TopicPartition
from tests.unit.admin.fake import Client, call
from tests.unit.admin.managed import ManagedCluster, with_managed
from tests.unit.admin.operated import TOPIC

PATH = "/v1/topics/orders"
YAML = """
apiVersion: kafka.strimzi.io/v1
kind: KafkaTopic
metadata:
  name: orders
  namespace: kafka
  labels: {strimzi.io/cluster: mine}
  generation: 4
spec:
  partitions: 3
  replicas: 2
  config:
    retention.ms: 604800000
    cleanup.policy: [compact, delete]
    unclean.leader.election.enable: false
    segment.bytes:   # its default
status:
  observedGeneration: 3
"""


def document(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "kafka.strimzi.io/v1", "kind": "KafkaTopic", "metadata": {"name": "orders"}, "spec": spec}


async def put(client: Client, body: str | bytes, query: str = "", media: str = "application/yaml") -> tuple[int, Any]:
    async with client.put(PATH + query, data=body, headers={"Content-Type": media}) as answer:
        return answer.status, await answer.json()


def test_yaml_is_read_as_texts() -> None:
    found = yaml_texts.read(b"a: 1_000\nb: [no, ~, '~', \"1\"]\n? c\n: {d: , e: 010}\nf: |\n  x\n  y\n")
    assert found == {"a": "1_000", "b": ["no", None, "~", "1"], "c": {"d": None, "e": "010"}, "f": "x\ny\n"}
    assert yaml_texts.read(b"plain") == "plain"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"a: &x [1]\nb: *x\n", "line 2: aliases"),
        (b"a: !!python/object/apply:os.system [x]\n", "line 1: tags"),
        (b"a: 1\na: 2\n", "line 2: 'a' is a duplicate key"),
        (b"a: 1\n---\nb: 2\n", "line 2: only one document"),
        (b"a: 1\n b: [\n", "line 2"),
        (b"", "line 1: the document is empty"),
        (b"# nothing\n", "the document is empty"),
        (b"[" * 17 + b"]" * 17, "deeper than 16"),
        (b"[" * 50_000, "nest"),
        (b"- " * 30_000 + b"x", "nest"),
        (b"? [1]\n: 2\n", "line 1: a key must be a string"),
        (b"\xff\xfe\x00", "line 1"),
    ],
    ids=["alias", "tag", "twice", "documents", "broken", "empty", "comment", "depth", "flow", "block", "name", "bytes"],
)
def test_invalid_yaml_is_refused_with_its_line(text: bytes, why: str) -> None:
    with pytest.raises(yaml_texts.BadYaml, match=why):
        yaml_texts.read(text)


def test_a_topic_is_made_by_yaml_and_stays_as_it_is_by_the_same() -> None:
    async def test(client: Client, cluster: ManagedCluster) -> None:
        status, reported = await put(client, YAML, "?validate_only=true")
        assert (status, reported["created"], reported["validated_only"], reported["status"]) == (200, True, True, None)
        assert "orders" not in cluster.logs
        status, reported = await put(client, YAML)
        assert (status, reported["created"]) == (200, True), reported
        assert len(cluster.logs["orders"]) == 3 and cluster.replicas["orders", 0] == [1, 2]
        wanted = {"retention.ms": "604800000", "cleanup.policy": "compact,delete"}
        wanted["unclean.leader.election.enable"] = "false"
        assert cluster.config(TOPIC, "orders") == wanted
        status, reported = await put(client, YAML)
        assert (reported["created"], reported["changes"]) == (False, [])
        (condition,) = reported["status"].pop("conditions")
        assert (condition["type"], condition["status"]) == ("Ready", "True")
        moment = condition["lastTransitionTime"]
        assert len(moment) == 24 and moment.endswith("Z")
        assert reported["status"] == {
            "observedGeneration": 4,
            "topicName": "orders",
            "topicId": str(cluster.ids["orders"]),
            "replicasChange": None,
        }

    with_managed(test)


def test_a_document_in_json_does_the_same_and_a_plain_body_as_before() -> None:
    async def test(client: Client, cluster: ManagedCluster) -> None:
        body = document(partitions=2, replicas=1, config={"retention.ms": 5, "preallocate": True})
        assert (await call(client, "PUT", PATH, body))[1]["created"]
        assert cluster.config(TOPIC, "orders") == {"retention.ms": "5", "preallocate": "true"}
        body["spec"] |= {"partitions": 4, "config": {"retention.ms": "6"}}
        reported = (await call(client, "PUT", PATH, body))[1]
        assert [(each["what"], each["before"], each["after"]) for each in reported["changes"]] == [
            ("partitions", 2, 4),
            ("configs.preallocate", "true", None),
            ("configs.retention.ms", "5", "6"),
        ]
        assert len(cluster.logs["orders"]) == 4 and reported["status"]["conditions"][0]["type"] == "Ready"
        reported = (await call(client, "PUT", PATH, {"partitions": 4, "configs": {"retention.ms": "6"}}))[1]
        assert (reported["changes"], reported.get("status")) == ([], None)
        async with client.get(PATH) as answer:
            tag = answer.headers["ETag"]
        body["spec"]["config"] = {}
        assert (await call(client, "PUT", PATH, body, headers={"If-Match": '"x"'}))[0] == 412
        assert (await call(client, "PUT", PATH, body, headers={"If-Match": tag}))[0] == 200

    with_managed(test)


def test_a_change_of_the_replica_count_is_a_reassignment_in_the_status() -> None:
    async def test(client: Client, cluster: ManagedCluster) -> None:
        cluster.place("orders", [1, 2], [2, 3])
        body = document(replicas=3)
        reported = (await call(client, "PUT", f"{PATH}?validate_only=true", body))[1]
        change = {"what": "replication_factor", "before": 2, "after": 3}
        assert (reported["changes"], reported["status"], cluster.under_way) == ([change], None, {})
        reported = (await call(client, "PUT", PATH, body))[1]
        assert reported["changes"] == [change]
        assert reported["status"]["replicasChange"] == {"targetReplicas": 3, "state": "ongoing"}
        assert set(cluster.under_way) == {("orders", 0), ("orders", 1)}
        assert cluster.replicas["orders", 0][:2] == [1, 2], "those there are stay, and lead"
        reported = (await call(client, "PUT", PATH, body))[1]
        assert (reported["changes"], reported["status"]["replicasChange"]["state"]) == ([], "ongoing"), "it goes on"
        status, problem = await call(client, "PUT", PATH, document(replicas=1))
        assert (status, problem["error"], problem["field"]) == (409, "REASSIGNMENT_IN_PROGRESS", "spec.replicas")
        cluster.finish()
        reported = (await call(client, "PUT", PATH, body))[1]
        assert (reported["changes"], reported["status"]["replicasChange"]) == ([], None)
        cluster.isrs["orders", 0] = [cluster.replicas["orders", 0][1]]
        reported = (await call(client, "PUT", PATH, document(replicas=1)))[1]
        assert reported["status"]["replicasChange"]["targetReplicas"] == 1
        cluster.finish()
        assert cluster.replicas["orders", 0] == [2], "who is in sync stays"
        assert cluster.replicas["orders", 1] == [2]
        status, problem = await call(client, "PUT", PATH, document(replicas=5))
        assert (status, problem["error"], problem["field"]) == (422, "INVALID_REPLICATION_FACTOR", "spec.replicas")
        assert not cluster.under_way

    with_managed(test)


@pytest.mark.parametrize(
    ("annotation", "condition"),
    [("strimzi.io/managed: 'false'", "Unmanaged"), ("strimzi.io/pause-reconciliation: true", "ReconciliationPaused")],
)
def test_a_document_that_is_to_be_left_alone_changes_nothing(annotation: str, condition: str) -> None:
    async def test(client: Client, cluster: ManagedCluster) -> None:
        text = YAML.replace("  namespace: kafka\n", f"  annotations:\n    {annotation}\n")
        status, reported = await put(client, text)
        assert (status, reported["changes"], reported["status"]["conditions"][0]["type"]) == (200, [], condition)
        assert "orders" not in cluster.logs

    with_managed(test)


def test_errors_in_a_document_name_their_position() -> None:
    async def test(client: Client, cluster: ManagedCluster) -> None:
        cluster.place("orders", [1, 2])
        for text, field in (
            (YAML.replace("partitions: 3", "partitions: 0"), "spec.partitions"),
            (YAML.replace("partitions: 3", "partitions: many"), "spec.partitions"),
            (YAML.replace("replicas: 2", "replica: 2"), "spec.replica"),
            (YAML.replace("kind: KafkaTopic", "kind: Kafka"), "kind"),
            (YAML.replace("name: orders", "name: audit"), "metadata.name"),
            (YAML.replace("partitions: 3", "topicName: audit"), "spec.topicName"),
            (YAML.replace("kind: KafkaTopic", "kind: *x"), "body"),
            (YAML + "---\n" + YAML, "body"),
            ("- a\n", "kind"),
            ("#" * (YAML_BYTES_MAX + 1), "body"),
        ):
            status, problem = await put(client, text)
            assert (status, problem["field"]) == (400, field), (problem, text)
        status, problem = await put(client, YAML.replace("retention.ms: 604800000", "retention.ms: soon"))
        assert (status, problem["error"], problem["field"]) == (422, "INVALID_CONFIG", "spec.config.retention.ms")
        status, problem = await put(client, YAML.replace("partitions: 3", "partitions: 1").replace("replicas: 2", ""))
        assert status == 200, problem
        assert (await call(client, "PUT", PATH, {**document(), "kind": "X"}))[1]["field"] == "kind"
        assert (await call(client, "PUT", PATH, {"partition": 3}))[1]["field"] == "partition"
        assert (await put(client, YAML, media="text/plain"))[0] == 415
        assert (await put(client, "a=1", media="application/x-www-form-urlencoded"))[0] == 415
        path = f"{PATH}/clone"
        async with client.post(path, data=YAML, headers={"Content-Type": "application/yaml"}) as answer:
            assert answer.status == 415, "other operations take JSON alone"

    with_managed(test)


def test_replicas_that_go_are_out_of_sync_first_and_those_that_come_in_other_racks() -> None:
    a, b = TopicPartition("t", 0), TopicPartition("t", 1)
    racks = {1: "x", 2: "x", 3: "y", 4: "y"}
    in_sync = {a: [1, 3], b: [2]}
    assert resized({a: [1, 2, 3], b: [1, 2]}, in_sync, racks, 2) == {a: [1, 3]}
    assert resized({a: [1, 2, 3], b: [1, 2]}, in_sync, racks, 1) == {a: [1], b: [2]}
    assert resized({a: [1], b: [2]}, in_sync, racks, 2) == {a: [1, 3], b: [2, 4]}
    assert resized({a: [9, 1]}, {a: [9, 1]}, racks, 3)[a][:2] == [9, 1], "who is down stays, and counts in no rack"
    with pytest.raises(KafkaError) as refused:
        resized({a: [1]}, in_sync, {1: None, 2: None}, 3)
    assert refused.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
