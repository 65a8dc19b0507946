"""A pipeline's folder, its socket, its positions, its tries: without Spark."""

import json
import os
import socket
import subprocess
import sys
import threading
from dataclasses import asdict
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException

from kvorum.pipelines.plugins import PluginError
from kvorum.pipelines.run import checkpoint, control
from kvorum.pipelines.run import compile as compiling
from kvorum.pipelines.run.failures import WELL_SECONDS, Backoff, passing
from kvorum.pipelines.run.process import Launch
from kvorum.pipelines.run.progress import lag
from kvorum.pipelines.run.state import Folder, State, StateError, Status, folders, root_of
from kvorum.pipelines.run.worker import worker_in
from kvorum.pipelines.spec import Pipeline, SpecError, from_data, load

STATUS = Status(name="p", state=State.RUNNING, pid=os.getpid(), since_ms=1, progress={"records_in": 3})
HOLD = """
import sys, time
from pathlib import Path
from kvorum.pipelines.run.state import Folder
with Folder(Path(sys.argv[1]), "p").held():
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path / ("a-long-name-" * 12), "p")  # beyond the 108 bytes of a socket's address
    folder.make()
    return folder


def test_a_status_is_what_was_written_while_its_process_lives(folder: Folder) -> None:
    assert folder.status() is None
    with folder.held():
        folder.write_status(STATUS)
        assert folder.status() == STATUS
    folder.write_status(Status(name="p", state=State.STOPPED, pid=1, since_ms=2))
    assert folder.status() == Status(name="p", state=State.STOPPED, pid=1, since_ms=2)


def test_a_process_that_was_killed_is_a_failed_pipeline(folder: Folder) -> None:
    command = [sys.executable, "-c", HOLD, str(folder.root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        folder.write_status(STATUS)
        assert folder.alive() and folder.status() == STATUS
        with pytest.raises(StateError, match="pipeline 'p' is already running"), folder.held():
            pass
        process.kill()
        process.wait()
    found = folder.status()
    assert found is not None and (found.state, found.died) == (State.FAILED, True)
    assert "ended without a word while RUNNING" in str(found.trace)


def test_secrets_in_a_folder_are_its_owners(folder: Folder) -> None:
    folder.write(folder.spec, {"password": "x"})
    assert folder.spec.stat().st_mode & 0o077 == 0
    assert [each.name for each in folders(folder.root)] == ["p"]


def test_the_folder_of_all_is_the_options_or_the_environments(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KVORUM_PIPELINES_DIR", raising=False)
    assert root_of() == tmp_path / "kvorum-pipelines"
    monkeypatch.setenv("KVORUM_PIPELINES_DIR", "/state")
    assert root_of() == Path("/state") and root_of("/mine") == Path("/mine")


def test_commands_are_answered_in_lines(folder: Folder) -> None:
    """A status comes at once; another command when the worker has done it."""
    with folder.held(), control.listening(folder, lambda: asdict(STATUS)) as requests:

        def work() -> None:
            request = requests.get(timeout=10)
            request.answer.put({"did": request.command})

        threading.Thread(target=work, daemon=True).start()
        assert control.ask(folder.root, "p", "pause") == {"did": "pause"}
        assert control.ask(folder.root, "p", "status")["state"] == "RUNNING"
        with pytest.raises(StateError, match="there is no command 'dance'; there are status, pause"):
            control.ask(folder.root, "p", "dance")
        with pytest.raises(StateError, match=r"did not respond to offsets within 0\.1 s"):
            control.ask(folder.root, "p", "offsets", timeout=0.1)
        with socket.socket(socket.AF_UNIX) as raw, control.address(folder.path) as where:
            raw.connect(where)
            raw.sendall(b"nonsense\n")
            assert "not a line of JSON" in json.loads(raw.makefile("rb").readline())["error"]
    with pytest.raises(StateError, match="is not running"):
        control.ask(folder.root, "p", "status")


def test_pauses_between_tries_grow_and_are_forgiven() -> None:
    backoff = Backoff(4)
    assert [backoff.next(now) for now in (0.0, 1.0, 3.0, 7.0)] == [1.0, 2.0, 4.0, 8.0]
    assert backoff.next(10.0) is None
    assert backoff.next(10.0 + WELL_SECONDS + 1) == 1.0


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (RuntimeError("KafkaError{code=_ALL_BROKERS_DOWN}"), True),
        (RuntimeError("Python worker exited unexpectedly (crashed)"), True),
        (AnalysisException("connection to server at 127.0.0.1 failed: Connection refused"), True),
        (RuntimeError("something nobody has seen"), True),
        (AnalysisException("UNRESOLVED_COLUMN"), False),
        (RuntimeError("[USER_RAISED_EXCEPTION] VALUE_CONVERTER: not JSON"), False),
        (RuntimeError("[USER_RAISED_EXCEPTION] column a: Connection refused: not a bigint"), False),
        (RuntimeError("[USER_RAISED_EXCEPTION] json: field a: TimeoutException is not an integer"), False),
        (RuntimeError("[CAST_INVALID_INPUT] The value 'x' cannot be cast"), False),
        (RuntimeError("kvorum.pipelines.faults.Unfit: field a: Connection refused"), False),
        (RuntimeError("kvorum.pipelines.sources.file_stream.FileChanged: file x was replaced"), False),
        (RuntimeError("PermissionError: [Errno 13] Permission denied: '/x'"), False),
        (RuntimeError("java.io.IOException: No space left on device"), True),
        (PluginError("there is no 'x'"), False),
        (ValueError("pk.fields"), False),
    ],
)
def test_what_passes_is_tried_again(error: Exception, again: bool) -> None:
    assert passing(error) is again


@pytest.mark.parametrize("problem", [SpecError([]), TimeoutError("broker transport failure")])
def test_a_worker_reports_its_failure(folder: Folder, monkeypatch: pytest.MonkeyPatch, problem: Exception) -> None:
    def validate(pipeline: Pipeline) -> None:
        raise problem

    monkeypatch.setattr(compiling, "validate", validate)
    pipeline = from_data({"name": "p", "source": {"type": "generator"}, "sink": {"type": "console"}})
    with worker_in(folder, pipeline, Launch(retries=0)) as worker:
        assert worker.run() == 1
    status = folder.status()
    assert status is not None and (status.state, status.died) == (State.FAILED, False)


def test_lag_is_the_sum_over_partitions_of_topics() -> None:
    assert lag('{"t": {"0": 10, "1": 5}}', '{"t": {"0": 7, "1": 5}}') == 3
    assert lag({"t": {"0": 10}, "new": {"0": 2}}, {"t": {"0": 10}}) == 0
    assert lag('{"t": {"0": 10}}', '{"t": {"0": 9}, "@begun at": {"t": {"0": 0}}}') == 1
    assert lag({"incrementing": 10}, {"incrementing": 7}) is None
    assert lag(None, None) is None


def stopped(folder: Folder) -> dict[str, object]:
    return checkpoint.committed(checkpoint.of_pipeline(folder))


def test_offsets_are_those_of_the_last_batch_that_is_done(folder: Folder) -> None:
    path = folder.checkpoint
    folder.write(folder.spec, {"name": "p"})
    assert stopped(folder) == {}
    for name in ("offsets", "commits"):
        (path / name).mkdir(parents=True)
    for batch in range(3):
        (path / "offsets" / str(batch)).write_text(f'v1\n{{}}\n{{"t":{{"0":{batch}}}}}\n-\n')
    for batch in range(2):
        (path / "commits" / str(batch)).write_text("v1\n{}\n")
    (path / "commits" / ".2.crc").touch()
    found = stopped(folder)
    assert found == {"batch": 1, "sources": [{"t": {"0": 1}}, None]} == checkpoint.committed(f"file://{path}")
    assert list(checkpoint.rows(0, found["sources"][0])) == [{"source": 0, "what": "t", "partition": "0", "offset": 1}]
    with folder.held(), pytest.raises(StateError, match="is already running"):
        checkpoint.reset(folder)
    checkpoint.reset(folder)
    assert stopped(folder) == {}
    folder.write(folder.spec, {"name": "p", "checkpoint": "s3a://bucket/x"})
    with pytest.raises(StateError, match="only Spark can read"):
        stopped(folder)


def test_how_a_process_was_started_is_kept(folder: Folder) -> None:
    launch = Launch(
        master="local[1]", memory="2g", jars="/jars", settings={"spark.a": "b=c"}, retries=3, paused=True, folder="/w"
    )
    assert Launch.read(folder.launch) == Launch()
    folder.write(folder.launch, asdict(launch))
    assert Launch.read(folder.launch) == launch


def test_the_command_line_wins_over_the_pipelines_own_settings() -> None:
    data = {"name": "p", "source": {"type": "generator"}, "sink": {"type": "console"}}
    pipeline = from_data({**data, "spark": {"spark.master": "yarn", "spark.a": 1, "spark.driver.memory": "3g"}})
    own = Launch().session(pipeline)
    assert (own.master, own.memory, own.settings) == ("yarn", "3g", {"spark.a": "1"})
    told = Launch(master="local[1]", settings={"spark.a": "2"}).session(pipeline)
    assert told.master == "local[1]" and told.settings["spark.a"] == "2"


def test_a_spec_keeps_its_references_to_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THE_TEST", "planted-secret")
    folder = Folder(tmp_path, "p")
    folder.make()
    options = {"kafka.sasl.password": "${env:OF_THE_TEST}"}
    source = {"type": "topics", "topics": ["t"], "bootstrap": "a:1", "options": options}
    folder.write(folder.spec, {"name": "p", "source": source, "sink": {"type": "console"}})
    with worker_in(folder, load(folder.spec), Launch(retries=0)):
        assert "${env:OF_THE_TEST}" in folder.spec.read_text()
    assert "planted-secret" not in folder.spec.read_text()
