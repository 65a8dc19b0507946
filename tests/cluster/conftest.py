"""Clusters of real processes on free ports, cleaned up by pid whatever a test did to them."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kvorum.cluster.local.formatting import new_cluster_id
from kvorum.cluster.local.local import LocalCluster
from kvorum.cluster.local.plan import plan_of
from kvorum.runtime.cluster_file import load_cluster

ROOT = Path(__file__).parent.parent.parent
START_SECONDS = 60.0
KEPT = "log.retention.ms=-1"
"""For tests that write old timestamps: the first check of the retention, after five minutes, deletes such records."""

Start = Callable[..., LocalCluster]


@pytest.fixture
def start_cluster(tmp_path: Path) -> Iterator[Start]:
    """Return a function that starts the cluster of one of configs/*.yaml, every port replaced by a free one."""
    with clusters_in(tmp_path) as start:
        yield start


@contextmanager
def clusters_in(folder: Path) -> Iterator[Start]:
    """Give a function that starts clusters; all are killed at the end. For fixtures that several tests share, too."""
    clusters: list[LocalCluster] = []

    def start(
        config: str = "three-nodes.yaml",
        *settings: str,
        environment: dict[str, str] | None = None,
        wrap: Callable[[str, list[str]], list[str]] | None = None,
    ) -> LocalCluster:
        text = re.sub(r"(//127\.0\.0\.1):\d+", r"\1:0", (ROOT / "configs" / config).read_text())
        file = folder / config
        file.write_text(text)
        data = folder / f"cluster-{len(clusters)}"
        plan = plan_of(load_cluster(str(file), str(data), settings), new_cluster_id())
        cluster = LocalCluster.create(str(data), plan)
        cluster.environment.update(environment or {})
        cluster.wrap = wrap
        clusters.append(cluster)
        outcome = cluster.start(timeout_seconds=START_SECONDS)
        assert set(outcome.values()) == {"ready"}, logs_of(cluster, outcome)
        return cluster

    try:
        yield start
    finally:
        for cluster in clusters:
            for node in cluster.plan.nodes:
                cluster.resume(node.name)
                cluster.kill(node.name)


def logs_of(cluster: LocalCluster, outcome: object) -> str:
    """Return the end of every log, for a failed assertion to show."""
    lines = [repr(outcome)]
    for node in cluster.plan.nodes:
        for process in ("node", "controller", "broker"):
            path = Path(cluster.node(node.name).log(process))
            if path.exists():
                lines.append(f"--- {node.name} {process}")
                lines += path.read_text(errors="replace").splitlines()[-15:]
    return "\n".join(lines)
