"""TLS of listeners and channels, with clients of several kinds: accepted ones, and the errors of the others."""

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trustme
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient

from kvorum.network.dial import AuthenticationFailed, ConnectionLost
from kvorum.network.server import Listener
from kvorum.network.shared import Authentication
from kvorum.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kvorum.runtime.listeners import SecurityProtocol
from kvorum.security.client import ClientSecurity
from kvorum.security.tls.settings import TLS_1_2, TLS_1_3, ClientAuth
from tests.tls_certificates import (
    CA,
    OTHER_CA,
    PAST,
    ca_pem,
    chain_pem,
    client_tls,
    issued,
    key_store,
    pkcs8,
    renewed,
    server_tls,
    trust_store,
)
from tests.unit.network.network_kit import channel_to, listener_of, metadata_handler, request_frame, run, until
from tests.unit.network.tls_kit import Cluster, Counted, python_context, tls_listener, try_handshake

REQUEST = request_frame(MetadataRequest(), 9)


def failures(lines: Sequence[str]) -> list[str]:
    return [line.partition("reason=")[2].strip().strip('"') for line in lines if "TLS handshake failed" in line]


def test_a_channel_speaks_tls() -> None:
    async def main() -> None:
        listener = tls_listener()
        channel = channel_to(await listener.start(), security=ClientSecurity(tls=client_tls()))
        response = await channel.ask(MetadataRequest(), MetadataResponse)
        assert response.cluster_id == "test-cluster"
        await channel.close()
        await listener.close()
        assert listener.connection_count == 0

    run(main)


def librdkafka(port: int, **settings: str) -> tuple[str | None, list[str]]:
    """List the topics; return the cluster's id, or None, and the errors."""
    errors: list[KafkaError] = []
    admin = AdminClient(
        {
            "bootstrap.servers": f"localhost:{port}",
            "security.protocol": "SSL",
            "ssl.ca.pem": ca_pem(CA),
            "error_cb": errors.append,
            "log_level": 0,
        }
        | settings
    )
    try:
        return admin.list_topics(timeout=5 if settings else 20).cluster_id, []
    except Exception:
        admin.poll(0)
        return None, [str(error) for error in errors]


def test_librdkafka_speaks_tls_with_and_without_a_certificate() -> None:
    async def main() -> None:
        cluster = Cluster("over TLS")
        listener = tls_listener(server_tls(client_auth=ClientAuth.REQUESTED), cluster.handler)
        cluster.port = await listener.start()
        assert await asyncio.to_thread(librdkafka, cluster.port) == ("over TLS", [])
        cert = issued("alice@example.com", common_name="alice")
        own = {"ssl.certificate.pem": chain_pem(cert), "ssl.key.pem": pkcs8(cert)}
        assert await asyncio.to_thread(librdkafka, cluster.port, **own) == ("over TLS", [])
        assert set(cluster.principals) == {"User:ANONYMOUS", "User:CN=alice,OU=tests,O=Acme"}
        await listener.close()

    run(main)


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"ssl.ca.pem": ca_pem(OTHER_CA)}, "certificate verify failed"),
        ({}, "certificate required"),
    ],
)
def test_librdkafka_receives_the_reason_of_a_failed_handshake(settings: dict[str, str], error: str) -> None:
    async def main() -> None:
        listener = tls_listener(server_tls(client_auth=ClientAuth.REQUIRED))
        port = await listener.start()
        found, errors = await asyncio.to_thread(librdkafka, port, **({"client.id": "x"} | settings))
        assert found is None
        assert any(error in each for each in errors), errors
        await listener.close()

    run(main)


