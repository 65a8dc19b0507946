"""Files, environment and overrides become one configuration, with line numbers and advice."""

from pathlib import Path

import pytest

from kvorum.runtime.config import ConfigError, Settings
from kvorum.runtime.config_files import environment_entries, load_node, variable_key

MINIMAL = """\
# a node
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:19091,CONTROLLER://127.0.0.1:19191
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:19191
log.dirs=/var/lib/kvorum
"""


def write(tmp_path: Path, text: str, name: str = "node.properties") -> str:
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def settings_of(path: str, **environment: str) -> Settings:
    return load_node(path, environment=environment, check=False).settings


def test_a_properties_file_is_read(tmp_path: Path) -> None:
    loaded = load_node(write(tmp_path, MINIMAL), environment={})
    assert loaded.warnings == ()
    assert loaded.settings.int("node.id") == 1
    assert loaded.settings.list("process.roles") == ["broker", "controller"]
    assert loaded.settings.source("node.id").where == f"{tmp_path}/node.properties:3"


def test_flat_and_nested_yaml_are_equivalent(tmp_path: Path) -> None:
    flat = "process.roles: broker,controller\nnode.id: 1\nlog.dirs: [/a, /b]\nauto.create.topics.enable: no\n"
    nested = """\
process: {roles: [broker, controller]}
node:
  id: 1
log.dirs:
  - /a
  - /b
auto.create:
  topics.enable: off
broker.rack: ~
"""
    expected = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "log.dirs": "/a,/b",
        "auto.create.topics.enable": False,
    }
    assert settings_of(write(tmp_path, flat, "a.yaml")) == Settings.of(expected)
    assert settings_of(write(tmp_path, nested, "b.yml")) == Settings.of(expected)


def test_yaml_words_that_look_like_booleans_keep_their_text_where_a_text_is_wanted(tmp_path: Path) -> None:
    assert settings_of(write(tmp_path, "kvorum.fast.fencing: off\n", "a.yaml")).str("kvorum.fast.fencing") == "off"


def test_an_empty_file_is_no_config_at_all(tmp_path: Path) -> None:
    assert settings_of(write(tmp_path, "", "a.yaml")) == Settings.of() == settings_of(write(tmp_path, ""))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "a.properties",
            "node.id=1\n\nnum.partitions=none\n",
            "a.properties:3: num.partitions=none: Not a number of type INT",
        ),
        ("a.properties", "node.id=1\nbroker.rack=\\u00\n", "a.properties:2: .*four hexadecimal digits"),
        ("a.yaml", "node.id: 1\nnum:\n  partitions: 0\n", "a.yaml:3: num.partitions=0: Value must be at least 1"),
        ("a.yaml", "node.id: 1\nlog.dirs: [a, [b]]\n", "a.yaml:2: log.dirs: a list may contain scalar values only"),
        ("a.yaml", "node.id: 1\n  bad: [\n", "a.yaml:2: is not YAML"),
        ("a.yaml", "- node.id\n", "a.yaml:1: must be a map"),
        ("a.yaml", "{? [a] : 1}\n", "a.yaml:1: a key must be a string"),
        ("a.properties", "a=\x00\xff", "a.properties"),
    ],
)
def test_errors_name_file_and_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match=message):
        load_node(str(path), environment={}, check=False)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.properties: cannot be read: No such file"):
        load_node(str(tmp_path / "nowhere.properties"), environment={})


def test_a_file_far_too_large_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="larger than"):
        load_node(write(tmp_path, "#" * (1 << 21)), environment={})


def test_the_environment_wins_over_the_file_and_an_override_over_both(tmp_path: Path) -> None:
    path = write(tmp_path, "num.partitions=1\nbroker.rack=file\nnode.id=1\n")
    environment = {
        "KAFKA_NUM_PARTITIONS": "2",
        "KAFKA_BROKER_RACK": "kafka",
        "KVORUM_BROKER_RACK": "kvorum",
        "PATH": "/bin",
    }
    loaded = load_node(path, overrides=["num.partitions=3"], environment=environment, check=False)
    assert loaded.settings.int("num.partitions") == 3
    assert loaded.settings.str("broker.rack") == "kvorum"
    assert loaded.settings.int("node.id") == 1
    assert loaded.settings.source("broker.rack").where == "environment KVORUM_BROKER_RACK"
    assert loaded.settings.source("num.partitions").where == "--override"
    assert loaded.warnings == ()


@pytest.mark.parametrize(
    ("variable", "key"),
    [
        ("NODE_ID", "node.id"),
        ("LISTENER_SECURITY_PROTOCOL_MAP", "listener.security.protocol.map"),
        ("LISTENER_NAME_A_SCRAM___SHA___256_SASL_JAAS_CONFIG", "listener.name.a.scram-sha-256.sasl.jaas.config"),
        ("A__B_C", "a_b.c"),
        ("A___B__C_D", "a-b_c.d"),
    ],
)
def test_a_variable_names_a_key_as_in_kafkas_images(variable: str, key: str) -> None:
    assert variable_key(variable) == key


def test_our_own_keys_need_no_second_kvorum() -> None:
    found = {key: entry.text for key, entry in environment_entries({"KVORUM_FAST_FENCING": "off"})}
    assert found == {"kvorum.fast.fencing": "off"}


def test_variables_that_are_no_configs_are_left_alone() -> None:
    others = {
        "KAFKA_HEAP_OPTS": "-Xmx1g",
        "KAFKA_PORT_9092_TCP_ADDR": "10.0.0.1",
        "KVORUM_LOG_LEVEL": "debug",
        "KVORUM_FAILPOINTS": "",
        "KAFKA": "x",
    }
    assert environment_entries(others) == []


def test_unknown_removed_and_doubled_keys_are_warned_of_and_the_rest_counts(tmp_path: Path) -> None:
    path = write(tmp_path, "num.partitons=5\nzookeeper.connect=zk:2181\nbroker.rack=a\nbroker.rack=b\n")
    loaded = load_node(path, overrides=["log.dir.s=x"], environment={"KAFKA_NUM_PARTITION": "3"}, check=False)
    assert loaded.settings == Settings.of({"broker.rack": "b"})
    unknown, removed, doubled, variable, override = loaded.warnings
    assert unknown == f"{path}:1: num.partitons is not a config of Kafka or Kvorum; did you mean num.partitions?"
    assert removed.startswith(f"{path}:2: zookeeper.connect was removed from Kafka: ")
    assert doubled == f"{path}:4: broker.rack is a duplicate; this one is used"
    assert variable.startswith("environment KAFKA_NUM_PARTITION: num.partition is not a config")
    assert override.startswith("--override: log.dir.s is not a config")


@pytest.mark.parametrize("text", ["num.partitions", "=3", " =3", ""])
def test_an_override_without_key_and_value_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not KEY=VALUE"):
        load_node(None, overrides=[text], environment={}, check=False)


def test_a_wrong_value_in_the_environment_names_the_variable() -> None:
    with pytest.raises(ConfigError, match=r"environment KAFKA_NODE_ID: node\.id=one"):
        load_node(None, environment={"KAFKA_NODE_ID": "one"}, check=False)


def test_loading_checks_the_keys_against_each_other(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"node\.properties:3: node\.id=-4"):
        load_node(write(tmp_path, MINIMAL.replace("node.id=1", "node.id=-4")), environment={})
