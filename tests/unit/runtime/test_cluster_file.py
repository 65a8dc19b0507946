"""A cluster file becomes nodes that fit together, or an error with its line."""

from pathlib import Path

import pytest

from kvorum.runtime.cluster_file import ClusterSpec, dev_cluster, load_cluster
from kvorum.runtime.config import ConfigError
from kvorum.runtime.config_files import load_node


def load(tmp_path: Path, text: str, *overrides: str) -> ClusterSpec:
    path = tmp_path / "my-cluster.yaml"
    path.write_text(text)
    return load_cluster(str(path), "/dir", overrides)


def test_the_shortest_file_is_a_whole_cluster(tmp_path: Path) -> None:
    spec = load(tmp_path, "nodes:\n  - id: 1\n  - id: 2\n  - id: 3\n")
    assert (spec.name, spec.cluster_id, spec.warnings) == ("my-cluster", None, ())
    assert [node.name for node in spec.nodes] == ["node-1", "node-2", "node-3"]
    second = spec.nodes[1]
    assert second.directory == "/dir/node-2"
    assert second.settings.list("listeners") == ["PLAINTEXT://127.0.0.1:19092", "CONTROLLER://127.0.0.1:19192"]
    assert second.settings.list("log.dirs") == ["/dir/node-2/data"]
    assert second.settings.list("process.roles") == ["broker", "controller"]
    for node in spec.nodes:
        assert node.settings.str("compression.type") == "producer"
        assert node.settings.list("controller.quorum.voters") == [
            "1@127.0.0.1:19191",
            "2@127.0.0.1:19192",
            "3@127.0.0.1:19193",
        ]


def test_a_node_wins_over_the_defaults_and_an_override_over_both(tmp_path: Path) -> None:
    text = """\
cluster: {name: big, id: MkU3OEVBNTcwNTJENDM2Qg}
defaults:
  num.partitions: 3
  broker: {rack: all}
nodes:
  - {name: a, id: 10, roles: [broker, controller], broker.rack: mine, log.dir: /elsewhere}
  - {name: b, broker.id: 11, process.roles: broker}
"""
    spec = load(tmp_path, text, "num.partitions=9")
    assert (spec.name, spec.cluster_id) == ("big", "MkU3OEVBNTcwNTJENDM2Qg")
    a, b = spec.nodes
    assert (a.name, a.settings.int("node.id"), a.settings.str("broker.rack")) == ("a", 10, "mine")
    assert (b.name, b.settings.int("node.id"), b.settings.str("broker.rack")) == ("b", 11, "all")
    assert a.settings.int("num.partitions") == b.settings.int("num.partitions") == 9
    assert a.settings.list("log.dirs") == ["/elsewhere"]
    assert b.settings.list("listeners") == ["PLAINTEXT://127.0.0.1:19101"]
    assert b.settings.list("controller.quorum.voters") == ["10@127.0.0.1:19200"]
    assert a.settings.source("broker.rack").where == f"{tmp_path}/my-cluster.yaml:6"


@pytest.mark.parametrize(("brokers", "replicas", "min_isr"), [(1, 1, 1), (2, 2, 2), (3, 3, 2), (4, 3, 2)])
def test_internal_topics_have_no_more_replicas_than_brokers(
    tmp_path: Path, brokers: int, replicas: int, min_isr: int
) -> None:
    nodes = "".join(f"  - {{id: {number}, roles: broker}}\n" for number in range(1, brokers + 1))
    spec = load(tmp_path, "nodes:\n  - {id: 101, roles: controller}\n" + nodes)
    for node in spec.nodes:
        assert node.settings.int("offsets.topic.replication.factor") == replicas
        assert node.settings.int("transaction.state.log.replication.factor") == replicas
        assert node.settings.int("transaction.state.log.min.isr") == min_isr


def test_configured_internal_topics_and_voters_are_kept(tmp_path: Path) -> None:
    text = (
        "defaults: {offsets.topic.replication.factor: 2, controller.quorum.voters: '1@127.0.0.1:5'}\nnodes: [{id: 1}]\n"
    )
    settings = load(tmp_path, text).nodes[0].settings
    assert settings.int("offsets.topic.replication.factor") == 2
    assert settings.list("controller.quorum.voters") == ["1@127.0.0.1:5"]


