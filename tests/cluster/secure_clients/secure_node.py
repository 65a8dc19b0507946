"""A node with one listener per kind of security, for all clients of the table."""

import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import yaml
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from joserfc.jwk import ECKey

from kvorum.cluster.local.local import LocalCluster
from kvorum.runtime import metric_names as names
from tests.certificates import Authority
from tests.cluster.clients import create_topic
from tests.cluster.conftest import clusters_in
from tests.unit.security.kerberos_realm import REALM, Realm
from tests.unit.security.oauth.oauth_kit import claims, key_set, signed

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
OAUTHBEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
KERBEROS = "com.sun.security.auth.module.Krb5LoginModule"
USER, PASSWORD = "alice", "planted-alice-secret"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")
PROTOCOLS = {
    "PLAINTEXT": "PLAINTEXT",
    "SSL": "SSL",
    "MTLS": "SSL",
    "SASL": "SASL_SSL",
    "UNSIGNED": "SASL_SSL",
    "SESSIONS": "SASL_SSL",
    "EXPIRED": "SASL_SSL",
    "OTHERHOST": "SASL_SSL",
}
"""{listener of clients: protocol}."""
SESSION_MS = 4_000
DAY = timedelta(days=1)


def config_of(folder: Path, authority: Authority, realm: Realm | None) -> dict[str, Any]:
    """Return the cluster's configuration."""
    keys = ECKey.generate_key("P-256", {"kid": "issuer"})
    jwks, token = folder / "jwks.json", folder / "token"
    jwks.write_bytes(key_set(keys))
    now_s = int(time.time())
    token.write_text(signed(claims(sub=USER, iat=now_s - 10, exp=now_s + 7200), key=keys))
    protocols = [f"{name}:{protocol}" for name, protocol in PROTOCOLS.items()]
    plain = f'{PLAIN} required username="node" password="unused" user_{USER}="{PASSWORD}";'
    node = {
        "name": "node-1",
        "node.id": 1,
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in (*PROTOCOLS, "CONTROLLER")),
        "advertised.listeners": ",".join(f"{name}://localhost:0" for name in PROTOCOLS),
        "listener.security.protocol.map": ",".join(["CONTROLLER:PLAINTEXT", *protocols]),
        "inter.broker.listener.name": "PLAINTEXT",
        "metrics.listener": "http://127.0.0.1:0",
        "group.initial.rebalance.delay.ms": 0,
        "offsets.topic.num.partitions": 1,
        "offsets.topic.replication.factor": 1,
        "auto.create.topics.enable": False,
        "ssl.keystore.type": "PEM",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.file),
        "ssl.keystore.location": str(authority.issue("node-1")),
        "listener.name.mtls.ssl.client.auth": "required",
        "listener.name.expired.ssl.keystore.location": str(authority.issue("node-1", "expired", DAY, age=2 * DAY)),
        "listener.name.otherhost.ssl.keystore.location": str(
            authority.issue("node-1", "otherhost", hosts=("other.example",))
        ),
        "listener.name.sessions.connections.max.reauth.ms": SESSION_MS,
    }
    for name in ("sasl", "sessions", "expired", "otherhost"):
        node[f"listener.name.{name}.sasl.enabled.mechanisms"] = ",".join(
            MECHANISMS[:-1] if realm is None else MECHANISMS
        )
        node[f"listener.name.{name}.plain.sasl.jaas.config"] = plain
        node[f"listener.name.{name}.sasl.oauthbearer.jwks.endpoint.url"] = jwks.as_uri()
        if realm is not None:
            options = f'keyTab="{realm.folder}/kafka-localhost.keytab" principal="kafka/localhost@{REALM}"'
            text = f"{KERBEROS} required useKeyTab=true storeKey=true {options};"
            node[f"listener.name.{name}.gssapi.sasl.jaas.config"] = text
    node["listener.name.unsigned.sasl.enabled.mechanisms"] = "OAUTHBEARER"
    node["listener.name.unsigned.oauthbearer.sasl.jaas.config"] = f"{OAUTHBEARER} required;"
    node["sasl.kerberos.service.name"] = "kafka"
    return {"cluster": {"name": "clients"}, "nodes": [node]}


