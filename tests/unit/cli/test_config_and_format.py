"""`kvorum configs validate` and `kvorum format`: what is wrong is said by file and line, and nothing is done twice."""

import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from kvorum.cli.main import main
from kvorum.cli.output import Exit
from kvorum.cluster.process import exits
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.raft.opening import open_raft
from kvorum.quorum.raft.voters import StoredState
from kvorum.runtime.disk import OsDisk
from kvorum.storage.checkpoints import read_meta_properties

ROOT = Path(__file__).parent.parent.parent.parent
CLUSTER_ID = "q2dDxX0qSi6ZGo5pjBP2lw"


def kvorum(*arguments: str) -> tuple[int, str]:
    """Run the command line with no configuration from the environment; return exit code and what was printed."""
    without = {name: None for name in os.environ if name.startswith(("KAFKA_", "KVORUM_"))}
    result = CliRunner().invoke(main, arguments, env=without)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def node(folder: Path, *lines: str) -> Path:
    """Write the configuration of a broker, with further lines behind the first five."""
    path = folder / "node.properties"
    first = [
        "process.roles=broker",
        "node.id=7",
        "controller.quorum.voters=1@127.0.0.1:9093",
        "controller.listener.names=CONTROLLER",
        f"log.dirs={folder}/data",
    ]
    path.write_text("\n".join((*first, *(lines or ("listeners=PLAINTEXT://127.0.0.1:0",)))) + "\n")
    return path


