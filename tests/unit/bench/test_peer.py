"""The broker beside the two, without it: its command lines, where it is missing, which measures it is asked for."""

import os
import stat
from pathlib import Path

import pytest

from bench import peer
from bench.__main__ import options_of, plan_of
from bench.registry import MEASURES
from bench.run import kinds_for
from bench.systems import MAKERS, PEER, SYSTEMS

KINDS = ["kafka", "kvorum", PEER]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep peers in a folder of this test, and nothing else on the PATH."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv(peer.FOLDER_VARIABLE, str(tmp_path / "peers"))
    return tmp_path


def cargo(folder: Path, lines: str) -> None:
    """Put a script in cargo's place."""
    path = folder / "bin/cargo"
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\n{lines}\n")
    path.chmod(stat.S_IRWXU)


def test_it_is_built_by_name_and_version_with_its_own_lock_file(folder: Path) -> None:
    target = str(folder / f"peers/tansu-{peer.VERSION}")
    assert peer.build_command("cargo") == [
        *("cargo", "install", "tansu", "--version", peer.VERSION, "--locked", "--features", "libsql"),
        *("--root", target),
    ]


def test_it_is_built_once(folder: Path) -> None:
    target = folder / f"peers/tansu-{peer.VERSION}/bin"
    cargo(folder, f'echo "$@" >> {folder}/asked; /bin/mkdir -p {target}; : > {target}/tansu')
    assert peer.build() == peer.build() == target / "tansu"
    assert (folder / "asked").read_text().split()[:4] == ["install", "tansu", "--version", peer.VERSION]
    assert len((folder / "asked").read_text().splitlines()) == 1


def test_the_reason_of_a_failed_build_is_reported(folder: Path) -> None:
    with pytest.raises(peer.PeerUnavailableError, match="cargo is not on the PATH; it builds Tansu"):
        peer.build()
    cargo(folder, "echo no such crate >&2; exit 101")
    with pytest.raises(peer.PeerUnavailableError, match=r"did not build Tansu .*:\nno such crate"):
        peer.build()


def test_a_run_with_it_ends_at_once_where_it_cannot_be_had() -> None:
    options = options_of(["--system", "kvorum", "--peer"])
    with pytest.raises(SystemExit, match="cargo is not on the PATH"):
        plan_of(options)


def test_it_takes_part_only_when_it_is_requested(folder: Path) -> None:
    program = peer.root() / "bin/tansu"
    program.parent.mkdir(parents=True)
    program.touch()
    assert plan_of(options_of(["--system", "kvorum"])).kinds == ["kvorum"]
    assert plan_of(options_of(["--system", "kvorum", "--peer"])).kinds == ["kvorum", PEER]
    assert set(SYSTEMS) == set(KINDS) and set(MAKERS) == set(KINDS) - {PEER}


def test_it_listens_on_a_free_port_and_keeps_its_file_in_the_folder_it_is_started_in() -> None:
    assert peer.start_command(Path("/peers/tansu"), 4711) == [
        *("/peers/tansu", "broker"),
        *("--listener-url", "tcp://127.0.0.1:4711", "--advertised-listener-url", "tcp://127.0.0.1:4711"),
        *("--storage-engine", "sqlite://tansu.db"),
    ]


def test_it_is_started_in_its_folder_and_ended_by_its_pid(folder: Path) -> None:
    program = peer.root() / "bin/tansu"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    program.chmod(stat.S_IRWXU)
    system = peer.Peer(folder, 1, {})
    assert system.pids() == []
    system.start()
    [pid] = system.pids()
    assert os.path.isdir(f"/proc/{pid}") and system.bootstrap == "{}:{}".format(*system.address(1))
    system.close()
    system.close()
    assert not os.path.exists(f"/proc/{pid}") and system.pids() == []


def test_measures_of_a_single_node_can_be_selected() -> None:
    requested = [measure for measure in MEASURES if PEER in kinds_for(measure, KINDS)]
    assert {measure.name for measure in requested} == peer.MEASURES
    assert {measure.nodes for measure in requested} == {1}
    assert all(kinds_for(measure, KINDS[:2]) == KINDS[:2] for measure in MEASURES)
