"""/v1/jobs over HTTP, in front of a Kafka Connect in memory: what is handed on, what comes back, what is refused."""

import asyncio
import hashlib
import io
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from kvorum.admin.http.access import Access
from kvorum.admin.http.audit_log import body_text_of
from kvorum.admin.http.operations import Role
from kvorum.admin.v1.jobs import connect_client
from kvorum.admin.v1.jobs.connect_client import ConnectClient
from kvorum.admin.v1.jobs.job_answers import HIDDEN, hide_config_secrets
from kvorum.admin.v1.jobs.job_models import ConnectorConfig, ConnectorCreate
from tests.unit.admin.fake import Client, FakeCluster, call, serve
from tests.unit.admin.fake_connect import CONFIG, SERVER, FakeConnect, refused

ONE = "/v1/jobs/connectors/numbers"
DEAD = "http://127.0.0.1:1"
Test = Callable[[Client, FakeConnect], Coroutine[Any, Any, None]]


@asynccontextmanager
async def connected(*before: str, access: Access | None = None) -> AsyncIterator[tuple[Client, FakeConnect]]:
    """Serve the API with a Connect behind it; `before`: addresses that are asked first."""
    connect = FakeConnect()
    connect.reset()
    async with TestServer(connect.app()) as server:
        urls = [*before, str(server.make_url("")).rstrip("/")]
        async with serve(FakeCluster(), access, connect=ConnectClient(urls)) as client:
            yield client, connect


def with_connect(test: Test, *before: str, access: Access | None = None) -> None:
    async def run() -> None:
        async with connected(*before, access=access) as (client, connect):
            await test(client, connect)

    asyncio.run(run())


def test_connectors_are_listed_below_jobs() -> None:
    async def check(client: Client, connect: FakeConnect) -> None:
        assert await call(client, "GET", "/v1/jobs") == (200, SERVER)
        assert await call(client, "GET", "/v1/jobs/connectors") == (200, ["numbers"])
        wanted = {"numbers": {"status": connect.status("numbers"), "info": connect.info("numbers")}}
        for query in ("expand=status&expand=info", "expand=status,info"):
            assert await call(client, "GET", f"/v1/jobs/connectors?{query}") == (200, wanted)
        assert connect.requested[-1].query == [("expand", "status"), ("expand", "info")]
        assert await call(client, "GET", ONE) == (200, connect.info("numbers"))
        assert await call(client, "GET", f"{ONE}/config") == (200, {"name": "numbers", **CONFIG})
        assert await call(client, "GET", f"{ONE}/status") == (200, connect.status("numbers"))
        assert (await call(client, "GET", f"{ONE}/tasks"))[1][0]["id"] == {"connector": "numbers", "task": 0}
        assert await call(client, "GET", f"{ONE}/tasks/0/status") == (200, connect.status("numbers")["tasks"][0])
        places = {"offsets": [{"partition": {"source": "numbers"}, "offset": {"at": 5}}]}
        assert await call(client, "GET", f"{ONE}/offsets") == (200, places)
        assert await call(client, "GET", f"{ONE}/topics") == (200, {"numbers": {"topics": ["numbers"]}})
        assert (await call(client, "GET", "/v1/jobs/connector-plugins"))[1][0]["class"] == "GeneratorSource"
        assert (await call(client, "GET", "/v1/jobs/connector-plugins/GeneratorSource/config"))[1][0]["name"] == "topic"
        assert "root" in (await call(client, "GET", "/v1/jobs/admin/loggers"))[1]
        assert (await call(client, "GET", "/v1/jobs/admin/loggers/root"))[1]["level"] == "INFO"

    with_connect(check)


