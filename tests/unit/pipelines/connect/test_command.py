"""The command and the runner, as far as they go without a cluster and without Spark."""

import asyncio
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from kvorum.cli.pipelines.commands import pipelines
from kvorum.cli.pipelines.connect import connect
from kvorum.pipelines.connect import runner as module
from kvorum.pipelines.connect.errors import RunnerError
from kvorum.pipelines.connect.runner import Runner, has_own_process, identity
from kvorum.pipelines.run.process import Launch
from kvorum.pipelines.run.state import HOST, MANAGER, PID, Folder
from kvorum.pipelines.spec import from_data

SECONDS = 60.0
STUBBORN = """
import os, sys, time
from pathlib import Path
from kvorum.pipelines.run.state import HOST, PID, Folder
folder = Folder(Path(sys.argv[1]), HOST)
with folder.held():
    (folder.path / PID).write_text(str(os.getpid()))
    print("held", flush=True)
    time.sleep(600)
"""


def test_it_is_a_subcommand_with_a_mandatory_cluster() -> None:
    found = CliRunner().invoke(pipelines, ["connect", "--help"])
    assert found.exit_code == 0 and "--bootstrap" in found.output
    assert CliRunner().invoke(pipelines, ["connect"]).exit_code == 2
    wrong = CliRunner().invoke(connect, ["--bootstrap", "h:1", "--conf", "nonsense"])
    assert wrong.exit_code == 2 and "KEY=VALUE" in wrong.output


def test_a_folder_has_one_manager(tmp_path: Path) -> None:
    with Folder(tmp_path, MANAGER).held():
        found = CliRunner().invoke(
            connect, ["--bootstrap", "127.0.0.1:1", "--state", str(tmp_path), "--listen", "127.0.0.1:0"]
        )
    assert found.exit_code == 1 and f"another manager is already running ({tmp_path}" in found.output


def test_a_folder_keeps_its_identity(tmp_path: Path) -> None:
    assert identity(tmp_path) == identity(tmp_path) and str(tmp_path) in identity(tmp_path)


def until_held(folder: Folder, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + SECONDS
    while not (folder.path / PID).exists():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)


def test_a_host_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    """The runner starts it; here its standard input is closed as by the end of the manager."""

    async def go() -> None:
        runner = Runner(tmp_path)
        await runner._ensure(HOST, "a")
        process = runner._hosts[HOST]
        assert (await runner.ask(HOST, "status"))["pid"] == process.pid
        assert process.stdin is not None
        process.stdin.close()
        assert await asyncio.to_thread(process.wait, SECONDS) == 0

    asyncio.run(go())


def test_the_host_of_an_earlier_manager_is_killed_if_it_does_not_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STOP_SECONDS", 0.1)
    command = [sys.executable, "-c", STUBBORN, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            until_held(Folder(tmp_path, HOST), process)
            asyncio.run(Runner(tmp_path).end())
            assert process.wait(SECONDS) == -signal.SIGKILL
        finally:
            process.kill()


def test_a_host_that_cannot_start_is_an_error_with_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def go() -> None:
        runner = Runner(tmp_path)
        try:
            await runner._ensure(HOST, "a")
        finally:
            await runner.end()

    monkeypatch.setattr(module, "asdict", lambda launch: {"memory": 1, "no option": 2})
    with pytest.raises(RunnerError, match=r"(?s)the process of the connector ended: .*unexpected keyword"):
        asyncio.run(go())


@pytest.mark.parametrize(
    ("more", "own"), [({}, False), ({"isolation": "process"}, True), ({"spark": {"spark.a": "b"}}, True)]
)
def test_a_pipeline_has_its_own_process_if_it_needs_one(more: dict[str, object], own: bool) -> None:
    data = {"name": "p", "source": {"type": "generator"}, "sink": {"type": "console"}}
    assert has_own_process(from_data({**data, **more}), Launch()) is own


def test_each_run_has_its_own_checkpoint(tmp_path: Path) -> None:
    assert Runner(tmp_path).checkpoint("a", 0) == f"{tmp_path}/a/checkpoint"
    assert Runner(tmp_path, "s3a://b/").checkpoint("a", 2) == "s3a://b/a/checkpoint-2"
