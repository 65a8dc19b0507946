"""Pipelines, the Connect manager and a mirror on a cluster that has TLS and users; secrets are files that they name."""

import json
import os
import re
import select
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place
from pyspark.sql import SparkSession

from kvorum.pipelines.bridge.transaction import member
from kvorum.pipelines.run.state import State
from tests.certificates import Authority
from tests.cluster.clients import create_topic, eventually
from tests.cluster.conftest import clusters_in
from tests.cluster.nodes import addresses
from tests.spark.run.test_worker import run
from tests.unit.pipelines.run.topics import values

PASSWORD = "planted-pipeline-secret"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
RECORDS = [json.dumps({"id": n}) for n in range(50)]
SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Secure:
    """A node with TLS and the user `alice`."""

    bootstrap: str
    ca: str
    secrets: Path
    """A properties file with the password."""

    def librdkafka(self, password: str) -> dict[str, str]:
        """Return the settings of a client by librdkafka's names."""
        login = {"sasl.mechanisms": "PLAIN", "sasl.username": "alice", "sasl.password": password}
        return {"security.protocol": "SASL_SSL", "ssl.ca.location": self.ca, **login}

    def java(self, password: str) -> dict[str, str]:
        """Return the settings of a client by Java's names."""
        jaas = f'{PLAIN} required username="alice" password="{password}";'
        return {
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.ca,
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": jaas,
        }

    @property
    def password(self) -> str:
        """A reference to the password."""
        return f"${{file:{self.secrets}:password}}"

    @property
    def client(self) -> dict[str, Any]:
        """The settings of the test's own clients."""
        return {"bootstrap.servers": self.bootstrap, **self.librdkafka(PASSWORD)}

    def topics(self, *names: str) -> None:
        """Create topics."""
        for name in names:
            create_topic(self.bootstrap, name, 2, 1, client=self.librdkafka(PASSWORD))

    def produce(self, topic: str) -> None:
        """Write RECORDS."""
        producer = Producer(self.client)
        for text in RECORDS:
            producer.produce(topic, text, text)
        assert producer.flush(30) == 0

    def consume(self, topic: str, count: int = len(RECORDS)) -> list[str]:
        """Return the values of a topic: those of ended transactions, `count` and what comes right after."""
        consumer = Consumer({**self.client, "group.id": "test", "isolation.level": "read_committed"})
        consumer.assign([Place(topic, partition, 0) for partition in range(2)])
        try:
            found, deadline = [], time.monotonic() + SECONDS
            while len(found) < count and time.monotonic() < deadline:
                found += consumer.consume(count, 1.0)
            return values(found + consumer.consume(1, 1.0))
        finally:
            consumer.close()


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    folder = tmp_path_factory.mktemp("secure")
    authority = Authority(folder / "certificates")
    node = {
        "name": "node-1",
        "node.id": 1,
        "listeners": "CLIENTS://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "CONTROLLER:SSL,CLIENTS:SASL_SSL",
        "inter.broker.listener.name": "CLIENTS",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.clients.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.clients.plain.sasl.jaas.config": (
            f'{PLAIN} required username="node" password="of-the-node" user_node="of-the-node" user_alice="{PASSWORD}";'
        ),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.issue("node-1")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.file),
        "super.users": "User:CN=node-1",
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
    }
    (folder / "secure.yaml").write_text(yaml.safe_dump({"cluster": {"name": "secure"}, "nodes": [node]}))
    secrets = folder / "client.secrets"
    secrets.write_text(f"password={PASSWORD}\n")
    with clusters_in(folder) as start:
        cluster = start(str(folder / "secure.yaml"))
        yield Secure(addresses(cluster)["node-1"], str(authority.file), secrets)
        member.cache_clear()  # its clients report each lost connection on stderr


def pipeline(secure: Secure, name: str, client: dict[str, str], **more: Any) -> dict[str, Any]:
    """Return a pipeline from topic `NAME-in` to `NAME-out`."""
    end = {
        "type": "topics",
        "bootstrap": secure.bootstrap,
        "options": {f"kafka.{key}": text for key, text in client.items()},
    }
    return {
        "name": name,
        "source": end | {"topics": [f"{name}-in"]},
        "sink": end | {"topic": f"{name}-out"},
        "trigger": "available-now",
        **more,
    }


def assert_without_secret(folder: Path) -> None:
    """Check that no file of a folder has the password in it."""
    for path in folder.rglob("*"):
        assert not path.is_file() or PASSWORD.encode() not in path.read_bytes(), path


