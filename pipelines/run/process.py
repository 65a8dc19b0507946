"""Pipelines as processes of this machine: start one, wait for its state, stop it, start it again."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kvorum.pipelines.run import control
from kvorum.pipelines.run.launch import Launch
from kvorum.pipelines.run.state import Folder, State, StateError, Status
from kvorum.pipelines.spec import Pipeline, from_data, load

START_SECONDS = 120.0
STOP_SECONDS = 60.0
"""After that the process is killed; its checkpoint makes it a pause."""
LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A process that was started."""

    name: str
    pid: int
    process: "subprocess.Popen[bytes]"


def start(
    spec: Pipeline | Mapping[str, Any] | str | os.PathLike[str],
    state_dir: str | os.PathLike[str],
    launch: Launch | None = None,
) -> Started:
    """Start a pipeline in a process of its own, which outlives this one. Raises SpecError, StateError.

    It returns at once: `wait` says how it went. `spec` is a pipeline, its data, or the path of its file.
    """
    if isinstance(spec, Pipeline):
        pipeline = spec
    elif isinstance(spec, Mapping):
        pipeline = from_data(spec)
    else:
        pipeline = load(Path(spec))
    folder = Folder(Path(state_dir).absolute(), pipeline.name)
    wanted = launch or Launch()
    wanted = replace(wanted, folder=wanted.folder or os.getcwd())
    with folder.held():
        folder.write(folder.spec, pipeline.as_data())
        folder.write(folder.launch, wanted.data())
        # An old state must not be taken for the new process's.
        (folder.path / "status.json").unlink(missing_ok=True)
    command = [sys.executable, "-m", "kvorum.pipelines.run.worker", str(folder.spec), "--state", str(folder.root)]
    with open(folder.log, "ab") as log:
        process = subprocess.Popen(
            [*command, *wanted.arguments()],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=wanted.folder,
            start_new_session=True,
        )
    return Started(name=pipeline.name, pid=process.pid, process=process)


def wait(
    started: Started, state_dir: str | os.PathLike[str], states: Collection[State], timeout: float = START_SECONDS
) -> Status:
    """Return the status when it is one of these, an end, or STARTING again: the first try failed, others follow.

    Raises StateError when the time is over.
    """
    folder, until = Folder(Path(state_dir), started.name), time.monotonic() + timeout
    while True:
        ended = started.process.poll() is not None
        status = folder.status()
        if status is not None and (status.state in states or ended or (status.restarts and status.trace)):
            return status
        if ended:
            raise StateError(f"pipeline {started.name!r} ended during its start; see {folder.log}")
        if time.monotonic() > until:
            raise StateError(
                f"pipeline {started.name!r} is {status.state if status else 'not running'} after {timeout:g} s"
            )
        time.sleep(LOOK_SECONDS)


def stop(state_dir: str | os.PathLike[str], name: str, timeout: float = STOP_SECONDS) -> Status | None:
    """Stop a pipeline and wait until its process is gone; return its last status. One that does not run stays so."""
    folder = Folder(Path(state_dir), name)
    if not folder.alive():
        return folder.status()
    status = folder.status()
    until = time.monotonic() + timeout
    try:
        control.ask(state_dir, name, "stop", timeout)
    except StateError:
        if status is not None and folder.alive():
            terminate(status.pid, signal.SIGTERM)  # it may not listen yet
    while folder.alive():
        if time.monotonic() > until and status is not None:
            terminate(status.pid, signal.SIGKILL)
        time.sleep(LOOK_SECONDS)
    return folder.status()


def terminate(pid: int, number: signal.Signals) -> None:
    """Signal a worker; its JVM ends when its standard input does."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def restart(state_dir: str | os.PathLike[str], name: str) -> Started:
    """Stop a pipeline, if it runs, and start it as it was started last. Raises StateError, SpecError."""
    folder = Folder(Path(state_dir).absolute(), name)
    if not folder.spec.exists():
        raise StateError(f"no pipeline {name!r} in {folder.root}")
    stop(state_dir, name)
    return start(folder.spec, state_dir, launch_of(folder))


def launch_of(folder: Folder) -> Launch:
    """Return how a pipeline was started last."""
    try:
        return replace(Launch.of(json.loads(folder.launch.read_text(encoding="utf-8"))), paused=False)
    except FileNotFoundError:
        return Launch()
