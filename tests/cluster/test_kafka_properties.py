"""A server.properties of Apache Kafka with SASL_SSL, SCRAM and mTLS starts a node as it is.

The file is Kafka's own config/server.properties of a combined node, with the settings for security that its
documentation shows, and PKCS12 stores made by openssl and keytool. Outside CI the same file starts Apache Kafka.
"""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from bench.apache_kafka import folder_of_jars, free_ports, has_jars
from tests.certificates import Authority
from tests.cluster.clients import create_topic, eventually, read_all, send_one

STORE_PASSWORD, ADMIN_PASSWORD, ALICE_PASSWORD = "planted-store-secret", "planted-admin-secret", "planted-alice-secret"
USERS = (
    f"SCRAM-SHA-512=[name=admin,password={ADMIN_PASSWORD}]",
    f"SCRAM-SHA-512=[name=alice,password={ALICE_PASSWORD}]",
)
CLUSTER_ID = "9NTlkdFTSbGTqPmrVHOvqQ"
STOP_SECONDS = 60.0
PROPERTIES = """\
############################# Server Basics #############################

# The role of this server. Setting this puts us in KRaft mode
process.roles=broker,controller

# The node id associated with this instance's roles
node.id=1

# List of controller endpoints used connect to the controller cluster
controller.quorum.bootstrap.servers=localhost:{controller}

############################# Socket Server Settings #############################

listeners=SASL_SSL://localhost:{sasl},MTLS://localhost:{mtls},CONTROLLER://localhost:{controller}
inter.broker.listener.name=SASL_SSL
advertised.listeners=SASL_SSL://localhost:{sasl},MTLS://localhost:{mtls},CONTROLLER://localhost:{controller}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:SSL,MTLS:SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL

# The number of threads that the server uses for receiving requests from the network and sending responses
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600

############################# Security #############################

sasl.enabled.mechanisms=SCRAM-SHA-512
sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=\\
    org.apache.kafka.common.security.scram.ScramLoginModule required \\
    username="admin" \\
    password="{admin_password}";

ssl.keystore.type=PKCS12
ssl.keystore.location={folder}/server.keystore.p12
ssl.keystore.password={store_password}
ssl.key.password={store_password}
ssl.truststore.type=PKCS12
ssl.truststore.location={folder}/server.truststore.p12
ssl.truststore.password={store_password}
ssl.endpoint.identification.algorithm=https
listener.name.mtls.ssl.client.auth=required
listener.name.mtls.ssl.principal.mapping.rules=RULE:^CN=([^,]+).*$/$1/L,DEFAULT
listener.name.controller.ssl.client.auth=required

############################# Log Basics #############################

log.dirs={folder}/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1

############################# Internal Topic Settings  #############################

offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1

############################# Log Retention Policy #############################

log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A written server.properties with its stores, and its clients."""

    folder: Path
    authority: Authority
    ports: Mapping[str, int]

    @property
    def file(self) -> Path:
        return self.folder / "server.properties"

    def bootstrap(self, listener: str) -> str:
        return f"localhost:{self.ports[listener]}"

    def alice(self, password: str = ALICE_PASSWORD) -> dict[str, Any]:
        """Return the properties of a client with a user."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "alice",
            "sasl.password": password,
            "ssl.ca.location": str(self.authority.file),
        }

    def certificate(self) -> dict[str, Any]:
        """Return the properties of a client with a certificate."""
        own = str(self.authority.issue("alice"))
        return {
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.authority.file),
            "ssl.certificate.location": own,
            "ssl.key.location": own,
        }


def prepare(folder: Path) -> Prepared:
    """Write the file and the stores."""
    for tool in ("openssl", "keytool"):
        if shutil.which(tool) is None:
            pytest.skip(f"missing tool: {tool}")
    authority = Authority(folder / "certificates")
    own, password = str(authority.issue("kafka-1")), f"pass:{STORE_PASSWORD}"
    key_store, trust_store = folder / "server.keystore.p12", folder / "server.truststore.p12"
    run("openssl", "pkcs12", "-export", "-in", own, "-out", str(key_store), "-name", "kafka-1", "-passout", password)
    ca = ("-file", str(authority.file), "-alias", "ca")
    store = ("-keystore", str(trust_store), "-storetype", "PKCS12", "-storepass", STORE_PASSWORD)
    run("keytool", "-importcert", "-noprompt", *ca, *store)
    ports = dict(zip(("sasl", "mtls", "controller"), free_ports(3), strict=True))
    secrets = {"admin_password": ADMIN_PASSWORD, "store_password": STORE_PASSWORD}
    prepared = Prepared(folder, authority, ports)
    prepared.file.write_text(PROPERTIES.format(folder=folder, **secrets, **ports))
    return prepared


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


@contextmanager
def running(command: Sequence[str], log: Path) -> Iterator[None]:
    """Run a server, and stop it with SIGTERM."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        yield
        assert process.poll() is None, log.read_text()[-3000:]
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def kvorum(prepared: Prepared) -> list[str]:
    """Format the directory; return the command that starts the node."""
    command = [sys.executable, "-m", "kvorum.cli.main"]
    users = prepared.folder / "users"
    users.write_text("".join(f"{user}\n" for user in USERS))
    format_options = ("--cluster-id", CLUSTER_ID, "--standalone", "--add-scram", f"@{users}")
    run(*command, "format", str(prepared.file), *format_options)
    return [*command, "node", str(prepared.file)]


def apache_kafka(prepared: Prepared) -> list[str]:
    """The same of Apache Kafka."""
    jars = folder_of_jars()
    if shutil.which("java") is None or not has_jars(jars):
        pytest.skip("run outside CI: needs java, and Apache Kafka's jars where KVORUM_KAFKA_JARS says")
    command = ["java", "-Xmx512m", "-cp", f"{jars}/*"]
    users = [word for user in USERS for word in ("--add-scram", user)]
    format_options = ("-t", CLUSTER_ID, "--standalone", *users)
    run(*command, "kafka.tools.StorageTool", "format", "-c", str(prepared.file), *format_options)
    return [*command, "kafka.Kafka", str(prepared.file)]


def is_served(bootstrap: str, client: Mapping[str, Any]) -> bool:
    try:
        return bool(AdminClient({"bootstrap.servers": bootstrap, "log_level": 0, **client}).list_topics(timeout=5))
    except KafkaException:
        return False


@pytest.mark.parametrize("server", [kvorum, pytest.param(apache_kafka, marks=pytest.mark.long)])
def test_a_properties_file_of_apache_kafka_starts_a_secure_node(
    tmp_path: Path, server: Callable[[Prepared], list[str]]
) -> None:
    prepared = prepare(tmp_path)
    log = tmp_path / "server.log"
    with running(server(prepared), log):
        users, certificates = prepared.bootstrap("sasl"), prepared.bootstrap("mtls")
        eventually(lambda: is_served(users, prepared.alice()), lambda: log.read_text()[-3000:], 120)
        create_topic(users, "orders", 1, 1, client=prepared.alice())
        assert send_one(users, "orders", **prepared.alice()) is None
        assert send_one(certificates, "orders", **prepared.certificate()) is None
        found = read_all(certificates, "orders", 1, **prepared.certificate())
        assert sum(map(len, found.values())) == 2
        assert not is_served(users, prepared.alice("wrong"))
        without = {"security.protocol": "SSL", "ssl.ca.location": str(prepared.authority.file)}
        assert not is_served(certificates, without)
    text = log.read_text()
    assert [secret for secret in (STORE_PASSWORD, ADMIN_PASSWORD, ALICE_PASSWORD) if secret in text] == []
