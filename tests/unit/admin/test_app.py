"""The admin API over real HTTP, in front of a cluster that lives in memory and answers as brokers do."""

import asyncio
import json
import re
import struct
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp.test_utils import TestClient

from kvorum.admin.app import AdminApp, operations
from kvorum.admin.http import app
from kvorum.admin.http.access import Access, is_local
from kvorum.admin.http.app import describe_api
from kvorum.admin.http.operations import Role
from kvorum.admin.http.statuses import status_of
from kvorum.admin.v3 import routes as v3_routes
from kvorum.client.values.offset import OffsetSpec
from kvorum.client.wire.cluster_client import ConfigChange, ConfigOperation, EligibleReplicas, ResourceType, Unreachable
from kvorum.protocol.errors import RETRIABLE, ErrorCode, KafkaError
from kvorum.protocol.messages.create_topics import CreatableTopic, CreatableTopicResult, CreateTopicsResponse
from kvorum.protocol.messages.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from kvorum.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kvorum.protocol.messages.describe_quorum import (
    DescribeQuorumResponse,
    ResponsePartitionData,
    ResponseTopicData,
)
from kvorum.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    ResponseCursor,
)
from kvorum.protocol.messages.fetch import FetchRequest
from kvorum.protocol.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from kvorum.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kvorum.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kvorum.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kvorum.protocol.schema import Message
from kvorum.protocol.uuids import Uuid
from kvorum.runtime.config_defs import validate_topic_configs
from kvorum.runtime.config_types import InvalidValue
from kvorum.runtime.metrics import Metrics
from tests.unit.admin.fake import Server


