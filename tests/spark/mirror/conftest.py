"""The other cluster: one node, to save memory. With KVORUM_MIRROR_SOURCE=kafka the source is Apache Kafka itself."""

import os
from collections.abc import Iterator

import pytest

from bench.apache_kafka import running
from tests.cluster.conftest import KEPT, clusters_in
from tests.cluster.nodes import addresses

SOURCE = "KVORUM_MIRROR_SOURCE"


@pytest.fixture(scope="session")
def bootstrap(request: pytest.FixtureRequest) -> Iterator[str]:
    """Return the addresses of the source: three nodes of Kvorum, or of Apache Kafka 4.3.0 (bench/apache_kafka.py)."""
    if os.environ.get(SOURCE) == "kafka":
        with running(3, dict([KEPT.split("=")])) as kafka:
            yield kafka.bootstrap
    else:
        yield ",".join(addresses(request.getfixturevalue("kvorum_cluster")).values())


@pytest.fixture(scope="session")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a cluster of one node."""
    with clusters_in(tmp_path_factory.mktemp("other")) as start:
        yield ",".join(addresses(start("single.yaml", KEPT)).values())
