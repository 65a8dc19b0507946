"""What a process tells of itself over HTTP: answers, parameters, and who may ask."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kvorum.admin.http.access import Access, hash_of
from kvorum.client.roles import Role
from kvorum.cluster.http.http_pages import Answer, HttpServer, Request
from kvorum.cluster.http.http_security import TOKENS_FILE as KEY
from kvorum.cluster.http.http_security import PageAccess, page_security
from kvorum.cluster.http.node_pages import CONNECTIONS_MAX, PREFIX, NodePages, Process
from kvorum.cluster.local.ports import free_ports
from kvorum.network.router import Router
from kvorum.network.server import Listener
from kvorum.quorum.raft.log import NothingToSnapshot, SnapshotBusy, SnapshotId, SnapshotTaken
from kvorum.runtime.clock import SystemClock
from kvorum.runtime.config import Settings
from kvorum.runtime.disk import OsDisk
from kvorum.runtime.listeners import HttpEndpoint
from kvorum.runtime.log_ring import LINES_MAX, LogLine, LogRing
from kvorum.runtime.logs import Level
from kvorum.security.credentials import NoCredentials
from kvorum.security.passwords import find_in

LOCAL = {"host": "127.0.0.1:9404"}
OPEN = PageAccess(Access())
TOKENS = {role: f"token of {role.name.lower()}" for role in Role}
GUARDED = PageAccess(Access({hash_of(token): role for role, token in TOKENS.items()}))
BROKER = ("/v1/node", "/v1/node/connections", "/v1/node/log", "/v1/node/controlled-shutdown")
CONTROLLER = (*BROKER[:3], "/v1/node/snapshot")


class Asked:
    """Pages of a process that is none, and what they had it do."""

    def __init__(
        self,
        role: str = "broker",
        page_access: PageAccess = OPEN,
        taken: SnapshotTaken | Exception | None = None,
        listeners: tuple[Listener, ...] = (),
    ) -> None:
        self.ended = 0
        self.ring = LogRing()
        self.pages = NodePages(
            role,
            7,
            Process(
                clock=SystemClock(),
                age_ms=5_000,
                ring=self.ring.newest,
                listeners=lambda: listeners,
                cluster_id=lambda: "c",
                shut_down=self._end if role == "broker" else None,
                snapshot=self._snapshot if role == "controller" else None,
            ),
            page_access,
        )
        self._taken = taken

    def _end(self) -> None:
        self.ended += 1

    async def _snapshot(self) -> SnapshotTaken:
        assert self._taken is not None
        if isinstance(self._taken, Exception):
            raise self._taken
        return self._taken

    def ask(self, method: str, target: str, headers: dict[str, str] | None = None) -> tuple[Answer, Any]:
        """Return an answer, and what its JSON says."""
        path, _, query = target.partition("?")
        answer = asyncio.run(self.pages.answer(Request(method, path, query, LOCAL if headers is None else headers)))
        assert answer.content_type.startswith("application/json")
        return answer, json.loads(answer.body)

    def refused(self, method: str, target: str, headers: dict[str, str] | None = None) -> tuple[int, str]:
        """Return the status and the name of the error, which has a message, too."""
        answer, body = self.ask(method, target, headers)
        assert set(body) == {"error", "message"} and body["message"]
        return answer.status, body["error"]


@pytest.mark.parametrize("role", ["broker", "controller"])
def test_a_process_reports_its_identity_and_start_time(role: str) -> None:
    answer, body = Asked(role).ask("GET", "/v1/node")
    assert answer.status == 200
    assert set(body) == {"node_id", "role", "cluster_id", "version", "python", "pid", "started_ms", "uptime_ms"}
    assert (body["node_id"], body["role"], body["cluster_id"], body["pid"]) == (7, role, "c", os.getpid())
    assert 5_000 <= body["uptime_ms"] < 60_000
    assert abs(SystemClock().wall_ms() - body["uptime_ms"] - body["started_ms"]) < 10_000
    assert body["version"] and body["python"].startswith("3.")


def test_the_log_is_reported_from_a_level_on_the_newest_last() -> None:
    requested = Asked()
    for number in range(300):
        level = Level.ERROR if number % 100 == 0 else Level.INFO
        requested.ring.add(
            LogLine(1_772_360_130.5 + number, level, "broker", f"event {number}", {"partition": number}), 50
        )
    requested.ring.add(LogLine(1_772_360_131.0, Level.DEBUG, "broker", "detail", {}), 50)
    body = requested.ask("GET", "/v1/node/log")[1]
    assert [line["facts"]["partition"] for line in body["lines"]] == list(range(100, 300))
    assert body["dropped"] == 0
    body = requested.ask("GET", "/v1/node/log?lines=2&level=ERROR")[1]
    assert [line["message"] for line in body["lines"]] == ["event 100", "event 200"]
    assert body["lines"][1] == {
        "time": "2026-03-01T10:18:50.500Z",
        "level": "ERROR",
        "room": "broker",
        "message": "event 200",
        "facts": {"partition": 200},
    }
    assert requested.ask("GET", "/v1/node/log?lines=1&level=debug")[1]["lines"][0]["message"] == "detail"
    for _ in range(LINES_MAX):
        requested.ring.add(LogLine(0.0, Level.INFO, "broker", "later", {}), 50)
    body = requested.ask("GET", f"/v1/node/log?lines={LINES_MAX}")[1]
    assert (len(body["lines"]), body["dropped"]) == (LINES_MAX, 301)


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until the condition holds, for 30 s at the most."""
    async with asyncio.timeout(30):
        while True:
            if condition():
                return
            await asyncio.sleep(0)


