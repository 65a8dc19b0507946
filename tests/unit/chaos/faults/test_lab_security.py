"""Security of a lab: the configuration of its nodes, the settings of its clients, and the faults on both."""

import itertools
import json
import socket
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from kvorum.chaos import history
from kvorum.chaos.client_access import ClientAccess
from kvorum.chaos.faults.events import FaultError, FaultRegister
from kvorum.chaos.faults.lab_security import LabSecurity, Mechanism
from kvorum.chaos.faults.security_faults import SecurityFaults
from kvorum.chaos.faults.shape import LabShape, lab_plan
from kvorum.runtime.config import Settings
from kvorum.runtime.listeners import SecurityProtocol
from kvorum.security.config_checks import check_security
from kvorum.security.oauth.jwks import KeySet
from kvorum.security.oauth.tokens import decode_base64, split_token
from kvorum.security.settings import own_listeners, super_users

NODES = ("node-1", "node-2", "node-3")


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def security_of(folder: Path, mechanism: Mechanism = "SCRAM-SHA-512") -> LabSecurity:
    return LabSecurity.create(str(folder), dict.fromkeys(NODES, "127.0.0.1"), mechanism, free_port)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "OAUTHBEARER"])
def test_every_listener_is_encrypted_and_authenticates(mechanism: Mechanism, tmp_path: Path) -> None:
    shape, ports = LabShape(groups=("clients", "clients-b"), secure=True, mechanism=mechanism), itertools.count(20_000)
    security = security_of(tmp_path, mechanism)
    plan = lab_plan(shape, str(tmp_path), "x" * 22, lambda: next(ports), proxied=True, security=security)
    for name in NODES:
        settings = Settings.of(dict(plan.cluster.node(name).properties))
        assert check_security(settings) == []
        found = {each.listener: (each.protocol, each.client_auth) for each in own_listeners(settings)}
        assert found == {
            "INTERNAL": (SecurityProtocol.SSL, "required"),
            "CONTROLLER": (SecurityProtocol.SSL, "required"),
            "CLIENTS": (SecurityProtocol.SASL_SSL, "none"),
            "CLIENTS_B": (SecurityProtocol.SASL_SSL, "none"),
        }
        assert {each.name for each in super_users(settings)} == {"CN=lab", *(f"CN={node}" for node in NODES)}


def test_configs_of_a_scenario_replace_those_of_security(tmp_path: Path) -> None:
    shape, ports = LabShape(secure=True, configs={"kvorum.ssl.reload.interval.ms": "0"}), itertools.count(20_000)
    plan = lab_plan(shape, str(tmp_path), "x" * 22, lambda: next(ports), proxied=False, security=security_of(tmp_path))
    assert plan.cluster.node("node-1").properties["kvorum.ssl.reload.interval.ms"] == "0"


def test_clients_of_each_library_get_the_same_login(tmp_path: Path) -> None:
    security = security_of(tmp_path)
    access, password = security.clients("h:1"), security.files.password()
    assert password not in repr(access)
    found = access.librdkafka()
    assert (found["bootstrap.servers"], found["sasl.username"], found["sasl.password"]) == ("h:1", "lab", password)
    own = access.security()
    assert own.tls is not None and own.sasl is not None
    aio = access.aiokafka()
    assert (aio["security_protocol"], aio["sasl_mechanism"]) == ("SASL_SSL", "SCRAM-SHA-512")
    assert (aio["sasl_plain_username"], aio["sasl_plain_password"]) == ("lab", password)
    assert aio["ssl_context"].verify_mode is ssl.CERT_REQUIRED and aio["ssl_context"].check_hostname
    assert f'password="{password}"' in security.java_settings("h:1")["sasl.jaas.config"]
    assert security.observers("h:1").security().sasl is None


def test_a_plaintext_cluster_needs_the_address_only() -> None:
    access = ClientAccess("h:1")
    assert access.librdkafka() == {"bootstrap.servers": "h:1"}
    assert access.aiokafka() == {"bootstrap_servers": "h:1"}
    assert access.security().tls is None


def test_certificates_are_renewed_and_expire(tmp_path: Path) -> None:
    events: list[history.Fault] = []
    files = security_of(tmp_path).files.certificates
    faults = SecurityFaults(FaultRegister(events.append, lambda: 0.0), files)

    def left(node: str) -> tuple[int, timedelta]:
        leaf = files.read(files.key_store(node)).chain[0]
        return leaf.serial_number, leaf.not_valid_after_utc - datetime.now(UTC)

    before = {node: left(node)[0] for node in NODES}
    faults.rotate("node-1", "node-2")
    after = {node: left(node)[0] for node in NODES}
    assert {node for node in NODES if before[node] != after[node]} == {"node-1", "node-2"}
    with faults.expire("node-3", lifetime=timedelta(seconds=60)):
        assert left("node-3")[1] <= timedelta(seconds=60)
    assert left("node-3")[1] > timedelta(days=300)
    assert [(each.fault, each.phase) for each in events] == [
        ("rotate_certificates", "begin"),
        ("rotate_certificates", "end"),
        ("expire_certificate", "begin"),
        ("expire_certificate", "end"),
    ]
    with pytest.raises(FaultError, match="missing"):
        faults.rotate("missing")


def test_the_server_of_keys_stops_and_returns_while_tokens_are_signed(tmp_path: Path) -> None:
    security = security_of(tmp_path, "OAUTHBEARER")
    issuer = security.issuer
    assert issuer is not None
    context = ssl.create_default_context(cafile=security.files.trust_store)

    def verifies() -> bool:
        with urlopen(issuer.url, timeout=30, context=context) as page:
            keys = KeySet.parse(page.read())
        header, body, signature = security.clients("h:1").librdkafka()["oauth_cb"]("")[0].split(".")
        assert json.loads(decode_base64(body))["sub"] == "lab"
        return keys.verify("ES256", "lab-1", f"{header}.{body}".encode(), decode_base64(signature))

    issuer.start()
    try:
        assert verifies()
        fault = SecurityFaults(FaultRegister(lambda event: None, lambda: 0.0), None, issuer).stop_issuer()
        assert split_token(issuer.new_token().text)
        with pytest.raises(URLError, match="refused"):
            verifies()
        fault.end()
        assert verifies()
    finally:
        issuer.stop()
    with pytest.raises(ValueError, match="OAUTHBEARER"):
        security.clients("h:1").security()
