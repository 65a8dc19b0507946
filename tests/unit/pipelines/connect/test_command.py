"""The command, as far as it goes without a cluster."""

import os
from pathlib import Path

from click.testing import CliRunner

from kvorum.cli.pipelines import pipelines
from kvorum.pipelines.connect import lease
from kvorum.pipelines.connect.command import connect


def test_it_is_a_subcommand_and_says_what_it_needs() -> None:
    found = CliRunner().invoke(pipelines, ["connect", "--help"])
    assert found.exit_code == 0 and "--bootstrap" in found.output
    assert CliRunner().invoke(pipelines, ["connect"]).exit_code == 2
    wrong = CliRunner().invoke(connect, ["--bootstrap", "h:1", "--conf", "nonsense"])
    assert wrong.exit_code == 2 and "KEY=VALUE" in wrong.output


def test_a_folder_has_one_manager(tmp_path: Path) -> None:
    held = lease.hold(tmp_path)
    try:
        found = CliRunner().invoke(
            connect, ["--bootstrap", "127.0.0.1:1", "--state", str(tmp_path), "--listen", "127.0.0.1:0"]
        )
        assert found.exit_code == 1 and "another manager runs in" in found.output
    finally:
        os.close(held)


def test_a_folder_keeps_its_name_and_the_lease_its_age(tmp_path: Path) -> None:
    assert lease.identity(tmp_path) == lease.identity(tmp_path)
    assert lease.age_seconds(tmp_path) == float("inf")
    lease.touch(tmp_path)
    assert 0 <= lease.age_seconds(tmp_path) < 60
    lease.give_up(tmp_path)
    assert lease.age_seconds(tmp_path) == float("inf") and not lease.guarded(tmp_path)
