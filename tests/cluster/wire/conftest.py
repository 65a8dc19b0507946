"""One Kvorum node of real processes for all rows of the table."""

from collections.abc import Iterator

import pytest

from kvorum.cluster.local.formatting import new_cluster_id
from kvorum.cluster.local.local import LocalCluster
from kvorum.cluster.local.plan import plan_of
from kvorum.runtime.cluster_file import dev_cluster
from tests.cluster.conftest import logs_of
from tests.cluster.wire.world import SETTINGS, NormalClient, World

START_SECONDS = 60.0


@pytest.fixture(scope="module")
def kvorum_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A node with the settings the answers were recorded with."""
    folder = str(tmp_path_factory.mktemp("wire") / "cluster")
    overrides = [f"{key}={value}" for key, value in SETTINGS.items()]
    cluster = LocalCluster.create(folder, plan_of(dev_cluster(1, 0, folder, overrides), new_cluster_id()))
    try:
        outcome = cluster.start(timeout_seconds=START_SECONDS)
        assert set(outcome.values()) == {"ready"}, logs_of(cluster, outcome)
        yield cluster
    finally:
        for node in cluster.plan.nodes:
            cluster.kill(node.name)


@pytest.fixture(scope="module")
def address(kvorum_node: LocalCluster) -> tuple[str, int]:
    """Where clients reach the node."""
    host, _, port = kvorum_node.plan.bootstrap.rpartition(":")
    return host, int(port)


@pytest.fixture(scope="module")
def normal_client(address: tuple[str, int]) -> Iterator[NormalClient]:
    """A client that is to be served whatever others send."""
    client = NormalClient(World(*address, case="normal"))
    yield client
    client.close()
