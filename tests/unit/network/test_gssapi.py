"""GSSAPI with a real KDC: own channels, kafka-python, aiokafka and kcat; other hosts, services and realms."""

import asyncio
import os
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from kafka import KafkaConsumer

from kvorum.network.channel import Channel
from kvorum.network.dial import AuthenticationFailed, ConnectionLost
from kvorum.protocol.messages.metadata import MetadataRequest
from kvorum.runtime.config import ConfigError, Settings
from kvorum.security.client_properties import client_settings
from kvorum.security.credentials import NoCredentials
from kvorum.security.errors import AuthenticationError
from kvorum.security.incoming import Authentication, own_principal, sasl_config
from kvorum.security.outgoing import security_of_client
from kvorum.security.principal import Principal
from kvorum.security.settings import own_listeners
from tests.unit.network.network_kit import run
from tests.unit.network.sasl_cluster import TOPIC, SaslCluster
from tests.unit.security.kerberos_realm import REALM, Realm, missing_tool

REASON = missing_tool()
pytestmark = pytest.mark.skipif(REASON is not None, reason=REASON or "-")
MODULE = "com.sun.security.auth.module.Krb5LoginModule"
LISTENER = "listener.name.sasl_plaintext."
JAAS = f"{LISTENER}gssapi.sasl.jaas.config"
SERVER = f"kafka/localhost@{REALM}"


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    with Realm(tmp_path_factory.mktemp("realm")).started() as realm:
        for name in ("kafka/localhost", "kafka/other", "alice"):
            realm.keytab(name)
        yield realm