def test_changes_are_forwarded_with_connects_own_statuses() -> None:
    async def check(client: Client, connect: FakeConnect) -> None:
        body = {"name": "a/b", "config": {"connector.class": "X", "tasks.max": 2, "flag": True}}
        async with client.post("/v1/jobs/connectors", json=body) as answer:
            assert (answer.status, answer.headers["Location"]) == (201, "/v1/jobs/connectors/a%2Fb")
        assert connect.requested[-1].body == body
        assert (await call(client, "GET", "/v1/jobs/connectors/a%2Fb"))[1]["config"]["tasks.max"] == "2"
        assert connect.requested[-1].path == "/connectors/a%2Fb", "as one part of the path"
        assert (await call(client, "PUT", "/v1/jobs/connectors/new/config", {"a": "b"}))[0] == 201
        assert (await call(client, "PUT", f"{ONE}/config", {"a": "b", "c": "d"}))[0] == 200
        status, found = await call(client, "PATCH", f"{ONE}/config", {"a": None, "e": "f"})
        assert (status, found["config"]) == (200, {"c": "d", "e": "f", "name": "numbers"})
        for word, status in (("pause", 202), ("resume", 202), ("stop", 204), ("topics/reset", 202)):
            assert await call(client, "PUT", f"{ONE}/{word}") == (status, None)
        assert connect.states["numbers"] == "STOPPED"
        assert await call(client, "POST", f"{ONE}/restart") == (204, None)
        status, found = await call(client, "POST", f"{ONE}/restart?includeTasks=true&onlyFailed=false")
        assert (status, found["name"]) == (202, "numbers")
        assert connect.requested[-1].query == [("includeTasks", "true"), ("onlyFailed", "false")]
        assert await call(client, "POST", f"{ONE}/tasks/0/restart") == (204, None)
        place = {"partition": {"kafka_topic": "t", "kafka_partition": 0}, "offset": None}
        assert (await call(client, "PATCH", f"{ONE}/offsets", {"offsets": [place]}))[1] == {"message": "altered"}
        assert connect.requested[-1].body == {"offsets": [place]}
        assert (await call(client, "DELETE", f"{ONE}/offsets"))[1] == {"message": "reset"}
        checked = "/v1/jobs/connector-plugins/GeneratorSource/config/validate"
        status, found = await call(client, "PUT", checked, {"connector.class": "GeneratorSource"})
        assert (status, found["error_count"]) == (200, 1) and "topic" in found["configs"][0]["value"]["errors"][0]
        logger = "/v1/jobs/admin/loggers/kvorum"
        assert await call(client, "PUT", logger, {"level": "DEBUG"}) == (200, ["kvorum"])
        assert await call(client, "PUT", f"{logger}?scope=cluster", {"level": "DEBUG"}) == (204, None)
        assert await call(client, "DELETE", ONE) == (204, None)
        assert "numbers" not in connect.connectors

    with_connect(check)


def test_nothing_of_a_request_but_what_it_requests_is_handed_on() -> None:
    token = "t" * 20
    access = Access({hashlib.sha256(token.encode()).hexdigest(): Role.ADMIN})

    async def check(client: Client, connect: FakeConnect) -> None:
        headers = {"Authorization": f"Bearer {token}", "Cookie": "a=b", "X-Forwarded-For": "10.0.0.1", "TE": "trailers"}
        assert (await call(client, "PUT", f"{ONE}/config", {"a": "b"}, headers=headers))[0] == 200
        known = {"host", "accept", "accept-encoding", "content-type", "content-length", "user-agent", "connection"}
        assert {name.lower() for name in connect.requested[-1].headers} <= known
        assert token not in str(connect.requested[-1])
        before = len(connect.requested)
        for path, query in ((f"{ONE}/status", "?forward=false"), ("/v1/jobs/connectors", "?expand=secrets")):
            assert (await call(client, "GET", path + query, headers=headers))[1]["error"] == "INVALID_REQUEST"
        for name in ("%2E%2E", "%2e"):
            status, problem = await call(client, "DELETE", f"/v1/jobs/connectors/{name}", headers=headers)
            assert status in (400, 404, 405), problem
        assert len(connect.requested) == before

    with_connect(check, access=access)