def test_kcat_speaks_tls(tmp_path: Path) -> None:
    if shutil.which("kcat") is None:
        pytest.skip("needs kcat")

    async def main() -> None:
        cluster = Cluster("over TLS")
        listener = tls_listener(None, cluster.handler)
        cluster.port = await listener.start()
        ca = tmp_path / "ca.pem"
        ca.write_text(ca_pem(CA))
        options = ["-X", "security.protocol=ssl", "-X", f"ssl.ca.location={ca}"]
        command = ["kcat", "-L", "-b", f"localhost:{cluster.port}", *options]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=20)
        assert "1 brokers" in done.stdout, done.stderr
        await listener.close()

    run(main)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_both_versions_are_served(version: ssl.TLSVersion) -> None:
    async def main() -> None:
        listener = tls_listener()
        port = await listener.start()
        context = python_context(minimum_version=version, maximum_version=version)
        answer = await try_handshake(port, context, REQUEST)
        assert isinstance(answer, bytes) and b"test-cluster" in answer
        await listener.close()

    run(main)


@pytest.mark.parametrize(
    ("server", "client", "reported", "logged"),
    [
        (
            {"enabled_protocols": (TLS_1_3,)},
            {"maximum_version": ssl.TLSVersion.TLSv1_2},
            "TLSV1_ALERT_PROTOCOL_VERSION",
            "no common TLS version (ssl.enabled.protocols)",
        ),
        (
            {"cipher_suites": ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",)},
            {"ciphers": "ECDHE-ECDSA-AES128-GCM-SHA256"},
            "SSLV3_ALERT_HANDSHAKE_FAILURE",
            "no common cipher suite (ssl.cipher.suites)",
        ),
        ({}, {"ca": OTHER_CA}, "CERTIFICATE_VERIFY_FAILED", "the peer does not trust the certificate's CA (alert"),
        ({}, {"host": "other.example.com"}, "CERTIFICATE_VERIFY_FAILED", "the peer rejected the certificate (alert"),
        (
            {"cert": issued("localhost", not_after=PAST)},
            {},
            "CERTIFICATE_VERIFY_FAILED",
            "the peer found the certificate expired (alert certificate_expired)",
        ),
    ],
)
def test_a_failed_handshake_has_its_reason_on_both_sides(
    log_lines: list[str], server: dict[str, Any], client: dict[str, Any], reported: str, logged: str
) -> None:
    async def main() -> None:
        counted = Counted()
        listener = tls_listener(server_tls(**server), metrics=counted)
        port = await listener.start()
        host = client.pop("host", "localhost")
        error = await try_handshake(port, python_context(**client), REQUEST, host=host)
        assert isinstance(error, ssl.SSLError) and error.reason == reported
        await until(lambda: listener.connection_count == 0)
        (reason,) = failures(log_lines)
        assert reason.startswith(logged)
        assert counted.outcomes == [Authentication.FAILED]
        await listener.close()

    run(main)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize(
    ("cert", "reported", "logged"),
    [
        (
            None,
            ("SSLV3_ALERT_HANDSHAKE_FAILURE", "TLSV13_ALERT_CERTIFICATE_REQUIRED"),
            "the client sent no certificate (ssl.client.auth=required)",
        ),
        (
            issued("bob@example.com", ca=OTHER_CA),
            ("TLSV1_ALERT_UNKNOWN_CA", "TLSV1_ALERT_UNKNOWN_CA"),
            "the peer's certificate does not verify: unable to get local issuer certificate",
        ),
        (
            issued("bob@example.com", not_after=PAST),
            ("SSLV3_ALERT_CERTIFICATE_EXPIRED", "SSLV3_ALERT_CERTIFICATE_EXPIRED"),
            "the peer's certificate does not verify: certificate has expired",
        ),
    ],
)
def test_a_client_without_a_valid_certificate_receives_the_alert(
    log_lines: list[str],
    version: ssl.TLSVersion,
    cert: trustme.LeafCert | None,
    reported: tuple[str, str],
    logged: str,
) -> None:
    """Also in TLS 1.3, where the handshake is complete for the client, and it has sent a request."""

    async def main() -> None:
        listener = tls_listener(server_tls(client_auth=ClientAuth.REQUIRED))
        port = await listener.start()
        context = python_context(cert, minimum_version=version, maximum_version=version)
        for _ in range(5):  # a reset would hide the alert now and then
            error = await try_handshake(port, context, REQUEST * 1_000)
            assert isinstance(error, ssl.SSLError), error
            assert error.reason == reported[version is ssl.TLSVersion.TLSv1_3]
        await until(lambda: listener.connection_count == 0)
        assert failures(log_lines) == [logged] * 5
        await listener.close()

    run(main)


@pytest.mark.parametrize(
    ("client_auth", "cert", "principal"),
    [
        (ClientAuth.NONE, issued("alice@example.com", common_name="alice"), "User:ANONYMOUS"),
        (ClientAuth.REQUESTED, None, "User:ANONYMOUS"),
        (ClientAuth.REQUESTED, issued("alice@example.com", common_name="alice"), "User:alice"),
        (ClientAuth.REQUIRED, issued("alice@example.com", common_name="alice"), "User:alice"),
        (ClientAuth.REQUESTED, issued("bob@example.com", common_name="bob"), None),
        (ClientAuth.REQUESTED, issued("eve@example.com", common_name="alice", ca=OTHER_CA), None),
    ],
)
def test_the_principal_is_that_of_the_certificate(
    log_lines: list[str], client_auth: ClientAuth, cert: trustme.LeafCert | None, principal: str | None
) -> None:
    async def main() -> None:
        cluster, counted = Cluster("c"), Counted()
        rules = "RULE:^CN=(alice),.*$/$1/"
        tls = server_tls(client_auth=client_auth, principal_mapping_rules=rules)
        listener = tls_listener(tls, cluster.handler, metrics=counted)
        answer = await try_handshake(await listener.start(), python_context(cert), REQUEST)
        await until(lambda: listener.connection_count == 0)
        if principal is None:
            assert not cluster.principals and (not answer or isinstance(answer, ssl.SSLError))
            assert counted.outcomes == [Authentication.FAILED]
            assert len(failures(log_lines)) == 1
        else:
            assert isinstance(answer, bytes)
            assert cluster.principals == [principal]
            assert counted.outcomes == [Authentication.SUCCEEDED]
        assert counted.open == 0
        await listener.close()

    run(main)


def test_with_sasl_a_certificate_only_has_to_verify() -> None:
    async def main() -> None:
        cluster = Cluster("c")
        tls = server_tls(client_auth=ClientAuth.REQUIRED, principal_mapping_rules="RULE:x/y/")
        listener = listener_of(cluster.handler, tls=tls, security_protocol=SecurityProtocol.SASL_SSL)
        port = await listener.start()
        cert = issued("alice@example.com")
        assert isinstance(await try_handshake(port, python_context(cert), REQUEST), bytes)
        assert isinstance(await try_handshake(port, python_context(), REQUEST), ssl.SSLError)
        assert cluster.principals == ["User:ANONYMOUS"]
        await listener.close()

    run(main)


@pytest.mark.parametrize(
    ("server", "client", "reason"),
    [
        ({}, {"cas": (OTHER_CA,)}, "the peer's certificate does not verify: unable to get local issuer certificate"),
        (
            {"cert": issued("other.example.com")},
            {},
            "the peer's certificate does not verify: IP address mismatch, certificate is not valid for '127.0.0.1'",
        ),
        (
            {"cert": issued("127.0.0.1", not_after=PAST)},
            {},
            "the peer's certificate does not verify: certificate has expired",
        ),
        (
            {"enabled_protocols": (TLS_1_2,)},
            {"enabled_protocols": (TLS_1_3,)},
            "the peer has no common TLS version (alert protocol_version)",
        ),
    ],
)
def test_a_channel_names_the_reason_of_a_failed_handshake(
    server: dict[str, Any], client: dict[str, Any], reason: str
) -> None:
    async def main() -> None:
        listener = tls_listener(server_tls(**server))
        port = await listener.start()
        channel = channel_to(port, security=ClientSecurity(tls=client_tls(**client)))
        with pytest.raises(AuthenticationFailed) as lost:
            await channel.connect()
        assert str(lost.value) == f"127.0.0.1:{port} TLS handshake failed: {reason}"
        assert not lost.value.maybe_sent
        await channel.close()
        await listener.close()

    run(main)


def test_a_channel_without_a_certificate_names_the_servers_alert() -> None:
    async def main() -> None:
        listener = tls_listener(server_tls(client_auth=ClientAuth.REQUIRED))
        channel = channel_to(await listener.start(), security=ClientSecurity(tls=client_tls()))
        with pytest.raises(ConnectionLost, match="the peer requires a certificate"):
            await channel.connect()
        await channel.close()
        await listener.close()

    run(main)


def test_host_names_need_not_match_without_endpoint_identification() -> None:
    async def main() -> None:
        listener = tls_listener(server_tls(issued("other.example.com")))
        tls = client_tls(endpoint_identification_algorithm="")
        channel = channel_to(await listener.start(), security=ClientSecurity(tls=tls))
        await channel.request(MetadataRequest())
        await channel.close()
        await listener.close()

    run(main)


def test_a_tls_channel_to_a_plaintext_listener_fails_at_once(log_lines: list[str]) -> None:
    async def main() -> None:
        listener = listener_of(metadata_handler())
        channel = channel_to(await listener.start(), security=ClientSecurity(tls=client_tls()))
        with pytest.raises(ConnectionLost):
            await channel.connect()
        await channel.close()
        await listener.close()
        (line,) = [line for line in log_lines if "connection closed" in line]
        assert "a TLS client on a plaintext listener" in line

    run(main)


def test_a_plaintext_client_of_a_tls_listener_is_answered_with_an_alert(log_lines: list[str]) -> None:
    async def main() -> None:
        counted = Counted()
        listener = tls_listener(metrics=counted)
        reader, writer = await asyncio.open_connection("127.0.0.1", await listener.start())
        writer.write(REQUEST)
        assert await reader.read() == bytes.fromhex("15 03 03 00 02 02 50")
        writer.close()
        await until(lambda: listener.connection_count == 0)
        assert failures(log_lines) == ["not TLS: a plaintext peer"]
        assert counted.outcomes == [Authentication.FAILED]
        await listener.close()

    run(main)


def s_client(port: int, *options: str, typed: str = "") -> str:
    """Run `openssl s_client`; return what it printed."""
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", *options]
    done = subprocess.run(command, input=typed, capture_output=True, text=True, timeout=20, check=False)
    return done.stdout + done.stderr


needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command")


@needs_openssl
def test_renegotiation_is_refused() -> None:
    async def main() -> None:
        listener = tls_listener()
        port = await listener.start()
        printed = await asyncio.to_thread(s_client, port, "-tls1_2", typed="R\n")
        assert "RENEGOTIATING" in printed and "no renegotiation" in printed
        await listener.close()

    run(main)


@needs_openssl
@pytest.mark.parametrize(
    ("suite", "refused"), [("TLS_AES_256_GCM_SHA384", False), ("TLS_CHACHA20_POLY1305_SHA256", True)]
)
def test_suites_of_tls_1_3_are_restricted(log_lines: list[str], suite: str, refused: bool) -> None:
    async def main() -> None:
        listener = tls_listener(server_tls(cipher_suites=("TLS_AES_256_GCM_SHA384",)))
        port = await listener.start()
        printed = await asyncio.to_thread(s_client, port, "-ciphersuites", suite, typed="Q\n")
        await until(lambda: listener.connection_count == 0)
        assert [suite in reason for reason in failures(log_lines)] == [True] * refused
        assert refused or f"Cipher is {suite}" in printed
        await listener.close()

    run(main)


def connected_principals(listener: Listener) -> list[str]:
    return [str(connection.peer.principal) for connection in listener.connections()]


def test_a_reload_replaces_the_certificate_for_new_connections_only() -> None:
    async def main() -> None:
        tls = server_tls()
        listener = tls_listener(tls)
        port = await listener.start()

        async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter, bytes]:
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", port, ssl=python_context(), server_hostname="localhost"
            )
            return reader, writer, writer.get_extra_info("ssl_object").getpeercert(True)

        old_reader, old_writer, old_certificate = await connect()
        tls.reload(key_store(renewed("127.0.0.1", "localhost")))
        new_reader, new_writer, new_certificate = await connect()
        assert old_certificate != new_certificate
        for reader, writer in ((old_reader, old_writer), (new_reader, new_writer)):
            writer.write(REQUEST)
            assert await reader.readexactly(4)
            writer.close()
        await listener.close()

    run(main)


