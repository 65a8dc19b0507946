"""Nodes run on Linux: said at once elsewhere, by `make` and by the commands that start nodes."""

import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from kvorum.cli.main import main
from kvorum.cli.output import Exit

ROOT = Path(__file__).parent.parent.parent.parent


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_reports_that_it_needs_linux(tmp_path: Path) -> None:
    uname = tmp_path / "uname"
    uname.write_text("#!/bin/sh\necho Darwin\n")
    uname.chmod(0o755)
    installed = f"{tmp_path}/venv/.installed"
    done = subprocess.run(
        ["make", "-s", f"VENV={tmp_path}/venv", installed],
        cwd=ROOT,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0 and "run on Linux only; this is Darwin" in done.stderr
    assert not (tmp_path / "venv").exists()


def test_commands_that_start_nodes_report_that_they_need_linux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = tmp_path / "one.yaml"
    cluster.write_text("nodes: [{id: 1}]\n")
    monkeypatch.setattr("sys.platform", "darwin")
    folder = tmp_path / "folder"
    for words in (["dev", "--dir", str(folder)], ["up", str(cluster), "--dir", str(folder)], ["node", str(cluster)]):
        result = CliRunner().invoke(main, words)
        assert (result.exit_code, "Linux only (this is darwin)" in result.output) == (Exit.USAGE, True), result.output
    assert not folder.exists()
