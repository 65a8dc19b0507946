"""HTTP of a node with TLS and users: the admin API, the pages of its processes, metrics, and what is never written."""

import base64
import http.client
import io
import json
import ssl
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from click.testing import CliRunner

from kvorum.cli.main import main
from kvorum.client.sync import SyncCluster
from tests.certificates import Authority
from tests.cluster.clients import eventually
from tests.cluster.conftest import clusters_in

PASSWORDS = {"alice": "planted-alice-secret", "bob": "planted-bob-secret"}


def config_of(authority: Authority) -> dict[str, Any]:
    """Return a node whose HTTP listeners all have TLS, and that has users."""
    node = {
        "name": "node-1",
        "node.id": 1,
        "listener.security.protocol.map": "CONTROLLER:SSL,INTERNAL:SSL,CLIENTS:SASL_SSL",
        "listeners": "CLIENTS://127.0.0.1:0,INTERNAL://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "inter.broker.listener.name": "INTERNAL",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.internal.ssl.client.auth": "required",
        "listener.name.controller.ssl.client.auth": "required",
        "listener.name.http.ssl.client.auth": "requested",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.issue("node-1")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.file),
        "super.users": "User:CN=node-1",
        "kvorum.admin.roles": "User:alice=admin;User:bob=read;User:CN=monitor=read",
        "kvorum.ssl.reload.interval.ms": 200,
        "admin.listeners": "https://127.0.0.1:0",
        "metrics.listener": "https://127.0.0.1:0",
    }
    return {"cluster": {"name": "https"}, "nodes": [node]}


class Node:
    """The running node, and HTTP clients of it."""

    def __init__(self, folder: Path, cluster: Any, authority: Authority) -> None:
        self.folder, self.authority = folder, authority
        self.properties = cluster.plan.nodes[0].properties
        self.admin, self.broker = self.properties["admin.listeners"], self.properties["metrics.listener"]
        self.controller = self.properties["kvorum.controller.metrics.listener"]

    def context(self, certificate: str | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.authority.file))
        if certificate is not None:
            context.load_cert_chain(str(self.authority.issue(certificate)))
        return context

    def request(
        self,
        url: str,
        path: str,
        user: str | None = None,
        password: str | None = None,
        method: str = "GET",
        body: Any = None,
        certificate: str | None = None,
        **headers: str,
    ) -> tuple[int, Any, dict[str, str]]:
        """Return the status, the body and the headers."""
        if user is not None:
            text = f"{user}:{PASSWORDS[user] if password is None else password}"
            headers["Authorization"] = f"Basic {base64.b64encode(text.encode()).decode()}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        connection = http.client.HTTPSConnection(urlsplit(url).netloc, timeout=60, context=self.context(certificate))
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        is_json = (answer.headers.get("Content-Type") or "").startswith("application/json")
        return answer.status, json.loads(data) if is_json and data else data, dict(answer.headers)

    def status(self, url: str, path: str, *arguments: Any, **options: Any) -> int:
        return self.request(url, path, *arguments, **options)[0]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    folder = tmp_path_factory.mktemp("https")
    authority = Authority(folder / "certificates")
    file = folder / "https.yaml"
    file.write_text(yaml.safe_dump(config_of(authority)))
    with clusters_in(folder) as start:
        found = Node(folder, start(str(file)), authority)
        internal = found.properties["listeners"].split(",")[1].partition("://")[2]
        properties = {
            "security_protocol": "SSL",
            "ssl_truststore_type": "PEM",
            "ssl_truststore_location": str(authority.file),
            "ssl_keystore_type": "PEM",
            "ssl_keystore_location": str(authority.issue("operator")),
        }
        with SyncCluster.connect(internal, **properties) as cluster:
            for user, password in PASSWORDS.items():
                cluster.users.upsert(user, password)
        yield found


def test_a_user_has_its_role_at_every_process(node: Node) -> None:
    code, me, _ = node.request(node.admin, "/v1/me", "alice")
    assert (code, me) == (200, {"name": "User:alice", "role": "admin", "guarded": True})
    for url, path in ((node.admin, "/v1/me"), (node.broker, "/v1/node"), (node.controller, "/v1/node")):
        assert node.status(url, path, "bob") == 200
        assert node.status(url, path, "bob", "guessed") == 401
        assert node.status(url, path) == 401
    assert node.status(node.controller, "/v1/node/snapshot", "bob", method="POST") == 403
    assert node.status(node.admin, "/v1/topics", "bob", method="POST", body={"name": "t"}) == 403


