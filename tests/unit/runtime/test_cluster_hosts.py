"""A cluster file for several machines: hosts, advertised listeners, voters, and what cannot work between machines."""

from pathlib import Path

import pytest

from kvorum.runtime.cluster_file import ClusterSpec, load_cluster
from kvorum.runtime.cluster_hosts import advertise
from kvorum.runtime.config import ConfigError
from kvorum.runtime.config_files import load_node

SECURE = """
defaults:
  listeners: [CLIENTS://:9092, CONTROLLER://:9093, LOCAL://127.0.0.1:9099]
  listener.security.protocol.map: CLIENTS:PLAINTEXT,CONTROLLER:SSL,LOCAL:PLAINTEXT
  inter.broker.listener.name: CLIENTS
  log.dirs: /var/lib/kvorum/data
"""


def load(folder: Path, text: str) -> ClusterSpec:
    path = folder / "machines.yaml"
    path.write_text(text)
    return load_cluster(str(path), "/srv")


def test_a_host_is_advertised_by_the_listeners_on_all_addresses() -> None:
    listeners = "A://:1, B://0.0.0.0:2,C://[::]:3,D://127.0.0.1:4,nonsense"
    assert advertise("kafka-1", listeners) == "A://kafka-1:1,B://kafka-1:2,C://kafka-1:3,D://127.0.0.1:4,nonsense"
    assert advertise("fd00::1", "A://:1") == "A://[fd00::1]:1"


def test_nodes_on_several_hosts_have_the_same_ports_and_directories(tmp_path: Path) -> None:
    spec = load(tmp_path, SECURE + "nodes:\n  - host: 10.0.0.1\n  - host: kafka-2.example\n  - host: 10.0.0.3\n")
    assert spec.hosts == ("10.0.0.1", "kafka-2.example", "10.0.0.3")
    voters = ["1@10.0.0.1:9093", "2@kafka-2.example:9093", "3@10.0.0.3:9093"]
    for node, host in zip(spec.nodes, spec.hosts, strict=True):
        advertised = [f"CLIENTS://{host}:9092", f"CONTROLLER://{host}:9093", "LOCAL://127.0.0.1:9099"]
        assert node.settings.list("advertised.listeners") == advertised
        assert node.settings.list("controller.quorum.voters") == voters
        assert node.settings.list("log.dirs") == ["/var/lib/kvorum/data"]
    key = "advertised.listeners: clients on other machines cannot connect to LOCAL://127.0.0.1:9099"
    assert spec.warnings == tuple(f"{node.name}: {key}" for node in spec.nodes)


def test_a_rendered_file_makes_the_same_node(tmp_path: Path) -> None:
    spec = load(tmp_path, SECURE + "nodes:\n  - host: 10.0.0.1\n  - {host: 10.0.0.2}\n")
    for node in spec.nodes:
        path = tmp_path / f"{node.name}.properties"
        path.write_text(node.properties())
        found = load_node(str(path)).settings
        assert {key: entry.text for key, entry in found.explicit().items()} == {
            key: entry.text for key, entry in node.settings.explicit().items()
        }


def test_a_voter_has_the_address_of_the_first_controller_listener(tmp_path: Path) -> None:
    text = SECURE.replace("CONTROLLER://:9093", "CONTROLLER://:9093, SECURE://:9095").replace(
        "CONTROLLER:SSL", "CONTROLLER:SSL,SECURE:SSL"
    )
    nodes = "nodes:\n  - {host: 10.0.0.1}\n  - {host: 10.0.0.2}\n  - {host: 10.0.0.3}\n"
    for names, port in (("CONTROLLER,SECURE", 9093), ("SECURE,CONTROLLER", 9095)):
        spec = load(tmp_path, f"{text}  controller.listener.names: '{names}'\n{nodes}")
        voters = [f"{number}@10.0.0.{number}:{port}" for number in (1, 2, 3)]
        assert spec.nodes[0].settings.list("controller.quorum.voters") == voters


HOSTS = "nodes:\n  - {host: 10.0.0.1}\n  - {host: 10.0.0.2}\n"
REFUSED = [
    (SECURE + "nodes:\n  - {host: 10.0.0.1}\n  - {host: 127.0.0.1}\n", "loopback address of node-2; advertise"),
    (SECURE + "nodes:\n  - {host: 10.0.0.1}\n  - {id: 2}\n", "CLIENTS://127.0.0.1:9092: node-1 on 10.0.0.1 cannot"),
    (SECURE + "nodes:\n  - {host: 10.0.0.1}\n  - {host: 10.0.0.1}\n", "uses the same directory .* as node-1"),
    (SECURE.replace("//:9093", "//:0") + HOSTS, "port 0 of controller node-1 is unknown on other machines"),
    (SECURE.replace("CONTROLLER:SSL", "CONTROLLER:PLAINTEXT") + HOSTS, "kvorum.allow.plaintext.controllers=true"),
    (SECURE + "nodes:\n  - {host: 0.0.0.0}\n", r"machines\.yaml:8: host=0\.0\.0\.0: must be a host name or an address"),
    (SECURE + "nodes:\n  - {host: 'a b'}\n", r"machines\.yaml:8: host=a b: must be a host name"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_settings_that_cannot_work_between_machines_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        load(tmp_path, text)
    assert "\n" not in str(error.value)
