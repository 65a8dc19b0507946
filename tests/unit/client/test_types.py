"""mypy --strict reads an application of the public API with its types."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent.parent
WRONG = """
from kvorum.client import Cluster, SyncCluster


async def first(cluster: Cluster) -> int:
    return await cluster.topics.list()


def second(cluster: SyncCluster) -> None:
    cluster.partitions.list_offsets(3)
    cluster.topics.missing()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder in which mypy finds the package, as in site-packages."""
    found = tmp_path_factory.mktemp("types")
    (found / "kvorum").symlink_to(ROOT)
    return found


def check(folder: Path, text: str) -> list[str]:
    """Return mypy's messages about an application."""
    application = folder / "application.py"
    application.write_text(text)
    options = ["--strict", "--follow-imports=silent", "--explicit-package-bases", f"--cache-dir={folder / 'cache'}"]
    command = [sys.executable, "-m", "mypy", "--config-file=", *options, str(application)]
    found = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert not found.stderr, found.stderr
    return [line for line in found.stdout.splitlines() if ": error: " in line]


def test_an_application_of_every_namespace_is_correct(folder: Path) -> None:
    assert check(folder, (Path(__file__).parent / "consumer.py").read_text()) == []


def test_mistakes_are_found(folder: Path) -> None:
    assert [line.rpartition("[")[2] for line in check(folder, WRONG)] == ["return-value]", "arg-type]", "attr-defined]"]
