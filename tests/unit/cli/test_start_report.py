"""What a start says of the cluster: only of nodes that were waited for that they are up."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kvorum.cli.local.dev import report_start
from kvorum.cli.local.quickstart import topic_for


def cluster() -> Any:
    nodes = [SimpleNamespace(name=f"node-{number}", roles=("broker", "controller")) for number in (1, 2, 3)]
    plan = SimpleNamespace(nodes=nodes, bootstrap="127.0.0.1:9092", admin_urls=lambda: ["http://127.0.0.1:8080"])
    return cast(Any, SimpleNamespace(plan=plan, paths=SimpleNamespace(folder="data")))


def test_a_whole_start_reports_how_the_cluster_is_reached(capsys: pytest.CaptureFixture[str]) -> None:
    report_start(cluster(), dict.fromkeys(("node-1", "node-2", "node-3"), "ready"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "3 brokers are up."
    assert [line.split() for line in lines[1:4]] == [
        ["bootstrap.servers", "127.0.0.1:9092"],
        ["web", "console", "http://127.0.0.1:8080/"],
        ["admin", "HTTP", "API", "http://127.0.0.1:8080/docs"],
    ]


def test_running_nodes_are_not_reported_as_started(capsys: pytest.CaptureFixture[str]) -> None:
    report_start(cluster(), {"node-2": "ready"}, foreground=False)
    assert capsys.readouterr().out.splitlines()[0] == ("1 broker is up. Already running, not checked: node-1, node-3.")


@pytest.mark.parametrize(("brokers", "replicas", "minimum"), [(1, 1, "1"), (2, 2, "1"), (3, 3, "2"), (5, 3, "2")])
def test_the_topic_of_the_quickstart_fits_the_number_of_brokers(brokers: int, replicas: int, minimum: str) -> None:
    topic = topic_for(brokers)
    assert (topic["replication_factor"], topic["configs"]) == (replicas, {"min.insync.replicas": minimum})
