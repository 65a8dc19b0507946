"""A change by HTTP whose condition does not hold, or cannot be evaluated, is refused (RFC 9110, section 13)."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from aiohttp.test_utils import TestClient

from kvorum.admin.app import AdminApp, operations
from kvorum.admin.http.operations import Call, NoBody, Operation
from kvorum.admin.v1.jobs.connect_client import ConnectClient
from kvorum.admin.v3.dialect import V3
from kvorum.runtime.metrics import Metrics
from tests.unit.admin.fake import Client, FakeCluster, Server, with_fake
from tests.unit.admin.test_app import MemoryCluster, call, tag_of, with_api

TOPIC = "/v1/topics/orders"
BODY = {"partitions": 8, "configs": {"retention.ms": "1"}}
PAST = "Sat, 01 Jan 2000 00:00:00 GMT"
UNSUPPORTED = [
    ("If-Unmodified-Since", PAST),
    ("If-Modified-Since", PAST),
    ("If-Range", '"x"'),
    ("If-Schedule-Tag-Match", '"x"'),
    ("If", '(["x"])'),
    ("if-something-of-2031", "1"),
]
MALFORMED = ["", "x", '"x', "x, *", '*, "x"', '"x" "y"', "'x'", 'w/"x"', '"a b"']


async def change(
    client: Client, method: str, path: str, headers: Sequence[tuple[str, str]], body: Any = BODY
) -> tuple[int, dict[str, Any]]:
    status, problem = await call(client, method, path, body if method == "PUT" else None, headers=list(headers))
    return status, problem or {}


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
@pytest.mark.parametrize(
    "headers",
    [
        [("If-None-Match", "*")],
        [("if-none-match", " * ")],
        *([each] for each in UNSUPPORTED),
        *([("If-None-Match", each)] for each in MALFORMED),
        *([("If-Match", each)] for each in MALFORMED),
        [("If-Match", 'W/"TAG"')],
        [("If-Match", '"y"'), ("If-Match", '"z"')],
        [("If-None-Match", '"y", W/"TAG"')],
        [("If-None-Match", '"y"'), ("If-None-Match", '"TAG"')],
        [("If-Match", '"TAG"'), ("If-None-Match", "*")],
        [("If-Match", '"TAG"'), ("If-Unmodified-Since", PAST)],
        [("If-Match", '"TAG"'), ("If-Match", "*")],
        [("If-None-Match", '"y"'), ("If-Match", '"z"')],
    ],
    ids=str,
)
def test_a_topic_is_not_changed_under_a_condition_that_does_not_hold(
    method: str, headers: list[tuple[str, str]]
) -> None:
    async def test(client: Client, cluster: MemoryCluster) -> None:
        cluster.set_topic("orders", 1, 1)
        tag = (await tag_of(client, TOPIC)).strip('"')
        status, problem = await change(client, method, TOPIC, [(n, v.replace("TAG", tag)) for n, v in headers])
        assert (status, problem["error"]) == (412, "PRECONDITION_FAILED"), problem
        assert problem["message"].endswith("nothing was changed")
        assert len(cluster.topics["orders"].partitions) == 1 and cluster.configs == {}

    with_api(test)


@pytest.mark.parametrize(
    "headers",
    [
        [("If-Match", "*")],
        [("If-Match", ' , "y",, "TAG" ,')],
        [("If-Match", '"y"'), ("If-Match", '"TAG"')],
        [("If-None-Match", '"y"')],
        [("If-None-Match", 'W/"y", "z,"')],
        [("If-Match", '"TAG"'), ("If-None-Match", '"y"')],
    ],
    ids=str,
)
def test_a_topic_is_changed_under_a_condition_that_holds(headers: list[tuple[str, str]]) -> None:
    async def test(client: Client, cluster: MemoryCluster) -> None:
        cluster.set_topic("orders", 1, 1)
        tag = (await tag_of(client, TOPIC)).strip('"')
        status, _ = await change(client, "PUT", TOPIC, [(n, v.replace("TAG", tag)) for n, v in headers])
        assert (status, len(cluster.topics["orders"].partitions)) == (200, 8)

    with_api(test)


def test_if_none_match_creates_a_topic_that_does_not_exist_and_only_once() -> None:
    async def test(client: Client, cluster: MemoryCluster) -> None:
        headers = [("If-None-Match", "*")]
        answers = await asyncio.gather(*(change(client, "PUT", TOPIC, headers) for _ in range(3)))
        assert sorted(status for status, _ in answers) == [200, 412, 412]
        assert len(cluster.topics["orders"].partitions) == 8

    with_api(test)


def test_if_none_match_does_not_change_a_topic_that_another_client_creates_meanwhile() -> None:
    class Raced(MemoryCluster):
        async def create_topic(self, topic: Any, *, validate_only: bool = False) -> Any:
            self.set_topic("orders", 1, 1)
            return await super().create_topic(topic, validate_only=validate_only)

    async def main() -> None:
        cluster = Raced()
        app = AdminApp(cluster, Metrics()).build()  # type: ignore[arg-type]
        async with TestClient(Server(app)) as client:
            status, problem = await change(client, "PUT", TOPIC, [("If-None-Match", "*")])
        assert (status, problem["error"]) == (412, "PRECONDITION_FAILED")
        assert len(cluster.topics["orders"].partitions) == 1 and cluster.configs == {}

    asyncio.run(main())


def test_no_route_carries_out_a_change_with_a_condition_it_cannot_evaluate() -> None:
    """Neither ours nor Confluent's nor Connect's: no request leaves for the cluster or for a Connect worker."""

    async def test(client: Client, cluster: FakeCluster) -> None:
        unsafe = [each for each in operations(None, ConnectClient()) if each.method != "GET"]
        assert len(unsafe) > 50
        for operation in unsafe:
            path = operation.path.replace("{", "").replace("}", "").replace(":.*", "")
            always = [("If-None-Match", "*"), ("If-Match", '"x"')] if operation.guard is None else []
            for header in [*UNSUPPORTED[:2], ("If-Match", "x"), *always]:
                cluster.requested.clear()
                async with client.request(operation.method, path, json={}, headers=dict([header])) as answer:
                    assert answer.status == 412, (operation.method, path, header, await answer.text())
                    shown = await answer.json()
                    assert V3.has_path(operation.path) or shown["error"] == "PRECONDITION_FAILED"
                assert cluster.requested == []

    with_fake(test)


def test_a_server_with_further_operations_refuses_conditions_of_theirs() -> None:
    """`kvorum chaos serve` has its routes this way."""
    done: list[str] = []

    async def begin(call: Call[NoBody]) -> None:
        done.append("begun")

    async def main() -> None:
        more = [Operation(method="POST", path="/v1/chaos/begin", summary="Begin", handle=begin, status=204)]
        async with TestClient(Server(AdminApp(FakeCluster(), Metrics(), more=more).build())) as client:
            for name, value in [*UNSUPPORTED, ("If-Match", "*"), ("If-None-Match", "*")]:
                assert (await change(client, "POST", "/v1/chaos/begin", [(name, value)]))[0] == 412
            assert done == []
            assert (await change(client, "POST", "/v1/chaos/begin", []))[0] == 204

    asyncio.run(main())


def test_reads_ignore_conditions_and_answer_in_full() -> None:
    async def test(client: Client, cluster: MemoryCluster) -> None:
        cluster.set_topic("orders", 1, 1)
        for name, value in [*UNSUPPORTED, ("If-Match", "x"), ("If-None-Match", "*")]:
            assert (await call(client, "GET", TOPIC, headers={name: value}))[0] == 200

    with_api(test)
