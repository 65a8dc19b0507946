"""What people write into configuration files and variables that is not read: one line with file, line and key.

Nothing that is written is left out without a word, and no file ends in a traceback.
"""

from pathlib import Path

import pytest

from kvorum.cluster.process.exits import Exit as NodeExit
from kvorum.pipelines.spec.document import parse
from kvorum.pipelines.spec.problems import SpecError
from kvorum.runtime.config_files import load_node
from tests.unit.cli.fake_cluster import FakeCluster, run

NODE = "node.id: 1\nprocess.roles: [broker, controller]\nlisteners: 'PLAINTEXT://:9092,CONTROLLER://:9093'\n"
REFUSED = [
    # A file, and what is said of it behind the file's name.
    (f"base: &base\n  num.partitions: 3\n{NODE}<<: *base\n", ":1: base: no config has this prefix"),
    (f"{NODE}<<: {{num.partitions: 3}}\n", ":4: <<: merge keys are not supported"),
    ("nodes:\n- &one\n  id: 1\n- <<: *one\n  id: 2\n", ":4: <<: merge keys are not supported"),
    ("defaults:\n  <<: {num.partitions: 3}\nnodes: [{id: 1}]\n", ":2: <<: merge keys are not supported"),
    (f"{NODE}config:\n  num.partitions: 3\n", ":5: config.num.partitions is not a config"),
    (f"{NODE}kafka: {{config: {{num.partitions: 3}}}}\n", ":4: kafka.config: no config has this prefix"),
    ("nodes:\n- id: 1\n  properties:\n    num.partitions: 3\n", ":3: properties: no config has this prefix"),
    ("node.id: 1\nlisteners:\n  PLAINTEXT: //:9092\n", ":2: listeners: has a map instead of a value"),
    ("node.id: 1\nlisteners:\n- PLAINTEXT: //:9092\n", ":3: listeners: a list may contain scalar values only"),
    ("node.id: 1\nlog.dirs:\n- /a\n- [/b]\n", ":4: log.dirs: a list may contain scalar values only"),
    ("node.id: 1\nnum.partitions: {a: 1}\n", ":2: num.partitions: has a map instead of a value"),
    (f"{NODE}num.partitions: 3\nnum.partitions: 4\n", ":5: num.partitions: is a duplicate key"),
    ("nodes:\n- id: 1\n  name: a\n  name: b\n", ":4: name: is a duplicate key"),
    ("cluster: {name: a, name: b}\nnodes: [{id: 1}]\n", ":1: name: is a duplicate key"),
    ("nodes:\n  node-1: {id: 1}\n", ":1: nodes must be a list"),
    ("cluster: {name: a}\ndefaults: [num.partitions]\nnodes: [{id: 1}]\n", ":2: defaults must be a map"),
    ("cluster: {id: ''}\nnodes: [{id: 1}]\n", ":1: cluster.id="),
    ("cluster: {id: 'a b'}\nnodes: [{id: 1}]\n", ":1: cluster.id=a b"),
    ("node.id: 1\n\tnum.partitions: 3\n", ":2: is not YAML: "),
    ("num:\n\tpartitions: 3\n", ":2: is not YAML: found character '\\t' that cannot start any token (indent with"),
    ("node.id: 1\nlog.dirs: *nowhere\n", ":2: is not YAML: found undefined alias"),
    ("node.id: 1\n---\nnode.id: 2\n", ":2: is not YAML: but found another document"),
    ("listener: &a\n  name: *a\n", ":2: listener.name.name"),
    ("rsm: &a {config: *a}\n", ":1: rsm.config"),
    ("[" * 5_000, ": is nested too deeply"),
    ("node.id: 1\n? [a]\n: 1\n", ":2: a key must be a string"),
    ("node.id: \x00\n", ": is not YAML"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_yaml_that_is_not_read_is_named_with_its_line_and_key(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(text)
    printed = run(FakeCluster(), "configs", "validate", str(path))
    assert printed.code == NodeExit.CONFIG, printed
    assert f"{path}{message}" in printed.err and len(printed.err.splitlines()) == 1


def test_anchors_and_maps_whose_keys_are_configs_are_read(tmp_path: Path) -> None:
    path = tmp_path / "node.yaml"
    nested = "num: {partitions: &count 3}\ndefault.replication.factor: *count\nlog:\n  retention.ms: 5\n"
    path.write_text(f"{NODE}{nested}")
    settings = load_node(str(path), environment={}, check=False).settings
    found = [settings.raw(key) for key in ("num.partitions", "default.replication.factor", "log.retention.ms")]
    assert found == ["3", "3", "5"]


@pytest.mark.parametrize(("text", "message"), [("a: &a\n  b: *a\n", "within itself"), ("[" * 5_000, "too deeply")])
def test_a_pipelines_file_without_end_is_refused(text: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        parse(f"x: {text}" if text.startswith("[") else text)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("KAFKA_ZOOKEEPER_CONNECT", "zk:2181", "zookeeper.connect was removed from Kafka: the controller quorum"),
        ("KAFKA_ZOOKEEPER_SESSION_TIMEOUT_MS", "6000", "was removed from Kafka: the controller quorum"),
        ("KAFKA_ADVERTISED_HOST_NAME", "me", "advertised.host.name was removed from Kafka: set advertised.listeners"),
        ("KAFKA_ADVERTISED_PORT", "9092", "advertised.port was removed from Kafka"),
        ("KAFKA_PORT", "9092", "port was removed from Kafka: set listeners"),
        ("KAFKA_INTER_BROKER_PROTOCOL_VERSION", "3.9", "was removed from Kafka: now the feature metadata.version"),
        ("KAFKA_LOG_MESSAGE_FORMAT_VERSION", "3.0", "was removed from Kafka"),
        ("KAFKA_BROKER_ID_GENERATION_ENABLE", "true", "was removed from Kafka: ids are never generated"),
        ("KAFKA_CONTROL_PLANE_LISTENER_NAME", "C", "was removed from Kafka: controllers have separate listeners"),
        ("KAFKA_PASSWORD_ENCODER_SECRET", "x", "was removed from Kafka"),
        ("KAFKA_CFG_LISTENERS", "PLAINTEXT://:9092", "another Kafka image and is ignored; set KAFKA_LISTENERS"),
        ("KAFKA_CFG_NODE_ID", "1", "set KAFKA_NODE_ID"),
        ("KAFKA_CREATE_TOPICS", "orders:1:1", "create topics with `kvorum topics create`"),
        ("KAFKA_KRAFT_CLUSTER_ID", "x", "kvorum format --cluster-id"),
        ("KAFKA_ENABLE_KRAFT", "yes", "no other mode exists; remove the key"),
        ("KAFKA_NUM_PARTITION", "3", "did you mean num.partitions"),
    ],
)
def test_a_variable_that_is_not_read_is_named_in_a_warning(name: str, value: str, message: str) -> None:
    (warning,) = load_node(None, environment={name: value}, check=False).warnings
    assert warning.startswith(f"environment {name}: ") and message in warning


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("KAFKA_PORT", "tcp://10.0.0.7:9092"),
        ("KAFKA_PORT_9092_TCP", "tcp://10.0.0.7:9092"),
        ("KAFKA_HEAP_OPTS", "-Xmx1g"),
        ("KAFKA_SERVICE_HOST", "10.0.0.7"),
    ],
)
def test_variables_of_kubernetes_and_of_start_scripts_are_left_alone(name: str, value: str) -> None:
    assert load_node(None, environment={name: value}, check=False).warnings == ()


def test_listeners_of_containers_are_read() -> None:
    environment = {
        "KAFKA_LISTENERS": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:9092",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@kafka:9093",
    }
    loaded = load_node(None, environment=environment, check=False)
    assert loaded.settings.raw("advertised.listeners") == "PLAINTEXT://kafka:9092" and loaded.warnings == ()


def test_a_variable_that_counts_for_every_node_of_a_folder_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cluster.json").write_text("{")
    (tmp_path / "cluster.yaml").write_text("nodes: [{id: 1}]\n")
    monkeypatch.setenv("KAFKA_NODE_ID", "5")
    printed = run(FakeCluster(), "up", str(tmp_path / "cluster.yaml"), "--dir", str(tmp_path))
    assert "warning: environment KAFKA_NODE_ID is set, and is node.id of every node" in printed.err
