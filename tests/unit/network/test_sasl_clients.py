"""Unmodified clients authenticate to a listener, and are rejected with a wrong password."""

import asyncio
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from functools import partial

import aiokafka.abc
import kafka.net.sasl.oauth
import pytest
from aiokafka.admin import AIOKafkaAdminClient
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer
from kafka.errors import KafkaError as KafkaPythonError

from kvorum.runtime import metric_names as names
from kvorum.security.oauth.jwks import KeySet
from kvorum.security.oauth.signed import ClaimRules, SignedValidator
from kvorum.security.oauth.unsecured import UnsecuredValidator
from kvorum.security.principal import Principal
from tests.unit.network.network_kit import run
from tests.unit.network.sasl_cluster import TOPIC, SaslCluster
from tests.unit.security.oauth.oauth_kit import NOW_S, claims, key_set, signed, signing_key
from tests.unit.security.sasl.sasl_kit import PASSWORD, USER, WALL_MS, sasl_config

SECONDS = 10
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
OAUTHBEARER = "OAUTHBEARER"
TOKEN, EXPIRED_TOKEN = signed(), signed(claims(iat=NOW_S - 7200, exp=NOW_S - 3600))
RIGHT = (PASSWORD, TOKEN)


class Keys:
    """The keys of the test's issuer."""

    present = KeySet.parse(key_set(signing_key()))
    issuer = None

    def report_missing(self, key_id: str) -> None:
        raise AssertionError(key_id)


class KafkaPythonToken(kafka.net.sasl.oauth.AbstractTokenProvider):
    """Returns a fixed token."""

    def __init__(self, token: str) -> None:
        self._token = token

    def token(self) -> str:
        return self._token


class AiokafkaToken(aiokafka.abc.AbstractTokenProvider):
    """Returns a fixed token."""

    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


def librdkafka(port: int, mechanism: str, password: str) -> list[str]:
    failed = threading.Event()

    def on_error(error: KafkaError) -> None:
        if error.code() == KafkaError._AUTHENTICATION:
            failed.set()

    client = AdminClient(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            **(
                {"oauth_cb": lambda _: (password, time.time() + 3600)}
                if mechanism == OAUTHBEARER
                else {"sasl.username": USER, "sasl.password": password}
            ),
            "error_cb": on_error,
            "log_level": 0,
        }
    )
    if password in RIGHT:
        return list(client.list_topics(timeout=SECONDS).topics)
    for _ in range(10 * SECONDS):
        client.poll(0.1)
        if failed.is_set():
            raise PermissionError
    raise AssertionError("no authentication error")


def kafka_python(port: int, mechanism: str, password: str) -> list[str]:
    try:
        consumer = KafkaConsumer(
            bootstrap_servers=f"127.0.0.1:{port}",
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username=USER,
            sasl_plain_password=password,
            sasl_oauth_token_provider=KafkaPythonToken(password),
            bootstrap_timeout_ms=1000 * SECONDS if password in RIGHT else 500,
        )
    except KafkaPythonError as error:
        raise PermissionError from error
    topics = list(consumer.topics())
    consumer.close()
    return topics


def with_aiokafka(port: int, mechanism: str, password: str) -> list[str]:
    async def list_topics() -> list[str]:
        client = AIOKafkaAdminClient(
            bootstrap_servers=f"127.0.0.1:{port}",
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username=USER,
            sasl_plain_password=password,
            sasl_oauth_token_provider=AiokafkaToken(password),
        )
        try:
            await client.start()
            return list(await client.list_topics())
        finally:
            await client.close()

    try:
        return asyncio.run(list_topics())
    except Exception as error:
        raise PermissionError from error


def kcat(port: int, mechanism: str, password: str) -> list[str]:
    command = ["kcat", "-b", f"127.0.0.1:{port}", "-L", "-m", str(SECONDS) if password in RIGHT else "1"]
    for setting in (
        "security.protocol=SASL_PLAINTEXT",
        f"sasl.mechanism={mechanism}",
        f"sasl.username={USER}",
        f"sasl.password={password}",
    ):
        command += ["-X", setting]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    if done.returncode:
        assert "authentication" in done.stderr.lower(), done.stderr
        raise PermissionError
    return [line.split('"')[1] for line in done.stdout.splitlines() if "topic " in line]


WITH_KCAT = pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("list_topics", [librdkafka, kafka_python, with_aiokafka, pytest.param(kcat, marks=WITH_KCAT)])
def test_a_client_is_served_with_its_password_and_rejected_with_another(
    list_topics: Callable[[int, str, str], list[str]], mechanism: str
) -> None:
    run(partial(served_and_rejected, list_topics, mechanism, PASSWORD, "wrong"))


@pytest.mark.parametrize("list_topics", [librdkafka, kafka_python, with_aiokafka])
def test_a_client_is_served_with_its_token_and_rejected_with_an_expired_one(
    list_topics: Callable[[int, str, str], list[str]],
) -> None:
    run(partial(served_and_rejected, list_topics, OAUTHBEARER, TOKEN, EXPIRED_TOKEN))


async def served_and_rejected(
    list_topics: Callable[[int, str, str], list[str]], mechanism: str, right: str, wrong: str
) -> None:
    """Check a client with a wrong secret, then with the right one."""
    validator = SignedValidator(Keys(), ClaimRules(), lambda: WALL_MS)
    cluster = SaslCluster(sasl_config(failure_delay_ms=10, validator=validator))
    port = await cluster.listener.start()
    with pytest.raises(PermissionError):
        await asyncio.to_thread(list_topics, port, mechanism, wrong)
    assert not cluster.principals
    assert cluster.count(names.SUCCESSFUL_AUTHENTICATION) == 0 < cluster.count(names.FAILED_AUTHENTICATION)
    assert TOPIC in await asyncio.to_thread(list_topics, port, mechanism, right)
    assert cluster.principals == {Principal("User", USER)}
    assert cluster.count(names.SUCCESSFUL_AUTHENTICATION) > 0
    await cluster.listener.close(0)


@WITH_KCAT
def test_kcat_is_served_with_an_unsecured_token() -> None:
    async def main() -> None:
        cluster = SaslCluster(sasl_config(validator=UnsecuredValidator({}, lambda: int(time.time() * 1000) + 1000)))
        port = await cluster.listener.start()
        command = ["kcat", "-b", f"127.0.0.1:{port}", "-L", "-m", str(SECONDS)]
        for setting in (
            "security.protocol=SASL_PLAINTEXT",
            "sasl.mechanism=OAUTHBEARER",
            "enable.sasl.oauthbearer.unsecure.jwt=true",
            f"sasl.oauthbearer.config=principal={USER}",
        ):
            command += ["-X", setting]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=SECONDS)
        assert TOPIC in done.stdout, done.stderr
        assert cluster.principals == {Principal("User", USER)}
        await cluster.listener.close(0)

    run(main)
