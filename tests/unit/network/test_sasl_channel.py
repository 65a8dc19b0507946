"""The client's side: a Channel and a RawLink authenticate, and replace their connection before its session ends."""

import asyncio
import random
from collections.abc import Callable

import pytest

from kvorum.network.context import RequestContext
from kvorum.network.dial import AuthenticationFailed, ConnectionLost, renewal_s
from kvorum.network.raw_link import RawLink
from kvorum.network.router import PRIVATE_KEY_MIN, Handler
from kvorum.network.upgrade import UpgradeLink
from kvorum.protocol.api import ApiKey
from kvorum.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kvorum.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kvorum.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kvorum.runtime.chance import new_nonce
from kvorum.security.client import ClientSecurity
from kvorum.security.credentials import ScramMechanism
from kvorum.security.principal import Principal
from kvorum.security.sasl.plain import PlainClient
from kvorum.security.sasl.scram import ScramClient
from tests.tls_certificates import client_tls, server_tls
from tests.unit.network.network_kit import channel_to, listener_of, metadata_handler, run, until
from tests.unit.security.sasl.sasl_kit import OWNER, PASSWORD, TOKEN_ID, TOKEN_PASSWORD, USER, sasl_config

PRINCIPAL = Principal("User", USER)


def plain(password: str = PASSWORD) -> ClientSecurity:
    return ClientSecurity(sasl=lambda host: PlainClient(USER, password))


def scram(
    mechanism: ScramMechanism, user: str = USER, password: str = PASSWORD, *, is_token: bool = False
) -> ClientSecurity:
    return ClientSecurity(sasl=lambda host: ScramClient(mechanism, user, password, new_nonce(), is_token=is_token))


class Metadata:
    """A handler that records principals and connections, and may keep its response."""

    def __init__(self) -> None:
        self.principals: list[Principal] = []
        self.connections: list[str] = []
        self.parks = False
        self.parked: list[asyncio.Future[MetadataResponse]] = []

    def handle(
        self, ctx: RequestContext, request: MetadataRequest
    ) -> MetadataResponse | asyncio.Future[MetadataResponse]:
        self.principals.append(ctx.principal)
        self.connections.append(ctx.connection_id)
        if not self.parks:
            return MetadataResponse()
        self.parked.append(asyncio.get_running_loop().create_future())
        return self.parked[-1]

    @property
    def handler(self) -> Handler:
        return Handler(ApiKey.METADATA, (0, 13), self.handle)


