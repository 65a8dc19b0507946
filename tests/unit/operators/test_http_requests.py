"""HTTP requests that are malformed, incomplete or too many: one log line and a problem for each, bounded memory."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from kvorum.admin.http import request_input
from kvorum.client.wire.cluster_client import Unreachable
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.describe_configs import DescribeConfigsResourceResult
from kvorum.runtime import logs
from tests.unit.admin.fake import Client, FakeCluster, call, serve, with_fake
from tests.unit.cluster.test_http_pages import serving

MIB = 1 << 20


@pytest.fixture
def log_lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(logs.Output, "write", lambda self, line: lines.append(line))
    return lines


async def exchange(port: int, data: bytes) -> tuple[int, dict[str, str], dict[str, Any]]:
    """Send bytes; return the status, the headers and the JSON of the answer, after which the connection ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        async with asyncio.timeout(30):
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    finally:
        writer.close()
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    return int(first.split()[1]), {name.lower(): value for name, value in headers.items()}, json.loads(body)


MALFORMED = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    b"NO HTTP\r\n\r\n",
    b"GET /v1/topics HTTP/9.9\r\n\r\n",
    b"GET /v1/topics HTTP/1.1\r\nno colon\r\n\r\n",
    b"GET /v1/topics HTTP/1.1\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
]


@pytest.mark.parametrize("data", [*MALFORMED, b"POST /v1/topics HTTP/1.1\r\nContent-Length: x\r\n\r\n"], ids=repr)
def test_a_malformed_request_to_the_admin_api_is_one_log_line_and_a_problem(
    data: bytes, log_lines: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        status, headers, body = await exchange(client.port or 0, data)
        assert (status, headers["content-type"].split(";")[0]) == (400, "application/problem+json")
        assert (body["status"], body["error"]) == (400, "INVALID_REQUEST") and body["detail"]
        (line,) = [each for each in log_lines if "malformed HTTP request" in each]
        assert line[:2] == "20" and "WARNING" in line and "\n" not in line.rstrip("\n") and "127.0.0.1" in line
        assert (await call(client, "GET", "/v1/topics"))[0] == 200

    with_fake(test)
    assert "Traceback" not in "".join((*log_lines, *capfd.readouterr()))


@pytest.mark.parametrize("data", MALFORMED, ids=repr)
def test_a_malformed_request_to_a_metrics_listener_is_one_log_line_and_a_problem(
    data: bytes, log_lines: list[str]
) -> None:
    async def go(connect: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        _, writer = await connect()
        port = writer.get_extra_info("peername")[1]
        writer.close()
        status, headers, body = await exchange(port, data)
        assert (status in (400, 431), headers["content-type"]) == (True, "application/problem+json")
        assert body["status"] == status and body["detail"]
        (line,) = [each for each in log_lines if "malformed HTTP request" in each]
        assert line[:2] == "20" and "\n" not in line.rstrip("\n")

    serving(go)


def test_half_bodies_of_many_connections_are_bounded_and_the_oldest_are_given_up_with_503(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(request_input.Bodies.__init__, "__defaults__", (2 * MIB,))

    async def test(client: Client, cluster: FakeCluster) -> None:
        head = f"POST /v1/topics HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {MIB}"
        opened = []
        for _ in range(6):
            opened.append(await asyncio.open_connection("127.0.0.1", client.port))
            opened[-1][1].write(head.encode() + b"\r\n\r\n" + b" " * (MIB - 100_000))
            await opened[-1][1].drain()
        async with asyncio.timeout(30):
            for reader, _ in opened[:4]:
                answer = await reader.readuntil(b"\r\n\r\n")
                assert b" 503 " in answer.splitlines()[0] and b"retry-after" in answer.lower()
            body = json.dumps({"name": "x" * 300_000})
            assert (await call(client, "POST", "/v1/topics", {"name": body}))[0] == 400
        for _, writer in opened:
            writer.close()

    with_fake(test)


def test_memory_of_received_bodies_is_released() -> None:
    bodies = request_input.Bodies(10)

    class Content:
        def __init__(self, *parts: bytes) -> None:
            self.parts = list(parts)

        async def readany(self) -> bytes:
            return self.parts.pop(0) if self.parts else b""

        def feed_eof(self) -> None:
            pass

    class Request:
        def __init__(self, content: Content) -> None:
            self.content = content
            self.headers: dict[str, str] = {}

    async def main() -> None:
        assert await bodies.read(Request(Content(b"ab", b"cd"))) == b"abcd"  # type: ignore[arg-type]
        with pytest.raises(request_input.TooManyBodies):
            await bodies.read(Request(Content(b"x" * 70_000, b"y")))  # type: ignore[arg-type]
        assert bodies.size == 0

    asyncio.run(main())


class WithoutLeader(FakeCluster):
    """Brokers that have no controller to ask about the quorum: DescribeQuorum waits, or is refused."""

    refusal: Exception | None = None

    async def describe_quorum(self, *, timeout_ms: int | None = None) -> Any:
        assert timeout_ms is not None and timeout_ms < 2_000
        if self.refusal is not None:
            raise self.refusal
        await asyncio.Event().wait()

    async def describe_configs(self, *_: Any, **__: Any) -> Any:
        voters = "1@10.0.0.1:9093,2@[::1]:9093"
        return [DescribeConfigsResourceResult(name="controller.quorum.voters", value=voters)]


@pytest.mark.parametrize(
    "refusal", [None, KafkaError(ErrorCode.NOT_CONTROLLER, "no leader"), Unreachable("timed out")], ids=str
)
def test_without_a_leader_the_quorum_is_the_brokers_view(refusal: Exception | None) -> None:
    async def main() -> None:
        cluster = WithoutLeader()
        cluster.refusal = refusal
        cluster.logs["__cluster_metadata"][0].end = 42
        async with serve(cluster) as client:
            status, quorum = await call(client, "GET", "/v1/quorum")
        assert (status, quorum["leader_id"], quorum["high_watermark"]) == (200, -1, 42)
        assert [(each["id"], each["lag"]) for each in quorum["voters"]] == [(1, -1), (2, -1)]
        assert quorum["voters"][1]["listeners"] == [{"name": "", "host": "::1", "port": 9093}]
        assert quorum["error"].startswith("there is no leader: ")

    asyncio.run(main())


def test_a_refusal_of_the_quorum_is_no_missing_leader() -> None:
    async def main() -> None:
        cluster = WithoutLeader()
        cluster.refusal = KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not for you")
        async with serve(cluster) as client:
            assert (await call(client, "GET", "/v1/quorum"))[0] == 403
            cluster.refusal, cluster.reachable = Unreachable("refused"), False
            assert (await call(client, "GET", "/v1/quorum"))[0] == 503

    asyncio.run(main())
