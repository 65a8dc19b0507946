"""A cluster whose controllers use mTLS, and whose brokers and clients use SASL over TLS."""

import asyncio
import io
import os
import ssl
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any
from urllib.request import urlopen

import msgspec
import pytest
import yaml
from click.testing import CliRunner, Result
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography import x509

from kvorum.cli.main import main
from kvorum.client import Unreachable
from kvorum.client.sync import SyncCluster
from kvorum.cluster.local.add_scram import parse_scram_option
from kvorum.cluster.local.formatting import controller_directory, new_cluster_id
from kvorum.cluster.local.local import LocalCluster
from kvorum.cluster.local.plan import plan_of
from kvorum.network.addresses import Address
from kvorum.network.channel import Channel
from kvorum.network.channel_errors import ConnectionLost
from kvorum.network.raw_link import RawLink
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kvorum.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from kvorum.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState
from kvorum.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kvorum.protocol.uuids import METADATA_TOPIC_ID
from kvorum.quorum.bootstrap_file import write_bootstrap
from kvorum.quorum.raft.transport import Greeting
from kvorum.runtime.chance import new_nonce, random_bytes
from kvorum.runtime.cluster_file import load_cluster
from kvorum.runtime.config import Settings
from kvorum.runtime.disk import OsDisk
from kvorum.security.client import ClientSecurity
from kvorum.security.client_properties import client_settings
from kvorum.security.outgoing import security_of_client
from tests.certificates import Authority
from tests.cluster.clients import create_topic, eventually, read_all, send_one
from tests.cluster.conftest import clusters_in, logs_of

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
NODE_PASSWORD, ALICE_PASSWORD, BOB_PASSWORD = "planted-node-secret", "planted-alice-secret", "planted-bob-secret"


def config_of(authority: Authority) -> dict[str, Any]:
    """Return the cluster's configuration: CONTROLLER over mTLS, CLIENTS (also between brokers) over SASL_SSL."""
    users = f'user_node="{NODE_PASSWORD}" user_alice="{ALICE_PASSWORD}"'
    defaults = {
        "listener.security.protocol.map": "CONTROLLER:SSL,CLIENTS:SASL_SSL,OPEN:PLAINTEXT",
        "inter.broker.listener.name": "CLIENTS",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.clients.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.clients.plain.sasl.jaas.config": (
            f'{PLAIN} required username="node" password="{NODE_PASSWORD}" {users};'
        ),
        "listener.name.controller.ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.file),
        "super.users": ";".join(f"User:CN=node-{number}" for number in (1, 2, 3)),
        "kvorum.ssl.reload.interval.ms": 200,
    }
    nodes = [
        {
            "name": f"node-{number}",
            "node.id": number,
            "listeners": "CLIENTS://127.0.0.1:0,CONTROLLER://127.0.0.1:0,OPEN://127.0.0.1:0",
            "ssl.keystore.location": str(authority.issue(f"node-{number}")),
            "metrics.listener": "http://127.0.0.1:0",
            **({"admin.listeners": "http://127.0.0.1:0"} if number == 1 else {}),
        }
        for number in (1, 2, 3)
    ]
    return {"cluster": {"name": "secure"}, "defaults": defaults, "nodes": nodes}


class Secured:
    """A running cluster, its CA and its clients."""

    def __init__(self, folder: Path, cluster: LocalCluster, authority: Authority) -> None:
        self.folder, self.cluster, self.authority = folder, cluster, authority
        listeners = [node.properties["listeners"] for node in cluster.plan.nodes]
        self.bootstrap = ",".join(each.split(",")[0].partition("://")[2] for each in listeners)

    def client(self, user: str, password: str, mechanism: str = "PLAIN", **options: Any) -> dict[str, Any]:
        """Return the properties of an unmodified client."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": mechanism,
            "sasl.username": user,
            "sasl.password": password,
            "ssl.ca.location": str(self.authority.file),
            **options,
        }

    @property
    def tls(self) -> dict[str, Any]:
        """The properties of a client that trusts the authority, by Java's names."""
        return {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.file),
            "ssl.keystore.type": "PEM",
        }

    def address(self, index: int, node: int = 0) -> Address:
        """Return where a listener of a node is: 0 CLIENTS, 1 CONTROLLER, 2 OPEN."""
        listener = self.cluster.plan.nodes[node].properties["listeners"].split(",")[index]
        host, _, port = listener.partition("://")[2].rpartition(":")
        return host, int(port)

    def channel(self, index: int, properties: dict[str, Any]) -> Channel:
        """Return a channel to a listener of the first node."""
        return Channel(*self.address(index), client_id="test", chance=Random(1), security=security(properties))

    def get(self, path: str) -> bytes:
        """Return what the admin API answers."""
        url = self.cluster.plan.nodes[0].properties["admin.listeners"]
        with urlopen(url + path, timeout=60) as answer:
            return bytes(answer.read())

    def count(self, text: str, node: str = "*") -> int:
        """Return how many lines of the logs have this text."""
        paths = self.folder.glob(f"cluster-*/{node}/*.log")
        return sum(text in line for path in paths for line in path.read_text(errors="replace").splitlines())

    @property
    def alice(self) -> dict[str, Any]:
        """The properties of a client that has a user of PLAIN."""
        return self.client("alice", ALICE_PASSWORD)