def test_a_truststore_that_shrinks_and_grows_counts_at_once_for_new_connections() -> None:
    async def main() -> None:
        tls = server_tls(client_auth=ClientAuth.REQUIRED, cas=(CA, OTHER_CA))
        cluster = Cluster("c")
        listener = tls_listener(tls, cluster.handler)
        port = await listener.start()
        alice, bob = issued("alice@example.com"), issued("bob@example.com", ca=OTHER_CA)
        channel = channel_to(port, security=ClientSecurity(tls=client_tls(bob)))
        await channel.request(MetadataRequest())
        for cas, welcome in (((CA,), alice), ((OTHER_CA,), bob)):
            tls.reload(trust_store=trust_store(*cas))
            for cert in (alice, bob, None):
                answer = await try_handshake(port, python_context(cert), REQUEST)
                assert isinstance(answer, bytes if cert is welcome else ssl.SSLError), answer
            await channel.request(MetadataRequest())
        await channel.close()
        await listener.close()

    run(main)


def test_a_session_of_an_old_truststore_is_not_resumed() -> None:
    async def main() -> None:
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            tls = server_tls(client_auth=ClientAuth.REQUIRED, cas=(CA, OTHER_CA))
            listener = tls_listener(tls)
            port = await listener.start()
            context = python_context(issued("bob@example.com", ca=OTHER_CA), maximum_version=version)
            session = await asyncio.to_thread(session_of, port, context)
            tls.reload(trust_store=trust_store(CA))
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await asyncio.to_thread(session_of, port, context, session)
            await listener.close()

    run(main)