def test_connections_are_reported_up_to_the_limit_with_how_many_there_are() -> None:
    async def main() -> None:
        listeners = tuple(Listener(name, "127.0.0.1", 0, Router([])) for name in ("CLIENTS", "INTERNAL"))
        ports = [await listener.start() for listener in listeners]
        requested = Asked(listeners=listeners)
        opened = [await asyncio.open_connection("127.0.0.1", port) for port in (*ports, ports[0])]
        await until(lambda: sum(listener.connection_count for listener in listeners) == 3)
        whole, some = [
            json.loads((await requested.pages.answer(Request("GET", "/v1/node/connections", query, LOCAL))).body)
            for query in ("", "limit=2")
        ]
        assert whole["total"] == some["total"] == 3
        assert [each["id"] for each in some["connections"]] == [each["id"] for each in whole["connections"][:2]]
        own = {"{}:{}".format(*writer.get_extra_info("sockname")) for _, writer in opened}
        assert {each["address"] for each in whole["connections"]} == own
        assert sorted(each["listener"] for each in whole["connections"]) == ["CLIENTS", "CLIENTS", "INTERNAL"]
        for each in whole["connections"]:
            assert set(each) == {
                *("id", "listener", "address", "client_id", "software_name", "software_version", "principal"),
                *("since_ms", "idle_ms", "requests", "bytes_in", "bytes_out"),
            }
            assert (each["client_id"], each["requests"], each["bytes_in"]) == (None, 0, 0)
            assert each["principal"] == "User:ANONYMOUS"
        for _, writer in opened:
            writer.close()
        for listener in listeners:
            await listener.close()

    asyncio.run(main())


def test_a_controlled_shutdown_is_answered_and_begun() -> None:
    requested = Asked()
    answer, body = requested.ask("POST", "/v1/node/controlled-shutdown")
    assert (answer.status, body, requested.ended) == (202, {"stopping": True}, 1)


def test_an_action_with_a_condition_is_refused() -> None:
    for name in ("if-match", "if-none-match", "if-unmodified-since", "if-something-new"):
        requested = Asked()
        assert requested.refused("POST", "/v1/node/controlled-shutdown", {**LOCAL, name: "*"})[0] == 412
        assert requested.ended == 0
        assert requested.ask("GET", "/v1/node", {**LOCAL, name: "*"})[0].status == 200


