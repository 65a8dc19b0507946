"""Users and delegation tokens over HTTP: made, listed and deleted; passwords and HMACs are in no list and no log."""

import base64
from typing import Any
from urllib.parse import quote

import pytest

from kvorum.admin.http import audit_log
from kvorum.security.credentials import ScramMechanism
from kvorum.security.principal import Principal
from kvorum.security.scram_keys import derive_credential
from tests.unit.admin.fake import Client, call
from tests.unit.admin.operated import OperatedCluster, with_operated
from tests.unit.client.credentials_kit import NOW_MS

PASSWORD = "hunter2-hunter2"


class Lines:
    """The audit log."""

    def __init__(self) -> None:
        self.text = ""

    def info(self, message: str, **facts: object) -> None:
        self.text += f"{message} {facts}\n"

    warning = info


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Lines:
    found = Lines()
    monkeypatch.setattr(audit_log, "log", found)
    return found


def test_a_user_is_created_described_and_deleted(lines: Lines) -> None:
    async def test(client: Client, cluster: OperatedCluster) -> None:
        assert await call(client, "GET", "/v1/users") == (200, [])
        assert await call(client, "PUT", "/v1/users/ann", {"password": PASSWORD}) == (204, None)
        body = {"password": PASSWORD, "mechanism": "SCRAM-SHA-256", "iterations": 8192}
        assert (await call(client, "PUT", "/v1/users/ann", body))[0] == 204
        (stored, _) = (cluster.credentials.image.scram.of("ann")[each] for each in (1, 2))
        assert stored == derive_credential(ScramMechanism.SCRAM_SHA_256, PASSWORD.encode(), stored.salt, 8192)
        ann = {
            "name": "ann",
            "credentials": [
                {"mechanism": "SCRAM-SHA-256", "iterations": 8192},
                {"mechanism": "SCRAM-SHA-512", "iterations": 4096},
            ],
        }
        assert await call(client, "GET", "/v1/users") == (200, [ann])
        assert await call(client, "GET", "/v1/users/ann") == (200, ann)
        assert (await call(client, "DELETE", "/v1/users/ann?mechanism=SCRAM-SHA-256"))[0] == 204
        assert cluster.credentials.users() == {"ann": [2]}
        assert (await call(client, "DELETE", "/v1/users/ann"))[0] == 204
        assert (await call(client, "DELETE", "/v1/users/ann"))[0] == 404
        assert (await call(client, "GET", "/v1/users/ann"))[0] == 404

    with_operated(test)
    assert "/v1/users/ann" in lines.text and "password" in lines.text
    assert PASSWORD not in lines.text


def test_users_are_listed_in_pages_and_have_any_name() -> None:
    names = ["a/b", "c d", "ü"]

    async def test(client: Client, cluster: OperatedCluster) -> None:
        for name in names:
            status, _ = await call(client, "PUT", f"/v1/users/{quote(name, safe='')}", {"password": PASSWORD})
            assert status == 204
        async with client.request("GET", "/v1/users?limit=2") as answer:
            assert [each["name"] for each in await answer.json()] == names[:2]
            assert "after=c+d" in answer.headers["Link"]
        _, rest = await call(client, "GET", "/v1/users?limit=2&after=c+d")
        assert [each["name"] for each in rest] == names[2:]

    with_operated(test)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "password"),
        ({"password": ""}, "password"),
        ({"password": PASSWORD, "mechanism": "PLAIN"}, "mechanism"),
        ({"password": PASSWORD, "iterations": 4095}, "iterations"),
        ({"password": [PASSWORD]}, "password"),
        ({"password": PASSWORD, "salt": "x"}, "salt"),
    ],
)
def test_a_bad_user_is_refused_without_an_echo(body: dict[str, Any], field: str, lines: Lines) -> None:
    async def test(client: Client, cluster: OperatedCluster) -> None:
        status, problem = await call(client, "PUT", "/v1/users/ann", body)
        assert (status, problem["field"]) == (400, field)
        assert PASSWORD not in str(problem)
        assert (await call(client, "DELETE", "/v1/users/ann?mechanism=PLAIN"))[0] == 400

    with_operated(test)
    assert PASSWORD not in lines.text


def test_a_token_is_created_renewed_and_removed_by_its_id(lines: Lines) -> None:
    hmacs: list[str] = []

    async def test(client: Client, cluster: OperatedCluster) -> None:
        body = {"renewers": ["User:bob"], "max_lifetime_ms": 5000}
        status, made = await call(client, "POST", "/v1/tokens", body)
        assert status == 201
        hmacs.append(made["hmac"])
        assert len(base64.b64decode(made["hmac"])) == 64
        assert (made["owner"], made["renewers"], made["max_at_ms"]) == ("User:admin", ["User:bob"], NOW_MS + 5000)
        token_id = made["token_id"]
        row = {key: value for key, value in made.items() if key != "hmac"}
        assert await call(client, "GET", "/v1/tokens") == (200, [row])
        assert await call(client, "GET", "/v1/tokens?owner=User:bob") == (200, [row])
        assert await call(client, "GET", "/v1/tokens?owner=User:eve") == (200, [])
        renewed = await call(client, "POST", f"/v1/tokens/{token_id}/renew", {"period_ms": 1000})
        assert renewed == (200, {"expires_at_ms": NOW_MS + 1000})
        assert (await call(client, "DELETE", f"/v1/tokens/{token_id}"))[0] == 204
        assert (await call(client, "DELETE", f"/v1/tokens/{token_id}"))[0] == 404
        assert (await call(client, "POST", f"/v1/tokens/{token_id}/renew", {}))[0] == 404

    with_operated(test)
    assert "/v1/tokens" in lines.text and hmacs[0] not in lines.text


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"owner": "ann"}, "owner"),
        ({"renewers": ["ann"]}, "renewers"),
        ({"max_lifetime_ms": 0}, "max_lifetime_ms"),
    ],
)
def test_a_bad_token_is_refused(body: dict[str, Any], field: str) -> None:
    async def test(client: Client, cluster: OperatedCluster) -> None:
        status, problem = await call(client, "POST", "/v1/tokens", body)
        assert (status, problem["field"]) == (400, field)
        assert not cluster.credentials.tokens()

    with_operated(test)


def test_tokens_need_an_authenticated_admin_process() -> None:
    async def test(client: Client, cluster: OperatedCluster) -> None:
        cluster.credentials.me = Principal("User", "admin", token_authenticated=True)
        status, problem = await call(client, "GET", "/v1/tokens")
        assert (status, problem["error"]) == (403, "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED")

    with_operated(test)
