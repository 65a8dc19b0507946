"""Bodies that are not there, or not what they say; changes that cannot be compared; when to come again."""

import asyncio
import gzip
from typing import Any

import pytest

from kvorum.admin.app import operations
from kvorum.admin.http import request_input
from kvorum.admin.http.operations import NoBody
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.create_topics import CreateTopicsRequest
from kvorum.protocol.messages.elect_leaders import ElectLeadersRequest
from kvorum.protocol.messages.metadata import MetadataRequest
from kvorum.protocol.records import Record
from tests.unit.admin.fake import Client, FakeCluster, call, with_fake
from tests.unit.admin.operated import OperatedCluster, with_operated
from tests.unit.admin.test_app import MemoryCluster, with_api

JSON = {"Content-Type": "application/json"}
BEGUN = b"POST /v1/topics HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
"""Of a body, the first of 99 bytes."""
ASKED = [each for each in operations() if each.body is not NoBody and not each.stream_body]


@pytest.mark.parametrize("operation", ASKED, ids=[f"{each.method} {each.path}" for each in ASKED])
@pytest.mark.parametrize("body", [b"", b" \n"], ids=["nothing", "blanks"])
def test_a_body_that_is_missing_is_not_taken_for_an_empty_one(operation: Any, body: bytes) -> None:
    async def test(client: Client, cluster: OperatedCluster) -> None:
        cluster.place("t", [1, 2])
        path = operation.path
        for name in operation.names_in_path:
            path = path.replace(f"{{{name}}}", {"cluster_id": "c", "broker": "1", "broker_id": "1"}.get(name, "t"))
        async with client.request(operation.method, path, data=body, headers=JSON) as answer:
            assert answer.status == 400, await answer.text()
        changes = [
            each for each in cluster.requested if not type(each).__name__.startswith(("Describe", "Metadata", "List"))
        ]
        assert not changes

    with_operated(test)


def test_a_put_without_a_body_leaves_the_configs_as_they_are() -> None:
    async def test(client: Client, cluster: MemoryCluster) -> None:
        cluster.set_topic("t", 1, 1)
        cluster.configs["t"] = {"retention.ms": "1"}
        async with client.put("/v1/topics/t") as answer:
            assert (answer.status, (await answer.json())["field"]) == (400, "body")
        assert cluster.configs["t"] == {"retention.ms": "1"}

    with_api(test)


@pytest.mark.parametrize(
    ("body", "field"),
    [({}, "partitions"), ({"unclean": True}, "partitions"), ({"all": True, "partitions": {"t": [0]}}, "all")],
)
def test_leaders_of_all_partitions_are_elected_only_with_all(body: dict[str, Any], field: str) -> None:
    async def test(client: Client, cluster: OperatedCluster) -> None:
        cluster.place("t", [1, 2])
        status, problem = await call(client, "POST", "/v1/leaders/elect", body)
        assert (status, problem["error"], problem["field"]) == (400, "INVALID_REQUEST", field)
        assert not [each for each in cluster.requested if isinstance(each, ElectLeadersRequest)]
        assert (await call(client, "POST", "/v1/leaders/elect", {"all": True}))[0] == 200
        (requested,) = [each for each in cluster.requested if isinstance(each, ElectLeadersRequest)]
        assert requested.topic_partitions is None

    with_operated(test)


def test_a_change_that_cannot_be_compared_is_not_made_with_if_match() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        (log,) = cluster.add("t")
        log.append(Record(value=b"a"), Record(value=b"b"))
        path, body = "/v1/topics/t/records/delete", {"partitions": {"0": 1}}
        for tag in ('"nonsense"', "*"):
            status, problem = await call(client, "POST", path, body, headers={"If-Match": tag})
            assert (status, problem["error"], log.start) == (412, "PRECONDITION_FAILED", 0)
        assert (await call(client, "GET", "/v1/topics", headers={"If-Match": '"x"'}))[0] == 200
        assert (await call(client, "POST", path, body))[0] == 200 and log.start == 1

    with_fake(test)


@pytest.mark.parametrize(
    ("path", "body"), [("/v1/topics", b'{"name":"a"}'), ("/v3/clusters/c/topics", b'{"topic_name":"a"}')]
)
def test_a_body_with_a_wrong_content_encoding_is_a_client_error(
    path: str, body: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        headers = JSON | {"Content-Encoding": "gzip"}
        async with client.post(path, data=body, headers=headers) as answer:
            reported = await answer.json()
        assert (answer.status, reported.get("field", "body")) == (400, "body") and "gzip" in reported["message"]
        async with client.post(path, data=gzip.compress(body), headers=headers) as answer:
            assert "CreateTopicsRequest" in await answer.text(), "it came as far as the cluster"
        async with client.post(path, data=gzip.compress(bytes(5 << 20)), headers=headers) as answer:
            assert answer.status == 413

    with_fake(test)
    message = capfd.readouterr().err
    assert "unexpected exception" not in message and "Traceback" not in message and "Unhandled" not in message


def test_a_body_that_does_not_arrive_in_time_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_input, "BODY_SECONDS", 0.1)

    async def test(client: Client, cluster: FakeCluster) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
        writer.write(BEGUN)
        async with asyncio.timeout(30):
            assert b" 408 " in await reader.readline()
        writer.close()

    with_fake(test)


@pytest.mark.parametrize(
    ("code", "status", "after"),
    [
        (ErrorCode.THROTTLING_QUOTA_EXCEEDED, 429, "1"),
        (ErrorCode.NOT_CONTROLLER, 503, "1"),
        (ErrorCode.INVALID_REQUEST, 422, None),
    ],
)
def test_a_retriable_rejection_has_a_retry_time(code: ErrorCode, status: int, after: str | None) -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        cluster.codes[CreateTopicsRequest] = code
        async with client.post("/v1/topics", json={"name": "a"}) as answer:
            assert (answer.status, answer.headers.get("Retry-After")) == (status, after)
        cluster.reachable = False
        for path in ("/v1/topics", "/health/ready", "/v3/clusters"):
            async with client.get(path) as answer:
                assert (answer.status, answer.headers.get("Retry-After")) == (503, "1"), path
        cluster.reachable = True
        cluster.codes[MetadataRequest] = code
        async with client.get("/v3/clusters/c/topics") as answer:
            assert answer.headers.get("Retry-After") == (after if answer.status == status else None)

    with_fake(test)