def test_a_snapshot_is_answered_when_it_is_written_and_refused_while_one_is() -> None:
    there = SnapshotTaken(snapshot_id=SnapshotId(end_offset=42, epoch=3), size=1_234, written=True)
    answer, body = Asked("controller", taken=there).ask("POST", "/v1/node/snapshot")
    assert answer.status == 200
    assert isinstance(body.pop("took_ms"), int)
    assert body == {"end_offset": 42, "epoch": 3, "bytes": 1_234, "written": True}
    busy = Asked("controller", taken=SnapshotBusy("a snapshot is being written"))
    assert busy.refused("POST", "/v1/node/snapshot") == (409, "SNAPSHOT_IN_PROGRESS")
    early = Asked("controller", taken=NothingToSnapshot("nothing has been applied yet"))
    assert early.refused("POST", "/v1/node/snapshot") == (503, "NOT_READY")


@pytest.mark.parametrize(
    "target",
    [
        *("/v1/node?x=1", "/v1/node/log?lines=0", "/v1/node/log?lines=1001", "/v1/node/log?lines=-1"),
        *("/v1/node/log?lines=", "/v1/node/log?lines=%C2%B2", "/v1/node/log?lines=99999999999999999999"),
        *("/v1/node/log?level=loud", "/v1/node/log?lines=1&lines=2", "/v1/node/log?limit=1"),
        *(f"/v1/node/connections?limit={CONNECTIONS_MAX + 1}", "/v1/node/connections?limit=all"),
        "/v1/node/connections?" + "&".join(f"a{number}=1" for number in range(11)),
    ],
)
def test_a_parameter_that_is_wrong_or_unknown_is_400(target: str) -> None:
    assert Asked().refused("GET", target) == (400, "BAD_PARAMETER")


def test_an_action_takes_no_parameters() -> None:
    requested = Asked()
    assert requested.refused("POST", "/v1/node/controlled-shutdown?wait=1") == (400, "BAD_PARAMETER")
    assert requested.ended == 0


@pytest.mark.parametrize("path", ["/v1/", "/v1/nodes", "/v1/node/", "/v1/node/snapshot", "/v1/node/log/1"])
def test_a_missing_resource_is_404(path: str) -> None:
    assert Asked().refused("GET", path) == (404, "NOT_FOUND")


def test_pages_of_the_other_role_are_404() -> None:
    assert Asked("controller").refused("POST", "/v1/node/controlled-shutdown") == (404, "NOT_FOUND")
    assert Asked("broker").refused("POST", "/v1/node/snapshot") == (404, "NOT_FOUND")


def test_another_method_is_405_with_the_allowed_one() -> None:
    requested = Asked()
    for path in BROKER[:3]:
        assert requested.refused("POST", path) == (405, "METHOD_NOT_ALLOWED")
        assert requested.ask("POST", path)[0].headers == (("Allow", "GET, HEAD"),)
        assert requested.ask("HEAD", path)[0].status == 200
    for method in ("GET", "HEAD", "PUT"):
        assert requested.refused(method, BROKER[3]) == (405, "METHOD_NOT_ALLOWED")
    assert requested.ask("GET", BROKER[3])[0].headers == (("Allow", "POST"),)
    assert requested.ended == 0


def with_token(role: Role | None) -> dict[str, str]:
    """Return the headers of one who may be anywhere."""
    return {"host": "broker-1.example:9404"} | ({"authorization": f"Bearer {TOKENS[role]}"} if role is not None else {})


