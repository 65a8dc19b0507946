"""An existing cluster keeps its configuration; each requested value that is ignored is named."""

from collections.abc import Sequence

import pytest

from kvorum.cluster.local.differences import differences, same_but_ports
from kvorum.cluster.local.plan import plan_of
from kvorum.runtime.cluster_file import ClusterSpec, dev_cluster


def spec(count: int = 3, port: int = 0, settings: Sequence[str] = (), folder: str = "/d") -> ClusterSpec:
    return dev_cluster(count, port, folder, settings)


MADE = plan_of(spec(settings=["num.partitions=3"]), "id")


@pytest.mark.parametrize(
    ("requested", "message"),
    [
        (spec(settings=["num.partitions=3"]), []),
        (spec(settings=["num.partitions=4"]), ["every node: num.partitions=4 is ignored; it stays 3"]),
        (spec(), ["every node: num.partitions is no longer set but keeps its value 3"]),
        (
            spec(settings=["num.partitions=3", "log.retention.ms=5"]),
            ["every node: log.retention.ms=5 is ignored; it is not set"],
        ),
        (
            spec(settings=["num.partitions=3"], folder="/other"),
            [f"node-{n}: log.dirs=/other/node-{n}/data is ignored; it stays /d/node-{n}/data" for n in (1, 2, 3)],
        ),
        (
            spec(4, settings=["num.partitions=3"]),
            ["the cluster keeps its nodes node-1, node-2, node-3; requested: node-1, node-2, node-3, node-4"],
        ),
        (
            spec(2, settings=["num.partitions=3"]),
            ["the cluster keeps its nodes node-1, node-2, node-3; requested: node-1, node-2"],
        ),
    ],
    ids=["same", "another value", "left out", "added", "another folder", "a node more", "a node less"],
)
def test_differences_are_reported_by_node_and_key(requested: ClusterSpec, message: list[str]) -> None:
    found = differences(MADE, requested)
    assert [line for line in found if "process.roles" not in line and "listeners" not in line] == message


def test_a_secret_that_differs_is_named_and_not_shown() -> None:
    made = plan_of(spec(settings=["ssl.key.password=one"]), "id")
    found = differences(made, spec(settings=["ssl.key.password=two"]))
    assert found == ["every node: ssl.key.password=[hidden] is ignored; it stays [hidden]"]


def test_a_node_that_would_no_longer_be_a_controller_is_reported() -> None:
    found = differences(MADE, spec(2, settings=["num.partitions=3"]))
    assert "node-2: process.roles=broker is ignored; it stays broker,controller" in found


def test_a_port_requested_is_reported_and_port_0_may_be_any() -> None:
    found = differences(MADE, spec(port=19, settings=["num.partitions=3"]))
    assert [line.partition("=")[0] for line in found] == [f"node-{n}: listeners" for n in (1, 2, 3)]
    assert same_but_ports("A://h:7,B://h:8", "A://h:0,B://h:8")
    assert not same_but_ports("A://h:7,B://h:8", "A://h:0,B://h:9")
    assert not same_but_ports("A://h:7", "A://other:0")
    assert not same_but_ports("A://h:7", "A://h:0,B://h:0")
