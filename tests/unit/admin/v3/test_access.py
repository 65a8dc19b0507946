"""Who may use Confluent's paths: the same tokens and roles, and a key with a secret as Confluent's clients send it."""

import base64
import hashlib

import pytest

from kvorum.admin.http.access import Access
from kvorum.admin.http.operations import Role
from tests.unit.admin.fake import Client, call
from tests.unit.admin.v3.fake import BASE, ConfiguredCluster, with_cluster

TOKENS = {hashlib.sha256(role.name.encode()).hexdigest(): role for role in Role}
RECORDS = f"{BASE}/topics/t/records"
NEEDED = [
    ("GET", f"{BASE}/topics", None, Role.READ),
    ("POST", RECORDS, {}, Role.OPERATE),
    ("POST", f"{RECORDS}:batch", {"entries": [{"id": "a"}]}, Role.OPERATE),
    ("POST", f"{BASE}/topics", {"topic_name": "new"}, Role.ADMIN),
    ("PUT", f"{BASE}/topics/t/configs/retention.ms", {"value": "1"}, Role.ADMIN),
    ("DELETE", f"{BASE}/topics/t", None, Role.ADMIN),
]


def basic(secret: str) -> str:
    return "Basic " + base64.b64encode(f"key:{secret}".encode()).decode()


@pytest.mark.parametrize(("method", "path", "body", "needs"), NEEDED)
def test_each_role_may_do_what_it_may_do_elsewhere(method: str, path: str, body: object, needs: Role) -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        for role in Role:
            cluster.add("t")
            for message in (f"Bearer {role.name}", basic(role.name)):
                headers = {"Authorization": message}
                status, reported = await call(client, method, path, body, headers=headers)
                assert (status == 403) == (role < needs), reported
                if role < needs:
                    assert reported["error_code"] == 40301
                elif method != "GET":
                    break  # done once is enough

    with_cluster(test, Access(TOKENS))


@pytest.mark.parametrize(
    "message", [None, "Basic !", "Basic a2V5", basic(""), basic("other"), "Bearer x", "Digest ADMIN"]
)
def test_a_missing_token_is_an_error_in_confluents_format(message: str | None) -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        headers = {} if message is None else {"Authorization": message}
        async with client.get(f"{BASE}/topics", headers=headers) as answer:
            assert (answer.status, (await answer.json())["error_code"]) == (401, 40101)
            assert answer.headers["WWW-Authenticate"] == "Bearer", "no browser is to ask for a password and keep it"

    with_cluster(test, Access(TOKENS))


def test_a_password_is_no_token_elsewhere() -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        assert (await call(client, "GET", "/v1/topics", headers={"Authorization": basic("ADMIN")}))[0] == 401

    with_cluster(test, Access(TOKENS))


def test_pages_from_elsewhere_are_refused_here_too() -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        status, reported = await call(client, "GET", f"{BASE}/topics", headers={"Origin": "http://evil.example"})
        assert (status, reported["error_code"]) == (403, 403)

    with_cluster(test)