@pytest.fixture(autouse=True)
def environment(realm: Realm, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("KRB5_CONFIG", "KRB5CCNAME", "KRB5RCACHENAME"):
        monkeypatch.setenv(key, realm.environment[key])


def login(keytab: Path | str, principal: str, *more: str) -> str:
    return f'{MODULE} required useKeyTab=true storeKey=true keyTab="{keytab}" principal="{principal}" {" ".join(more)};'


def node(realm: Realm, **changes: Any) -> Settings:
    found = {
        "process.roles": "broker",
        "node.id": 1,
        "listeners": "SASL_PLAINTEXT://127.0.0.1:1",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.quorum.voters": "1@127.0.0.1:2",
        "inter.broker.listener.name": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "connection.failed.authentication.delay.ms": 1,
        JAAS: login(realm.folder / "kafka-localhost.keytab", SERVER),
    }
    return Settings.of({key: text for key, text in (found | changes).items() if text is not None})


USES = Authentication(credentials=NoCredentials(), wall_ms=lambda: 0, new_nonce=str, secret=b"")


def cluster_of(settings: Settings) -> SaslCluster:
    sasl = sasl_config(own_listeners(settings)[0], USES)
    assert sasl is not None
    return SaslCluster(sasl, "localhost")


def channel_of(port: int, jaas: str, **properties: str) -> Channel:
    found = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI", "sasl.jaas.config": jaas}
    security = security_of_client(client_settings(found | properties, "test"), str)
    return Channel("localhost", port, client_id="test", chance=random.Random(1), security=security)


def test_a_ticket_authenticates_its_principal(realm: Realm) -> None:
    alice = login(realm.folder / "alice.keytab", f"alice@{REALM}", 'serviceName="kafka"')
    broker = login(realm.folder / "kafka-other.keytab", f"kafka/other@{REALM}", 'serviceName="kafka"')

    async def main() -> None:
        server = cluster_of(node(realm))
        port = await server.listener.start()
        for jaas in (alice, broker):
            channel = channel_of(port, jaas)
            await channel.request(MetadataRequest())
            await channel.close()
        assert server.principals == {Principal("User", "alice"), Principal("User", "kafka")}
        await server.listener.close()

    run(main)


def test_a_ticket_of_the_cache_authenticates(realm: Realm) -> None:
    realm.run("kinit", "-k", "-t", str(realm.folder / "alice.keytab"), f"alice@{REALM}")

    async def main() -> None:
        rules = "RULE:[1:$1]s/alice/bob/"
        server = cluster_of(node(realm, **{"sasl.kerberos.principal.to.local.rules": rules}))
        port = await server.listener.start()
        channel = channel_of(port, f"{MODULE} required useTicketCache=true;", **{"sasl.kerberos.service.name": "kafka"})
        await channel.request(MetadataRequest())
        assert server.principals == {Principal("User", "bob")}
        await channel.close()
        await server.listener.close()

    run(main)


def test_wrong_services_and_logins_fail(realm: Realm) -> None:
    keytab = realm.folder / "alice.keytab"

    async def main() -> None:
        server = cluster_of(node(realm))
        port = await server.listener.start()
        for jaas, reason in (
            (login(keytab, f"alice@{REALM}", 'serviceName="nobody"'), "not found in Kerberos database"),
            (login(keytab, f"mallory@{REALM}", 'serviceName="kafka"'), "GSSAPI"),
            (login("/no/such.keytab", f"alice@{REALM}", 'serviceName="kafka"'), "such.keytab cannot be read"),
        ):
            channel = channel_of(port, jaas)
            with pytest.raises(AuthenticationFailed, match=reason):
                await channel.request(MetadataRequest())
            await channel.close()
        assert not server.principals
        await server.listener.close()

    run(main)


def test_a_ticket_for_another_host_is_rejected(realm: Realm) -> None:
    alice = login(realm.folder / "alice.keytab", f"alice@{REALM}", 'serviceName="kafka"')

    async def main() -> None:
        jaas = login(realm.folder / "kafka-other.keytab", f"kafka/other@{REALM}")
        server = cluster_of(node(realm, **{JAAS: jaas}))
        port = await server.listener.start()
        channel = channel_of(port, alice)
        with pytest.raises(ConnectionLost, match=r"GSSAPI|closed the connection"):
            await channel.request(MetadataRequest())
        assert not server.principals
        await channel.close()
        await server.listener.close()

    run(main)


def test_a_user_without_a_rule_is_rejected(realm: Realm) -> None:
    alice = login(realm.folder / "alice.keytab", f"alice@{REALM}", 'serviceName="kafka"')

    async def main() -> None:
        server = cluster_of(node(realm, **{"sasl.kerberos.principal.to.local.rules": "RULE:[2:$1]"}))
        port = await server.listener.start()
        channel = channel_of(port, alice)
        with pytest.raises(AuthenticationFailed, match="invalid credentials with SASL mechanism GSSAPI"):
            await channel.request(MetadataRequest())
        assert not server.principals
        await channel.close()
        await server.listener.close()

    run(main)


def test_garbage_is_rejected(realm: Realm) -> None:
    async def main() -> None:
        sasl = sasl_config(own_listeners(node(realm))[0], USES)
        assert sasl is not None
        for token in (b"", b"garbage", b"\x60\x82\x01\x02" + bytes(300), os.urandom(1000)):
            server = sasl.mechanisms[0].new_server()
            with pytest.raises(AuthenticationError):
                await server.evaluate(token)
            assert server.principal is None

    run(main)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({JAAS: None}, "is not set"),
        ({JAAS: f"{MODULE} required useTicketCache=true;"}, "needs useKeyTab"),
        ({JAAS: login("/no/such.keytab", SERVER)}, "such.keytab cannot be read"),
        ({JAAS: login("/etc/hostname", SERVER)}, "keytab /etc/hostname"),
        ({JAAS: login("/etc/hostname", f"kafka@{REALM}")}, "SERVICE/HOST@REALM"),
        ({"sasl.kerberos.principal.to.local.rules": "nonsense"}, "is not of the form"),
    ],
)
def test_settings_that_cannot_work_are_refused(realm: Realm, changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        sasl_config(own_listeners(node(realm, **changes))[0], USES)


def test_a_node_has_the_user_of_its_own_principal(realm: Realm) -> None:
    assert own_principal(own_listeners(node(realm))[0], "GSSAPI", None) == Principal("User", "kafka")


def has_kcat_gssapi() -> bool:
    folders = (*Path("/usr/lib").glob("*/sasl2"), *map(Path, os.environ.get("SASL_PATH", "").split(":")))
    return shutil.which("kcat") is not None and any((folder / "libgssapiv2.so").exists() for folder in folders)


def with_kcat(realm: Realm, port: int) -> None:
    command = ["kcat", "-b", f"localhost:{port}", "-L", "-m", "10"]
    for setting in (
        "security.protocol=SASL_PLAINTEXT",
        "sasl.mechanism=GSSAPI",
        "sasl.kerberos.service.name=kafka",
        f"sasl.kerberos.keytab={realm.folder}/alice.keytab",
        f"sasl.kerberos.principal=alice@{REALM}",
    ):
        command += ["-X", setting]
    done = subprocess.run(command, capture_output=True, text=True, env=realm.environment, timeout=20)
    assert TOPIC in done.stdout, done.stderr


def with_kafka_python(realm: Realm, port: int) -> None:
    consumer = KafkaConsumer(
        bootstrap_servers=f"localhost:{port}",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="GSSAPI",
        sasl_kerberos_service_name="kafka",
        sasl_kerberos_domain_name="localhost",
        bootstrap_timeout_ms=10_000,
    )
    assert TOPIC in consumer.topics()
    consumer.close()


def with_aiokafka(realm: Realm, port: int) -> None:
    async def list_topics() -> list[str]:
        client = AIOKafkaAdminClient(
            bootstrap_servers=f"localhost:{port}",
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="GSSAPI",
            sasl_kerberos_service_name="kafka",
            sasl_kerberos_domain_name="localhost",
        )
        await client.start()
        topics = list(await client.list_topics())
        await client.close()
        return topics

    assert TOPIC in asyncio.run(list_topics())


@pytest.mark.parametrize(
    "client",
    [
        with_kafka_python,
        with_aiokafka,
        pytest.param(
            with_kcat,
            marks=pytest.mark.skipif(not has_kcat_gssapi(), reason="missing tool: libsasl2-modules-gssapi-mit"),
        ),
    ],
)
def test_a_client_is_served_with_a_ticket(realm: Realm, client: Callable[[Realm, int], None]) -> None:
    realm.run("kinit", "-k", "-t", str(realm.folder / "alice.keytab"), f"alice@{REALM}")

    async def main() -> None:
        server = cluster_of(node(realm))
        port = await server.listener.start()
        await asyncio.to_thread(client, realm, port)
        assert server.principals == {Principal("User", "alice")}
        await server.listener.close(0)

    run(main)