@pytest.mark.parametrize("path", sorted(filter(Path.is_file, (ROOT / "configs").iterdir())), ids=lambda path: path.name)
def test_every_ready_configuration_is_in_order(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    if "certificates/" in path.read_text():
        kvorum("certs", "init")
        for name in ("node-1", "node-2", "node-3"):
            assert kvorum("certs", "node", name)[0] == Exit.DONE
    code, printed = kvorum("configs", "validate", str(path))
    assert (code, "OK, " in printed) == (Exit.DONE, True), printed
    assert "warning" not in printed


@pytest.mark.parametrize(
    ("line", "warning"),
    [
        ("num.partitons=3", "did you mean num.partitions?"),
        ("zookeeper.connect=localhost:2181", "set controller.quorum.voters and process.roles"),
        ("replica.lag.max.messages=4000", "replica.lag.time.max.ms"),
        ("nothing.like.it=1", "is not a config of Kafka or Kvorum"),
    ],
    ids=lambda text: text.split("=")[0],
)
def test_an_unknown_key_is_a_warning_with_its_line_and_replacement(line: str, warning: str, tmp_path: Path) -> None:
    path = node(tmp_path, line)
    code, printed = kvorum("configs", "validate", str(path))
    assert code == Exit.DONE
    assert re.search(rf"^warning: {re.escape(str(path))}:6: .*{re.escape(warning)}", printed, re.M), printed


def test_a_zookeeper_based_file_is_refused_with_hints_for_its_keys(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("broker.id=1\nzookeeper.connect=zk-1:2181\nlog.message.format.version=2.8\n")
    code, printed = kvorum("configs", "validate", str(path))
    assert code == exits.Exit.CONFIG and "process.roles=: must be broker, controller or broker,controller" in printed
    for line, word in ((2, "controller.quorum.voters"), (3, "remove the key")):
        assert re.search(rf"^warning: {re.escape(str(path))}:{line}: .*{re.escape(word)}", printed, re.M), printed


def test_an_invalid_configuration_ends_the_node_with_the_exit_code_of_the_units(tmp_path: Path) -> None:
    code, printed = kvorum("node", str(node(tmp_path, "num.partitions=three")))
    assert code == exits.Exit.CONFIG and ":6: num.partitions=three" in printed


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["num.partitions=three"], ":6: num.partitions=three"),
        (["", "min.insync.replicas=0"], ":7: min.insync.replicas=0"),
        (["# a comment", "listeners=PLAINTEXT//127.0.0.1"], ":7: listeners="),
        (["node.id=-4"], ":6: node.id=-4"),
        (["process.roles=boss"], ":6: process.roles=boss"),
        (["a=\\u00zz"], ":6: \\u00zz"),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_a_wrong_value_is_an_error_with_its_line(lines: list[str], message: str, tmp_path: Path) -> None:
    path = node(tmp_path, *lines)
    code, printed = kvorum("configs", "validate", str(path))
    assert (code, f"{path}{message}" in printed) == (exits.Exit.CONFIG, True), printed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nodes:\n  - {id: 1}\n  - {id: 1}\n", ":3: name=node-1: duplicate node name node-1"),
        ("nodes:\n  - {id: 1\n", ":3: is not YAML"),
        ("nods: []\nnodes:\n  - {id: 1}\n", ":1: 'nods' is not one of cluster, defaults, nodes"),
        ("nodes:\n  - id: 1\n    log.retention.hours: soon\n", ":3: log.retention.hours=soon"),
        ("defaults:\n  num:\n    partitions: three\nnodes:\n  - {id: 1}\n", ":3: num.partitions=three"),
    ],
    ids=["a node twice", "cut short", "unknown section", "wrong value", "nested value"],
)
def test_a_cluster_file_is_refused_with_its_line(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(text)
    code, printed = kvorum("configs", "validate", str(path))
    assert (code, f"{path}{message}" in printed) == (exits.Exit.CONFIG, True), printed


def test_a_cluster_file_warns_of_a_misspelt_key_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text("nodes:\n  - id: 1\n    num.io.thread: 3\n")
    code, printed = kvorum("configs", "validate", str(path))
    assert code == Exit.DONE
    assert f"warning: {path}:3: num.io.thread is not" in printed and "did you mean num.io.threads" in printed


def test_a_node_is_formatted_once_and_its_ports_are_kept(tmp_path: Path) -> None:
    path = node(tmp_path)
    code, printed = kvorum("format", str(path), "--cluster-id", CLUSTER_ID)
    assert code == Exit.DONE
    identity = read_meta_properties(OsDisk(), f"{tmp_path}/data")
    assert identity is not None and (identity.cluster_id, identity.node_id) == (CLUSTER_ID, 7)
    assert str(identity.directory_id) in printed
    recorded = tmp_path / "data" / ".kvorum" / "ports.properties"
    ports = recorded.read_text()
    assert re.search(r"^listeners=PLAINTEXT://127\.0\.0\.1:[1-9]\d*$", ports, re.M)

    code, printed = kvorum("format", str(path), "--cluster-id", CLUSTER_ID)
    assert (code, "is formatted already" in printed) == (exits.Exit.DATA_REFUSED, True)
    code, printed = kvorum("format", str(path), "--cluster-id", CLUSTER_ID, "--ignore-formatted")
    assert (code, "nothing was done" in printed) == (Exit.DONE, True)
    code, printed = kvorum("format", str(path), "--cluster-id", "another", "--ignore-formatted")
    assert (code, CLUSTER_ID in printed) == (exits.Exit.DATA_REFUSED, True)
    assert read_meta_properties(OsDisk(), f"{tmp_path}/data") == identity
    assert recorded.read_text() == ports


COMBINED = """\
process.roles=broker,controller
node.id={id}
controller.listener.names=CONTROLLER
controller.quorum.voters={voters}
listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0
log.dirs={folder}/data-{id}
"""


def test_a_controllers_own_voter_entry_gets_the_chosen_port(tmp_path: Path) -> None:
    path = tmp_path / "node.properties"
    path.write_text(COMBINED.format(id=1, voters="1@127.0.0.1:0", folder=tmp_path))
    code, printed = kvorum("format", str(path), "--cluster-id", CLUSTER_ID)
    assert code == Exit.DONE, printed
    chosen = dict(line.split("=", 1) for line in printed.splitlines() if "=" in line)
    port = re.fullmatch(r".*CONTROLLER://127\.0\.0\.1:([1-9]\d*)", chosen["listeners"])
    assert port and chosen["controller.quorum.voters"] == f"1@127.0.0.1:{port[1]}"


def test_port_0_of_another_voter_is_refused_and_nothing_is_formatted(tmp_path: Path) -> None:
    path = tmp_path / "node.properties"
    path.write_text(COMBINED.format(id=1, voters="1@127.0.0.1:0,2@127.0.0.1:0", folder=tmp_path))
    code, printed = kvorum("format", str(path), "--cluster-id", CLUSTER_ID)
    assert (code, "port 0 of node 2" in printed) == (exits.Exit.CONFIG, True), printed
    assert [each.name for each in tmp_path.iterdir()] == ["node.properties"]


def test_nodes_side_by_side_share_neither_ports_nor_pid_files(tmp_path: Path) -> None:
    for number in (1, 2):
        path = tmp_path / f"{number}.properties"
        path.write_text(COMBINED.format(id=number, voters=f"{number}@127.0.0.1:0", folder=tmp_path))
        assert kvorum("format", str(path), "--cluster-id", CLUSTER_ID)[0] == Exit.DONE
    files = sorted(str(each.relative_to(tmp_path)) for each in tmp_path.rglob("ports.properties"))
    assert files == ["data-1/.kvorum/ports.properties", "data-2/.kvorum/ports.properties"]
    first, second = ((tmp_path / file).read_text() for file in files)
    assert first != second
    assert not list(tmp_path.glob("*.pid")) and not (tmp_path / "ports.properties").exists()


@pytest.mark.parametrize("name", ["empty.properties", "empty.yaml"])
def test_a_file_with_nothing_in_it_is_refused_by_its_name(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.touch()
    code, printed = kvorum("configs", "validate", str(path))
    assert (code, printed.startswith(f"kvorum: {path}: process.roles")) == (exits.Exit.CONFIG, True), printed


def test_a_key_store_is_refused_by_its_line(tmp_path: Path) -> None:
    path = node(tmp_path, "listeners=SSL://127.0.0.1:9092", "inter.broker.listener.name=SSL")
    with path.open("a") as file:
        file.write("listener.security.protocol.map=SSL:SSL,CONTROLLER:PLAINTEXT\n")
    code, printed = kvorum("configs", "validate", str(path))
    assert (code, f"{path}: ssl.keystore.location: is not set" in printed) == (exits.Exit.CONFIG, True), printed
    with path.open("a") as file:
        file.write(f"ssl.keystore.type=PEM\nssl.keystore.location={tmp_path}/node.pem\n")
    code, printed = kvorum("configs", "validate", str(path))
    assert (code, f"{path}:10: ssl.keystore.location=" in printed) == (exits.Exit.CONFIG, True), printed
    assert "cannot be read: No such file" in printed and printed.count("\n") == 1


def test_every_hint_names_an_existing_command() -> None:
    from kvorum.cli.commands import COMMANDS
    from kvorum.runtime.config_defs import REMOVED

    hinted = [match for text in REMOVED.values() for match in re.findall(r"\bkvorum (\w+)", text)]
    assert set(hinted) <= set(COMMANDS)


def test_a_random_id_is_fit_to_be_a_cluster_id() -> None:
    code, printed = kvorum("format", "--random-id")
    assert code == Exit.DONE and re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}\n", printed)


CONTROLLER = """
process.roles=controller
node.id={id}
listeners=CONTROLLER://127.0.0.1:{port}
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:{port}
log.dirs={folder}/data
"""


def controller(folder: Path, node_id: int = 1, port: int = 29093) -> str:
    path = folder / f"controller-{node_id}.properties"
    path.write_text(CONTROLLER.format(id=node_id, port=port, folder=folder / str(node_id)))
    return str(path)


def state_of(folder: Path, node_id: int = 1) -> StoredState:
    opened = open_raft(OsDisk(), str(folder / str(node_id) / "data" / "raft"))
    opened.journal.close()
    return opened.voters.state


def test_a_dynamic_quorum_begins_with_one_controller_or_with_those_named(tmp_path: Path) -> None:
    assert kvorum("format", controller(tmp_path), "-t", CLUSTER_ID, "--standalone")[0] == Exit.DONE
    state = state_of(tmp_path)
    assert state.dynamic and state.ready and state.pins == {1: state.directory_id}
    assert state.endpoints == {1: [("CONTROLLER", "127.0.0.1", 29093)]}
    first, second = (str(Uuid(bytes([each]) * 16)) for each in (1, 2))
    text = f"2@127.0.0.1:29094:{first},3@[::1]:29095:{second}"
    assert kvorum("format", controller(tmp_path, 2), "-t", CLUSTER_ID, "--initial-controllers", text)[0] == Exit.DONE
    state = state_of(tmp_path, 2)
    assert state.directory_id == bytes([1]) * 16 and state.voter_ids == [2, 3]
    assert state.endpoints[3] == [("CONTROLLER", "::1", 29095)]
    assert kvorum("format", controller(tmp_path, 4), "-t", CLUSTER_ID, "-N")[0] == Exit.DONE
    state = state_of(tmp_path, 4)
    assert state.dynamic and not state.ready and state.pins == {} and state.voter_ids == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give one of --standalone, --initial-controllers and --no-initial-controllers"),
        (["-s", "-N"], "give one of --standalone, --initial-controllers and --no-initial-controllers"),
        (["-I", "1@127.0.0.1:1"], "is not of the form ID@HOST:PORT:DIRECTORY_ID"),
        (["-I", "1@127.0.0.1:1:short"], "is not a base64 UUID"),
        (["-I", ","], "contains no controller"),
        (["-s", "--override", "controller.quorum.voters=1@127.0.0.1:29093"], "defines a static quorum"),
    ],
)
def test_a_format_that_cannot_be_meant_is_refused_and_writes_nothing(
    tmp_path: Path, words: list[str], message: str
) -> None:
    code, printed = kvorum("format", controller(tmp_path), "-t", CLUSTER_ID, *words)
    assert code != Exit.DONE and message in " ".join(printed.split()), printed
    assert not (tmp_path / "1").exists()