def test_the_admin_api_reads_other_processes_for_its_caller(node: Node) -> None:
    assert node.request(node.admin, "/v1/brokers/1/log", "bob")[1]["lines"]
    assert node.request(node.admin, "/v1/quorum/controllers/1/log", "bob")[1]["lines"]
    assert node.status(node.admin, "/v1/metadata/snapshot", "alice", method="POST") in (200, 409)
    logged = (next(node.folder.glob("cluster-*/node-1/controller.log"))).read_text()
    assert "who=User:alice" in logged


def test_a_certificate_is_a_user_too(node: Node) -> None:
    assert node.request(node.admin, "/v1/me", certificate="monitor")[1]["name"] == "User:CN=monitor"
    assert node.status(node.broker, "/metrics", certificate="monitor") == 200
    assert node.status(node.broker, "/metrics", certificate="stranger") == 403
    assert node.request(node.admin, "/v1/me", certificate="node-1")[1]["role"] == "admin"


def test_metrics_need_a_role_and_health_needs_none(node: Node) -> None:
    for url in (node.admin, node.broker, node.controller):
        assert node.status(url, "/metrics") == 401
        assert node.status(url, "/metrics", "bob") == 200
        assert node.status(url, "/health/live") == 200
        assert node.status(url, "/health/ready") == 200


def test_a_session_is_as_good_as_its_user(node: Node) -> None:
    origin = {"Origin": node.admin}
    body = {"user": "alice", "password": PASSWORDS["alice"]}
    code, answer, headers = node.request(node.admin, "/session", method="POST", body=body, **origin)
    assert (code, answer["role"]) == (200, "admin")
    cookie = headers["Set-Cookie"]
    assert "Secure" in cookie and "HttpOnly" in cookie and PASSWORDS["alice"] not in cookie
    session = {"Cookie": cookie.partition(";")[0]}
    assert node.request(node.admin, "/v1/brokers/1/log", **session)[1]["lines"]
    change = {"method": "POST", "body": {"name": "of-the-session", "partitions": 1}}
    assert node.status(node.admin, "/v1/topics", **change, **session) == 403
    assert node.status(node.admin, "/v1/topics", **change, **session, **origin) == 201
    assert node.status(node.admin, "/session", method="DELETE", **session, **origin) == 204
    assert node.status(node.admin, "/v1/me", **session) == 401


def serial_of(url: str) -> str:
    parts = urlsplit(url)
    assert parts.hostname and parts.port
    return ssl.get_server_certificate((parts.hostname, parts.port), timeout=10)


def test_a_certificate_that_is_replaced_in_place_is_presented_by_every_process(node: Node) -> None:
    urls = (node.admin, node.broker, node.controller)
    before = {serial_of(url) for url in urls}
    node.authority.issue("node-1")
    eventually(lambda: before.isdisjoint(serial_of(url) for url in urls), "the new certificate")
    assert node.request(node.admin, "/v1/brokers/1/log", "bob")[1]["lines"]


def test_no_secret_is_written(node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("KVORUM_BOOTSTRAP", raising=False)
    node.status(node.admin, "/v1/me", "alice", "guessed-secret")
    password = tmp_path / "password"
    password.write_text(PASSWORDS["bob"] + "\n")
    bundle, clients = tmp_path / "bundle.zip", tmp_path / "client.properties"
    clients.write_text(
        f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={node.authority.file}\n"
        f"ssl.keystore.type=PEM\nssl.keystore.location={node.authority.issue('operator')}\n"
    )
    internal = node.properties["listeners"].split(",")[1].partition("://")[2]
    CliRunner().invoke(main, ["profile", "add", "tls", "-b", internal, "--command-config", str(clients), "--use"])
    user = ["--user", "bob", "--password-file", str(password), "--ca-file", str(node.authority.file)]
    result = CliRunner().invoke(main, ["debug-bundle", "-f", str(bundle), *user])
    assert result.exit_code == 0, result.output
    with zipfile.ZipFile(bundle) as archive:
        texts = {name: archive.read(name).decode() for name in archive.namelist()}
    assert {"brokers/1/log.json", "controllers/1/log.json"} <= texts.keys(), result.output
    served = node.request(node.admin, "/v1/debug-bundle", "alice")[1]
    with zipfile.ZipFile(io.BytesIO(served)) as archive:
        texts |= {f"served {name}": archive.read(name).decode() for name in archive.namelist()}
    texts |= {str(path): path.read_text(errors="replace") for path in node.folder.glob("cluster-*/node-1/*.log")}
    for secret in (*PASSWORDS.values(), "guessed-secret"):
        found = [name for name, text in texts.items() if secret in text]
        assert not found, f"{secret} in {found}"
