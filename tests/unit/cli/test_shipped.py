"""Example files that are installed with Kvorum are found from every folder, and `kvorum init` writes one."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from kvorum.cli.configs.shipped import EXAMPLES, ROOT, ConfigFile, init
from kvorum.cli.main import main
from kvorum.runtime.cluster_file import load_cluster


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_an_example_is_found_from_every_folder(elsewhere: Path) -> None:
    for name in ("configs/three-nodes.yaml", "configs/single.yaml", "configs/pipelines/first.yaml"):
        assert ConfigFile().convert(name, None, None) == str(ROOT / name)
    done = CliRunner().invoke(main, ["configs", "validate", "configs/three-nodes.yaml"])
    assert done.exit_code == 0, done.output


def test_a_file_in_the_current_folder_takes_precedence(elsewhere: Path) -> None:
    (elsewhere / "configs").mkdir()
    (elsewhere / "configs" / "three-nodes.yaml").write_text("mine")
    assert ConfigFile().convert("configs/three-nodes.yaml", None, None) == "configs/three-nodes.yaml"


@pytest.mark.parametrize("name", ["configs/nosuch.yaml", "three-nodes.yaml", "configs/../pyproject.toml"])
def test_no_other_file_is_found(elsewhere: Path, name: str) -> None:
    with pytest.raises(click.BadParameter, match="does not exist"):
        ConfigFile().convert(name, None, None)


@pytest.mark.parametrize(("nodes", "count"), [("1", 1), ("3", 3)])
def test_init_writes_a_cluster_file_and_never_over_another(elsewhere: Path, nodes: str, count: int) -> None:
    done = CliRunner().invoke(init, ["mine.yaml", "--nodes", nodes])
    assert done.exit_code == 0 and "kvorum up mine.yaml" in done.output
    text = (elsewhere / "mine.yaml").read_text()
    assert EXAMPLES[nodes] not in text and "# " in text
    assert len(load_cluster("mine.yaml", str(elsewhere)).nodes) == count
    assert CliRunner().invoke(init, ["mine.yaml"]).exit_code == 1
    assert (elsewhere / "mine.yaml").read_text() == text
