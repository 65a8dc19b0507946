"""What a broker speaks, configs of all brokers, changes that are only checked, and where the quorum's voters are."""

from collections.abc import Callable
from typing import Any

import pytest

from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages import describe_quorum as quorum
from kvorum.protocol.messages.api_versions import ApiVersionsRequest
from kvorum.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kvorum.protocol.schema import Message
from tests.unit.admin.fake import Client, call
from tests.unit.admin.operated import BROKER, CLUSTER, OWN_ANSWERS, OperatedCluster, with_operated

KEY = "log.retention.ms"


def test_a_broker_reports_its_api_versions() -> None:
    async def test(client: Client, cluster: OperatedCluster) -> None:
        status, found = await call(client, "GET", "/v1/brokers/3/api-versions")
        assert status == 200
        assert found == {
            "broker": 3,
            "apis": [
                {"key": 1, "name": "FETCH", "min_version": 4, "max_version": 17},
                {"key": 999, "name": "999", "min_version": 0, "max_version": 0},
            ],
            "features": [
                {"name": "metadata.version", "min_supported": 30, "max_supported": 30, "level": 30},
                {"name": "transaction.version", "min_supported": 0, "max_supported": 2, "level": 1},
            ],
            "finalized_epoch": 7,
        }

    with_operated(test)


def test_a_broker_without_api_versions() -> None:
    async def test(client: Client, cluster: OperatedCluster) -> None:
        status, problem = await call(client, "GET", "/v1/brokers/9/api-versions")
        assert (status, problem["error"]) == (404, "BROKER_ID_NOT_REGISTERED")
        cluster.silent = {3}
        status, problem = await call(client, "GET", "/v1/brokers/3/api-versions")
        assert (status, problem["error"]) == (503, "CLUSTER_UNREACHABLE")
        cluster.codes[ApiVersionsRequest] = ErrorCode.UNSUPPORTED_VERSION
        assert (await call(client, "GET", "/v1/brokers/1/api-versions"))[1]["error"] == "UNSUPPORTED_VERSION"

    with_operated(test)


def test_configs_of_all_brokers_are_those_of_none_alone() -> None:
    async def test(client: Client, cluster: OperatedCluster) -> None:
        assert await call(client, "GET", "/v1/brokers/configs") == (200, [])
        cluster.layers[BROKER, ""] = [[(KEY, "5", CLUSTER)]]
        ((row,),) = (await call(client, "GET", "/v1/brokers/configs"))[1:]
        assert (row["name"], row["value"], row["source"]) == (KEY, "5", "DYNAMIC_DEFAULT_BROKER_CONFIG")
        assert await call(client, "PATCH", "/v1/brokers/configs", {"set": {KEY: "6"}}) == (204, None)
        assert cluster.altered == [(BROKER, "", {KEY: "6"})]

    with_operated(test)


def test_concurrently_changed_cluster_configs_are_not_overwritten() -> None:
    async def test(client: Client, cluster: OperatedCluster) -> None:
        async with client.get("/v1/brokers/configs") as answer:
            headers = {"If-Match": answer.headers["ETag"]}
        cluster.layers[BROKER, ""] = [[(KEY, "5", CLUSTER)]]
        body = {"set": {KEY: "6"}}
        assert (await call(client, "PATCH", "/v1/brokers/configs", body, headers=headers))[0] == 412
        assert cluster.altered == []

    with_operated(test)


@pytest.mark.parametrize(("path", "name"), [("/v1/brokers/configs", ""), ("/v1/brokers/2/configs", "2")])
def test_a_change_of_brokers_configs_may_only_be_checked(path: str, name: str) -> None:
    async def test(client: Client, cluster: OperatedCluster) -> None:
        for query, only in (("", False), ("?validate_only=true", True)):
            assert await call(client, "PATCH", path + query, {"delete": [KEY]}) == (204, None)
            request = cluster.requested[-1]
            assert isinstance(request, IncrementalAlterConfigsRequest)
            assert (request.validate_only, request.resources[0].resource_name) == (only, name)
        assert (await call(client, "PATCH", f"{path}?validate_only=perhaps", {"delete": [KEY]}))[1][
            "field"
        ] == "validate_only"
        assert (await call(client, "PATCH", path, {}))[1]["error"] == "INVALID_REQUEST"

    with_operated(test)


def test_voters_have_listeners_and_all_replicas_a_last_fetch(monkeypatch: pytest.MonkeyPatch) -> None:
    def state(node_id: int, end: int, fetched: int) -> quorum.ReplicaState:
        return quorum.ReplicaState(
            replica_id=node_id, log_end_offset=end, last_fetch_timestamp=fetched, last_caught_up_timestamp=fetched - 1
        )

    def reported(cluster: OperatedCluster, broker: int, request: Message) -> quorum.DescribeQuorumResponse:
        row = quorum.ResponsePartitionData(
            leader_id=101, current_voters=[state(101, 9, -1), state(102, 7, 50)], observers=[state(102, 9, 60)]
        )
        listeners = [quorum.Listener(name=name, host="localhost", port=port) for name, port in (("A", 1), ("B", 2))]
        return quorum.DescribeQuorumResponse(
            topics=[quorum.ResponseTopicData(partitions=[row])],
            nodes=[quorum.Node(node_id=each, listeners=listeners[: each - 100]) for each in (101, 102)],
        )

    answers: dict[type, Callable[[Any, int, Any], Any]] = OWN_ANSWERS
    monkeypatch.setitem(answers, quorum.DescribeQuorumRequest, reported)

    async def test(client: Client, cluster: OperatedCluster) -> None:
        found = (await call(client, "GET", "/v1/quorum"))[1]
        a, b = ({"name": name, "host": "localhost", "port": port} for name, port in (("A", 1), ("B", 2)))
        rows = [(each["id"], each["lag"], each["last_fetch_ms"], each["listeners"]) for each in found["voters"]]
        assert rows == [(101, 0, -1, [a]), (102, 2, 50, [a, b])]
        (watching,) = found["observers"]
        assert (watching["id"], watching["last_fetch_ms"], watching["last_caught_up_ms"]) == (102, 60, 59)
        assert watching["listeners"] == [], "a broker that has a voter's number is not that voter"

    with_operated(test)