def test_the_controller_to_add_is_read_from_its_directory(tmp_path: Path) -> None:
    path = controller(tmp_path)
    script = ("kafka-metadata-quorum", "--bootstrap-server", "127.0.0.1:1", "--command-config", path)
    code, printed = kvorum(*script, "add-controller", "--dry-run")
    assert code == Exit.FAILED and "Unable to read meta.properties from" in printed
    assert kvorum("format", path, "-t", CLUSTER_ID, "-N")[0] == Exit.DONE
    directory = Uuid(state_of(tmp_path).directory_id)
    reported = f"controller 1 with directory id {directory} and endpoints: CONTROLLER://127.0.0.1:29093\n"
    assert kvorum(*script, "add-controller", "--dry-run") == (Exit.DONE, f"DRY RUN of adding {reported}")
    own = ("quorum", "add-controller", "-b", "127.0.0.1:1", "--config", path, "--dry-run")
    assert kvorum(*own) == (Exit.DONE, f"DRY RUN of adding {reported}")
    removal = ("remove-controller", "-i", "1", "-d", str(directory), "--dry-run")
    words = f"DRY RUN of removing  KRaft controller 1 with directory id {directory}\n"
    assert kvorum(*script[:3], *removal) == (Exit.DONE, words)


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("node.id", "node.id not found in configuration file. Is this a valid controller configuration file?"),
        ("process.roles", "process.roles did not contain 'controller' in configuration file."),
        ("log.dirs", "Neither metadata.log.dir nor log.dirs were found."),
        ("controller.listener.names", "controller.listener.names was not found."),
    ],
)
def test_a_file_of_no_controller_is_refused_with_kafkas_message(tmp_path: Path, missing: str, message: str) -> None:
    path = Path(controller(tmp_path))
    path.write_text("\n".join(line for line in path.read_text().splitlines() if not line.startswith(f"{missing}=")))
    script = ("kafka-metadata-quorum", "--bootstrap-server", "127.0.0.1:1", "--command-config", str(path))
    code, printed = kvorum(*script, "add-controller")
    assert code == Exit.FAILED and message in " ".join(printed.split())