@pytest.mark.parametrize(
    ("security", "principal"),
    [
        (plain(), PRINCIPAL),
        (scram(ScramMechanism.SCRAM_SHA_256), PRINCIPAL),
        (scram(ScramMechanism.SCRAM_SHA_512), PRINCIPAL),
        (scram(ScramMechanism.SCRAM_SHA_512, TOKEN_ID, TOKEN_PASSWORD, is_token=True), OWNER),
    ],
    ids=["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "token"],
)
def test_a_channel_authenticates(security: ClientSecurity, principal: Principal) -> None:
    async def main() -> None:
        metadata = Metadata()
        listener = listener_of(metadata.handler, sasl=sasl_config())
        channel = channel_to(await listener.start(), security=security)
        await channel.request(MetadataRequest())
        assert metadata.principals == [principal]
        await channel.close()
        await listener.close()

    run(main)


def test_a_channel_authenticates_over_tls() -> None:
    async def main() -> None:
        metadata = Metadata()
        listener = listener_of(metadata.handler, sasl=sasl_config(max_reauth_ms=60_000), tls=server_tls())
        security = ClientSecurity(tls=client_tls(), sasl=plain().sasl)
        channel = channel_to(await listener.start(), security=security)
        await channel.request(MetadataRequest())
        assert metadata.principals == [PRINCIPAL]
        await channel.close()
        await listener.close()

    run(main)


@pytest.mark.parametrize(
    ("security", "reason"),
    [
        (plain("wrong"), "Authentication failed: Invalid username or password"),
        (
            scram(ScramMechanism.SCRAM_SHA_256, password="wrong"),
            "invalid credentials with SASL mechanism SCRAM-SHA-256",
        ),
        (scram(ScramMechanism.SCRAM_SHA_256, "mallory"), "invalid credentials with SASL mechanism SCRAM-SHA-256"),
    ],
)
def test_a_channel_reports_the_message_of_the_server(security: ClientSecurity, reason: str) -> None:
    async def main() -> None:
        metadata = Metadata()
        listener = listener_of(metadata.handler, sasl=sasl_config(failure_delay_ms=1))
        channel = channel_to(await listener.start(), security=security)
        with pytest.raises(AuthenticationFailed, match=reason) as caught:
            await channel.request(MetadataRequest())
        assert not caught.value.maybe_sent
        assert "wrong" not in str(caught.value)
        assert metadata.principals == []
        await channel.close()
        await listener.close()

    run(main)


def test_a_mechanism_that_the_server_does_not_have_is_named_with_those_that_it_has() -> None:
    class Other(PlainClient):
        mechanism = "OTHER"

    async def main() -> None:
        listener = listener_of(metadata_handler(), sasl=sasl_config(failure_delay_ms=1))
        channel = channel_to(await listener.start(), security=ClientSecurity(sasl=lambda host: Other(USER, PASSWORD)))
        with pytest.raises(AuthenticationFailed, match="mechanism OTHER: it has PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"):
            await channel.request(MetadataRequest())
        await channel.close()
        await listener.close()

    run(main)


def test_a_peer_without_sasl_is_not_trusted() -> None:
    async def main() -> None:
        listener = listener_of(metadata_handler())
        channel = channel_to(await listener.start(), security=plain())
        with pytest.raises(ConnectionLost, match="closed the connection during SASL"):
            await channel.request(MetadataRequest())
        await channel.close()
        await listener.close()

    run(main)


def fake_server(answer: Callable[[SaslAuthenticateRequest], SaslAuthenticateResponse]) -> tuple[Handler, Handler]:
    """Return handlers of a server that accepts anything."""

    def handshake(ctx: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
        return SaslHandshakeResponse(mechanisms=[request.mechanism])

    def authenticate(ctx: RequestContext, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
        return answer(request)

    return Handler(ApiKey.SASL_HANDSHAKE, (0, 1), handshake), Handler(ApiKey.SASL_AUTHENTICATE, (0, 2), authenticate)


@pytest.mark.parametrize("token", [b"", b"v=AAAA", b"r=x,s=AAAA,i=4096"])
def test_a_server_that_accepts_without_knowing_the_password_is_not_trusted(token: bytes) -> None:
    async def main() -> None:
        metadata = Metadata()
        handlers = fake_server(lambda request: SaslAuthenticateResponse(auth_bytes=token))
        listener = listener_of(metadata.handler, *handlers)
        channel = channel_to(await listener.start(), security=scram(ScramMechanism.SCRAM_SHA_256))
        with pytest.raises(AuthenticationFailed):
            await channel.request(MetadataRequest())
        assert metadata.principals == []
        await channel.close()
        await listener.close()

    run(main)


def test_a_server_that_does_not_answer_is_given_up_in_time() -> None:
    class Silent(asyncio.Protocol):
        pass

    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(Silent, "127.0.0.1", 0)
        channel = channel_to(server.sockets[0].getsockname()[1], security=plain(), setup_timeout_ms=50)
        with pytest.raises(ConnectionLost, match="did not respond within 50 ms"):
            await channel.request(MetadataRequest())
        await channel.close()
        server.close()

    run(main)


def test_a_connection_is_replaced_before_its_session_ends() -> None:
    async def main() -> None:
        metadata = Metadata()
        listener = listener_of(metadata.handler, sasl=sasl_config(max_reauth_ms=400))
        lost: list[None] = []
        channel = channel_to(await listener.start(), security=plain(), on_lost=lambda: lost.append(None))
        metadata.parks = True
        waiting = asyncio.create_task(channel.request(MetadataRequest()))
        await until(lambda: metadata.parked)
        metadata.parks = False
        # The next request uses a second connection although the response to the first is not in.
        await until(lambda: not channel.connected)
        await channel.request(MetadataRequest())
        assert len(set(metadata.connections)) == 2
        assert not waiting.done()
        assert listener.connection_count == 2
        metadata.parked[0].set_result(MetadataResponse())
        assert isinstance(await waiting, MetadataResponse)
        await until(lambda: listener.connection_count == 1)
        await channel.request(MetadataRequest())
        assert not lost
        assert set(metadata.principals) == {PRINCIPAL}
        await channel.close()
        await listener.close()

    run(main)


def test_a_channel_that_closes_ends_the_connections_that_wait() -> None:
    async def main() -> None:
        metadata = Metadata()
        listener = listener_of(metadata.handler, sasl=sasl_config(max_reauth_ms=50))
        channel = channel_to(await listener.start(), security=plain())
        metadata.parks = True
        waiting = asyncio.create_task(channel.request(MetadataRequest()))
        await until(lambda: metadata.parked and not channel.connected)
        await channel.close()
        with pytest.raises(ConnectionLost, match="the channel is closed"):
            await waiting
        await listener.close(0)

    run(main)


def test_sessions_are_renewed_at_85_to_95_percent() -> None:
    chance = random.Random(1)
    found = [renewal_s(10_000, chance) for _ in range(1000)]
    assert 8.5 <= min(found) < 8.6
    assert 9.4 < max(found) <= 9.5
    assert renewal_s(2**62, chance) < 8 * 24 * 3600


class Sink:
    """The server's end of a link."""

    def __init__(self, principals: list[Principal], link: UpgradeLink, ctx: RequestContext) -> None:
        self.link = link
        principals.append(ctx.principal)

    def on_frame(self, frame: memoryview) -> None:
        self.link.send(frame)

    def on_closed(self) -> None:
        pass


class Ends:
    """The client's end of a link."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def on_connected(self) -> None:
        self.events.append("connected")

    def on_frame(self, frame: memoryview) -> None:
        self.events.append(bytes(frame).decode())

    def on_disconnected(self) -> None:
        self.events.append("disconnected")

    def on_refused(self) -> None:
        self.events.append("refused")


def test_a_link_authenticates_and_is_replaced_before_its_session_ends() -> None:
    async def main() -> None:
        principals: list[Principal] = []
        listener = listener_of(
            upgrades={PRIVATE_KEY_MIN: lambda link, ctx, hello: Sink(principals, link, ctx)},
            sasl=sasl_config(max_reauth_ms=200),
        )
        port, ends = await listener.start(), Ends()
        link = RawLink(
            lambda: ("127.0.0.1", port), b"hello", ends, chance=random.Random(1), client_id="test", security=plain()
        )
        link.start()
        await until(lambda: link.connected)
        link.send(b"frame")
        await until(lambda: ends.events.count("connected") == 2)
        assert ends.events == ["connected", "frame", "disconnected", "connected"]
        assert set(principals) == {PRINCIPAL}
        await link.close()
        await listener.close()

    run(main)


def test_an_unauthenticated_link_is_not_taken_over() -> None:
    async def main() -> None:
        principals: list[Principal] = []
        listener = listener_of(
            upgrades={PRIVATE_KEY_MIN: lambda link, ctx, hello: Sink(principals, link, ctx)},
            sasl=sasl_config(failure_delay_ms=1),
        )
        port = await listener.start()
        for security in (ClientSecurity(), plain("wrong")):
            link = RawLink(lambda: ("127.0.0.1", port), b"", Ends(), chance=random.Random(1), security=security)
            link.start()
            await until(lambda link=link: link.failure is not None)  # type: ignore[misc]
            await link.close()
        assert principals == []
        await listener.close()

    run(main)


def test_the_server_ends_a_link_with_its_session() -> None:
    async def main() -> None:
        principals: list[Principal] = []
        listener = listener_of(
            upgrades={PRIVATE_KEY_MIN: lambda link, ctx, hello: Sink(principals, link, ctx)},
            sasl=sasl_config(max_reauth_ms=100),
        )
        port, ends = await listener.start(), Ends()
        link = RawLink(lambda: ("127.0.0.1", port), b"", ends, chance=Late(1), security=plain())
        link.start()
        await until(lambda: "disconnected" in ends.events)
        await link.close()
        await listener.close()

    run(main)


class Late(random.Random):
    """Chance that renews a session long after its end."""

    def uniform(self, a: float, b: float) -> float:
        return 100.0 if a == 0.85 else super().uniform(a, b)