def test_records_go_exactly_once_from_topic_to_topic(
    secure: Secure, spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secure.topics("once-in", "once-out")
    secure.produce("once-in")
    data = pipeline(secure, "once", secure.java(secure.password))
    status = run(spark, data, tmp_path)
    assert status.state is State.FINISHED, status.trace
    assert secure.consume("once-out") == sorted(RECORDS)
    assert_without_secret(tmp_path)
    assert PASSWORD not in caplog.text


def test_a_wrong_password_fails_with_the_brokers_reason(secure: Secure, spark: SparkSession, tmp_path: Path) -> None:
    secure.topics("wrong-in", "wrong-out")
    status = run(spark, pipeline(secure, "wrong", secure.librdkafka("not-the-password")), tmp_path, retries=0)
    assert status.state is State.FAILED
    assert re.search(r"refuses us: .*[Aa]uthentication failed", status.trace or ""), status.trace
    assert "not-the-password" not in (status.trace or "")


@pytest.mark.long
@pytest.mark.parametrize("names", ["java", "librdkafka"])
@pytest.mark.parametrize("connector", ["spark", "kvorum"])
def test_each_connector_takes_the_names_of_java_and_of_librdkafka(
    secure: Secure, spark_jars: str, connector: str, names: str, tmp_path: Path
) -> None:
    name = f"{connector}-{names}"
    secure.topics(f"{name}-in", f"{name}-out")
    secure.produce(f"{name}-in")
    client = getattr(secure, names)(secure.password)
    data = pipeline(secure, name, client, connector=connector, delivery="at_least_once")
    (tmp_path / "pipeline.json").write_text(json.dumps(data))
    command = [sys.executable, "-m", "kvorum.cli.main", "pipelines", "run", "pipeline.json", "--jars", spark_jars]
    command += ["--master", "local[1]", "--memory", "512m"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert result.returncode == 0, result.stderr
    assert f"connector: {connector}, as asked for" in result.stderr
    assert secure.consume(f"{name}-out") == sorted(RECORDS)
    assert PASSWORD not in result.stderr + result.stdout
    assert_without_secret(tmp_path)


@pytest.mark.long
def test_the_manager_of_connectors_and_its_workers_are_clients_with_a_password(secure: Secure, tmp_path: Path) -> None:
    secure.topics("lines")
    (tmp_path / "lines.txt").write_text("".join(f"{text}\n" for text in RECORDS))
    command = [sys.executable, "-m", "kvorum.cli.pipelines.connect", "--bootstrap", secure.bootstrap]
    command += ["--listen", "127.0.0.1:0", "--state", str(tmp_path), "--memory", "512m", "--master", "local[1]"]
    for key, text in secure.java(secure.password).items():
        command += ["--client", f"{key}={text}"]
    with open(tmp_path / "manager.log", "wb") as log:
        manager = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert manager.stdout is not None
        assert select.select([manager.stdout], [], [], SECONDS)[0]
        line = manager.stdout.readline()
        assert line.startswith("listening on "), (tmp_path / "manager.log").read_text()
        config = {"connector.class": "FileStreamSource", "file": str(tmp_path / "lines.txt"), "topic": "lines"}
        body = json.dumps({"name": "lines", "config": config}).encode()
        request = urllib.request.Request(
            f"{line.split()[-1]}/connectors", body, {"Content-Type": "application/json"}, method="POST"
        )

        def created() -> bool:
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    return bool(answer.status == 201)
            except urllib.error.HTTPError as error:
                return error.code == 409 and b"already" in error.read()

        eventually(created, lambda: (tmp_path / "manager.log").read_text(), SECONDS)
        assert secure.consume("lines") == sorted(RECORDS)
    finally:
        manager.terminate()
        manager.wait(SECONDS)
        assert manager.stdout is not None
        manager.stdout.close()
    assert_without_secret(tmp_path)


@pytest.mark.long
def test_a_mirror_reads_and_writes_with_a_password(secure: Secure, tmp_path: Path) -> None:
    """One cluster is source and target: what is mirrored has the source's alias before its name."""
    secure.topics("mirrored")
    secure.produce("mirrored")
    options = {f"kafka.{key}": text for key, text in secure.java(secure.password).items()}
    spec = {
        "name": "secure-mirror",
        "source": {"alias": "here", "bootstrap": secure.bootstrap, "options": options},
        "target": {"alias": "there", "bootstrap": secure.bootstrap, "options": options},
        "topics": ["mirrored"],
        "checkpoint": str(tmp_path / "checkpoint"),
    }
    (tmp_path / "mirror.yaml").write_text(yaml.safe_dump(spec))
    command = [sys.executable, "-m", "kvorum.cli.main", "pipelines", "mirror", "mirror.yaml", "--master", "local[1]"]
    with open(tmp_path / "mirror.log", "wb") as log:
        mirror = subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=log, env={**os.environ})
    try:
        eventually(
            lambda: "here.mirrored" in (tmp_path / "mirror.log").read_text() or mirror.poll() is not None,
            lambda: (tmp_path / "mirror.log").read_text(),
            SECONDS,
        )
        assert secure.consume("here.mirrored") == sorted(RECORDS), (tmp_path / "mirror.log").read_text()
    finally:
        mirror.terminate()
        mirror.wait(SECONDS)
    assert_without_secret(tmp_path)