def security(properties: dict[str, Any]) -> ClientSecurity:
    return security_of_client(client_settings(properties), new_nonce)


class Outgoing:
    """Ignores what happens to a link."""

    def on_connected(self) -> None:
        """See LinkListener."""

    def on_frame(self, frame: memoryview) -> None:
        """See LinkListener."""

    def on_disconnected(self) -> None:
        """See LinkListener."""

    def on_refused(self) -> None:
        """See LinkListener."""


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    authority = Authority(folder / "certificates")
    file = folder / "secure.yaml"
    file.write_text(yaml.safe_dump(config_of(authority)))
    with clusters_in(folder) as start:
        found = Secured(folder, start(str(file)), authority)
        for topic in ("orders", "of-bob", "of-reload"):
            create_topic(found.bootstrap, topic, 3, 3, client=found.alice)
        yield found


def test_an_unmodified_client_produces_and_consumes(secured: Secured) -> None:
    assert send_one(secured.bootstrap, "orders", **secured.alice) is None
    found = read_all(secured.bootstrap, "orders", 3, **secured.alice)
    assert sum(map(len, found.values())) == 1


def test_a_client_sees_the_addresses_of_its_own_listener(secured: Secured) -> None:
    for index, properties in ((0, secured.alice), (2, {})):
        first, every = secured.address(index), {secured.address(index, node) for node in range(3)}
        found = AdminClient({"bootstrap.servers": f"{first[0]}:{first[1]}", **properties}).list_topics(timeout=30)
        assert {(broker.host, broker.port) for broker in found.brokers.values()} == every


def test_a_user_of_the_metadata_authenticates_at_every_broker(secured: Secured) -> None:
    admin = AdminClient({"bootstrap.servers": secured.bootstrap, **secured.alice})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    change = UserScramCredentialUpsertion("bob", info, BOB_PASSWORD.encode())
    admin.alter_user_scram_credentials([change])["bob"].result(30)
    bob = secured.client("bob", BOB_PASSWORD, "SCRAM-SHA-512")
    assert send_one(secured.bootstrap, "of-bob", **bob) is None
    assert sum(map(len, read_all(secured.bootstrap, "of-bob", 3, **bob).values())) == 1


def test_a_wrong_password_is_refused(secured: Secured) -> None:
    wrong = secured.client("alice", "not the password")
    assert send_one(secured.bootstrap, "orders", 3_000, **wrong) == "_MSG_TIMED_OUT"


def test_requests_of_nodes_are_refused_to_clients(secured: Secured) -> None:
    """Users at a broker, and certificates of the right authority at a controller, are not principals of the cluster."""
    controller = {**secured.tls, "ssl.keystore.location": str(secured.authority.issue("client"))}
    markers = WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(producer_id=1, topics=[WritableTxnMarkerTopic(name="orders", partition_indexes=[0])])
        ]
    )
    metadata = FetchPartition(partition=0, current_leader_epoch=-1, last_fetched_epoch=-1)
    fetch = FetchRequest(
        replica_state=ReplicaState(replica_id=2), topics=[FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[metadata])]
    )

    async def codes() -> list[int]:
        at_broker, at_controller = secured.channel(0, secured.alice), secured.channel(1, controller)
        try:
            written = await at_broker.ask(markers, WriteTxnMarkersResponse)
            read = await at_broker.ask(fetch, FetchResponse)
            forwarded = await at_controller.ask(EnvelopeRequest(client_host_address=b"\x7f\0\0\1"), EnvelopeResponse)
            alive = await at_controller.ask(BrokerHeartbeatRequest(broker_id=1), BrokerHeartbeatResponse)
            fetched = await at_controller.ask(fetch, FetchResponse)
        finally:
            await at_broker.close()
            await at_controller.close()
        return [
            written.markers[0].topics[0].partitions[0].error_code,
            read.responses[0].partitions[0].error_code,
            *(each.error_code for each in (forwarded, alive, fetched)),
        ]

    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert asyncio.run(codes()) == [refused, ErrorCode.TOPIC_AUTHORIZATION_FAILED, refused, refused, refused]


