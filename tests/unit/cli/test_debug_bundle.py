"""`kvorum debug-bundle` against a cluster that is not there, whose broker is a process with pages that wants tokens."""

import asyncio
import json
import zipfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kvorum.cli.dump import debug_bundle as command
from kvorum.cli.output import Exit
from tests.unit.admin.managed import ManagedCluster
from tests.unit.admin.node_server import FakeNode, name_listeners, running
from tests.unit.admin.test_node_routes import TOKENS, guarded


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> ManagedCluster:
    made, node = ManagedCluster(), FakeNode(access=guarded())

    def with_it(bootstrap: str, work: Callable[[Any], Awaitable[Any]]) -> Any:
        async def run() -> Any:
            async with running(node):
                name_listeners(made, 1, metrics_listener=node.url)
                return await work(made)

        return asyncio.run(run())

    monkeypatch.setattr(command, "with_cluster", with_it)
    return made


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command.debug_bundle, list(arguments))


def test_a_bundle_is_written_and_lists_missing_parts(cluster: ManagedCluster, tmp_path: Path) -> None:
    file, token = tmp_path / "fault.zip", tmp_path / "token"
    token.write_text(f"{TOKENS['read']}\n")
    result = run("-f", str(file), "--token-file", str(token))
    assert result.exit_code == Exit.DONE, result.output
    assert "missing: brokers/2/ (NOT_KVORUM" in result.stderr and "brokers/1/" not in result.stderr
    with zipfile.ZipFile(file) as archive:
        assert json.loads(archive.read("brokers/1/node.json"))["node_id"] == 1
        assert f"{file}: {len(archive.namelist()) - 1} parts" in result.stdout
    without = run("-f", str(file))
    assert without.exit_code == Exit.DONE and "missing: brokers/1/ (NODE_REFUSED" in without.stderr


def test_without_a_response_the_file_has_the_reason(cluster: ManagedCluster, tmp_path: Path) -> None:
    cluster.reachable = False
    file = tmp_path / "fault.zip"
    result = run("-f", str(file))
    assert result.exit_code == Exit.FAILED and "nothing was collected" in result.stderr
    with zipfile.ZipFile(file) as archive:
        assert archive.namelist() == ["manifest.json"]
