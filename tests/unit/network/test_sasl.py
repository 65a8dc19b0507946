"""A listener with SASL, byte by byte: what comes before authentication, failures, sessions, counts and log lines."""

import asyncio
import re
from typing import Any

import pytest

from kvorum.network.connection_counts import ConnectionCounts
from kvorum.network.context import RequestContext
from kvorum.network.limits import ConnectionLimits
from kvorum.network.metrics import RegistryMetrics
from kvorum.network.router import Handler
from kvorum.network.server import Listener
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.api_versions import ApiVersionsRequest
from kvorum.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kvorum.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kvorum.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kvorum.runtime import metric_names as names
from kvorum.runtime.config import ConfigError
from kvorum.runtime.metrics import Metrics
from kvorum.security.errors import AuthenticationError
from kvorum.security.principal import Principal
from kvorum.security.sasl.authenticator import EnabledMechanism, SaslConfig
from kvorum.security.sasl.plain import PlainServer
from tests.unit.network.network_kit import listener_of, read_frame, request_frame, run, until
from tests.unit.security.sasl.sasl_kit import PASSWORD, USER, plain_token, response_of, sasl_config

DELAY_MS = 300
SOFTWARE: dict[str, Any] = {"client_software_name": "test", "client_software_version": "1"}


def length(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


class Server:
    """A listener whose Metadata handler records the principals; the other handlers are the brokers' own answers."""

    def __init__(self, sasl: SaslConfig | None = None, **options: Any) -> None:
        self.principals: list[Principal] = []
        self.metrics = Metrics()
        self.parked: list[asyncio.Future[MetadataResponse]] = []
        self.parks = False
        self.clients: list[Client] = []

        def metadata(ctx: RequestContext, request: MetadataRequest) -> Any:
            self.principals.append(ctx.principal)
            if self.parks:
                self.parked.append(asyncio.get_running_loop().create_future())
                return self.parked[-1]
            return MetadataResponse()

        def handshake(ctx: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
            return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)

        def authenticate(ctx: RequestContext, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
            return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)

        self.listener: Listener = listener_of(
            Handler(ApiKey.METADATA, (0, 13), metadata),
            Handler(ApiKey.SASL_HANDSHAKE, (0, 1), handshake),
            Handler(ApiKey.SASL_AUTHENTICATE, (0, 2), authenticate),
            sasl=sasl or sasl_config(failure_delay_ms=DELAY_MS),
            metrics=RegistryMetrics(self.metrics, asyncio.get_running_loop().time),
            **options,
        )

    def counts(self) -> dict[str, float]:
        """Return the counts that are not zero."""
        families = {
            "ok": self.metrics.counter(names.SUCCESSFUL_AUTHENTICATION),
            "failed": self.metrics.counter(names.FAILED_AUTHENTICATION),
            "again": self.metrics.counter(names.SUCCESSFUL_REAUTHENTICATION),
            "failed again": self.metrics.counter(names.FAILED_REAUTHENTICATION),
            "no reauth": self.metrics.counter(names.SUCCESSFUL_AUTHENTICATION_NO_REAUTH),
        }
        found = {name: family.labels("PLAINTEXT").value for name, family in families.items()}
        found["expired"] = self.metrics.gauge(names.EXPIRED_CONNECTIONS_KILLED).labels("PLAINTEXT").value
        return {name: count for name, count in found.items() if count}

    async def __aenter__(self) -> "Server":
        await self.listener.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in self.clients:
            client.writer.close()
        await self.listener.close(0)

    async def connect(self) -> "Client":
        """Return a new connection, closed at the end."""
        self.clients.append(Client(*await asyncio.open_connection("127.0.0.1", self.listener.port)))
        return self.clients[-1]


class Client:
    """A socket that sends requests one by one."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def ask(self, message: Any, version: int) -> Any:
        """Send a request and return its response."""
        self.writer.write(request_frame(message, version))
        return response_of(message.API_KEY, version, length(await read_frame(self.reader)))

    async def authenticate(self, token: bytes | None = None, version: int = 2) -> SaslAuthenticateResponse:
        assert (await self.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)).error_code == 0
        response = await self.ask(SaslAuthenticateRequest(auth_bytes=token or plain_token()), version)
        assert isinstance(response, SaslAuthenticateResponse)
        return response

    async def end(self) -> bytes:
        """Return what comes until the server closes."""
        try:
            return await self.reader.read()
        except ConnectionError:
            return b""

    async def metadata(self) -> None:
        await self.ask(MetadataRequest(), 9)


def test_requests_are_served_for_the_principal_after_authentication() -> None:
    async def main() -> None:
        async with Server() as server:
            client = await server.connect()
            assert (await client.ask(ApiVersionsRequest(**SOFTWARE), 3)).error_code == 0
            assert (await client.authenticate()).session_lifetime == 0
            await client.metadata()
            assert server.principals == [Principal("User", USER)]
            assert (await client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)).error_code == 34
            assert (await client.ask(SaslAuthenticateRequest(), 2)).error_code == 34
            await client.metadata()
            assert server.counts() == {"ok": 1}

    run(main)


def test_an_unauthenticated_request_is_not_handled() -> None:
    async def main() -> None:
        async with Server() as server:
            for frames in (
                request_frame(MetadataRequest(), 9),
                request_frame(ApiVersionsRequest(**SOFTWARE), 3) + request_frame(MetadataRequest(), 9),
                request_frame(SaslAuthenticateRequest(auth_bytes=plain_token()), 2),
                b"GET / HTTP/1.1\r\n",
                length(b"\x60\x82\x01\x02" + bytes(20)),
            ):
                client = await server.connect()
                client.writer.write(frames)
                await client.end()
            client = await server.connect()
            client.writer.write(
                request_frame(SaslHandshakeRequest(mechanism="PLAIN"), 1) + request_frame(MetadataRequest(), 9)
            )
            await client.end()
            assert server.principals == []

    run(main)


def test_pipelined_requests_are_processed_one_by_one() -> None:
    async def main() -> None:
        async with Server() as server:
            client = await server.connect()
            client.writer.write(
                request_frame(ApiVersionsRequest(**SOFTWARE), 3, 1)
                + request_frame(SaslHandshakeRequest(mechanism="PLAIN"), 1, 2)
                + request_frame(SaslAuthenticateRequest(auth_bytes=plain_token()), 2, 3)
                + request_frame(MetadataRequest(), 9, 4)
            )
            for correlation_id in (1, 2, 3, 4):
                assert int.from_bytes((await read_frame(client.reader))[:4], "big") == correlation_id
            assert server.principals == [Principal("User", USER)]

    run(main)


@pytest.mark.parametrize(
    ("steps", "answer"),
    [
        ([(SaslHandshakeRequest(mechanism="NONE"), 1)], 33),
        (
            [
                (SaslHandshakeRequest(mechanism="PLAIN"), 1),
                (SaslAuthenticateRequest(auth_bytes=plain_token(password="wrong")), 2),
            ],
            58,
        ),
        ([(SaslHandshakeRequest(mechanism="PLAIN"), 1), (ApiVersionsRequest(**SOFTWARE), 3)], 34),
    ],
    ids=["mechanism", "password", "state"],
)
def test_a_failure_is_answered_after_the_delay_and_then_closed(
    steps: list[tuple[Any, int]], answer: int, log_lines: list[str]
) -> None:
    async def main() -> None:
        async with Server() as server:
            loop = asyncio.get_running_loop()
            client, other = await server.connect(), await server.connect()
            for message, version in steps[:-1]:
                await client.ask(message, version)
            began_s = loop.time()
            message, version = steps[-1]
            client.writer.write(request_frame(message, version) + request_frame(MetadataRequest(), 9))
            await until(lambda: server.counts())
            await other.authenticate()  # others are not delayed
            assert loop.time() - began_s < DELAY_MS / 1000
            response = response_of(message.API_KEY, version, length(await read_frame(client.reader)))
            assert round((loop.time() - began_s) * 1000) >= DELAY_MS
            assert response.error_code == answer
            assert await client.end() == b""
            assert server.counts() == {"failed": 1, "ok": 1}
            assert server.principals == []

    run(main)
    (line,) = [line for line in log_lines if "authentication failed" in line]
    assert "INFO" in line
    assert "wrong" not in line.replace("wrong-", "")


def test_many_failures_of_an_address_are_answered_later() -> None:
    async def main() -> None:
        counts = ConnectionCounts()
        counts.failures.per_second = 2
        async with Server(sasl_config(failure_delay_ms=0), counts=counts) as server:
            loop = asyncio.get_running_loop()
            began_s = loop.time()
            clients = [await server.connect() for _ in range(4)]
            wrong = plain_token(password="wrong")
            answers = await asyncio.gather(*(client.authenticate(wrong) for client in clients))
            assert [answer.error_code for answer in answers] == [58] * 4
            assert loop.time() - began_s >= 0.9, "two at once, then two per second"

    run(main)


def test_a_frame_before_authentication_has_a_limit_of_its_own() -> None:
    async def main() -> None:
        sasl = sasl_config(failure_delay_ms=DELAY_MS, receive_bytes_max=200)
        async with Server(sasl) as server:
            loop = asyncio.get_running_loop()
            client = await server.connect()
            began_s = loop.time()
            client.writer.write((201).to_bytes(4, "big"))
            assert await client.end() == b""
            assert round((loop.time() - began_s) * 1000) >= DELAY_MS
            assert server.counts() == {"failed": 1}
            client = await server.connect()
            await client.authenticate()
            await client.ask(MetadataRequest(), 9)
            client.writer.write(request_frame(MetadataRequest(), 9, 1, "x" * 300))
            assert await read_frame(client.reader)

    run(main)


def test_a_client_that_leaves_during_the_delay_leaves_nothing() -> None:
    async def main() -> None:
        async with Server(sasl_config(failure_delay_ms=60_000)) as server:
            client = await server.connect()
            client.writer.write(request_frame(SaslHandshakeRequest(mechanism="NONE"), 1))
            await until(lambda: server.counts())
            client.writer.transport.abort()
            # The socket is not read during the delay; the end of the listener ends it.

    run(main)


def test_an_idle_unauthenticated_connection_is_closed() -> None:
    async def main() -> None:
        async with Server(limits=ConnectionLimits(idle_ms=50)) as server:
            client = await server.connect()
            await client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            assert await client.end() == b""
            assert server.counts() == {}

    run(main)


class Slow:
    """A password verifier that waits."""

    def __init__(self) -> None:
        self.answers: list[asyncio.Future[bool]] = []

    async def __call__(self, user: str, password: str) -> bool:
        self.answers.append(asyncio.get_running_loop().create_future())
        return await self.answers[-1]


def test_nothing_is_handled_while_a_verifier_works() -> None:
    async def main() -> None:
        slow = Slow()
        mechanism = EnabledMechanism("PLAIN", lambda: PlainServer(slow))
        async with Server(SaslConfig(mechanisms=(mechanism,), wall_ms=lambda: 0, failure_delay_ms=10)) as server:
            first, second, third = [await server.connect() for _ in range(3)]
            for client in (first, second, third):
                await client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
                client.writer.write(
                    request_frame(SaslAuthenticateRequest(auth_bytes=plain_token()), 2)
                    + request_frame(MetadataRequest(), 9)
                )
            await until(lambda: len(slow.answers) == 3)
            assert server.principals == []
            second.writer.transport.abort()
            slow.answers[0].set_result(True)
            slow.answers[2].set_exception(AuthenticationError("the directory is down"))
            assert await read_frame(first.reader)
            assert await read_frame(first.reader)
            assert await read_frame(third.reader)
            assert await third.end() == b""
            assert server.principals == [Principal("User", USER)]

    run(main)


@pytest.mark.unexpected("RuntimeError: broken")
def test_an_unexpected_exception_closes_the_connection(log_lines: list[str]) -> None:
    async def main() -> None:
        async def broken(user: str, password: str) -> bool:
            raise RuntimeError("broken")

        mechanism = EnabledMechanism("PLAIN", lambda: PlainServer(broken))
        async with Server(SaslConfig(mechanisms=(mechanism,), wall_ms=lambda: 0)) as server:
            client = await server.connect()
            await client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            client.writer.write(request_frame(SaslAuthenticateRequest(auth_bytes=plain_token()), 2))
            assert await client.end() == b""

    run(main)
    assert any("unexpected exception" in line for line in log_lines)
    assert not any(PASSWORD in line for line in log_lines)


# Sessions


def test_a_session_that_is_not_renewed_ends_with_the_next_request() -> None:
    async def main() -> None:
        async with Server(sasl_config(max_reauth_ms=200)) as server:
            client = await server.connect()
            assert (await client.authenticate()).session_lifetime == 200
            await client.metadata()
            await asyncio.sleep(0.25)  # the lifetime itself
            assert server.listener.connection_count == 1  # nothing ends an idle session
            client.writer.write(request_frame(MetadataRequest(), 9))
            assert await client.end() == b""
            assert len(server.principals) == 1
            assert server.counts() == {"ok": 1, "expired": 1}

    run(main)


def test_a_session_is_renewed_on_the_open_connection() -> None:
    async def main() -> None:
        async with Server(sasl_config(max_reauth_ms=600_000, failure_delay_ms=10)) as server:
            client = await server.connect()
            await client.authenticate()
            server.parks = True
            client.writer.write(request_frame(MetadataRequest(), 9, 7))
            await until(lambda: server.parked)
            # A request before it is answered first.
            client.writer.write(request_frame(SaslHandshakeRequest(mechanism="PLAIN"), 1, 8))
            server.parked.pop().set_result(MetadataResponse())
            for correlation_id in (7, 8):
                assert int.from_bytes((await read_frame(client.reader))[:4], "big") == correlation_id
            response = await client.ask(SaslAuthenticateRequest(auth_bytes=plain_token()), 2)
            assert response.session_lifetime == 600_000
            server.parks = False
            await client.metadata()
            # Too soon: the handler's own answer, and the connection stays.
            assert (await client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)).error_code == 34
            await client.metadata()
            assert server.counts() == {"ok": 1, "again": 1}
            text = server.metrics.render().decode()
            for name in (names.REAUTHENTICATION_LATENCY_AVG, names.REAUTHENTICATION_LATENCY_MAX):
                (value,) = re.findall(rf'^{name}\{{listener="PLAINTEXT"\}} (\S+)$', text, re.M)
                assert 0 <= float(value) < 60_000

    run(main)


def test_a_renewal_that_fails_closes_the_connection() -> None:
    async def main() -> None:
        async with Server(sasl_config(max_reauth_ms=600_000, failure_delay_ms=10)) as server:
            client = await server.connect()
            await client.authenticate(version=0)
            response = await client.authenticate(plain_token("bob", "bobs-secret"))
            assert response.error_code == 58
            assert await client.end() == b""
            assert server.counts() == {"ok": 1, "no reauth": 1, "failed again": 1}

    run(main)


def test_a_listener_starts_and_closes_what_its_mechanisms_need() -> None:
    class Resource:
        def __init__(self) -> None:
            self.events: list[str] = []
            self.error: Exception | None = None

        async def start(self) -> None:
            self.events.append("start")
            if self.error is not None:
                raise self.error

        async def close(self) -> None:
            self.events.append("close")

    async def main() -> None:
        resource = Resource()
        async with Server(sasl_config(resources=(resource,))):
            assert resource.events == ["start"]
        assert resource.events == ["start", "close"]
        resource.error = ConfigError("the.key", None, "here", "the issuer is away")
        server = Server(sasl_config(resources=(resource,)))
        with pytest.raises(ConfigError, match="the issuer is away"):
            await server.listener.start()
        assert server.listener.port == 0

    run(main)
