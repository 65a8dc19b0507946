"""Worker processes, one a pipeline: what the manager asks of them, and the real thing on this machine."""

import asyncio
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from kvorum.pipelines.connect import records
from kvorum.pipelines.connect.errors import RunnerError
from kvorum.pipelines.connect.processes import LAUNCHED, kill_tree, started, tail
from kvorum.pipelines.run import control, process
from kvorum.pipelines.run.launch import Launch
from kvorum.pipelines.run.state import Folder, State, StateError, folders
from kvorum.pipelines.spec import Pipeline, SpecError

STOP_SECONDS: Final = 60.0
"""A worker that is asked to stop ends the micro-batch it is in; after that it is killed."""
ASK_SECONDS: Final = 20.0
KILL_SECONDS: Final = 15.0
POLL_SECONDS: Final = 0.05


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

    async def alive(self) -> list[str]:
        """Return the names of the running workers, whichever manager started them."""
        ...

    def checkpoint(self, name: str, run: int) -> str:
        """Return the folder of a pipeline's checkpoint."""
        ...


def revision_of(pipeline: Pipeline) -> str:
    """Return a fingerprint of a pipeline's configuration, which does not reveal it."""
    return hashlib.sha256(records.compact(pipeline.as_data()).encode()).hexdigest()


class LocalRunner:
    """Workers on this machine, in the folders of kvorum.pipelines.run; Spark may be anywhere."""

    def __init__(self, state_dir: Path, checkpoints: str | None = None, launch: Launch | None = None) -> None:
        """Keep the workers' folders under `state_dir`, and their checkpoints there or below `checkpoints`."""
        self._root = state_dir
        self._checkpoints = checkpoints
        self._launch = launch or Launch()
        self._children: dict[str, process.Started] = {}

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
        lives = bool(pid) and started(pid) == launched.get("started")
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
        ours = status.pid == pid and (lives or not held)
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
        """Start a process, and note which."""
        await asyncio.to_thread(self._start, pipeline, revision)

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
