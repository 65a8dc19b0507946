"""Who may use the admin API, by the node's configuration."""

from pathlib import Path

import pytest

from kvorum.admin.operations import Role
from kvorum.cluster.admin_process import access_of
from kvorum.cluster.exits import Exit
from kvorum.cluster.hosting import Refusal
from kvorum.runtime.config import Settings
from kvorum.runtime.disk import OsDisk

KEY = "kvorum.admin.tokens.file"


def test_tokens_come_from_the_file_that_is_named(tmp_path: Path) -> None:
    assert access_of(Settings.of({}), OsDisk()).tokens is None
    file = tmp_path / "tokens"
    file.write_text(f"read {'a' * 64} grafana\n")
    assert access_of(Settings.of({KEY: str(file)}), OsDisk()).tokens == {"a" * 64: Role.READ}


@pytest.mark.parametrize("text", [None, "", "everybody\n"])
def test_a_file_of_tokens_that_is_missing_or_wrong_keeps_the_process_from_starting(
    tmp_path: Path, text: str | None
) -> None:
    """Not open to everybody because of a misspelt name."""
    file = tmp_path / "tokens"
    if text is not None:
        file.write_text(text)
    with pytest.raises(Refusal) as refused:
        access_of(Settings.of({KEY: str(file)}), OsDisk())
    assert refused.value.code is Exit.CONFIG and str(file) in refused.value.reason