class MemoryCluster:
    """The part of ClusterClient that the routes use, over dictionaries."""

    timeout_ms = 1_000
    wait_ms = 800

    def __init__(self) -> None:
        self.topics: dict[str, MetadataResponseTopic] = {}
        self.late = 0
        """So many times a broker is asked that has not heard of any topic yet."""
        self.configs: dict[str, dict[str, str]] = {}
        self.reported: dict[int, EligibleReplicas] = {}
        self.reachable = True
        self.fault: Exception | None = None
        self.fenced = {3}
        self.leader: int | Exception = 2

    def _check(self) -> None:
        if self.fault is not None:
            raise self.fault
        if not self.reachable:
            raise Unreachable("127.0.0.1:1 refused")

    async def metadata(
        self, names: Sequence[str] | None = None, *, authorized_operations: bool = False
    ) -> MetadataResponse:
        self._check()
        brokers = [MetadataResponseBroker(node_id=1, host="127.0.0.1", port=9001)]
        return MetadataResponse(topics=list(self.topics.values()), brokers=brokers)

    async def topic(self, name: str) -> MetadataResponseTopic:
        self._check()
        self.late -= 1
        if name not in self.topics or self.late >= 0:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r}")
        return self.topics[name]

    async def up_to_date(self) -> "MemoryCluster":
        self._check()
        self.late = 0
        return self

    async def describe_cluster(self, *, fenced: bool = True) -> DescribeClusterResponse:
        self._check()
        brokers = [
            DescribeClusterBroker(broker_id=n, host="127.0.0.1", port=9000 + n, is_fenced=n in self.fenced)
            for n in (2, 1, 3)
        ]
        return DescribeClusterResponse(cluster_id="abc", controller_id=2, brokers=brokers)

    async def describe_quorum(self, *, timeout_ms: int) -> DescribeQuorumResponse:
        assert timeout_ms < 30_000, "a broker that waits for a controller is not waited for"
        if isinstance(self.leader, Exception):
            raise self.leader
        row = ResponsePartitionData(leader_id=self.leader)
        return DescribeQuorumResponse(topics=[ResponseTopicData(partitions=[row])])

    async def create_topic(self, topic: CreatableTopic, *, validate_only: bool = False) -> CreateTopicsResponse:
        if topic.name in self.topics:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists.")
        check({config.name: config.value or "" for config in topic.configs})
        if topic.replication_factor > 3:
            raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, "only 3 broker(s) are registered.")
        count, replicas = max(topic.num_partitions, 1), max(topic.replication_factor, 1)
        if not validate_only:
            self.set_topic(topic.name, count, replicas)
            self.configs[topic.name] = {config.name: config.value or "" for config in topic.configs}
        result = CreatableTopicResult(name=topic.name, num_partitions=count, replication_factor=replicas)
        return CreateTopicsResponse(topics=[result])

    def set_topic(self, name: str, partitions: int, replicas: int, isr: int | None = None) -> None:
        nodes = list(range(1, replicas + 1))
        made = [
            MetadataResponsePartition(
                partition_index=p, leader_id=1, replica_nodes=nodes, isr_nodes=nodes[: isr or replicas]
            )
            for p in range(partitions)
        ]
        self.topics[name] = MetadataResponseTopic(name=name, topic_id=Uuid(16), partitions=made)

    async def eligible(self, topic: str, partitions: Iterable[int]) -> dict[int, EligibleReplicas]:
        return {each: self.reported.get(each, EligibleReplicas([], [])) for each in partitions}

    async def delete_topic(self, name: str) -> None:
        await self.topic(name)
        del self.topics[name]

    async def create_partitions(
        self,
        name: str,
        count: int,
        *,
        assignments: Sequence[Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> None:
        if count < len((await self.topic(name)).partitions):
            raise KafkaError(ErrorCode.INVALID_PARTITIONS, "fewer")
        if not validate_only:
            self.set_topic(name, count, 1)

    async def describe_configs(
        self, kind: ResourceType, name: str, *, documentation: bool = False
    ) -> list[DescribeConfigsResourceResult]:
        own = self.configs.get(name, {})
        found = [DescribeConfigsResourceResult(name=key, value=value, config_source=1) for key, value in own.items()]
        found.append(DescribeConfigsResourceResult(name="flush.ms", value="9", config_source=5))
        found.append(DescribeConfigsResourceResult(name="secret", value="x", config_source=4, is_sensitive=True))
        return found

    async def alter_configs(
        self, kind: ResourceType, name: str, changes: list[ConfigChange], *, validate_only: bool = False
    ) -> None:
        left = dict(self.configs.get(name, {}))
        for change in changes:
            left.pop(change.name, None)
            if change.operation is not ConfigOperation.DELETE:
                left[change.name] = change.value or ""
        check(left)
        for change in () if validate_only else changes:
            if change.operation is ConfigOperation.DELETE:
                self.configs.setdefault(name, {}).pop(change.name, None)
            else:
                self.configs.setdefault(name, {})[change.name] = change.value or ""

    async def ask(self, request: Message, response: type[Message], address: object = None, **_: object) -> Message:
        if isinstance(request, ListPartitionReassignmentsRequest):
            return ListPartitionReassignmentsResponse()
        if isinstance(request, DescribeConfigsRequest):
            names = [each.resource_name for each in request.resources]
            rows = {name: await self.describe_configs(ResourceType.TOPIC, name) for name in names}
            return DescribeConfigsResponse(
                results=[DescribeConfigsResult(resource_name=name, configs=found) for name, found in rows.items()]
            )
        if isinstance(request, FetchRequest):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "there is no log in it")
        if isinstance(request, DescribeTopicPartitionsRequest):
            self._check()
            return topic_partitions(self.topics, request)
        if isinstance(request, ListConfigResourcesRequest):
            return ListConfigResourcesResponse()
        assert isinstance(request, ListOffsetsRequest), "all else has a method of its own"
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        ListOffsetsPartitionResponse(
                            partition_index=row.partition_index, offset=0 if row.timestamp == OffsetSpec.EARLIEST else 7
                        )
                        for row in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )


def topic_partitions(
    topics: dict[str, MetadataResponseTopic], request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """Answer as a broker does: in the order of the names, from the cursor on, up to a number of partitions."""
    answer, left, cursor = DescribeTopicPartitionsResponse(), request.response_partition_limit, request.cursor
    for name in sorted(each for each in topics if cursor is None or each >= cursor.topic_name):
        start = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        if left == 0:
            answer.next_cursor = ResponseCursor(topic_name=name, partition_index=0)
            break
        topic = topics[name]
        rows = [
            DescribeTopicPartitionsResponsePartition(
                partition_index=row.partition_index, replica_nodes=row.replica_nodes, isr_nodes=row.isr_nodes
            )
            for row in topic.partitions[start : start + left]
        ]
        answer.topics.append(
            DescribeTopicPartitionsResponseTopic(
                name=name, topic_id=topic.topic_id, is_internal=topic.is_internal, partitions=rows
            )
        )
        left -= len(rows)
        if start + len(rows) < len(topic.partitions):
            answer.next_cursor = ResponseCursor(topic_name=name, partition_index=start + len(rows))
            break
    return answer


def check(configs: dict[str, str]) -> None:
    """Refuse configs as the controller does; short names are let through, for tests that need no real ones."""
    try:
        validate_topic_configs({name: value for name, value in configs.items() if len(name) > 1})
    except InvalidValue as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error


Client = TestClient[Any, Any]


@asynccontextmanager
async def serve(cluster: MemoryCluster) -> AsyncIterator[Client]:
    app = AdminApp(cluster, Metrics()).build()  # type: ignore[arg-type]  # stands in for the cluster behind the same methods
    async with TestClient(Server(app)) as client:
        yield client


def with_api(test: Callable[[Client, MemoryCluster], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        cluster = MemoryCluster()
        async with serve(cluster) as client:
            await test(client, cluster)

    asyncio.run(run())


async def call(client: Client, method: str, path: str, body: Any = None, **options: Any) -> tuple[int, Any]:
    async with client.request(method, path, json=body, **options) as answer:
        text = await answer.text()
        return answer.status, json.loads(text) if text else None


def test_a_put_is_retried_while_a_broker_does_not_know_the_topic_yet() -> None:
    async def test(client: Client, cluster: MemoryCluster) -> None:
        spec = {"partitions": 3, "replication_factor": 2, "configs": {}}
        assert (await call(client, "PUT", "/v1/topics/t", spec))[1]["created"]
        cluster.late = 3
        status, applied = await call(client, "PUT", "/v1/topics/t", spec)
        assert (status, applied["created"], applied["changes"]) == (200, False, [])

    with_api(test)


def test_a_topics_life() -> None:
    async def test(client: Client, cluster: MemoryCluster) -> None:
        body = {"name": "orders", "partitions": 3, "replication_factor": 2, "configs": {"retention.ms": "1"}}
        status, made = await call(client, "POST", "/v1/topics?validate_only=true", body)
        assert (status, made["validated_only"], cluster.topics) == (201, True, {})
        assert (await call(client, "POST", "/v1/topics", body))[0] == 201
        assert (await call(client, "POST", "/v1/topics", body))[0] == 409
        status, topic = await call(client, "GET", "/v1/topics/orders")
        assert (status, topic["partitions"], topic["configs"]) == (200, 3, {"retention.ms": "1"})
        assert topic["details"][0]["earliest_offset"] == 0
        assert topic["details"][2]["latest_offset"] == 7
        assert (await call(client, "POST", "/v1/topics/orders/partitions", {"count": 5}))[0] == 204
        assert (await call(client, "GET", "/v1/topics/orders"))[1]["partitions"] == 5
        assert (await call(client, "DELETE", "/v1/topics/orders"))[0] == 204
        status, problem = await call(client, "DELETE", "/v1/topics/orders")
        assert (status, problem["error"]) == (404, "UNKNOWN_TOPIC_OR_PARTITION")

    with_api(test)


def test_partitions_are_reported_with_who_may_lead_without_being_in_sync() -> None:
    async def test(client: Client, cluster: MemoryCluster) -> None:
        cluster.set_topic("t", 3, 3)
        cluster.reported = {1: EligibleReplicas([2, 3], [3]), 2: EligibleReplicas()}
        expected = [([], []), ([2, 3], [3]), (None, None)]
        for found in (
            (await call(client, "GET", "/v1/topics/t"))[1]["details"],
            (await call(client, "GET", "/v1/topics/t/partitions"))[1],
        ):
            assert [(each["elr"], each["last_known_elr"]) for each in found] == expected

    with_api(test)


def test_put_brings_a_topic_to_the_described_state_and_again_changes_nothing() -> None:
    async def test(client: Client, cluster: MemoryCluster) -> None:
        spec: dict[str, Any] = {"partitions": 2, "replication_factor": 1, "configs": {"a": "1", "b": "2"}}
        assert (await call(client, "PUT", "/v1/topics/t", spec))[1]["created"]
        assert (await call(client, "PUT", "/v1/topics/t", spec))[1]["changes"] == []
        spec = {"partitions": 4, "configs": {"b": "3", "c": "4"}}
        dry = (await call(client, "PUT", "/v1/topics/t?validate_only=true", spec))[1]
        assert [change["what"] for change in dry["changes"]] == ["partitions", "configs.a", "configs.b", "configs.c"]
        assert cluster.configs["t"] == {"a": "1", "b": "2"}
        done = (await call(client, "PUT", "/v1/topics/t", spec))[1]
        assert done["changes"][1:] == [
            {"what": "configs.a", "before": "1", "after": None},
            {"what": "configs.b", "before": "2", "after": "3"},
            {"what": "configs.c", "before": None, "after": "4"},
        ]
        assert cluster.configs["t"] == {"b": "3", "c": "4"}
        assert (await call(client, "PUT", "/v1/topics/t", spec))[1]["changes"] == []
        status, problem = await call(client, "PUT", "/v1/topics/t", {"replication_factor": 3, "configs": {}})
        assert (status, problem["error"]) == (422, "INVALID_REPLICATION_FACTOR")

    with_api(test)


def test_put_takes_two_spellings_of_a_value_for_one() -> None:
    async def test(client: Client, cluster: MemoryCluster) -> None:
        configs = {"cleanup.policy": "compact, delete", "min.insync.replicas": " 1 ", "segment.ms": "+100"}
        spec: dict[str, Any] = {"partitions": 2, "configs": configs}
        assert (await call(client, "PUT", "/v1/topics/t", spec))[1]["created"]
        # As brokers describe them.
        cluster.configs["t"] = {"cleanup.policy": "compact,delete", "min.insync.replicas": "1", "segment.ms": "100"}
        assert (await call(client, "PUT", "/v1/topics/t", spec))[1]["changes"] == []
        spec["configs"] = configs | {"segment.ms": "+101"}
        changes = (await call(client, "PUT", "/v1/topics/t", spec))[1]["changes"]
        assert [change["what"] for change in changes] == ["configs.segment.ms"]

    with_api(test)


def test_put_changes_nothing_at_all_when_a_config_is_refused() -> None:
    async def test(client: Client, cluster: MemoryCluster) -> None:
        cluster.set_topic("t", 1, 1)
        status, problem = await call(client, "PUT", "/v1/topics/t", {"partitions": 4, "configs": {"nosuch": "1"}})
        assert (status, problem["error"], problem["field"]) == (422, "INVALID_CONFIG", "configs.nosuch")
        assert len(cluster.topics["t"].partitions) == 1

    with_api(test)


def test_a_config_that_is_not_set_can_be_deleted_as_in_kafka() -> None:
    async def test(client: Client, cluster: MemoryCluster) -> None:
        cluster.set_topic("t", 1, 1)
        for name in ("retention.ms", "nosuch"):
            assert (await call(client, "DELETE", f"/v1/topics/t/configs/{name}"))[0] == 204

    with_api(test)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "error", "field"),
    [
        ("POST", "/v1/topics", {"name": "a b"}, 400, "INVALID_REQUEST", "name"),
        ("POST", "/v1/topics", {"name": "a", "partitions": 0}, 400, "INVALID_REQUEST", "partitions"),
        ("POST", "/v1/topics", {"name": "a", "partitons": 1}, 400, "INVALID_REQUEST", "partitons"),
        ("POST", "/v1/topics", {"name": "a", "configs": {"x": 1}}, 400, "INVALID_REQUEST", "configs.x"),
        ("PATCH", "/v1/topics/t/configs", {}, 422, "INVALID_REQUEST", None),
        ("PATCH", "/v1/topics/t/configs", {"set": {"no.such": "1"}}, 422, "INVALID_CONFIG", "set.no.such"),
        ("POST", "/v1/topics", {"name": "a", "configs": {"no.such": "1"}}, 422, "INVALID_CONFIG", "configs.no.such"),
        (
            "PUT",
            "/v1/topics/t",
            {"configs": {"retention.ms": "1", "retention.m": "1"}},
            422,
            "INVALID_CONFIG",
            "configs.retention.m",
        ),
        ("POST", "/v1/topics/t/partitions", {"count": 1}, 422, "INVALID_PARTITIONS", "count"),
        ("PUT", "/v1/topics/t", {"partitions": 1, "configs": {}}, 422, "INVALID_PARTITIONS", "partitions"),
        ("PUT", "/v1/topics/t", {"replication_factor": 2}, 422, "INVALID_REPLICATION_FACTOR", "replication_factor"),
        (
            "POST",
            "/v1/topics",
            {"name": "a", "replication_factor": 4},
            422,
            "INVALID_REPLICATION_FACTOR",
            "replication_factor",
        ),
        ("POST", "/v1/topics", {"name": "t"}, 409, "TOPIC_ALREADY_EXISTS", "name"),
        (
            "POST",
            "/v1/topics",
            {"name": "a", "assignments": {"0": [1]}, "partitions": 1},
            400,
            "INVALID_REQUEST",
            None,
        ),
        (
            "POST",
            "/v1/topics",
            {"name": "a", "assignments": {"0": [99999999999]}},
            400,
            "INVALID_REQUEST",
            "assignments.0.0",
        ),
        (
            "POST",
            "/v1/topics",
            {"name": "a", "assignments": {"99999999999": [1]}},
            400,
            "INVALID_REQUEST",
            "assignments.99999999999.[key]",
        ),
        (
            "POST",
            "/v1/leaders/elect",
            {"partitions": {"p": [99999999999]}},
            400,
            "INVALID_REQUEST",
            "partitions.p.0",
        ),
        ("GET", "/v1/topics?limit=0", None, 400, "INVALID_REQUEST", "limit"),
        ("GET", "/v1/topics?limit=" + "9" * 5_000, None, 400, "INVALID_REQUEST", "limit"),
        ("GET", "/v1/topics?limit=²", None, 400, "INVALID_REQUEST", "limit"),
        ("GET", "/v1/topics?limt=5", None, 400, "INVALID_REQUEST", "limt"),
        ("GET", "/v1/topics?internal=perhaps", None, 400, "INVALID_REQUEST", "internal"),
        ("POST", "/v1/topics?validate-only=true", {"name": "a"}, 400, "INVALID_REQUEST", "validate-only"),
        (
            "POST",
            "/v1/topics?validate_only=true&validate_only=false",
            {"name": "a"},
            400,
            "INVALID_REQUEST",
            "validate_only",
        ),
        ("GET", "/v1/topics/none", None, 404, "UNKNOWN_TOPIC_OR_PARTITION", None),
        ("GET", "/v1/brokers/9", None, 404, "BROKER_ID_NOT_REGISTERED", None),
        ("GET", "/v1/brokers/x", None, 400, "INVALID_REQUEST", "broker"),
        ("GET", "/v1/brokers/99999999999", None, 400, "INVALID_REQUEST", "broker"),
        ("GET", "/v1/nothing", None, 404, "NOT_FOUND", None),
        ("PUT", "/v1/topics", {}, 405, "METHOD_NOT_ALLOWED", None),
    ],
)
def test_errors_name_their_field(method: str, path: str, body: Any, status: int, error: str, field: str | None) -> None:
    async def test(client: Client, cluster: MemoryCluster) -> None:
        cluster.set_topic("t", 2, 1)
        found, problem = await call(client, method, path, body)
        assert (found, problem["error"], problem["field"]) == (status, error, field), problem
        assert problem["message"]
        assert list(cluster.topics) == ["t"] and len(cluster.topics["t"].partitions) == 2

    with_api(test)


def test_a_body_that_is_no_json_is_a_problem_too() -> None:
    async def test(client: Client, cluster: MemoryCluster) -> None:
        async with client.post("/v1/topics", data=b"{", headers={"Content-Type": "application/json"}) as answer:
            assert answer.status == 400
            assert (await answer.json())["error"] == "INVALID_REQUEST"

    with_api(test)


def test_topics_come_in_pages_by_name() -> None:
    async def test(client: Client, cluster: MemoryCluster) -> None:
        for name in ("b", "a", "c", "zz"):
            cluster.set_topic(name, 1, 3, isr=2)
        page = (await call(client, "GET", "/v1/topics?limit=2"))[1]
        assert ([topic["name"] for topic in page["topics"]], page["next"]) == (["a", "b"], "b")
        page = (await call(client, "GET", f"/v1/topics?limit=2&after={page['next']}"))[1]
        assert ([topic["name"] for topic in page["topics"]], page["next"]) == (["c", "zz"], None)
        page = (await call(client, "GET", "/v1/topics?filter=z*"))[1]
        assert [topic["under_replicated"] for topic in page["topics"]] == [1]

    with_api(test)


def test_health_lists_the_problems() -> None:
    async def test(client: Client, cluster: MemoryCluster) -> None:
        cluster.set_topic("ok", 1, 2)
        cluster.set_topic("thin", 2, 3, isr=2)
        cluster.configs["thin"] = {"min.insync.replicas": "2"}
        cluster.topics["ok"].partitions[0].leader_id = -1
        cluster.set_topic("a-internal", 1, 2, isr=1)
        cluster.topics["a-internal"].is_internal = True
        health = (await call(client, "GET", "/v1/health"))[1]
        assert health == {
            "healthy": False,
            "under_replicated_partitions": 3,
            "under_min_isr_partitions": 1,
            "at_min_isr_partitions": 3,
            "offline_partitions": 1,
            "brokers_fenced": [3],
            "partitions": ["ok-0", "thin-0", "thin-1", "a-internal-0"],
            "configs_left_out": [],
            "controller_id": 2,
            "controller_error": None,
        }
        brokers = (await call(client, "GET", "/v1/brokers"))[1]
        assert [(b["id"], b["fenced"], b["leaders"], b["replicas"]) for b in brokers] == [
            (1, False, 3, 4),
            (2, False, 0, 4),
            (3, True, 0, 2),
        ]

    with_api(test)


@pytest.mark.parametrize(
    ("leader", "error"),
    [
        (Unreachable("127.0.0.1:1 no answer"), "CLUSTER_UNREACHABLE"),
        (KafkaError(ErrorCode.REQUEST_TIMED_OUT, "no controller"), "REQUEST_TIMED_OUT"),
        (-1, None),
    ],
)
def test_a_cluster_without_a_controller_is_not_healthy(leader: int | Exception, error: str | None) -> None:
    """All that brokers tell may look as it should: it is what they knew last."""

    async def test(client: Client, cluster: MemoryCluster) -> None:
        cluster.set_topic("ok", 1, 2)
        cluster.fenced = set()
        assert (await call(client, "GET", "/v1/health"))[1]["healthy"]
        cluster.leader = leader
        status, health = await call(client, "GET", "/v1/health")
        assert (status, health["healthy"], health["partitions"]) == (200, False, [])
        assert (health["controller_id"], health["controller_error"]) == (-1, error)

    with_api(test)


def test_secrets_are_not_shown() -> None:
    async def test(client: Client, cluster: MemoryCluster) -> None:
        cluster.set_topic("t", 1, 1)
        configs = (await call(client, "GET", "/v1/topics/t/configs"))[1]
        assert [(c["name"], c["value"]) for c in configs] == [("secret", None)]
        assert len((await call(client, "GET", "/v1/topics/t/configs?all=true"))[1]) == 2

    with_api(test)


def test_an_unreachable_cluster_is_503_and_the_process_still_lives() -> None:
    async def test(client: Client, cluster: MemoryCluster) -> None:
        assert (await call(client, "GET", "/health/ready"))[0] == 200
        cluster.reachable = False
        status, problem = await call(client, "GET", "/v1/cluster")
        assert (status, problem["error"]) == (503, "CLUSTER_UNREACHABLE")
        assert (await call(client, "GET", "/health/ready"))[0] == 503
        assert (await call(client, "GET", "/health/live"))[0] == 200

    with_api(test)


def test_a_foreign_host_header_is_refused() -> None:
    async def test(client: Client, cluster: MemoryCluster) -> None:
        status, problem = await call(client, "GET", "/v1/cluster", headers={"Host": "evil.example:80"})
        assert (status, problem["error"]) == (403, "FORBIDDEN_HOST")

    with_api(test)


@pytest.mark.parametrize("origin", ["http://evil.example", "https://evil.example", "null", "http://127.0.0.1:1"])
def test_a_page_from_elsewhere_can_do_nothing(origin: str) -> None:
    async def test(client: Client, cluster: MemoryCluster) -> None:
        status, problem = await call(client, "POST", "/v1/topics", {"name": "a"}, headers={"Origin": origin})
        assert (status, problem["error"], cluster.topics) == (403, "FORBIDDEN_ORIGIN", {})
        own = f"http://127.0.0.1:{client.port}"
        assert (await call(client, "POST", "/v1/topics", {"name": "a"}, headers={"Origin": own}))[0] == 201

    with_api(test)


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize("path", ["/v1/topics", "/v1/events", "/v3/clusters", "/metrics", "/"])
def test_a_cross_origin_request_without_an_origin_header_is_rejected(site: str, path: str) -> None:
    """An image, a script or a frame is asked for without Origin: a page could take every stream there is."""

    async def test(client: Client, cluster: MemoryCluster) -> None:
        for wanted in ("image", "script", "iframe", "empty", ""):
            headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Dest": wanted}
            async with client.get(path, headers=headers) as answer:
                assert answer.status == 403, wanted
        for mine in ({"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}):
            assert (await call(client, "GET", "/v1/topics", headers=mine))[0] == 200
        async with client.get("/", headers={"Sec-Fetch-Site": site, "Sec-Fetch-Dest": "document"}) as answer:
            assert answer.status == 200, "a link to the console"

    with_api(test)


OPEN = {"/openapi.json", "/docs", "/health/live", "/health/ready", "/", "/session"}
"""What needs no token, besides the console's files: nothing of the cluster is in it."""


def test_every_page_requires_a_token_except_these() -> None:
    """Every route there is, as the router has it: one that is added without a role is found here."""

    async def main() -> None:
        app = AdminApp(MemoryCluster(), Metrics(), Access({"0" * 64: Role.ADMIN})).build()
        async with TestClient(Server(app)) as client:
            requested = 0
            for route in app.router.routes():
                assert route.resource is not None
                path = route.resource.canonical
                if path in OPEN or path.startswith("/console/"):
                    continue
                async with client.request(route.method, re.sub(r"{[^}]*}", "x", path)) as answer:
                    assert answer.status == 401, (route.method, path)
                requested += 1
            assert requested > 2 * len(v3_routes.OPERATIONS) + 50

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_a_body_without_a_json_content_type_is_refused(kind: str) -> None:
    async def test(client: Client, cluster: MemoryCluster) -> None:
        headers = {"Content-Type": kind}
        async with client.post("/v1/topics", data=b'{"name":"a"}', headers=headers) as answer:
            problem = await answer.json()
        assert (answer.status, problem["error"], cluster.topics) == (415, "UNSUPPORTED_MEDIA_TYPE", {})
        assert "application/json" in problem["message"]

    with_api(test)


@pytest.mark.unexpected("admin request:")
def test_an_unexpected_error_is_a_problem_response_and_logged(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async def test(client: Client, cluster: MemoryCluster) -> None:
        cluster.fault = struct.error("'i' format requires a number")
        status, problem = await call(client, "GET", "/v1/cluster")
        assert (status, problem["error"], problem["field"]) == (500, "UNKNOWN_SERVER_ERROR", None)
        cluster.fault = None
        assert (await call(client, "GET", "/v1/cluster"))[0] == 200

    with_api(test)
    assert "'i' format requires a number" in capfd.readouterr().err


def test_the_process_has_metrics_too() -> None:
    async def test(client: Client, cluster: MemoryCluster) -> None:
        async with client.get("/metrics") as answer:
            text = await answer.text()
        assert answer.status == 200 and answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        assert "\nprocess_resident_memory_bytes " in text and "\nkvorum_metrics_overflowed " in text

    with_api(test)


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1", "127.0.0.1:8080", "[::1]:8080", "[::1]", "127.9.9.9", "::1"]
)
def test_loopback_in_every_spelling_is_local(host: str) -> None:
    assert is_local(host)


@pytest.mark.parametrize(
    "host", ["", "0.0.0.0", "evil.example", "127.0.0.1.evil.example", "[::1]evil.example", "10.0.0.1:80"]
)
def test_anything_else_is_not(host: str) -> None:
    assert not is_local(host)


def test_the_openapi_document_has_every_operation_and_resolves() -> None:
    async def test(client: Client, cluster: MemoryCluster) -> None:
        document = (await call(client, "GET", "/openapi.json"))[1]
        described = {(m.upper(), path) for path, item in document["paths"].items() for m in item}
        assert described == {(each.method, each.path) for each in operations()}
        names = set(document["components"]["schemas"])
        text = json.dumps(document)
        assert {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]} <= names
        async with client.get("/docs") as page:
            html = await page.text()
            assert "default-src 'none'" in page.headers["Content-Security-Policy"]
            assert page.headers["X-Content-Type-Options"] == "nosniff"
        assert all(each.path in html for each in operations())
        linked, anchors = set(re.findall('<li><a href="#([^"]+)"', html)), re.findall('<h2 id="([^"]+)"', html)
        assert linked == set(anchors) and len(linked) == len(anchors) == len(operations())

    with_api(test)


def test_descriptions_are_built_once_with_readable_names(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(app, "describe_api", lambda known: made.append(known) or describe_api(known))

    async def test(client: Client, cluster: MemoryCluster) -> None:
        found = [(await call(client, "GET", "/openapi.json"))[1] for _ in range(3)]
        assert found[0] == found[1] and len(made) == 1
        ids = [each["operationId"] for item in found[0]["paths"].values() for each in item.values()]
        assert len(set(ids)) == len(ids) and not [each for each in ids if "_" not in each]

    with_api(test)


def test_every_error_code_has_a_status() -> None:
    assert {status_of(code) for code in ErrorCode} == {403, 404, 409, 413, 422, 429, 500, 503}
    blamed = {code.name for code in RETRIABLE if status_of(code) == 422}
    assert not blamed, "what may go well in a moment is not the fault of who asks"
    assert status_of(ErrorCode.THROTTLING_QUOTA_EXCEEDED) == 429 and status_of(ErrorCode.MESSAGE_TOO_LARGE) == 413
    assert status_of(ErrorCode.KAFKA_STORAGE_ERROR) == status_of(ErrorCode.NOT_ENOUGH_REPLICAS) == 503
    assert status_of(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) == 404 and status_of(ErrorCode.ELECTION_NOT_NEEDED) == 409


async def tag_of(client: Client, path: str) -> str:
    async with client.get(path) as answer:
        return answer.headers["ETag"]


def test_concurrent_changes_of_a_topic_do_not_overwrite_each_other() -> None:
    async def test(client: Client, cluster: MemoryCluster) -> None:
        cluster.set_topic("t", 1, 1)
        tag = await tag_of(client, "/v1/topics/t")
        mine, theirs = {"configs": {"retention.ms": "1"}}, {"configs": {"retention.ms": "2"}}
        assert (await call(client, "PUT", "/v1/topics/t", mine, headers={"If-Match": tag}))[0] == 200
        status, problem = await call(client, "PUT", "/v1/topics/t", theirs, headers={"If-Match": tag})
        assert (status, problem["error"]) == (412, "PRECONDITION_FAILED")
        assert cluster.configs["t"] == {"retention.ms": "1"}
        now = await tag_of(client, "/v1/topics/t")
        assert now != tag and now in problem["message"]
        assert (await call(client, "PUT", "/v1/topics/t", theirs, headers={"If-Match": f'"x", {now}'}))[0] == 200
        assert (await call(client, "DELETE", "/v1/topics/t", headers={"If-Match": now}))[0] == 412
        assert (await call(client, "DELETE", "/v1/topics/t", headers={"If-Match": "*"}))[0] == 204
        assert (await call(client, "PUT", "/v1/topics/t", mine, headers={"If-Match": "*"}))[0] == 412
        assert cluster.topics == {}

    with_api(test)


def test_configs_have_a_tag_that_defaults_and_leaders_do_not_change() -> None:
    async def test(client: Client, cluster: MemoryCluster) -> None:
        cluster.set_topic("t", 1, 2)
        tag, topic_tag = await tag_of(client, "/v1/topics/t/configs"), await tag_of(client, "/v1/topics/t")
        assert await tag_of(client, "/v1/topics/t/configs?all=true") == tag
        cluster.topics["t"].partitions[0].leader_id = 2
        assert await tag_of(client, "/v1/topics/t") == topic_tag
        async with client.get("/v1/topics/t/configs", headers={"If-None-Match": tag}) as answer:
            assert (answer.status, answer.headers["Cache-Control"]) == (200, "no-store"), "told in full, with the rest"
        headers = {"If-Match": tag}
        path, change = "/v1/topics/t/configs", {"set": {"retention.ms": "1"}}
        both = await asyncio.gather(*(call(client, "PATCH", path, change, headers=headers) for _ in range(2)))
        assert sorted(status for status, _ in both) == [204, 412], "of two at the same time one comes first"
        assert (await call(client, "DELETE", f"{path}/retention.ms", headers=headers))[0] == 412
        assert (await call(client, "PATCH", path, change))[0] == 204, "nobody has to compare"

    with_api(test)


class CountingCluster(MemoryCluster):
    """Counts the partitions that brokers described, and the whole lists."""

    described = 0
    lists = 0

    async def metadata(
        self, names: Sequence[str] | None = None, *, authorized_operations: bool = False
    ) -> MetadataResponse:
        self.lists += names is None
        return await super().metadata(names)

    async def ask(self, request: Message, response: type[Message], address: object = None, **more: object) -> Any:
        answer = await super().ask(request, response, address, **more)
        if isinstance(answer, DescribeTopicPartitionsResponse):
            self.described += sum(len(topic.partitions) for topic in answer.topics)
        return answer


def test_a_short_page_of_topics_costs_no_more_than_its_topics() -> None:
    async def run() -> None:
        cluster = CountingCluster()
        for number in range(500):
            cluster.set_topic(f"t{number:03}", 3, 1)
        cluster.set_topic("__internal", 100, 1)
        cluster.topics["__internal"].is_internal = True
        cluster.set_topic("t2000", 5_000, 1)
        async with serve(cluster) as client:
            status, found = await call(client, "GET", "/v1/topics?limit=1&after=t009")
            assert (status, [each["name"] for each in found["topics"]], found["next"]) == (200, ["t010"], "t010")
            assert (cluster.lists, cluster.described) == (0, 64)
            names, after = [], ""
            while True:
                _, found = await call(client, "GET", f"/v1/topics?limit=7{after}")
                names += [(each["name"], each["partitions"]) for each in found["topics"]]
                if found["next"] is None:
                    break
                after = f"&after={found['next']}"
            wanted = {name: len(topic.partitions) for name, topic in cluster.topics.items() if name != "__internal"}
            assert names == sorted(wanted.items())
            _, found = await call(client, "GET", "/v1/topics?limit=1&internal=true")
            assert [(each["name"], each["partitions"]) for each in found["topics"]] == [("__internal", 100)]
            assert cluster.lists == 0
            await call(client, "GET", "/v1/topics?limit=1&under_replicated=true")
            assert cluster.lists == 1

    asyncio.run(run())
