"""Pipelines as processes of this machine: start one, wait for its state, stop it, start it again."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Self

from kvorum.pipelines.faults import as_texts
from kvorum.pipelines.run import control
from kvorum.pipelines.run.state import Folder, State, StateError, Status
from kvorum.pipelines.session.build import SessionSettings
from kvorum.pipelines.spec import Pipeline, load

START_SECONDS = 120.0
STOP_SECONDS = 60.0
"""After that the process is killed; it continues from its checkpoint at the next start."""
LOOK_SECONDS = 0.1

RETRIES = 10
"""About five minutes with their pauses: longer than an election."""
RETRIES_OF_CONNECTORS = 40
"""About 35 minutes: a connector that was given up needs a restart by hand."""

Process = subprocess.Popen[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Options of a pipeline's start; None and empty: the session's defaults."""

    master: str | None = None
    memory: str = "1g"
    jars: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    retries: int = RETRIES
    paused: bool = False
    """Start to wait for `resume`."""
    folder: str | None = None
    """Base of relative paths."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the options in a file; the defaults if it does not exist."""
        try:
            return cls(**json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return cls()

    def session(self, pipeline: Pipeline) -> SessionSettings:
        """Return the session's settings; these options win over the pipeline's file."""
        own = as_texts(pipeline.spark)
        return SessionSettings(
            master=self.master or own.pop("spark.master", None),
            memory=own.pop("spark.driver.memory", self.memory),
            connector=pipeline.connector,
            jars=self.jars,
            settings={**own, **self.settings},
        )


def start(pipeline: Pipeline, folder: Folder, launch: Launch) -> Process:
    """Start a pipeline in a process of its own, which outlives this one. Raises StateError.

    It returns at once; `wait` returns the outcome.
    """
    wanted = replace(launch, folder=launch.folder or os.getcwd())
    with folder.held():
        folder.write(folder.spec, pipeline.as_data())
        folder.write(folder.launch, asdict(wanted))
        (folder.path / "status.json").unlink(missing_ok=True)  # that of an earlier process
    command = [sys.executable, "-m", "kvorum.pipelines.run.worker", str(folder.spec)]
    command += ["--state", str(folder.root), "--launch", str(folder.launch)]
    with open(folder.log, "ab") as log:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=wanted.folder, start_new_session=True
        )


def wait(process: Process, folder: Folder, states: Collection[State], timeout: float = START_SECONDS) -> Status:
    """Return the status when it is one of these, an end, or STARTING again: the first try failed, others follow.

    Raises StateError when the time is over.
    """
    until = time.monotonic() + timeout
    while True:
        ended = process.poll() is not None
        status = folder.status()
        if status is not None and (status.state in states or ended or (status.restarts and status.trace)):
            return status
        if ended:
            raise StateError(f"pipeline {folder.name!r} ended during its start; see {folder.log}")
        if time.monotonic() > until:
            state = status.state if status else "not running"
            raise StateError(f"pipeline {folder.name!r} is {state} after {timeout:g} s")
        time.sleep(LOOK_SECONDS)


def stop(folder: Folder, timeout: float = STOP_SECONDS) -> Status | None:
    """Stop a pipeline, if it runs, and wait until its process has ended; return its last status."""
    status = folder.status()
    until = time.monotonic() + timeout
    try:
        control.ask(folder.root, folder.name, "stop", timeout)
    except StateError:
        if status is not None and folder.alive():
            terminate(status.pid, signal.SIGTERM)  # it does not accept commands yet
    while folder.alive():
        if time.monotonic() > until and status is not None:
            terminate(status.pid, signal.SIGKILL)
        time.sleep(LOOK_SECONDS)
    return folder.status()


def terminate(pid: int, number: signal.Signals) -> None:
    """Signal a worker; its JVM ends when its standard input does."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def restart(folder: Folder) -> Process:
    """Stop a pipeline, if it runs, and start it with its last options. Raises StateError, SpecError."""
    stop(folder)
    return start(load(folder.spec), folder, replace(Launch.read(folder.launch), paused=False))