@pytest.mark.parametrize(
    ("role", "method", "path", "needs"),
    [
        *(("broker", "GET", path, Role.READ) for path in BROKER[:3]),
        ("broker", "POST", BROKER[3], Role.ADMIN),
        ("controller", "POST", CONTROLLER[3], Role.OPERATE),
    ],
)
def test_with_tokens_each_page_is_for_a_role(role: str, method: str, path: str, needs: Role) -> None:
    there = SnapshotTaken(snapshot_id=SnapshotId(end_offset=1, epoch=1), size=1, written=False)
    requested = Asked(role, GUARDED, there)
    assert requested.refused(method, path, with_token(None)) == (401, "UNAUTHENTICATED")
    assert requested.ask(method, path, with_token(None))[0].headers == (("WWW-Authenticate", "Bearer"),)
    assert requested.refused(method, path, {"authorization": "Bearer nobody's"}) == (401, "UNAUTHENTICATED")
    for each in Role:
        if each < needs:
            assert requested.refused(method, path, with_token(each)) == (403, "FORBIDDEN_ROLE")
            assert requested.ended == 0
        else:
            assert requested.ask(method, path, with_token(each))[0].status < 300
    assert (requested.ended > 0) is (path == BROKER[3])


@pytest.mark.parametrize("path", ["/v1/node", "/v1/node/controlled-shutdown", "/v1/nowhere"])
@pytest.mark.parametrize(
    ("headers", "error"),
    [
        ({}, "FORBIDDEN_HOST"),
        ({"host": "evil.example:9404"}, "FORBIDDEN_HOST"),
        ({**LOCAL, "origin": "http://evil.example"}, "FORBIDDEN_ORIGIN"),
        ({**LOCAL, "origin": "null"}, "FORBIDDEN_ORIGIN"),
        ({**LOCAL, "origin": "http://127.0.0.1:8080"}, "FORBIDDEN_ORIGIN"),
        ({**LOCAL, "sec-fetch-site": "cross-site", "sec-fetch-dest": "image"}, "FORBIDDEN_ORIGIN"),
        ({**LOCAL, "sec-fetch-site": "same-site"}, "FORBIDDEN_ORIGIN"),
    ],
)
def test_cross_origin_requests_are_refused(path: str, headers: dict[str, str], error: str) -> None:
    requested = Asked()
    method = "POST" if path.endswith("shutdown") else "GET"
    assert requested.refused(method, path, headers) == (403, error)
    assert requested.ended == 0


def page_access(host: str, tokens: Path | None = None) -> PageAccess:
    settings = Settings.of({} if tokens is None else {KEY: str(tokens)})
    find = find_in(NoCredentials)
    return page_security(settings, OsDisk(), SystemClock(), HttpEndpoint(host, 9404), find, "broker 7")[1]


def test_without_tokens_the_pages_are_for_loopback_only(tmp_path: Path) -> None:
    for host in ("127.0.0.1", "::1", "localhost"):
        assert Asked(page_access=page_access(host)).ask("GET", "/v1/node")[0].status == 200
    for host in ("0.0.0.0", "::", "10.0.0.7", "broker-1"):
        shut = Asked(page_access=page_access(host))
        answer, body = shut.ask("POST", "/v1/node/controlled-shutdown")
        assert (answer.status, body["error"], shut.ended) == (403, "FORBIDDEN_LISTENER", 0)
        assert KEY in body["message"]
    file = tmp_path / "tokens"
    file.write_text(f"read {hash_of(TOKENS[Role.READ])}\n")
    anywhere = Asked(page_access=page_access("0.0.0.0", file))
    assert anywhere.ask("GET", "/v1/node", with_token(Role.READ))[0].status == 200
    assert anywhere.refused("GET", "/v1/node") == (401, "UNAUTHENTICATED")


@pytest.mark.parametrize("text", [None, "", "everybody\n"])
def test_a_file_of_tokens_that_cannot_be_read_shuts_the_pages(tmp_path: Path, text: str | None) -> None:
    """The process goes on: it has records to serve. But nobody gets in for a misspelt name."""
    file = tmp_path / "tokens"
    if text is not None:
        file.write_text(text)
    requested = Asked(page_access=page_access("127.0.0.1", file))
    for method, path in (("GET", "/v1/node"), ("POST", "/v1/node/controlled-shutdown")):
        answer, body = requested.ask(method, path)
        assert (answer.status, body["error"]) == (503, "TOKENS_UNREADABLE") and KEY in body["message"]
    assert requested.ended == 0


