"""The nodes of a test's cluster: who is who, all killed at once, what lies on their disks."""

import asyncio
import random
import signal
from pathlib import Path

from kvorum.client.wire.cluster_client import ClusterClient, Unreachable
from kvorum.cluster.local.local import LocalCluster, wait_for_exit
from kvorum.network.addresses import parse_bootstrap
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.messages.describe_quorum import ResponsePartitionData
from kvorum.runtime.process import send
from tests.cluster.clients import eventually
from tests.cluster.conftest import logs_of

KILL_SECONDS = 30.0


def name_of(cluster: LocalCluster, node_id: int) -> str:
    """Return the node with this id."""
    return next(node.name for node in cluster.plan.nodes if node.properties["node.id"] == str(node_id))


def id_of(cluster: LocalCluster, name: str) -> int:
    """Return a node's id."""
    return int(cluster.plan.node(name).properties["node.id"])


def addresses(cluster: LocalCluster) -> dict[str, str]:
    """Return {broker: HOST:PORT}."""
    return {
        node.name: node.properties["listeners"].split(",")[0].partition("://")[2]
        for node in cluster.plan.nodes
        if "broker" in node.roles
    }


def controller_addresses(cluster: LocalCluster) -> dict[str, str]:
    """Return {controller: HOST:PORT}; it is the last of its node's listeners."""
    return {
        node.name: node.properties["listeners"].split(",")[-1].partition("://")[2]
        for node in cluster.plan.nodes
        if "controller" in node.roles
    }


def restart(cluster: LocalCluster, *names: str) -> None:
    """Start nodes that do not run and wait until they are ready."""
    outcome = cluster.start(*names)
    assert set(outcome.values()) == {"ready"}, logs_of(cluster, outcome)


def kill_all(cluster: LocalCluster, *names: str) -> None:
    """kill -9 every process of these nodes (of all, when none is named) before waiting for the end of any."""
    wanted = names or tuple(node.name for node in cluster.plan.nodes)
    found = [cluster.processes(name) for name in wanted]
    # Supervisors first: they would start again what they see die.
    doomed = [processes.pop("node") for processes in found if "node" in processes]
    doomed += [process for processes in found for process in processes.values()]
    for process in doomed:
        send(process, signal.SIGKILL)
    for process in doomed:
        assert wait_for_exit(process, KILL_SECONDS), f"{process} outlives a SIGKILL"
    for name in wanted:
        cluster.kill(name)  # nothing is left to kill: it collects the dead


def log_bytes(cluster: LocalCluster, name: str, partition: str) -> bytes:
    """Return the records of a partition as they lie on a node's disk."""
    folder = Path(cluster.node(name).data, partition)
    return b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))


def wait_for_equal_logs(cluster: LocalCluster, partition: str, *names: str) -> None:
    """Wait until the partition's log is the same, byte for byte and not empty, on these nodes."""

    def equal() -> bool:
        first, *others = (log_bytes(cluster, name, partition) for name in names)
        return bool(first) and all(other == first for other in others)

    eventually(equal, lambda: f"equal logs: {[len(log_bytes(cluster, name, partition)) for name in names]} bytes")


def quorum_of(cluster: LocalCluster) -> ResponsePartitionData | None:
    """Return what DescribeQuorum answers, None without an active controller."""

    async def ask() -> ResponsePartitionData:
        client = ClusterClient(parse_bootstrap(cluster.plan.bootstrap), client_id="test", chance=random.Random(1))
        try:
            return (await client.describe_quorum()).topics[0].partitions[0]
        finally:
            await client.close()

    try:
        return asyncio.run(ask())
    except (KafkaError, Unreachable):
        return None


def wait_until_everybody_has_the_metadata(cluster: LocalCluster) -> None:
    """Wait until every voter and every broker has all the metadata there are when this is called."""
    wanted = eventually(lambda: quorum_of(cluster), "an active controller").high_watermark
    roles = [role for node in cluster.plan.nodes for role in node.roles]

    def is_there() -> bool:
        found = quorum_of(cluster)
        if found is None:
            return False
        rows = [*found.current_voters, *found.observers]
        return len(rows) >= len(roles) and all(row.log_end_offset >= wanted for row in rows)

    eventually(is_there, lambda: f"everybody at {wanted}: {quorum_of(cluster)}", 60)


def active_controller(cluster: LocalCluster) -> str:
    """Return the name of the controller that leads, once there is one."""
    return name_of(cluster, eventually(lambda: quorum_of(cluster), "an active controller").leader_id)
