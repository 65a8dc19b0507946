"""kafka-storage: directories are formatted and looked at with Kafka's options and words."""

import re
from pathlib import Path

import pytest

from kvorum.cli.output import Exit
from kvorum.quorum.bootstrap_file import BOOTSTRAP_FILE, read_bootstrap, write_bootstrap
from kvorum.quorum.records import RemoveUserScramCredential, UserScramCredential
from kvorum.runtime.disk import OsDisk
from tests.unit.cli.test_config_and_format import CLUSTER_ID, kvorum

IDS = ("JEXY6aqzQY-32P5TStzaFg", "MvDxzVmcRsaTz33bUuRU6A")


def storage(*words: str, code: Exit = Exit.DONE) -> list[str]:
    """Return the lines that it prints."""
    found, printed = kvorum("kafka-storage.sh", *words)
    assert found == code, printed
    return printed.splitlines()


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A node of both roles, with two log directories."""
    path = tmp_path / "server.properties"
    path.write_text(
        f"process.roles=broker,controller\nnode.id=1\ncontroller.quorum.bootstrap.servers=127.0.0.1:9093\n"
        f"listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:9093\ncontroller.listener.names=CONTROLLER\n"
        f"log.dirs={tmp_path}/a,{tmp_path}/b\n"
    )
    return path


def test_a_node_is_formatted_once_and_looked_at(node: Path, tmp_path: Path) -> None:
    config = ("-c", str(node))
    lines = storage("info", *config, code=Exit.FAILED)
    assert lines[0] == "Found problems:" and f"  {tmp_path}/a does not exist" in lines
    assert sorted(storage("format", "-t", CLUSTER_ID, *config, "--standalone")) == [
        f"Formatting data directory {tmp_path}/b with metadata.version 4.3-IV0.",
        f"Formatting dynamic metadata voter directory {tmp_path}/a with metadata.version 4.3-IV0.",
        f"Formatting dynamic metadata voter directory {tmp_path}/a-controller with metadata.version 4.3-IV0.",
    ]
    lines = storage("info", *config)
    assert lines[:5] == ["Found log directories:", *(f"  {tmp_path}/{name}" for name in ("a", "a-controller", "b")), ""]
    shape = rf"Found metadata: {{cluster.id={CLUSTER_ID}, directory.id=\S{{22}}, node.id=1, version=1}}"
    assert re.fullmatch(shape, lines[5])
    (line,) = storage("format", "-t", CLUSTER_ID, *config, "--standalone", code=Exit.FAILED)
    assert "is formatted already" in line
    again = storage("format", "-t", CLUSTER_ID, *config, "--ignore-formatted", "--standalone")
    assert again == ["All of the log directories are already formatted."]
    (tmp_path / "b" / "meta.properties").unlink()
    assert f"  {tmp_path}/b is not formatted." in storage("info", *config, code=Exit.FAILED)


def test_initial_controllers_bring_their_directory_ids(node: Path, tmp_path: Path) -> None:
    words = ("format", "-t", CLUSTER_ID, "-c", str(node), "--initial-controllers")
    for wrong in ("1@h:9093", "1:9093:x", f"one@h:1:{IDS[0]}"):
        (line,) = storage(*words, wrong, code=Exit.FAILED)
        assert "is not of the form ID@HOST:PORT:DIRECTORY_ID" in line
    (line,) = storage(*words, "1@h:9093:x", code=Exit.FAILED)
    assert "--initial-controllers: '1@h:9093:x'" in line
    storage(*words, f"1@h:9093:{IDS[0]},2@h:9093:{IDS[1]}")
    assert f"directory.id={IDS[0]}" in (tmp_path / "a-controller" / "meta.properties").read_text()


def test_a_static_quorum_takes_no_first_voters(node: Path, tmp_path: Path) -> None:
    node.write_text(node.read_text() + "controller.quorum.voters=1@127.0.0.1:9093\n")
    words = ("format", "-t", CLUSTER_ID, "-c", str(node))
    (line,) = storage(*words, "--standalone", code=Exit.FAILED)
    assert "controller.quorum.voters defines a static quorum" in line
    lines = storage(*words)
    assert f"Formatting metadata directory {tmp_path}/a-controller with metadata.version 4.3-IV0." in lines


def test_unsupported_format_options_are_refused(node: Path, tmp_path: Path) -> None:
    words = ("format", "-t", CLUSTER_ID, "-c", str(node), "--standalone")
    for more, message in (
        (("--release-version", "4.0"), "metadata.version=25 is not the level of this release (30)"),
        (("--release-version", "9.9"), "Unknown metadata.version '9.9'"),
        (("--feature", "nope.version=1"), "Unsupported feature: nope.version"),
        (("--feature", "transaction.version=0"), "transaction.version=0 is not the level of this release"),
    ):
        (line,) = storage(*words, *more, code=Exit.FAILED)
        assert message in line
    assert not (tmp_path / "a").exists(), "nothing was formatted"
    (line,) = storage("format", "-t", "short", "-c", str(node), code=Exit.FAILED)
    assert "Cluster ID string short does not appear to be a valid UUID" in line
    storage(*words, "-N", code=Exit.FAILED)
    storage(*words, "--feature", "transaction.version=2", "-r", "4.3")


def test_features_and_ids_are_printed_as_kafka_prints_them() -> None:
    assert re.fullmatch(r"[A-Za-z0-9_-]{22}", storage("random-uuid")[0])
    assert storage("version-mapping")[:2] == ["metadata.version=30 (4.3-IV0)", "kraft.version=1"]
    assert storage("version-mapping", "-r", "4.0")[0] == "metadata.version=25 (4.0)"
    (line,) = storage("version-mapping", "-r", "9.9", code=Exit.FAILED)
    assert "Unknown metadata.version '9.9'. Supported metadata.version are: 3.3-IV3, 3.4-IV0, " in line
    for name in ("kafka-storage", "kafka-features"):
        code, printed = kvorum(
            *(name, "feature-dependencies", "--feature", "eligible.leader.replicas.version=1"),
            *("--feature", "group.version=1", "--feature", "metadata.version=25"),
        )
        assert (code, printed.splitlines()) == (
            Exit.DONE,
            [
                "eligible.leader.replicas.version=1 requires:",
                "    metadata.version=23 (4.0-IV1)",
                "group.version=1 has no dependencies.",
                "metadata.version=25 (4.0-IV3) has no dependencies.",
            ],
        )
    for wrong, message in (
        ("nope=1", "Unknown feature: nope"),
        ("group.version=9", "Feature level 9 is not supported"),
    ):
        (line,) = storage("feature-dependencies", "-f", wrong, code=Exit.FAILED)
        assert message in line


def test_users_are_stored_with_the_controller(node: Path, tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("SCRAM-SHA-512=[name=bob,password=hunter2]\n")
    options = ("--add-scram", "SCRAM-SHA-256=[name=ann,password=hunter2]", "-S", f"@{users}")
    storage("format", "-t", CLUSTER_ID, "-c", str(node), "--standalone", *options)
    found = read_bootstrap(OsDisk(), f"{tmp_path}/a-controller")
    assert [(each.name, each.mechanism) for each in found if isinstance(each, UserScramCredential)] == [
        ("ann", 1),
        ("bob", 2),
    ]
    assert "hunter2" not in (tmp_path / "a-controller" / BOOTSTRAP_FILE).read_text()
    assert read_bootstrap(OsDisk(), f"{tmp_path}/a") == []


def test_wrong_users_leave_nothing_behind(node: Path, tmp_path: Path) -> None:
    words = ("format", "-t", CLUSTER_ID, "-c", str(node), "--standalone", "--add-scram")
    (line,) = storage(*words, "SCRAM-SHA-256=[password=hunter2]", code=Exit.FAILED)
    assert line == "kvorum: You must supply 'name' to add-scram"
    (line,) = storage(*words, f"@{tmp_path}/none", code=Exit.FAILED)
    assert line == f"kvorum: --add-scram: {tmp_path}/none: No such file or directory"
    assert not (tmp_path / "a").exists()


def test_users_without_a_controller_to_format_are_reported(node: Path, tmp_path: Path) -> None:
    words = ("format", "-t", CLUSTER_ID, "-c", str(node), "--standalone")
    storage(*words)
    (tmp_path / "b" / "meta.properties").unlink()
    lines = storage(*words, "-g", "-S", "SCRAM-SHA-256=[name=a,password=b]")
    assert any("--add-scram has no effect" in line for line in lines)


def test_a_format_that_is_repeated_does_not_keep_the_users_of_the_first(node: Path, tmp_path: Path) -> None:
    (tmp_path / "a-controller").mkdir()
    write_bootstrap(OsDisk(), f"{tmp_path}/a-controller", [RemoveUserScramCredential(name="old", mechanism=1)])
    storage("format", "-t", CLUSTER_ID, "-c", str(node), "--standalone")
    assert not (tmp_path / "a-controller" / BOOTSTRAP_FILE).exists()
