"""Users of the admin API: each way to authenticate, roles, sessions of the console, and what is logged."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from kvorum.admin.http.access import Access, HttpError, hash_of
from kvorum.admin.http.users import EVERYONE, Caller, Login
from kvorum.client.roles import Role
from kvorum.network.connection_counts import FAILURE_DELAY_S_MAX, FailedAuthentications
from kvorum.security.oauth.tokens import BearerToken, TokenRejected
from kvorum.security.passwords import CredentialsUnavailable
from kvorum.security.principal import ANONYMOUS, USER, Principal
from kvorum.security.user_tickets import make_ticket
from tests.unit.admin.fake import Client, call, serve
from tests.unit.admin.managed import ManagedCluster
from tests.unit.admin.users_kit import NOW_MS, PASSWORDS, ROLES, access_for_users, basic, credential_of, known_users

TOKEN = "planted-static-token"
CHANGE = ("POST", "/v1/topics", {"name": "orders", "partitions": 1})


def run(access: Access, test: Callable[[Client], Awaitable[None]]) -> None:
    async def main() -> None:
        async with serve(ManagedCluster(), access) as client:
            await test(client)

    asyncio.run(main())


async def status(client: Client, method: str, path: str, body: Any = None, **headers: Any) -> tuple[int, str]:
    """Return the status, and the name of the error or of the caller."""
    code, answer = await call(client, method, path, body, headers=headers)
    return code, (answer or {}).get("error") or (answer or {}).get("name", "")


def test_a_user_authenticates_with_its_password_and_has_its_role() -> None:
    async def test(client: Client) -> None:
        assert await status(client, "GET", "/v1/me", **basic("alice")) == (200, "User:alice")
        assert await status(client, "GET", "/v1/me", **basic("bob")) == (200, "User:bob")
        _, me = await call(client, "GET", "/v1/me", headers=basic("bob"))
        assert me == {"name": "User:bob", "role": "read", "guarded": True}
        assert await status(client, *CHANGE, **basic("bob")) == (403, "FORBIDDEN_ROLE")
        assert (await status(client, *CHANGE, **basic("alice")))[0] == 201
        assert await status(client, "GET", "/v1/me", **basic("carol")) == (403, "FORBIDDEN_ROLE")

    run(access_for_users(), test)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        basic("alice", "guessed"),
        basic("alice", ""),
        basic("mallory", "guessed"),
        basic("", "planted-alice"),
        {"Authorization": "Basic %%%"},
        {"Authorization": "Basic YWxpY2U="},
        {"Authorization": "Basic " + "QUFB" * 3_000},
        {"Authorization": "Negotiate abc"},
        {"Authorization": "Bearer guessed"},
        {"Authorization": "Kvorum abc"},
        {"Authorization": "Basic"},
        {"Cookie": "kvorum-session=guessed"},
    ],
)
def test_any_other_caller_is_rejected_with_the_same_answer(headers: dict[str, str]) -> None:
    async def test(client: Client) -> None:
        code, answer = await call(client, "GET", "/v1/me", headers=headers)
        assert (code, answer["error"]) in ((401, "UNAUTHENTICATED"), (400, "INVALID_REQUEST"))
        assert await status(client, "GET", "/metrics", **headers) == (code, answer["error"])
        assert (await client.get("/health/live")).status == 200

    run(access_for_users(), test)


def test_unknown_users_and_wrong_passwords_get_one_answer_and_the_log_has_no_password(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async def test(client: Client) -> None:
        answers = [await call(client, "GET", "/v1/me", headers=basic(user, "gue55ed")) for user in ("alice", "mallory")]
        assert answers[0] == answers[1]
        await status(client, *CHANGE, **basic("alice"))

    run(access_for_users(), test)
    logged = capfd.readouterr().err
    assert "wrong password of user 'alice'" in logged and "unknown user 'mallory'" in logged
    assert "who=User:alice" in logged
    assert "gue55ed" not in logged and "planted" not in logged


def test_tokens_of_the_file_stay_valid_beside_users() -> None:
    async def test(client: Client) -> None:
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        assert (await status(client, "GET", "/v1/me", **bearer))[0] == 200
        assert await status(client, *CHANGE, **bearer) == (403, "FORBIDDEN_ROLE")
        assert (await status(client, "GET", "/v3/clusters", **basic("key", TOKEN)))[0] == 200
        assert (await status(client, "GET", "/v3/clusters", **basic("bob")))[0] == 200
        assert await status(client, "GET", "/v1/me", **basic("key", TOKEN)) == (401, "UNAUTHENTICATED")

    run(access_for_users(tokens={hash_of(TOKEN): Role.READ}), test)


def test_metrics_are_open_by_an_explicit_key_only() -> None:
    async def is_open(client: Client) -> None:
        assert (await client.get("/metrics")).status == 200
        assert (await client.get("/v1/me")).status == 401

    run(access_for_users(is_metrics_open=True), is_open)


def test_a_token_of_the_issuer_has_the_role_of_its_principal() -> None:
    async def validate(token: str) -> BearerToken:
        if token not in ("a.b.alice", "a.b.carol"):
            raise TokenRejected("expired 5 s ago")
        return BearerToken(token.rpartition(".")[2], NOW_MS)

    async def test(client: Client) -> None:
        assert await status(client, "GET", "/v1/me", Authorization="Bearer a.b.alice") == (200, "User:alice")
        assert await status(client, "GET", "/v1/me", Authorization="Bearer a.b.carol") == (403, "FORBIDDEN_ROLE")
        assert await status(client, "GET", "/v1/me", Authorization="Bearer a.b.mallory") == (401, "UNAUTHENTICATED")

    run(with_users(tokens=validate), test)


def with_users(**options: Any) -> Access:
    """Return access with options of HttpUsers."""
    access = access_for_users()
    assert access.users is not None
    return replace(access, users=replace(access.users, **options))


def authenticated(access: Access, login: Login) -> Caller:
    return asyncio.run(access.authenticate(login))


def test_a_client_certificate_counts_without_another_proof() -> None:
    def principal_of(certificate: bytes) -> Principal:
        return ANONYMOUS if certificate == b"?" else Principal(USER, certificate.decode())

    access = with_users(principal_of=principal_of)
    assert authenticated(access, Login(certificate=b"alice")).role is Role.ADMIN
    assert authenticated(access, Login(certificate=b"CN=x")).role is None
    bob = authenticated(access, Login(certificate=b"alice", authorization=basic("bob")["Authorization"]))
    assert bob.name == "User:bob"
    for rejected, login in (
        (access, Login(certificate=b"?")),
        (access, Login(certificate=b"alice", authorization="Basic x")),
        (with_users(), Login(certificate=b"alice")),
    ):
        with pytest.raises(Exception, match="authentication"):
            authenticated(rejected, login)


def test_every_principal_has_the_role_of_the_wildcard_unless_it_has_its_own() -> None:
    access = with_users(roles={**ROLES, EVERYONE: Role.OPERATE})
    roles = {user: authenticated(access, Login(authorization=basic(user)["Authorization"])).role for user in PASSWORDS}
    assert roles == {"alice": Role.ADMIN, "bob": Role.READ, "carol": Role.OPERATE}


def test_a_ticket_is_valid_at_its_process_only() -> None:
    credentials = known_users()["alice"]
    at_broker = with_users(process="broker 1")
    for process, is_valid in (("broker 1", True), ("broker 2", False)):
        login = Login(authorization=make_ticket("alice", credentials, process, NOW_MS))
        if is_valid:
            assert authenticated(at_broker, login).name == "User:alice"
        else:
            with pytest.raises(Exception, match="authentication failed"):
                authenticated(at_broker, login)


def test_users_that_cannot_be_checked_now_are_not_rejected_as_wrong() -> None:
    async def find(user: str) -> Any:
        raise CredentialsUnavailable("no broker responds")

    access = access_for_users()
    assert access.users is not None
    access.users.passwords.find = find

    async def test(client: Client) -> None:
        assert await status(client, "GET", "/v1/me", **basic("alice")) == (503, "USERS_UNAVAILABLE")

    run(access, test)


async def log_in(client: Client, user: str, password: str | None = None, **headers: str) -> tuple[int, str, str]:
    """Return the status, the body and the Set-Cookie header."""
    body = {"user": user, "password": PASSWORDS[user] if password is None else password}
    async with client.post("/session", json=body, headers=headers) as answer:
        return answer.status, await answer.text(), answer.headers.get("Set-Cookie", "")


def origin_of(client: Client) -> dict[str, str]:
    return {"Origin": str(client.make_url("/")).rstrip("/")}


def test_a_session_replaces_the_password_until_the_log_out() -> None:
    access = access_for_users()

    async def test(client: Client) -> None:
        assert await call(client, "GET", "/session") == (200, {"password": True, "token": False})
        code, body, cookie = await log_in(client, "alice", **origin_of(client))
        assert code == 200 and body == '{"principal": "User:alice", "role": "admin"}'
        assert all(each in cookie for each in ("HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=28800"))
        assert "Secure" not in cookie and f"kvorum-session-{client.port}=" in cookie and "planted" not in cookie
        assert await status(client, "GET", "/v1/me") == (200, "User:alice")
        assert (await status(client, *CHANGE, **origin_of(client)))[0] == 201
        assert (await status(client, "DELETE", "/session", **origin_of(client)))[0] == 204
        assert await status(client, "GET", "/v1/me") == (401, "UNAUTHENTICATED")
        assert access.users is not None and access.users.sessions is not None and len(access.users.sessions) == 0

    run(access, test)


def test_a_change_with_a_session_requires_the_own_origin() -> None:
    async def test(client: Client) -> None:
        await log_in(client, "alice")
        for headers in ({}, {"Origin": "http://evil.test"}, {"Origin": "null"}):
            assert await status(client, *CHANGE, **headers) == (403, "FORBIDDEN_ORIGIN")
            assert await status(client, "DELETE", "/session", **headers) == (403, "FORBIDDEN_ORIGIN")
        assert await status(client, "GET", "/v1/me", **{"Sec-Fetch-Site": "same-site"}) == (403, "FORBIDDEN_ORIGIN")
        assert (await log_in(client, "alice", Origin="http://evil.test"))[0] == 403

    run(access_for_users(), test)


def test_the_cookie_is_secure_if_the_browser_uses_tls() -> None:
    async def test(client: Client) -> None:
        origin = origin_of(client)["Origin"].replace("http:", "https:")
        assert "Secure" in (await log_in(client, "alice", Origin=origin))[2]

    run(access_for_users(), test)


def test_a_session_ends_with_the_password_it_began_with() -> None:
    users = known_users()

    async def test(client: Client) -> None:
        await log_in(client, "alice")
        assert (await status(client, "GET", "/v1/me"))[0] == 200
        users["alice"] = dict.fromkeys(users["alice"], credential_of("changed"))
        assert (await status(client, "GET", "/v1/me"))[0] == 401
        await log_in(client, "bob")
        del users["bob"]
        assert (await status(client, "GET", "/v1/me"))[0] == 401

    run(access_for_users(users), test)


def test_a_wrong_log_in_begins_no_session(capfd: pytest.CaptureFixture[str]) -> None:
    access = access_for_users()

    async def test(client: Client) -> None:
        assert (await log_in(client, "alice", "gue55ed"))[::2] == (401, "")
        for data, media, code in (
            ('{"user": "alice", "password": 1, "x": "gue55ed"}', "application/json", 400),
            ("gue55ed", "application/json", 400),
            ('{"user": "a", "password": "%s"}' % ("x" * 20_000), "application/json", 400),
            ("user=alice&password=planted-alice", "application/x-www-form-urlencoded", 415),
        ):
            async with client.post("/session", data=data, headers={"Content-Type": media}) as answer:
                assert answer.status == code and "gue55ed" not in await answer.text()
        assert access.users is not None and access.users.sessions is not None and len(access.users.sessions) == 0

    run(access, test)
    assert "gue55ed" not in capfd.readouterr().err


def test_a_server_without_users_has_no_sessions() -> None:
    async def test(client: Client) -> None:
        assert await call(client, "GET", "/session") == (200, {"password": False, "token": False})
        assert (await log_in(client, "alice"))[0] == 404

    run(Access(), test)


def test_failures_of_one_address_are_answered_at_a_limited_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    delays: list[float] = []

    async def note(seconds: float) -> None:
        delays.append(seconds)

    async def main() -> None:
        users = access_for_users(failures=FailedAuthentications(per_second=2)).users
        assert users is not None
        login = Login(authorization=basic("alice", "guessed")["Authorization"], address="10.0.0.9")
        with monkeypatch.context() as patch:
            patch.setattr("kvorum.admin.http.users.asyncio.sleep", note)
            for each in [login] * 12 + [replace(login, address="10.0.0.8")]:
                with pytest.raises(HttpError, match="wrong user name or password"):
                    await users.authenticate(each)
        waits = [delay for delay in delays if delay > 0]
        assert waits and max(waits) <= FAILURE_DELAY_S_MAX
        assert delays[-1] == 0.0, "another address"

    asyncio.run(main())
