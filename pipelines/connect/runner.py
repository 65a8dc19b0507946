"""Worker processes, one a pipeline: what the manager asks of them, and the real thing on this machine."""

import asyncio
import hashlib
import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from kvorum.pipelines.connect import records
from kvorum.pipelines.connect.errors import RunnerError
from kvorum.pipelines.connect.processes import LAUNCHED, kill_tree, started, tail
from kvorum.pipelines.run import control, process
from kvorum.pipelines.run.launch import Launch
from kvorum.pipelines.run.state import HOST, Folder, State, StateError, folders
from kvorum.pipelines.spec import Pipeline, SpecError

STOP_SECONDS: Final = 60.0
"""A worker that is asked to stop ends the micro-batch it is in; after that it is killed."""
ASK_SECONDS: Final = 20.0
KILL_SECONDS: Final = 15.0
POLL_SECONDS: Final = 0.05
HOST_SECONDS: Final = 30.0
"""For the shared process to take commands; Spark starts after that."""

log = logging.getLogger("kvorum.pipelines.connect.runner")


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """Observed state of a worker process."""

    alive: bool
    state: State
    trace: str | None = None
    lasting: bool = False
    """It failed for a reason that a new start does not remove."""
    revision: str | None = None
    """Of the configuration that it was started with; None: unknown, nobody vouches for it."""
    progress: Mapping[str, Any] = field(default_factory=dict)


class Runner(Protocol):
    """Runs workers. A name has at most one worker, whichever manager started it."""

    async def seen(self, name: str) -> Worker | None:
        """Return how a worker is; None: there was never one."""
        ...

    async def start(self, pipeline: Pipeline, revision: str) -> None:
        """Start a worker. Raises RunnerError, also when one runs already."""
        ...

    async def ask(self, name: str, command: str) -> Mapping[str, Any]:
        """Return a worker's answer to pause, resume or offsets. Raises RunnerError."""
        ...

    async def stop(self, name: str) -> None:
        """End a worker: orderly within a limit, then by force. Returns when it is gone. Raises RunnerError."""
        ...

    async def end(self) -> None:
        """End the process that the workers without one of their own share. Call when none of them runs."""
        ...

    async def alive(self) -> list[str]:
        """Return the names of the running workers, whichever manager started them."""
        ...

    def checkpoint(self, name: str, run: int) -> str:
        """Return the folder of a pipeline's checkpoint."""
        ...


def revision_of(pipeline: Pipeline) -> str:
    """Return a fingerprint of a pipeline's configuration, which does not reveal it."""
    return hashlib.sha256(records.compact(pipeline.as_data()).encode()).hexdigest()


def has_own_process(pipeline: Pipeline, launch: Launch) -> bool:
    """Tell whether a pipeline runs in a process of its own: it says so, or it wants another Spark context."""
    if pipeline.isolation == "process" or pipeline.spark:
        return True
    if pipeline.connector == "auto":
        return False
    from kvorum.pipelines.session.connector import choose, folder_of_jars  # imports Spark

    folder = folder_of_jars(launch.jars)
    return choose("auto", folder, launch.settings).connector != pipeline.connector