@pytest.mark.parametrize(
    ("role", "may"), [(Role.READ, {"GET"}), (Role.OPERATE, {"GET", "run"}), (Role.ADMIN, {"GET", "run", "change"})]
)
def test_permissions_of_each_role(role: Role, may: set[str]) -> None:
    token = "t" * 20
    access = Access({hashlib.sha256(token.encode()).hexdigest(): role})
    requested = [
        ("GET", "GET", f"{ONE}/status", None),
        ("GET", "GET", f"{ONE}/config", None),
        ("run", "PUT", f"{ONE}/pause", None),
        ("run", "PUT", f"{ONE}/resume", None),
        ("run", "PUT", f"{ONE}/stop", None),
        ("run", "POST", f"{ONE}/restart", None),
        ("run", "POST", f"{ONE}/tasks/0/restart", None),
        ("run", "DELETE", f"{ONE}/offsets", None),
        ("run", "PUT", "/v1/jobs/admin/loggers/root", {"level": "INFO"}),
        ("change", "POST", "/v1/jobs/connectors", {"name": "new", "config": {}}),
        ("change", "PUT", f"{ONE}/config", {"a": "b"}),
        ("change", "PATCH", f"{ONE}/config", {"a": "b"}),
        ("change", "PUT", "/v1/jobs/connector-plugins/X/config/validate", {"topic": "t"}),
        ("change", "DELETE", ONE, None),
    ]

    async def check(client: Client, connect: FakeConnect) -> None:
        for kind, method, path, body in requested:
            before = len(connect.requested)
            status, reported = await call(client, method, path, body, headers={"Authorization": f"Bearer {token}"})
            assert (status < 300) == (kind in may), (method, path, reported)
            assert (len(connect.requested) > before) == (kind in may)

    with_connect(check, access=access)


def test_a_viewer_sees_no_secret() -> None:
    token = "t" * 20
    access = Access({hashlib.sha256(token.encode()).hexdigest(): Role.READ})

    async def check(client: Client, connect: FakeConnect) -> None:
        for path in ("", "/config", "/tasks", "?expand=info"):
            where = "/v1/jobs/connectors" if "?" in path else ONE
            async with client.get(where + path, headers={"Authorization": f"Bearer {token}"}) as answer:
                text = await answer.text()
            assert answer.status == 200 and "open-sesame" not in text and HIDDEN in text, path

    with_connect(check, access=access)
    config = {"database.password": "${env:PASSWORD}", "url": "postgresql://me:open@db/x", "aws.access.key.id": "k"}
    shown = {
        "database.password": "${env:PASSWORD}",
        "url": f"postgresql://me:{HIDDEN}@db/x",
        "aws.access.key.id": HIDDEN,
    }
    assert hide_config_secrets(config) == shown


def test_the_trail_has_no_secret_of_a_connectors_config() -> None:
    config = {
        "name": "n",
        "value": "v",
        "connection.password": "open-sesame",
        "url": "x://me:open-sesame@db",
        "rate": "3",
    }
    for body in (ConnectorConfig(config), ConnectorCreate(name="n", config=config)):
        message = body_text_of(body, {"connector": "n"})
        assert "open-sesame" not in message and '"rate":"3"' in message


def test_without_an_address_the_error_names_the_config() -> None:
    async def run() -> None:
        async with serve(FakeCluster()) as client:
            status, problem = await call(client, "GET", "/v1/jobs/connectors")
            assert (status, problem["error"]) == (404, "CONNECT_NOT_CONFIGURED")
            assert "kvorum.connect.urls" in problem["message"] and "kvorum pipelines connect" in problem["message"]

    asyncio.run(run())


def test_the_next_worker_is_used_if_one_is_unreachable() -> None:
    async def check(client: Client, connect: FakeConnect) -> None:
        assert (await call(client, "PUT", f"{ONE}/pause"))[0] == 202
        connect.instead = hang_up
        status, problem = await call(client, "GET", f"{ONE}/status")
        assert (status, problem["error"]) == (502, "CONNECT_UNREACHABLE") and DEAD in problem["message"]
        before = len(connect.requested)
        for method, path in (("PUT", f"{ONE}/pause"), ("DELETE", ONE), ("POST", f"{ONE}/restart")):
            status, problem = await call(client, method, path)
            assert (status, problem["error"]) == (502, "CONNECT_BROKE_OFF"), "nobody knows whether it is done"
        assert len(connect.requested) == before + 3, "a change is asked for once"

    with_connect(check, DEAD)


