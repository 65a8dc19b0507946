"""A cluster whose controllers use mTLS, and whose brokers and clients use SASL over TLS."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kvorum.cluster.local.local import LocalCluster
from tests.certificates import Authority
from tests.cluster.clients import create_topic, read_all, send_one
from tests.cluster.conftest import clusters_in

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
NODE_PASSWORD, ALICE_PASSWORD, BOB_PASSWORD = "planted-node-secret", "planted-alice-secret", "planted-bob-secret"


def config_of(authority: Authority) -> dict[str, Any]:
    """Return the cluster's configuration: CONTROLLER over mTLS, CLIENTS (also between brokers) over SASL_SSL."""
    users = f'user_node="{NODE_PASSWORD}" user_alice="{ALICE_PASSWORD}"'
    defaults = {
        "listener.security.protocol.map": "CONTROLLER:SSL,CLIENTS:SASL_SSL",
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
            "listeners": "CLIENTS://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
            "ssl.keystore.location": str(authority.issue(f"node-{number}")),
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
    def alice(self) -> dict[str, Any]:
        """The properties of a client that has a user of PLAIN."""
        return self.client("alice", ALICE_PASSWORD)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    authority = Authority(folder / "certificates")
    file = folder / "secure.yaml"
    file.write_text(yaml.safe_dump(config_of(authority)))
    with clusters_in(folder) as start:
        yield Secured(folder, start(str(file)), authority)


def test_an_unmodified_client_produces_and_consumes(secured: Secured) -> None:
    create_topic(secured.bootstrap, "orders", 3, 3, client=secured.alice)
    assert send_one(secured.bootstrap, "orders", **secured.alice) is None
    found = read_all(secured.bootstrap, "orders", 3, **secured.alice)
    assert sum(map(len, found.values())) == 1


def test_a_user_of_the_metadata_authenticates_at_every_broker(secured: Secured) -> None:
    admin = AdminClient({"bootstrap.servers": secured.bootstrap, **secured.alice})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    change = UserScramCredentialUpsertion("bob", info, BOB_PASSWORD.encode())
    admin.alter_user_scram_credentials([change])["bob"].result(30)
    create_topic(secured.bootstrap, "of-bob", 3, 1, client=secured.alice)
    bob = secured.client("bob", BOB_PASSWORD, "SCRAM-SHA-512")
    assert send_one(secured.bootstrap, "of-bob", **bob) is None
    assert sum(map(len, read_all(secured.bootstrap, "of-bob", 3, **bob).values())) == 1


def test_a_wrong_password_is_refused(secured: Secured) -> None:
    wrong = secured.client("alice", "not the password")
    assert send_one(secured.bootstrap, "orders", 3_000, **wrong) == "_MSG_TIMED_OUT"