def test_a_controller_is_not_spoken_to_without_a_certificate(secured: Secured) -> None:
    with pytest.raises(ConnectionLost, match=r"certificate"):
        asyncio.run(secured.channel(1, secured.tls).connect())


def test_a_raft_connection_of_a_client_is_closed_with_a_line_in_the_log(secured: Secured) -> None:
    properties = {**secured.tls, "ssl.keystore.location": str(secured.authority.issue("client"))}
    greeting = msgspec.msgpack.encode(Greeting(1, secured.cluster.plan.cluster_id, 2))

    async def greet() -> None:
        link = RawLink(
            lambda: secured.address(1), greeting, Outgoing(), chance=Random(1), security=security(properties)
        )
        link.start()
        await asyncio.to_thread(
            eventually,
            lambda: secured.count("Raft greeting of User:CN=client, which is not a principal of the cluster"),
            "a line about the connection",
        )
        await link.close()

    asyncio.run(greet())


def serial_of(address: Address) -> int:
    """Return the serial number of the certificate that a listener presents."""
    pem = ssl.get_server_certificate(address, timeout=10)
    return x509.load_pem_x509_certificate(pem.encode()).serial_number


def test_a_certificate_that_is_replaced_in_place_is_presented_by_both_processes(secured: Secured) -> None:
    listeners = [secured.address(index, node=1) for index in (0, 1)]
    before = {serial_of(address) for address in listeners}
    secured.authority.issue("node-2")
    eventually(lambda: before.isdisjoint(serial_of(address) for address in listeners), "the new certificate")
    assert send_one(secured.bootstrap, "of-reload", **secured.alice) is None


def test_a_file_that_cannot_be_used_changes_nothing_and_is_logged_once_per_process(secured: Secured) -> None:
    file, before = secured.authority.folder / "node-3.pem", serial_of(secured.address(0, node=2))
    text = file.read_bytes()
    file.write_bytes(b"nonsense")
    line = "key and trust stores not reloaded"
    eventually(lambda: secured.count(line, "node-3") == 2, "a warning of broker and controller")
    secured.authority.issue("other", file="node-3")
    eventually(lambda: secured.count("ssl.allow.dn.changes", "node-3") == 2, "a warning about another name")
    file.write_bytes(text)
    assert (secured.count(line, "node-3"), serial_of(secured.address(0, node=2))) == (4, before)


def test_a_dynamic_config_names_another_key_store(secured: Secured) -> None:
    key = "listener.name.clients.ssl.keystore.location"
    before, admin = (
        serial_of(secured.address(0)),
        AdminClient({"bootstrap.servers": secured.bootstrap, **secured.alice}),
    )

    def alter(name: str, value: str) -> str | None:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
        try:
            admin.incremental_alter_configs([resource])[resource].result(30)
        except KafkaException as error:
            return str(error.args[0].str())
        return None

    assert "lacks" in (alter(key, str(secured.authority.issue("node-1", "bare", hosts=("localhost",)))) or "")
    assert "cannot be read" in (alter(key, "/no/such.pem") or "")
    assert "only per-listener" in (alter("ssl.keystore.location", "/no/such.pem") or "")
    moved, of_controller = str(secured.authority.issue("node-1", "moved")), serial_of(secured.address(1))
    assert alter(key, moved) is None
    eventually(lambda: serial_of(secured.address(0)) != before, "the certificate of the other key store")
    assert serial_of(secured.address(1)) == of_controller
    assert alter("listener.name.controller.ssl.keystore.location", moved) is None
    eventually(lambda: serial_of(secured.address(1)) != of_controller, "the controller's certificate")
    assert send_one(secured.bootstrap, "orders", **secured.alice) is None


def test_commands_authenticate_with_a_file_or_a_profile(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(secured.folder / "home"))
    monkeypatch.setenv("ALICE", ALICE_PASSWORD)
    monkeypatch.delenv("KVORUM_BOOTSTRAP", raising=False)
    file = secured.folder / "client.properties"
    lines = {**secured.alice, "sasl.password": "${env:ALICE}"}
    file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    first, second, _ = secured.bootstrap.split(",")
    script = run("kafka-topics", "--bootstrap-server", first, "--command-config", str(file), "--list")
    assert (script.exit_code, "orders" in script.stdout) == (0, True), script.output
    run("profile", "add", "safe", "-b", first, "--command-config", str(file), "--use")
    for words in (["topics", "list"], ["produce", "orders"], ["consume", "orders", "-e", "--from-beginning"]):
        native = run(*words, input="one\n")
        assert native.exit_code == 0 and ALICE_PASSWORD not in native.output, native.output
    wrong = run("topics", "list", "-b", second)
    assert wrong.exit_code != 0 and "Traceback" not in wrong.output