def over_http(go: Callable[[int], Awaitable[None]], requested: Asked) -> None:
    """Run `go` against a server that has the section and another page."""

    async def live(request: Request) -> Answer:
        return Answer(200, "text/plain", b"live")

    async def main() -> None:
        port = free_ports(["127.0.0.1"])[0]
        server = HttpServer("127.0.0.1", port, {"/health/live": live}, {PREFIX: requested.pages.answer})
        await server.start()
        try:
            async with asyncio.timeout(30):
                await go(port)
        finally:
            await server.close()

    asyncio.run(main())


async def exchange(port: int, request: str) -> tuple[str, dict[str, str], str]:
    """Send one request that closes the connection; return the first line, the headers and the body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request.replace("\n", "\r\n").encode() + b"\r\nConnection: close\r\n\r\n")
    head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
    writer.close()
    first, *lines = head.split("\r\n")
    return first, dict(line.split(": ", 1) for line in lines), body


def test_method_parameters_and_token_are_transferred_unchanged() -> None:
    requested = Asked(page_access=GUARDED)
    token = TOKENS[Role.ADMIN].upper()
    requested.pages._page_access = PageAccess(Access({hash_of(token): Role.ADMIN}))

    async def go(port: int) -> None:
        bearer = f"Host: a\nAuthorization: Bearer {token}"
        first, _, body = await exchange(port, f"GET /v1/node/log?lines=1 HTTP/1.1\n{bearer}")
        assert (first, json.loads(body)) == ("HTTP/1.1 200 OK", {"lines": [], "dropped": 0})
        first, _, body = await exchange(port, f"GET /v1/node/log?lines=x HTTP/1.1\n{bearer}")
        assert (first, json.loads(body)["error"]) == ("HTTP/1.1 400 Bad Request", "BAD_PARAMETER")
        first, headers, body = await exchange(port, "POST /v1/node/controlled-shutdown HTTP/1.1\nHost: a")
        assert (first, headers["WWW-Authenticate"]) == ("HTTP/1.1 401 Unauthorized", "Bearer")
        assert requested.ended == 0
        first, _, body = await exchange(
            port, f"POST /v1/node/controlled-shutdown HTTP/1.1\n{bearer}\nContent-Length: 0"
        )
        assert (first, json.loads(body), requested.ended) == ("HTTP/1.1 202 Accepted", {"stopping": True}, 1)
        first, headers, _ = await exchange(port, f"PUT /v1/node/controlled-shutdown HTTP/1.1\n{bearer}")
        assert (first, headers["Allow"]) == ("HTTP/1.1 405 Method Not Allowed", "POST")
        first, _, body = await exchange(port, "HEAD /v1/node HTTP/1.1\n" + bearer)
        assert (first, body) == ("HTTP/1.1 200 OK", "")
        assert (await exchange(port, "GET /health/live HTTP/1.1\nHost: a"))[2] == "live"
        assert (await exchange(port, "GET /v2/node HTTP/1.1\nHost: a"))[0] == "HTTP/1.1 404 Not Found"
        first, headers, _ = await exchange(port, "POST /health/live HTTP/1.1\nHost: a")
        assert (first, headers["Allow"]) == ("HTTP/1.1 405 Method Not Allowed", "GET, HEAD")

    over_http(go, requested)


@pytest.mark.parametrize("name", ["Host", "Origin", "Authorization", "Sec-Fetch-Site"])
def test_a_duplicate_authorization_header_is_rejected(name: str) -> None:
    requested = Asked()

    async def go(port: int) -> None:
        twice = f"Host: localhost\n{name}: localhost\n{name.upper()}: other"
        assert (await exchange(port, f"GET /v1/node HTTP/1.1\n{twice}"))[0] == "HTTP/1.1 400 Bad Request"

    over_http(go, requested)
