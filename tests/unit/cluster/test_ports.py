"""Ports given as 0: chosen once for everything that names them, refused where nobody could know them."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from kvorum.cluster.local.paths import NodePaths
from kvorum.cluster.local.ports import (
    FIRST_PORT,
    RESERVED_MAX,
    bound,
    check_voters_ports,
    ephemeral_start,
    fill_ports,
    free_ports,
    open_hosts,
    read_ports,
    resolve_ports,
    still_open,
)
from kvorum.cluster.local.ports import write_ports as write
from kvorum.runtime.config import ConfigError, Settings
from kvorum.runtime.disk import OsDisk
from kvorum.runtime.listeners import advertised_listeners, controller_listeners, listeners, voters

COMBINED = {
    "process.roles": "broker,controller",
    "node.id": 1,
    "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@127.0.0.1:0",
    "log.dirs": "/data",
}


def test_a_nodes_own_voter_entry_gets_the_port_of_its_controller_listener() -> None:
    settings = Settings.of(COMBINED)
    resolved = settings.with_overrides(resolve_ports(settings))
    ports = [endpoint.port for endpoint in listeners(resolved)]
    assert all(ports) and len(set(ports)) == 2
    assert voters(resolved) == {1: ("127.0.0.1", controller_listeners(resolved)[0].port)}


def test_chosen_ports_are_outside_the_ephemeral_range() -> None:
    chosen = free_ports(["127.0.0.1"] * 20 + ["::1"])
    assert len(set(chosen)) == 21
    assert min(chosen) >= FIRST_PORT and max(chosen) < ephemeral_start()


def test_a_drawn_port_that_is_taken_gives_way_to_the_next_and_at_last_to_any() -> None:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        taken, free = one.getsockname()[1], other.getsockname()[1]
    with bound("127.0.0.1", [taken]) as holder:
        assert holder.getsockname()[1] == taken
        with bound("127.0.0.1", [taken, free]) as second:
            assert second.getsockname()[1] == free
            with bound("127.0.0.1", [taken, free]) as any_other:
                assert any_other.getsockname()[1] not in (0, taken, free)
    with pytest.raises(OSError, match="assign"):
        bound("192.0.2.1", [taken])


def test_a_chosen_port_is_reserved_until_its_node_listens() -> None:
    (chosen,) = free_ports(["127.0.0.1"])
    with bound("127.0.0.1", [chosen]) as holder:
        assert holder.getsockname()[1] != chosen
    command = f"from kvorum.cluster.local.ports import bound; print(bound('127.0.0.1', [{chosen}]).getsockname()[1])"
    requested = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True, timeout=60)
    assert int(requested.stdout) not in (0, chosen), "another process leaves it alone, too"
    many = [free_ports(["127.0.0.1"])[0] for _ in range(RESERVED_MAX)]
    with bound("127.0.0.1", [chosen]) as holder:
        assert holder.getsockname()[1] == chosen, "reserved are the last ones only"
    assert len(set(many)) == RESERVED_MAX


def test_a_process_that_reserved_ports_ends_without_a_warning() -> None:
    steps = "from kvorum.cluster.local.ports import free_ports; free_ports(['127.0.0.1', '127.0.0.1'])"
    done = subprocess.run([sys.executable, "-W", "always", "-c", steps], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_of_several_voters_only_the_own_entry_changes() -> None:
    settings = Settings.of(COMBINED | {"controller.quorum.voters": "2@other:5, 1@127.0.0.1:0,3@third:6"})
    changed = resolve_ports(settings)
    assert voters(settings.with_overrides(changed)).items() >= {2: ("other", 5), 3: ("third", 6)}.items()
    assert not changed["controller.quorum.voters"].endswith(":0")


@pytest.mark.parametrize("roles", ["broker,controller", "broker"])
def test_port_0_of_another_voter_is_refused_by_name(roles: str) -> None:
    change = {"process.roles": roles, "controller.quorum.voters": "1@127.0.0.1:7,2@127.0.0.1:0"}
    if roles == "broker":
        change |= {"node.id": "3", "listeners": "PLAINTEXT://127.0.0.1:0"}
    with pytest.raises(ConfigError, match="port 0 of node 2") as error:
        resolve_ports(Settings.of(COMBINED | change))
    assert error.value.key == "controller.quorum.voters"


def test_a_node_that_was_not_formatted_does_not_start_with_an_unknown_own_port() -> None:
    with pytest.raises(ConfigError, match="kvorum format"):
        check_voters_ports(Settings.of(COMBINED))
    check_voters_ports(Settings.of(COMBINED | {"controller.quorum.voters": "1@127.0.0.1:5"}))


def test_every_place_with_a_port_0_is_filled_and_the_advertised_one_follows_its_listener() -> None:
    texts = {
        "listeners": "IN://[::1]:0, OUT://:0,C://127.0.0.1:5",
        "advertised.listeners": "IN://[::1]:0,OUT://a.example:0",
        "metrics.listener": "http://127.0.0.1:0/",
        "admin.listeners": "http://127.0.0.1:0,127.0.0.2:0",
    }
    assert open_hosts(texts) == ["::1", "", "127.0.0.1", "127.0.0.1", "127.0.0.2"]
    assert fill_ports(texts, iter([1, 2, 3, 4, 5])) == {
        "listeners": "IN://[::1]:1, OUT://:2,C://127.0.0.1:5",
        "advertised.listeners": "IN://[::1]:1,OUT://a.example:2",
        "metrics.listener": "http://127.0.0.1:3/",
        "admin.listeners": "http://127.0.0.1:4,127.0.0.2:5",
    }


def test_an_advertised_port_0_without_a_chosen_one_is_kept() -> None:
    settings = Settings.of(COMBINED | {"advertised.listeners": "PLAINTEXT://localhost:0"})
    resolved = settings.with_overrides(resolve_ports(settings))
    assert advertised_listeners(resolved)[0].port == listeners(resolved)[0].port
    assert resolve_ports(Settings.of(COMBINED | {"listeners": "A://h:1", "controller.quorum.voters": "1@h:2"})) == {}


def test_a_host_of_another_machine_is_refused_by_the_key() -> None:
    settings = Settings.of(COMBINED | {"listeners": "PLAINTEXT://192.0.2.1:0,CONTROLLER://127.0.0.1:0"})
    with pytest.raises(ConfigError, match=r"no free port .* 192\.0\.2\.1") as error:
        resolve_ports(settings)
    assert error.value.key == "listeners"


def test_a_recorded_port_counts_as_long_as_the_configuration_says_0(tmp_path: Path) -> None:
    paths, settings = NodePaths(str(tmp_path / ".kvorum")), Settings.of(COMBINED)
    assert read_ports(paths) == []
    changed = resolve_ports(settings)
    write(OsDisk(), paths, changed)
    recorded = read_ports(paths)
    assert still_open(recorded, settings) == recorded == [f"{key}={value}" for key, value in changed.items()]
    by_hand = settings.with_overrides({"listeners": "PLAINTEXT://127.0.0.1:9,CONTROLLER://127.0.0.1:8"})
    assert [line.partition("=")[0] for line in still_open(recorded, by_hand)] == ["controller.quorum.voters"]


def test_a_chosen_port_can_be_listened_on() -> None:
    changed = resolve_ports(Settings.of(COMBINED))
    port = int(changed["listeners"].rpartition(":")[2])
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", port))
