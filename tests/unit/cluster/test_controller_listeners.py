"""A controller with two listeners: peers get the addresses of the listener at which they ask."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from kvorum.cluster.local.formatting import format_node, standalone
from kvorum.cluster.local.ports import free_ports
from kvorum.cluster.process.controller_node import ControllerDependencies, ControllerNode
from kvorum.cluster.process.controller_process import open_quorum
from kvorum.network.channel import Channel
from kvorum.network.cluster_check import EndpointType
from kvorum.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kvorum.runtime.clock import SystemClock
from kvorum.runtime.config import Settings
from kvorum.runtime.disk import OsDisk
from kvorum.runtime.metrics import Metrics

HOST = "127.0.0.1"
CLUSTER_ID = "q2dDxX0qSi6ZGo5pjBP2lw"


def settings_of(folder: Path, ports: dict[str, int], is_dynamic: bool) -> Settings:
    """Return a controller's, whose default listener is the first of `ports`."""
    first = next(iter(ports.values()))
    quorum = (
        {"controller.quorum.bootstrap.servers": f"{HOST}:{first}"}
        if is_dynamic
        else {"controller.quorum.voters": f"1@{HOST}:{first}"}
    )
    return Settings.of(
        {
            "process.roles": "controller",
            "node.id": 1,
            "log.dirs": str(folder),
            "controller.listener.names": ",".join(ports),
            "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in ports),
            "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in ports.items()),
            **quorum,
        }
    )


async def address_at_port(port: int) -> tuple[str, int]:
    """Return the address of controller 1 that a peer learns at a port."""
    channel = Channel(lambda: (HOST, port), client_id="peer", chance=Random(1))
    try:
        request = DescribeClusterRequest(endpoint_type=EndpointType.CONTROLLER)
        answer = await channel.request(request, timeout_ms=10_000)
        assert isinstance(answer, DescribeClusterResponse)
        (found,) = answer.brokers
        return found.host, found.port
    finally:
        await channel.close()


@pytest.mark.parametrize("is_dynamic", [False, True], ids=["static", "dynamic"])
def test_peers_get_the_address_of_the_listener_that_they_use(tmp_path: Path, is_dynamic: bool) -> None:
    """While a cluster moves to another listener, some of its nodes use the former one."""
    new, former = free_ports([HOST, HOST])
    settings, disk = settings_of(tmp_path, {"NEW": new, "FORMER": former}, is_dynamic), OsDisk()
    format_node(disk, settings, CLUSTER_ID, initial=standalone(settings) if is_dynamic else None)
    faults: list[BaseException] = []

    async def run() -> None:
        world = ControllerDependencies(
            disk=disk, clock=SystemClock(), chance=lambda: Random(1), metrics=Metrics(), on_fatal=faults.append
        )
        node = ControllerNode(settings, open_quorum(disk, settings, CLUSTER_ID), world, cluster_id=CLUSTER_ID)
        try:
            await node.start()
            for port in (new, former):
                assert await address_at_port(port) == (HOST, port)
        finally:
            await node.close()

    asyncio.run(run())
    assert not faults
