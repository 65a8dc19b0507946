"""Who may use the admin API, by the node's configuration."""

from pathlib import Path

import pytest

from kvorum.admin.http.operations import Role
from kvorum.cluster.http.http_security import TOKENS_FILE as KEY
from kvorum.cluster.http.http_security import read_tokens
from kvorum.cluster.process.admin_process import check_of
from kvorum.protocol.uuids import Uuid
from kvorum.runtime.config import ConfigError, Settings
from kvorum.runtime.disk import OsDisk
from kvorum.storage.checkpoints import MetaProperties, write_meta_properties


def test_tokens_come_from_the_file_that_is_named(tmp_path: Path) -> None:
    assert read_tokens(Settings.of({}), OsDisk()).roles is None
    file = tmp_path / "tokens"
    file.write_text(f"read {'a' * 64} grafana\n")
    assert read_tokens(Settings.of({KEY: str(file)}), OsDisk()).roles == {"a" * 64: Role.READ}


@pytest.mark.parametrize("text", [None, "", "everybody\n"])
def test_a_file_of_tokens_that_is_missing_or_wrong_keeps_the_process_from_starting(
    tmp_path: Path, text: str | None
) -> None:
    """Not open to everybody because of a misspelt name."""
    file = tmp_path / "tokens"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigError, match=KEY) as refused:
        read_tokens(Settings.of({KEY: str(file)}), OsDisk())
    assert str(file) in str(refused.value)


def test_brokers_are_checked_by_the_cluster_id_of_the_first_directory_that_can_be_read(tmp_path: Path) -> None:
    disk, damaged, whole = OsDisk(), str(tmp_path / "damaged"), str(tmp_path / "whole")
    settings = Settings.of({"log.dirs": f"{damaged},{whole}", "node.id": "1", "process.roles": "broker"})
    assert check_of(disk, settings) is None
    for folder in (damaged, whole):
        disk.mkdir(folder)
        write_meta_properties(disk, folder, MetaProperties("ours", 1, Uuid(bytes(16))))
    (tmp_path / "damaged" / "meta.properties").write_text("nonsense")
    check = check_of(disk, settings)
    assert check is not None and check.cluster_id == "ours"
