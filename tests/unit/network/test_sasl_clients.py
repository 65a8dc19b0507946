"""Unmodified clients authenticate to a listener, and are rejected with a wrong password."""

import asyncio
import shutil
import subprocess
import threading
import time
from collections.abc import Callable

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer
from kafka.errors import KafkaError as KafkaPythonError

from kvorum.network.context import RequestContext
from kvorum.network.metrics import RegistryMetrics
from kvorum.network.router import Handler, Router, supported_apis
from kvorum.network.server import Listener
from kvorum.protocol.api import BROKER_APIS, ApiKey
from kvorum.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kvorum.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kvorum.runtime import metric_names as names
from kvorum.runtime.listeners import SecurityProtocol
from kvorum.runtime.metrics import Metrics
from kvorum.security.principal import Principal
from tests.unit.network.network_kit import run
from tests.unit.security.sasl.sasl_kit import PASSWORD, USER, sasl_config

TOPIC = "of-the-secure-cluster"
SECONDS = 10
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


class Cluster:
    """A listener that looks like a broker to clients that list topics."""

    def __init__(self) -> None:
        self.principals: set[Principal] = set()
        self.metrics = Metrics()
        served = {int(key): BROKER_APIS[key] for key in BROKER_APIS}
        versions = [api for api in supported_apis(served)]

        def api_versions(ctx: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
            return ApiVersionsResponse(api_keys=versions)

        def metadata(ctx: RequestContext, request: MetadataRequest) -> MetadataResponse:
            self.principals.add(ctx.principal)
            partition = MetadataResponsePartition(partition_index=0, leader_id=1, replica_nodes=[1], isr_nodes=[1])
            return MetadataResponse(
                brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.listener.port)],
                controller_id=1,
                cluster_id="secure",
                topics=[MetadataResponseTopic(name=TOPIC, partitions=[partition])],
            )

        router = Router(
            [
                Handler(ApiKey.API_VERSIONS, (0, 4), api_versions),
                Handler(ApiKey.METADATA, BROKER_APIS[ApiKey.METADATA], metadata),
            ]
        )
        self.listener = Listener(
            "SASL",
            "127.0.0.1",
            0,
            router,
            security_protocol=SecurityProtocol.SASL_PLAINTEXT,
            sasl=sasl_config(failure_delay_ms=10),
            metrics=RegistryMetrics(self.metrics, time.monotonic),
        )

    def count(self, name: str) -> float:
        """Return a counter of the listener."""
        return self.metrics.counter(name).labels("SASL").value


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
            "sasl.username": USER,
            "sasl.password": password,
            "error_cb": on_error,
            "log_level": 0,
        }
    )
    if password == PASSWORD:
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
            bootstrap_timeout_ms=1000 * SECONDS if password == PASSWORD else 500,
        )
    except KafkaPythonError as error:
        raise PermissionError from error
    topics = list(consumer.topics())
    consumer.close()
    return topics


def aiokafka(port: int, mechanism: str, password: str) -> list[str]:
    async def list_topics() -> list[str]:
        client = AIOKafkaAdminClient(
            bootstrap_servers=f"127.0.0.1:{port}",
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username=USER,
            sasl_plain_password=password,
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
    command = ["kcat", "-b", f"127.0.0.1:{port}", "-L", "-m", str(SECONDS) if password == PASSWORD else "1"]
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


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(
    "list_topics",
    [
        librdkafka,
        kafka_python,
        aiokafka,
        pytest.param(kcat, marks=pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")),
    ],
)
def test_a_client_is_served_with_its_password_and_rejected_with_another(
    list_topics: Callable[[int, str, str], list[str]], mechanism: str
) -> None:
    async def main() -> None:
        cluster = Cluster()
        port = await cluster.listener.start()
        with pytest.raises(PermissionError):
            await asyncio.to_thread(list_topics, port, mechanism, "wrong")
        assert not cluster.principals
        assert cluster.count(names.SUCCESSFUL_AUTHENTICATION) == 0 < cluster.count(names.FAILED_AUTHENTICATION)
        assert TOPIC in await asyncio.to_thread(list_topics, port, mechanism, PASSWORD)
        assert cluster.principals == {Principal("User", USER)}
        assert cluster.count(names.SUCCESSFUL_AUTHENTICATION) > 0
        await cluster.listener.close(0)

    run(main)