class LocalRunner:
    """Workers on this machine, in the folders of kvorum.pipelines.run; Spark may be anywhere.

    They share one process and its Spark context (run/host.py), but for those of `has_own_process`.
    """

    def __init__(self, state_dir: Path, checkpoints: str | None = None, launch: Launch | None = None) -> None:
        """Keep the workers' folders under `state_dir`, and their checkpoints there or below `checkpoints`."""
        self._root = state_dir
        self._checkpoints = checkpoints
        self._launch = launch or Launch()
        self._children: dict[str, process.Started] = {}
        self._host: subprocess.Popen[bytes] | None = None
        self._starting_host = threading.Lock()

    def checkpoint(self, name: str, run: int) -> str:
        """Return the folder: each run of positions has its own."""
        base = f"{self._checkpoints.rstrip('/')}/{name}" if self._checkpoints else str(self._root / name)
        return f"{base}/checkpoint" if run == 0 else f"{base}/checkpoint-{run}"

    async def seen(self, name: str) -> Worker | None:
        """Read the worker's status and who started it."""
        return await asyncio.to_thread(self._seen, name)

    def _seen(self, name: str) -> Worker | None:
        folder = Folder(self._root, name)
        if name in self._children and self._children[name].process.poll() is not None:
            del self._children[name]
        held, launched = folder.alive(), self._launched(folder)
        pid = int(launched.get("pid", 0))
        is_hosted = bool(launched.get("hosted"))
        lives = bool(pid) and not is_hosted and started(pid) == launched.get("started")
        status = folder.status()
        revision = str(launched["revision"]) if "revision" in launched else None
        if status is None or (lives and status.pid != pid):
            # It has not said a word yet: what may lie there is of the one before.
            if lives or held:
                return Worker(alive=True, state=State.STARTING, revision=revision if lives else None)
            if not launched:
                return None
            trace = f"it ended during its start: {tail(folder.log)}"
            return Worker(alive=False, state=State.FAILED, trace=trace, revision=revision)
        ours = status.pid == pid and (lives or is_hosted or not held)
        return Worker(
            alive=held or lives,
            state=status.state,
            trace=status.trace,
            lasting=status.lasting,
            revision=revision if ours else None,
            progress=status.progress,
        )

    def _launched(self, folder: Folder) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((folder.path / LAUNCHED).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found

    async def start(self, pipeline: Pipeline, revision: str) -> None:
        """Start it in the shared process or in one of its own, and note which."""
        start = self._start if has_own_process(pipeline, self._launch) else self._start_hosted
        await asyncio.to_thread(start, pipeline, revision)

    def _start_hosted(self, pipeline: Pipeline, revision: str) -> None:
        folder = Folder(self._root, pipeline.name)
        try:
            with folder.held():
                folder.write(folder.spec, pipeline.as_data())
                (folder.path / "status.json").unlink(missing_ok=True)  # that of an earlier worker
            try:
                self._ensure_host()
                answer = control.ask(self._root, HOST, "start", HOST_SECONDS, other=pipeline.name)
            except StateError as error:
                log.info("shared process not reached, started again error=%s", error)  # it was about to end
                self._ensure_host()
                answer = control.ask(self._root, HOST, "start", HOST_SECONDS, other=pipeline.name)
        except (StateError, OSError, ValueError) as error:
            raise RunnerError(str(error)) from error
        pid = int(answer["pid"])
        launched = {"pid": pid, "started": started(pid), "revision": revision, "hosted": True}
        folder.write(folder.path / LAUNCHED, launched)

    def _ensure_host(self) -> None:
        """Start the shared process unless it runs, and wait until it takes commands. Raises StateError."""
        folder = Folder(self._root, HOST)
        with self._starting_host:
            if self._host is not None and self._host.poll() is not None:
                self._host = None
            if self._host is None and not folder.alive():
                folder.make()
                command = [sys.executable, "-m", "kvorum.pipelines.run.host", "--state", str(self._root)]
                with open(folder.log, "ab") as file:
                    self._host = subprocess.Popen(
                        [*command, *self._launch.arguments()],
                        stdin=subprocess.DEVNULL,
                        stdout=file,
                        stderr=file,
                        start_new_session=True,
                    )
            deadline = time.monotonic() + HOST_SECONDS
            while True:
                try:
                    control.ask(self._root, HOST, "status", ASK_SECONDS)
                    return
                except StateError as error:
                    if self._host is not None and self._host.poll() is not None:
                        raise StateError(f"the shared process ended: {tail(folder.log)}") from error
                    if time.monotonic() > deadline:
                        raise
                time.sleep(POLL_SECONDS)

    async def end(self) -> None:
        """Stop the shared process, with SIGKILL if it does not stop in time."""
        try:
            pid = int((await asyncio.to_thread(control.ask, self._root, HOST, "status", ASK_SECONDS))["pid"])
        except (StateError, OSError, ValueError):
            return  # it does not run
        try:
            await asyncio.to_thread(control.ask, self._root, HOST, "stop", STOP_SECONDS)
        except (StateError, OSError, ValueError) as error:
            log.warning("shared process does not stop error=%s", error)
        if not await self._gone(HOST, KILL_SECONDS):
            log.warning("shared process killed pid=%d", pid)
            kill_tree(pid)
        if self._host is not None:
            await asyncio.to_thread(self._host.wait)
            self._host = None

    def _start(self, pipeline: Pipeline, revision: str) -> None:
        folder = Folder(self._root, pipeline.name)
        try:
            begun = process.start(pipeline, self._root, self._launch)
        except (StateError, SpecError, OSError) as error:
            raise RunnerError(str(error)) from error
        self._children[pipeline.name] = begun
        folder.write(folder.path / LAUNCHED, {"pid": begun.pid, "started": started(begun.pid), "revision": revision})

    async def ask(self, name: str, command: str) -> Mapping[str, Any]:
        """Ask over the worker's socket."""
        try:
            return await asyncio.to_thread(control.ask, self._root, name, command, ASK_SECONDS)
        except (StateError, OSError, ValueError) as error:
            raise RunnerError(str(error)) from error

    async def stop(self, name: str) -> None:
        """Ask it to stop; kill it when it does not end in time, or does not listen (yet)."""
        folder = Folder(self._root, name)
        try:
            await asyncio.to_thread(control.ask, self._root, name, "stop", STOP_SECONDS)
            patience = STOP_SECONDS
        except (StateError, OSError, ValueError):
            patience = 0.0  # what counts is whether it is gone
        if await self._gone(name, patience):
            await self._collect(name)
            return
        launched = self._launched(folder)
        if launched.get("hosted"):
            log.warning("shared process killed, all its connectors restart: one does not stop connector=%s", name)
        if started(int(launched.get("pid", 0))) == launched.get("started"):
            kill_tree(int(launched["pid"]))
        elif held_by := self._held_by(folder):
            kill_tree(held_by)
        if not await self._gone(name, KILL_SECONDS):
            raise RunnerError(f"the process of {name!r} is still running after SIGKILL")
        await self._collect(name)

    async def _collect(self, name: str) -> None:
        """Collect the dead, if it was a child of this process."""
        child = self._children.pop(name, None)
        if child is not None:
            await asyncio.to_thread(child.process.wait)

    async def _gone(self, name: str, seconds: float) -> bool:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while (worker := await self.seen(name)) is not None and worker.alive:
            if loop.time() > deadline:
                return False
            await asyncio.sleep(POLL_SECONDS)
        return True

    def _held_by(self, folder: Folder) -> int:
        """Return the process that holds the folder, 0 when none does."""
        status = folder.status()
        return status.pid if status is not None and folder.alive() else 0

    async def alive(self) -> list[str]:
        """Return whose folder is held by a process."""
        return await asyncio.to_thread(
            lambda: [folder.name for folder in folders(self._root) if folder.alive()],
        )