def session_of(port: int, context: ssl.SSLContext, session: ssl.SSLSession | None = None) -> ssl.SSLSession | None:
    """Send a request over a connection, resumed if possible; return its session."""
    import socket

    sock = socket.create_connection(("127.0.0.1", port), timeout=10)
    with sock, context.wrap_socket(sock, server_hostname="localhost", session=session) as wrapped:
        wrapped.sendall(REQUEST)
        assert wrapped.recv(10)
        return wrapped.session


def test_connections_are_counted_by_cipher_and_version() -> None:
    """Names are IANA's, as in Kafka; a handshake that fails is not counted."""

    async def main() -> None:
        counted = Counted()
        listener = tls_listener(metrics=counted)
        port = await listener.start()
        await try_handshake(port, python_context(), REQUEST)
        await try_handshake(port, python_context(ciphers="ECDHE-ECDSA-AES128-GCM-SHA256"), REQUEST)
        await try_handshake(port, python_context(ca=OTHER_CA), REQUEST)
        await until(lambda: counted.open == 0 and listener.connection_count == 0)
        ciphers = [
            ("TLS_AES_256_GCM_SHA384", "TLSv1.3"),
            ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLSv1.2"),
        ]
        assert sorted(counted.ciphers) == sorted((cipher, change) for cipher in ciphers for change in (-1, 1))
        await listener.close()

    run(main)
