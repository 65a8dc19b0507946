"""Quotas over HTTP: whose they are is said one way, what is set is kept to one entity, two people do not overwrite."""

import pytest

from kvorum.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from tests.unit.admin.fake import Client, call
from tests.unit.admin.operated import OperatedCluster, with_operated

RATE = {"set": {"producer_byte_rate": 1024}}


def fill(cluster: OperatedCluster) -> None:
    for entity in ([("user", "a")], [("user", None)], [("user", "a"), ("client-id", "c")], [("ip", "1.2.3.4")]):
        cluster.quotas[frozenset(entity)] = {"producer_byte_rate": 5.0}


def names(rows: list[dict[str, list[dict[str, str | None]]]]) -> list[str]:
    return sorted(map(str, [[(part["type"], part["name"]) for part in row["entity"]] for row in rows]))


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", [[("ip", "1.2.3.4")], [("user", "a")], [("user", "a"), ("client_id", "c")], [("user", None)]]),
        ("?user=a", [[("user", "a")]]),
        ("?user=a&containing=true", [[("user", "a")], [("user", "a"), ("client_id", "c")]]),
        ("?default=user", [[("user", None)]]),
        ("?any=user", [[("user", "a")], [("user", None)]]),
        ("?user=a&any=client_id", [[("user", "a"), ("client_id", "c")]]),
        ("?ip=9.9.9.9", []),
    ],
)
def test_quotas_are_found_by_entity(query: str, found: list[object]) -> None:
    async def test(client: Client, cluster: OperatedCluster) -> None:
        fill(cluster)
        status, rows = await call(client, "GET", f"/v1/quotas{query}")
        assert (status, names(rows)) == (200, sorted(map(str, found)))

    with_operated(test)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("user=", "user"),
        ("user=a&default=user", "default"),
        ("default=users", "default"),
        ("any=user&default=user", "any"),
        ("containing=perhaps", "containing"),
        ("name=a", "name"),
    ],
)
def test_an_invalid_quota_entity_is_refused(query: str, field: str) -> None:
    async def test(client: Client, cluster: OperatedCluster) -> None:
        status, problem = await call(client, "GET", f"/v1/quotas?{query}")
        assert (status, problem["field"]) == (400, field)
        assert cluster.requested == []

    with_operated(test)


def test_quotas_are_set_checked_and_removed() -> None:
    async def test(client: Client, cluster: OperatedCluster) -> None:
        path = "/v1/quotas?default=user&client_id=c"
        key = frozenset({("user", None), ("client-id", "c")})
        assert (await call(client, "PATCH", f"{path}&validate_only=true", RATE))[0] == 204
        assert cluster.quotas == {}
        assert (await call(client, "PATCH", path, RATE))[0] == 204
        assert cluster.quotas == {key: {"producer_byte_rate": 1024.0}}
        status, problem = await call(client, "PATCH", path, {"set": {"no_such": 1}})
        assert (status, problem["error"], problem["field"]) == (422, "INVALID_REQUEST", "set")
        assert "no_such" in problem["detail"]
        assert (await call(client, "PATCH", path, {"delete": ["producer_byte_rate"]}))[0] == 204
        assert cluster.quotas == {}
        await call(client, "PATCH", path, RATE)
        assert (await call(client, "DELETE", path))[0] == 204
        assert cluster.quotas == {}
        assert (await call(client, "DELETE", path))[0] == 204, "who has none has none"

    with_operated(test)


def test_a_change_names_one_entity_and_something_to_change() -> None:
    async def test(client: Client, cluster: OperatedCluster) -> None:
        for path, body, field in (
            ("/v1/quotas", RATE, "user"),
            ("/v1/quotas?any=user", RATE, "any"),
            ("/v1/quotas?user=a", {}, "set"),
            ("/v1/quotas?user=a", {**RATE, "delete": ["producer_byte_rate"]}, "delete"),
            ("/v1/quotas?user=a", {"set": {"producer_byte_rate": "many"}}, "set.producer_byte_rate"),
            ("/v1/quotas?user=a", {"put": {}}, "put"),
        ):
            status, problem = await call(client, "PATCH", path, body)
            assert (status, problem["field"]) == (400, field), (path, body)
        assert cluster.quotas == {}

    with_operated(test)


def test_a_change_based_on_older_quotas_does_not_overwrite_newer_ones() -> None:
    async def test(client: Client, cluster: OperatedCluster) -> None:
        fill(cluster)
        async with client.get("/v1/quotas?user=a") as answer:
            tag = {"If-Match": answer.headers["ETag"]}
        cluster.quotas[frozenset({("ip", "1.2.3.4")})]["producer_byte_rate"] = 6.0
        assert (await call(client, "PATCH", "/v1/quotas?user=a", RATE, headers=tag))[0] == 204, "another's changed"
        status, problem = await call(client, "PATCH", "/v1/quotas?user=a", RATE, headers=tag)
        assert (status, problem["error"]) == (412, "PRECONDITION_FAILED")
        assert any(isinstance(each, DescribeClientQuotasRequest) for each in cluster.requested)

    with_operated(test)