def hang_up(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


def test_a_slow_response_is_a_timeout_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect_client, "LOOK_SECONDS", 0.05)

    async def run() -> None:
        held = asyncio.Event()

        async def silent(request: web.Request) -> web.Response:
            await held.wait()
            return web.Response()

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", silent)
        async with TestServer(app) as server:
            connect = ConnectClient([str(server.make_url("")).rstrip("/")])
            async with serve(FakeCluster(), connect=connect) as client:
                status, problem = await call(client, "GET", "/v1/jobs/connectors")
                assert (status, problem["error"]) == (504, "CONNECT_TIMED_OUT")
            held.set()

    asyncio.run(run())


def page(status: int, text: str, **headers: str) -> Callable[[web.Request], web.StreamResponse]:
    return lambda request: web.Response(status=status, text=text, headers=headers)


@pytest.mark.parametrize(
    ("answer", "status", "error", "message"),
    [
        (lambda request: refused(400, "Connector config is invalid"), 400, "CONNECT_REFUSED", "is invalid"),
        (lambda request: refused(404, "Connector x not found"), 404, "CONNECT_NOT_FOUND", "Connector x not found"),
        (lambda request: refused(409, "conflicting operation"), 409, "CONNECT_CONFLICT", "conflicting operation"),
        (lambda request: refused(500, "IO Error"), 502, "CONNECT_FAILED", "IO Error"),
        (lambda request: refused(501, "not here"), 501, "CONNECT_FAILED", "not here"),
        (lambda request: refused(503, "starting"), 503, "CONNECT_FAILED", "starting"),
        (lambda request: refused(401, "who are you"), 502, "CONNECT_UNAUTHORIZED", "who are you"),
        (page(403, "<html>"), 502, "CONNECT_UNAUTHORIZED", "403"),
        (page(404, "<html>nothing here"), 502, "CONNECT_UNINTELLIGIBLE", "404"),
        (page(302, "", Location="http://127.0.0.1:1/"), 502, "CONNECT_UNINTELLIGIBLE", "redirect"),
        (page(200, "<html>"), 502, "CONNECT_UNINTELLIGIBLE", "JSON"),
        (page(200, "[" * 100_000), 502, "CONNECT_UNINTELLIGIBLE", "JSON"),
        (page(200, '{"name": 1}'), 502, "CONNECT_UNINTELLIGIBLE", "name"),
        (page(200, " " * (17 << 20)), 502, "CONNECT_UNINTELLIGIBLE", "bytes"),
    ],
)
def test_an_error_of_connect_is_a_problem_with_its_message(
    answer: Callable[[web.Request], web.StreamResponse], status: int, error: str, message: str
) -> None:
    async def check(client: Client, connect: FakeConnect) -> None:
        connect.instead = answer
        async with client.get(f"{ONE}/status", allow_redirects=False) as found:
            problem = await found.json(content_type="application/problem+json")
        assert (found.status, problem["error"]) == (status, error)
        assert message in problem["message"]
        assert len(connect.requested) == 1

    with_connect(check)


def test_a_body_that_is_too_large_or_no_config_is_not_handed_on() -> None:
    async def check(client: Client, connect: FakeConnect) -> None:
        large = io.BytesIO(b'{"a": "%b"}' % (b"x" * (1 << 20)))
        async with client.put(f"{ONE}/config", data=large, headers={"Content-Type": "application/json"}) as answer:
            assert answer.status == 413
        for body in ({"a": {"b": "c"}}, []):
            assert (await call(client, "PUT", f"{ONE}/config", body))[0] == 400
        form = aiohttp.FormData({"a": "b"})
        async with client.put(f"{ONE}/config", data=form) as answer:
            assert answer.status == 415
        assert connect.requested == []

    with_connect(check)


def test_numbers_are_returned_unchanged() -> None:
    async def check(client: Client, connect: FakeConnect) -> None:
        offset = '{"at": 12345678901234567890123, "more": [1.5, null]}'
        large = f'{{"offsets": [{{"partition": {{"p": 1}}, "offset": {offset}}}], "new": {{}}}}'
        connect.instead = page(200, large)
        async with client.get(f"{ONE}/offsets") as answer:
            assert await answer.text() == large

    with_connect(check)