REFUSED = [
    ("", "a cluster file must be a map"),
    ("- a\n", "a cluster file must be a map"),
    ("cluster: {name: x}\n", "nodes must be a list"),
    ("nodes: []\n", "nodes must be a list"),
    ("nodes: {id: 1}\n", "nodes must be a list"),
    ("nodes: [1]\n", r"my-cluster\.yaml:1: a node must be a map"),
    ("nodes: [{id: 1}]\nnode: 5\n", r"my-cluster\.yaml:2: 'node' is not one of cluster, defaults, nodes"),
    ("nodes: [{id: 1}]\nnodes: [{id: 2}]\n", r":2: nodes: is a duplicate key"),
    ("defaults: 5\nnodes: [{id: 1}]\n", "defaults must be a map"),
    ("cluster: {nam: x}\nnodes: [{id: 1}]\n", r":1: 'nam' is not one of name, id"),
    ("cluster:\n  name: a b\nnodes: [{id: 1}]\n", r":2: cluster\.name=a b: letters"),
    ("cluster: []\nnodes: [{id: 1}]\n", "must be a map"),
    ("nodes:\n  - id: 1\n  - id: x\n", r":3: node\.id=x: Not a number"),
    ("nodes:\n  - id: 1\n  - id: 1\n", "duplicate node name node-1"),
    ("nodes:\n  - id: 1\n  - {id: 1, name: other}\n", "other uses the same node id 1 as node-1"),
    ("nodes:\n  - {id: 1, name: ../etc}\n", r":2: name=\.\./etc: letters"),
    ("nodes:\n  - {id: 1, roles: broker}\n", "at least one controller and one broker"),
    ("nodes:\n  - {id: 1, roles: controller}\n", "at least one controller and one broker"),
    ("defaults: {log.dirs: /same}\nnodes:\n  - id: 1\n  - id: 2\n", "node-2 uses the same directory /same as node-1"),
    (
        "nodes:\n  - id: 1\n  - id: 2\n    listeners: [PLAINTEXT://127.0.0.1:19191, CONTROLLER://127.0.0.1:5]\n",
        r"my-cluster\.yaml:4: listeners=.*node-2 uses the same port 19191 as node-1",
    ),
    ("nodes:\n  - {id: 1, broker.heartbeat.interval.ms: 10000}\n", r":2: broker\.heartbeat\.interval\.ms=10000"),
    ("nodes: [" + "{id: 1}," * 101 + "]\n", "more than 100 nodes"),
    ("nodes: [{id: 1}\n", "is not YAML"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_errors_have_their_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(tmp_path, text)


def test_unknown_keys_are_warned_of_with_their_line(tmp_path: Path) -> None:
    spec = load(tmp_path, "defaults:\n  min.insync.replica: 2\nnodes:\n  - id: 1\n    log.retention.hour: 5\n")
    assert [warning.partition(" is not")[0] for warning in spec.warnings] == [
        f"{tmp_path}/my-cluster.yaml:2: min.insync.replica",
        f"{tmp_path}/my-cluster.yaml:5: log.retention.hour",
    ]


def test_warnings_of_a_node_carry_its_name(tmp_path: Path) -> None:
    spec = load(tmp_path, "nodes:\n  - id: 1\n  - id: 2\n")
    assert [warning.partition(":")[0] for warning in spec.warnings] == ["node-1", "node-2"]


def test_a_nodes_properties_file_makes_the_same_node(tmp_path: Path) -> None:
    spec = load(tmp_path, "nodes:\n  - {id: 1, broker.rack: 'a = b'}\n  - id: 2\n  - id: 3\n")
    for node in spec.nodes:
        path = tmp_path / f"{node.name}.properties"
        path.write_text(node.properties())
        assert load_node(str(path), environment={}).settings == node.settings


@pytest.mark.parametrize(("count", "controllers"), [(1, 1), (2, 1), (3, 3), (4, 3), (5, 5), (6, 5)])
def test_a_dev_cluster_has_an_odd_number_of_controllers(count: int, controllers: int) -> None:
    spec = dev_cluster(count, 9092, "/dir", ["num.partitions=4"])
    assert spec.warnings == ()
    assert [node.name for node in spec.nodes] == [f"node-{number}" for number in range(1, count + 1)]
    assert [node.settings.list("listeners")[0] for node in spec.nodes] == [
        f"PLAINTEXT://127.0.0.1:{port}" for port in range(9092, 9092 + count)
    ]
    assert sum("controller" in node.settings.list("process.roles") for node in spec.nodes) == controllers
    assert len(spec.nodes[0].settings.list("controller.quorum.voters")) == controllers
    assert all(node.settings.int("num.partitions") == 4 for node in spec.nodes)
    assert len([node for node in spec.nodes if node.settings.list("admin.listeners")]) == 1


@pytest.mark.parametrize("count", [0, -1, 101])
def test_a_dev_cluster_has_at_least_one_node_and_not_too_many(count: int) -> None:
    with pytest.raises(ConfigError, match="--nodes"):
        dev_cluster(count, 9092, "/dir")


def test_a_dev_cluster_on_free_ports_clashes_with_nothing() -> None:
    assert [node.settings.list("listeners")[0] for node in dev_cluster(3, 0, "/dir").nodes] == [
        "PLAINTEXT://127.0.0.1:0"
    ] * 3


def test_a_warning_names_the_option_that_was_typed() -> None:
    warnings = dev_cluster(1, 0, "/dir", ["nosuch.key=1"]).warnings
    assert any("--set" in each for each in warnings) and not any("--override" in each for each in warnings)


def test_the_console_of_dev_is_on_the_first_node_only() -> None:
    nodes = dev_cluster(3, 0, "/dir", admin_port=18_086).nodes
    assert [node.settings.list("admin.listeners") for node in nodes] == [["http://127.0.0.1:18086"], [], []]


def test_two_nodes_with_one_admin_port_are_refused() -> None:
    with pytest.raises(ConfigError, match="the same port 18086"):
        dev_cluster(2, 0, "/dir", ["admin.listeners=http://127.0.0.1:18086"])
