"""The other cluster: one node, to save memory."""

from collections.abc import Iterator

import pytest

from tests.cluster.conftest import clusters_in
from tests.cluster.nodes import addresses


@pytest.fixture(scope="session")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a cluster of one node."""
    with clusters_in(tmp_path_factory.mktemp("other")) as start:
        yield ",".join(addresses(start("single.yaml")).values())
