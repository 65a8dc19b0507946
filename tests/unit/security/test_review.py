"""A review finds what is open, weak, expires soon or can be read by others, and nothing in a sound configuration."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kvorum.runtime.config import Settings
from kvorum.security.review import Kind, review_config_file, review_node
from tests.certificates import Authority

NOW = datetime.now(UTC)
LIFETIME = timedelta(days=90)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    folder = tmp_path_factory.mktemp("certificates")
    authority = Authority(folder, lifetime=LIFETIME)
    return {
        "process.roles": "broker,controller",
        "node.id": 1,
        "listeners": "CLIENTS://0.0.0.0:1,CONTROLLER://0.0.0.0:2",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@127.0.0.1:2",
        "listener.security.protocol.map": "CLIENTS:SSL,CONTROLLER:SSL",
        "inter.broker.listener.name": "CLIENTS",
        "ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.issue("node-1", lifetime=LIFETIME)),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.file),
    }


USERS: dict[str, object] = {"kvorum.admin.roles": "User:alice=admin"}


def findings(settings: dict[str, object], mode: int = 0o600, days: int = 0) -> set[tuple[Kind, str]]:
    found = review_node(Settings.of(settings), NOW + timedelta(days=days), lambda path: mode)
    return {(each.kind, each.problem) for each in found}


def test_a_sound_node_has_no_finding(sound: dict[str, object]) -> None:
    assert findings(sound) == set()
    https = {"admin.listeners": "https://0.0.0.0:3", "metrics.listener": "https://0.0.0.0:4"}
    assert findings({**sound, **USERS, **https}) == set()


@pytest.mark.parametrize(
    ("change", "kind", "problem"),
    [
        ({"ssl.client.auth": "none"}, Kind.OPEN, "every client that reaches it"),
        (
            {"listener.security.protocol.map": "CLIENTS:PLAINTEXT,CONTROLLER:SSL", "listeners": "CLIENTS://:1"},
            Kind.OPEN,
            "not encrypted",
        ),
        ({"listeners": "CLIENTS://127.0.0.1:1", "ssl.client.auth": "none"}, Kind.OPEN, "every client on this machine"),
        ({"ssl.endpoint.identification.algorithm": ""}, Kind.WEAK, "do not verify each other's host"),
        ({"admin.listeners": "http://0.0.0.0:3"}, Kind.WEAK, "HTTP without TLS"),
        ({"admin.listeners": "https://0.0.0.0:3"}, Kind.OPEN, "set kvorum.admin.roles"),
        ({"metrics.listener": "https://0.0.0.0:3"}, Kind.OPEN, "set kvorum.admin.roles"),
        (
            {**USERS, "metrics.listener": "https://0.0.0.0:3", "kvorum.metrics.anonymous.enable": True},
            Kind.OPEN,
            "may read /metrics",
        ),
    ],
)
def test_each_weakness_is_found(sound: dict[str, object], change: dict[str, object], kind: Kind, problem: str) -> None:
    changed = {**sound, **change, **({"process.roles": "broker"} if "listeners" in change else {})}
    assert any(each == kind and problem in text for each, text in findings(changed)), findings(changed)


def test_certificates_that_expire_are_found(sound: dict[str, object]) -> None:
    assert findings(sound, days=59) == set()
    (soon,) = {text for kind, text in findings(sound, days=70) if "node-1" in text}
    assert soon.startswith("CN=node-1 expires on")
    assert any("CN=node-1 expired on" in text for _, text in findings(sound, days=91))


def test_files_that_others_can_read_are_found(sound: dict[str, object], tmp_path: Path) -> None:
    (found,) = findings(sound, mode=0o640)
    assert found[0] is Kind.READABLE and "mode 640; run: chmod 600" in found[1]
    assert {kind for kind, _ in findings(sound, mode=0o622)} == {Kind.WEAK}
    secret = Settings.of({**sound, "ssl.key.password": "x"})
    assert [each.kind for each in review_config_file("f", secret, lambda path: 0o644)] == [Kind.READABLE]
    assert review_config_file("f", secret, lambda path: 0o600) == []
    assert review_config_file("f", Settings.of(sound), lambda path: 0o644) == []
