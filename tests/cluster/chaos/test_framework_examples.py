"""The applications of docs/examples/pytest lose nothing when a leader is killed, as their own tests say."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent.parent
EXAMPLES = ROOT / "docs" / "examples" / "pytest"
RUN_SECONDS = 400
INSTALL_SECONDS = 600


def run_example(python: Sequence[str], folder: Path, name: str) -> None:
    """Run an application's own test, as its first line says, in a folder with nothing else."""
    for file in (f"{name}.py", f"test_{name}.py"):
        shutil.copy(EXAMPLES / file, folder)
    command = [*python, "-m", "pytest", "-p", "no:cacheprovider", "--basetemp=folders", "--rootdir=."]
    command += ["--kvorum-export", "KAFKA_SERVERS", f"test_{name}.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr


def test_faststream(tmp_path: Path) -> None:
    run_example([sys.executable, "-W", "error::RuntimeWarning"], tmp_path, "faststream_invoices")


@pytest.mark.long
def test_quix_streams(tmp_path: Path) -> None:
    """In an environment of its own: Quix Streams pins an older confluent-kafka than Kvorum's tests use."""
    environment = tmp_path / "environment"
    python = environment / "bin" / "python"
    for command in (
        [sys.executable, "-m", "venv", environment],
        [python, "-m", "pip", "install", "--quiet", f"{ROOT}[chaos]", "pytest", "quixstreams>=3.28,<4"],
    ):
        subprocess.run(command, check=True, timeout=INSTALL_SECONDS)
    run_example([str(python)], tmp_path, "quix_invoices")