def test_the_python_api_authenticates(secured: Secured) -> None:
    config = {key: str(value) for key, value in secured.alice.items()}
    with SyncCluster.connect(secured.bootstrap, **config) as cluster:
        assert "orders" in {topic.name for topic in cluster.topics.list()}
    with pytest.raises(Unreachable, match="Invalid username or password"):
        SyncCluster.connect(secured.bootstrap, **{**config, "sasl.password": "wrong"})


def test_the_admin_process_authenticates_at_its_cluster(secured: Secured) -> None:
    assert "orders" in secured.get("/v1/topics").decode()


PAGES = (
    "/v1/brokers/1/configs",
    "/v1/metadata/tree",
    "/v1/metadata/records",
    "/v1/users",
)


def test_no_secret_is_shown(secured: Secured) -> None:
    """Passwords and keys are in no log, answer, bundle, dump or data file: only in the nodes' own configuration."""
    keys = [line for path in secured.authority.folder.glob("*.pem") for line in key_lines(path.read_text())]
    secrets = [each.encode() for each in (NODE_PASSWORD, ALICE_PASSWORD, BOB_PASSWORD, *keys)]
    admin = AdminClient({"bootstrap.servers": secured.bootstrap, **secured.alice})
    resource = ConfigResource(ResourceType.BROKER, "1")
    described = admin.describe_configs([resource])[resource].result(30)
    assert described["listener.name.clients.plain.sasl.jaas.config"].is_sensitive
    shown = {
        "DescribeConfigs": repr({name: entry.value for name, entry in described.items()}).encode(),
        **{path: secured.get(path) for path in PAGES},
    }
    with zipfile.ZipFile(io.BytesIO(secured.get("/v1/debug-bundle"))) as bundle:
        shown |= {name: bundle.read(name) for name in bundle.namelist()}
    own = {secured.cluster.paths.cluster, *(secured.cluster.node(f"node-{number}").config for number in (1, 2, 3))}
    for path in (secured.folder / "cluster-0").rglob("*"):
        if path.is_file() and str(path) not in own:
            shown[str(path)] = path.read_bytes()
    for path in own:
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600, path
    assert [(name, secret) for name, data in shown.items() for secret in secrets if secret in data] == []


def key_lines(pem: str) -> list[str]:
    """Return the lines of the private key in a file, none if it has none."""
    return pem.partition("PRIVATE KEY-----\n")[2].partition("\n-----END PRIVATE KEY")[0].split()


def run(*words: str, input: str = "") -> Result:
    return CliRunner().invoke(main, words, input=input)


SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
SCRAM_CLUSTER = {
    "cluster": {"name": "scram"},
    "defaults": {
        "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
        "inter.broker.listener.name": "CLIENTS",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "sasl.mechanism.controller.protocol": "SCRAM-SHA-512",
        **{
            f"listener.name.{name}.scram-sha-512.sasl.jaas.config": (
                f'{SCRAM} required username="node" password="{NODE_PASSWORD}";'
            )
            for name in ("clients", "controller")
        },
    },
    "nodes": [
        {"name": f"node-{number}", "node.id": number, "listeners": "CLIENTS://127.0.0.1:0,CONTROLLER://127.0.0.1:0"}
        for number in (1, 2, 3)
    ],
}


def test_scram_between_all_nodes_requires_credentials_from_the_format(tmp_path: Path) -> None:
    file, data = tmp_path / "scram.yaml", tmp_path / "data"
    file.write_text(yaml.safe_dump(SCRAM_CLUSTER))
    cluster = LocalCluster.create(str(data), plan_of(load_cluster(str(file), str(data)), new_cluster_id()))
    try:
        assert set(cluster.start(timeout_seconds=60).values()) == {"died"}
        refusal = "user node has no SCRAM-SHA-512 credential in this node's metadata"
        assert all(refusal in reason and NODE_PASSWORD not in reason for reason in cluster.refusals.values())
        user = parse_scram_option(f"SCRAM-SHA-512=[name=node,password={NODE_PASSWORD}]").to_record(random_bytes)
        for node in cluster.plan.nodes:
            write_bootstrap(OsDisk(), controller_directory(Settings.of(dict(node.properties))), [user])
        outcome = cluster.start(timeout_seconds=60)
        assert set(outcome.values()) == {"ready"}, logs_of(cluster, outcome)
        bootstrap = cluster.plan.nodes[0].properties["listeners"].split(",")[0].partition("://")[2]
        login = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "node", "sasl.password": NODE_PASSWORD}
        client = {"security.protocol": "SASL_PLAINTEXT", **login}
        create_topic(bootstrap, "orders", 1, 3, client=client)
        assert send_one(bootstrap, "orders", **client) is None
    finally:
        for node in cluster.plan.nodes:
            cluster.kill(node.name)
