"""docs/operate/encrypt.md: a cluster on three machines moves from PLAINTEXT to TLS with users, under load."""

import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvorum.cluster.local.formatting import InitialController, new_directory_id, own_endpoints
from tests.cluster.clients import create_topic
from tests.cluster.machine_cluster import MachineCluster
from tests.cluster.machine_load import Follower, MachineLoad
from tests.cluster.machines import Machines

PAGE = (Path(__file__).parent.parent.parent / "docs" / "operate" / "encrypt.md").read_text()
STEPS: list[dict[str, Any]] = [yaml.safe_load(text) for text in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.M | re.S)]
TOPICS = [BEFORE, AFTER] = ["before", "after"]
PARTITIONS = 6
PLAINTEXT_PORT, CLIENTS_PORT, INTERNAL_PORT = 9092, 9094, 9095
CONTROLLER_PORT, CONTROLLER_TLS_PORT = 9093, 9096
PORTS = (PLAINTEXT_PORT, CONTROLLER_PORT, CLIENTS_PORT, INTERNAL_PORT, CONTROLLER_TLS_PORT)
SERVERS = "controller.quorum.bootstrap.servers"


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    found = Machines(tmp_path)
    yield found
    found.close()


def test_the_page_has_the_cluster_and_its_steps() -> None:
    assert len(STEPS) == 5
    whole = {key: value for step in STEPS for key, value in step.items()}
    ports = {int(text.rpartition(":")[2]) for step in STEPS for text in step.get("listeners", ())}
    assert ports == {*PORTS}
    assert "PLAINTEXT" not in whole["listener.security.protocol.map"]


@pytest.mark.long
@pytest.mark.parametrize("is_dynamic", [False, True], ids=["static-quorum", "dynamic-quorum"])
def test_a_cluster_moves_to_tls_without_downtime(machines: Machines, is_dynamic: bool) -> None:
    begin, listeners, brokers, controllers, end = STEPS
    others = {"default.replication.factor": 3, "min.insync.replicas": 2, "metrics.listener": "http://127.0.0.1:9291"}
    cluster = MachineCluster(machines, others | begin)
    cluster.use_no_security(PLAINTEXT_PORT)
    if is_dynamic:
        cluster.defaults[SERVERS] = machines.bootstrap(CONTROLLER_PORT)
    cluster.install()
    cluster.format(initial=initial_controllers(cluster) if is_dynamic else None)
    cluster.start()
    plaintext, secure = machines.bootstrap(PLAINTEXT_PORT), machines.bootstrap(CLIENTS_PORT)
    for topic in TOPICS:
        machines.call(lambda topic=topic: create_topic(plaintext, topic, PARTITIONS, 3))
    seen: set[tuple[str, bytes]] = set()
    with ExitStack() as former, ExitStack() as moved:
        before = former.enter_context(MachineLoad(machines, plaintext, BEFORE, PARTITIONS, {}))
        former.enter_context(Follower(machines, plaintext, TOPICS, {}, seen))
        change(cluster, listeners, before, "listeners added")
        cluster.use_certificate_of_admin(INTERNAL_PORT)
        cluster.make_user()
        after = moved.enter_context(MachineLoad(machines, secure, AFTER, PARTITIONS, cluster.client()))
        follower = moved.enter_context(Follower(machines, secure, TOPICS, cluster.client(), seen))
        after.wait_for_more()
        former.close()
        change(cluster, brokers, after, "brokers moved")
        if is_dynamic:
            cluster.defaults[SERVERS] = machines.bootstrap(CONTROLLER_TLS_PORT)
        change(cluster, controllers, after, "controllers moved")
        change(cluster, end, after, "plaintext removed")
        follower.wait_for(BEFORE, before.sent.acked)
        follower.wait_for(AFTER, tuple(after.sent.acked))
    before.client = cluster.client()
    before.bootstrap = secure
    before.assert_all_acked_once_in_order()
    after.assert_all_acked_once_in_order()
    for number in cluster.numbers:
        assert open_ports(machines, number) == {CLIENTS_PORT, INTERNAL_PORT, CONTROLLER_TLS_PORT}
    quorum = cluster.call(lambda client: client.quorum.describe())
    assert {each.port for voter in quorum.voters for each in voter.listeners} == {CONTROLLER_TLS_PORT}


def change(cluster: MachineCluster, step: dict[str, Any], load: MachineLoad, what: str) -> None:
    """Make a step of the page in the cluster file, and restart one node at a time."""
    cluster.defaults.update(step)
    cluster.install()
    gap: list[float] = []
    with load.unavailability(gap):
        cluster.restart_one_by_one()
    print(f"FIGURE rolling restart, {what}: {gap[0]:.2f} s without an acknowledgement")


def open_ports(machines: Machines, number: int) -> set[int]:
    """Return the ports of PORTS at which a machine accepts connections of the workstation."""
    address = machines.address(number)
    return machines.call(lambda: {port for port in PORTS if is_open((address, port))})


def is_open(address: tuple[str, int]) -> bool:
    """Return whether a port accepts connections."""
    try:
        with socket.create_connection(address, timeout=10):
            return True
    except ConnectionRefusedError:
        return False


def initial_controllers(cluster: MachineCluster) -> dict[int, InitialController]:
    """Return the first voters of a dynamic quorum."""
    endpoints = {number: own_endpoints(cluster.settings(number)) for number in cluster.numbers}
    return {number: InitialController(new_directory_id(), found) for number, found in endpoints.items()}