class SecureNode:
    """The running node, and what its clients need."""

    def __init__(self, folder: Path, cluster: LocalCluster, authority: Authority, realm: Realm | None) -> None:
        """Make the users."""
        self._folder, self._cluster, self._realm = folder, cluster, realm
        self.authority = authority
        self.certificate = str(authority.issue(USER))
        self._ports = {}
        for each in cluster.plan.nodes[0].properties["listeners"].split(","):
            name, _, address = each.partition("://")
            self._ports[name] = address.rpartition(":")[2]
        admin = AdminClient({"bootstrap.servers": self.bootstrap("PLAINTEXT")})
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            change = UserScramCredentialUpsertion(USER, ScramCredentialInfo(mechanism, 4096), PASSWORD.encode())
            admin.alter_user_scram_credentials([change])[USER].result(30)

    def bootstrap(self, listener: str) -> str:
        """Return a listener's address."""
        return f"localhost:{self._ports[listener]}"

    def create_topic(self, name: str) -> None:
        """Create a topic with one partition."""
        create_topic(self.bootstrap("PLAINTEXT"), name, 1, 1)

    def request(self, listener: str, mechanism: str | None = None, **changes: Any) -> dict[str, Any]:
        """Return the settings of a client; None removes one."""
        protocol = PROTOCOLS[listener]
        found: dict[str, Any] = {"bootstrap": self.bootstrap(listener), "protocol": protocol, "seconds": 0}
        if protocol != "PLAINTEXT":
            found["ca"] = str(self.authority.file)
        if listener == "MTLS":
            found["certificate"] = self.certificate
        if mechanism is not None:
            found["mechanism"] = mechanism
        if mechanism == "OAUTHBEARER":
            found["token"] = (self._folder / "token").read_text()
        elif mechanism == "GSSAPI":
            assert self._realm is not None
            found["principal"] = f"{USER}@{REALM}"
            found["keytab"] = str(self._realm.folder / f"{USER}.keytab")
            found["krb5_config"] = self._realm.environment["KRB5_CONFIG"]
        elif mechanism is not None:
            found |= {"username": USER, "password": PASSWORD}
        return {key: value for key, value in (found | changes).items() if value is not None}

    @property
    def environment(self) -> Mapping[str, str]:
        """Environment of clients: Kerberos."""
        return kerberos_environment(self._realm)

    def metric(self, name: str, listener: str) -> float:
        """Return a metric of a listener."""
        with urlopen(f"{self._cluster.plan.nodes[0].properties['metrics.listener']}/metrics", timeout=60) as page:
            text = page.read().decode()
        found = re.search(rf'^{name}\{{listener="{listener}"\}} (\S+)$', text, re.M)
        return float(found[1]) if found is not None else 0.0

    def failures(self, listener: str) -> float:
        """Return how many authentications failed."""
        return self.metric(names.FAILED_AUTHENTICATION, listener)

    def log_lines(self) -> list[str]:
        """Return the broker's log."""
        return Path(self._cluster.node("node-1").log("broker")).read_text(errors="replace").splitlines()


def kerberos_environment(realm: Realm | None) -> dict[str, str]:
    """Return the variables of Kerberos."""
    if realm is None:
        return {}
    return {key: value for key, value in realm.environment.items() if key.startswith("KRB5") and key not in os.environ}


@contextmanager
def secure_node(folder: Path, realm: Realm | None) -> Iterator[SecureNode]:
    """Run the node."""
    authority = Authority(folder / "certificates")
    file = folder / "clients.yaml"
    file.write_text(yaml.safe_dump(config_of(folder, authority, realm)))
    with clusters_in(folder) as start:
        cluster = start(str(file), environment=kerberos_environment(realm))
        yield SecureNode(folder, cluster, authority, realm)