def test_a_nodes_file_is_rendered_from_a_cluster_on_several_machines(tmp_path: Path) -> None:
    cluster = str(ROOT / "configs" / "three-machines.yaml")
    code, printed = kvorum("config", "render", cluster, "--node", "2", "--set", f"log.dirs={tmp_path}/data")
    by_name = kvorum("configs", "render", cluster, "--node", "node-2", "--set", f"log.dirs={tmp_path}/data")
    assert (code, by_name) == (Exit.DONE, (Exit.DONE, printed))
    assert "advertised.listeners=CLIENTS://10.0.0.2:9092," in printed and "warning" not in printed
    path = tmp_path / "node.properties"
    path.write_text(printed)
    code, formatted = kvorum("format", str(path), "--cluster-id", CLUSTER_ID)
    assert code == Exit.DONE and f"formatted {tmp_path}/data for node 2" in formatted
    code, printed = kvorum("configs", "render", cluster, "--node", "9")
    assert (code, printed.count("\n")) == (Exit.NOT_FOUND, 1) and "node-1 (1), node-2 (2)" in printed
    code, printed = kvorum("configs", "render", cluster, "--node", "1", "--set", "ssl.keystore.location=node.pem")
    assert "ssl.keystore.location=node.pem is relative to the working directory" in printed


def test_a_cluster_on_several_machines_does_not_start_on_one(tmp_path: Path) -> None:
    cluster = str(ROOT / "configs" / "three-machines.yaml")
    code, printed = kvorum("up", cluster, "--dir", str(tmp_path / "data"))
    assert (code, printed.count("\n")) == (Exit.USAGE, 1) and "kvorum configs render" in printed
    assert not (tmp_path / "data").exists()
