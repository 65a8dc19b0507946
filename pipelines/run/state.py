"""A pipeline's folder: what it is, how it is, and whether its process lives.

DIR/<name>/spec.json      the pipeline, as it was started (0600: with `start`, values from ${env:...} are in it)
           launch.json    how its process was started
           status.json    its state, replaced as a whole
           worker.log     what the process and Spark said
           control.sock   where the process listens
           lock           held by the process for as long as it lives
           checkpoint/    unless the pipeline names another
"""

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

VARIABLE = "KVORUM_PIPELINES_DIR"
DEFAULT = "kvorum-pipelines"
HOST = ".host"
"""The folder of the process that several pipelines share, beside theirs; no pipeline's name begins with a dot."""
MANAGER = ".manager"
"""The folder that the manager of connectors holds."""
PID = "pid"
"""In that folder: the number of the process that holds it."""


class State(StrEnum):
    """State of a pipeline."""

    STARTING = "STARTING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"
    FINISHED = "FINISHED"


ENDED = frozenset({State.FAILED, State.STOPPED, State.FINISHED})
"""States without a process."""


class StateError(Exception):
    """An operation that is not possible in the pipeline's present state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Contents of status.json."""

    name: str
    state: State
    trace: str | None = None
    """Why it failed, in one line, and then the whole; while it is STARTING again, why it failed before."""
    pid: int
    since_ms: int
    """When it came into this state."""
    connector: str | None = None
    """Who reads and writes topics, and why."""
    restarts: int = 0
    died: bool = False
    """FAILED because its process ended without writing a state."""
    progress: Mapping[str, Any] = field(default_factory=dict)

    @property
    def alive(self) -> bool:
        """Return whether the pipeline's process or thread runs."""
        return self.state not in ENDED

    @property
    def reason(self) -> str | None:
        """Return the trace's one line."""
        return None if self.trace is None else self.trace.partition("\n")[0]


@dataclass(frozen=True, slots=True)
class Folder:
    """A pipeline's folder, by its name, in the folder of all."""

    root: Path
    name: str

    @property
    def path(self) -> Path:
        """Return the folder."""
        return self.root / self.name

    @property
    def spec(self) -> Path:
        """Return spec.json."""
        return self.path / "spec.json"

    @property
    def launch(self) -> Path:
        """Return launch.json."""
        return self.path / "launch.json"

    @property
    def log(self) -> Path:
        """Return worker.log."""
        return self.path / "worker.log"

    @property
    def checkpoint(self) -> Path:
        """Return where the checkpoint is unless the pipeline says."""
        return self.path / "checkpoint"

    def make(self) -> None:
        """Make the folder."""
        self.path.mkdir(parents=True, exist_ok=True)

    def write(self, path: Path, data: object) -> None:
        """Replace a file of JSON as a whole; only its owner may read it."""
        other = path.with_name(f".{path.name}.{os.getpid()}")
        with open(os.open(other, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump(data, file, indent=1, default=str)
        other.replace(path)

    def write_status(self, status: Status) -> None:
        """Replace the status."""
        self.write(self.path / "status.json", asdict(status))

    def status(self) -> Status | None:
        """Return the status; FAILED for a process that ended without saying so. None: it was never started."""
        alive = self.alive()  # asked first: a process that ends now has written its last status before
        try:
            data = json.loads((self.path / "status.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        found = Status(**{**data, "state": State(data["state"])})
        if found.state in ENDED or alive:
            return found
        trace = f"process {found.pid} ended without a word while {found.state}; {self.log} may say why"
        return replace(found, state=State.FAILED, trace=trace, died=True)

    def alive(self) -> bool:
        """Whether the pipeline's process lives."""
        try:
            descriptor = os.open(self.path / "lock", os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # any number may ask at once
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    @contextmanager
    def held(self, owner: str = "pipeline {!r}") -> Iterator[None]:
        """Hold the folder for this process, however it ends. Raises StateError if another one has it."""
        self.make()
        descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            until = time.monotonic() + 1  # who only asks holds it for an instant
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > until:
                        raise StateError(f"{owner.format(self.name)} is already running ({self.path})") from None
                    time.sleep(0.02)
            yield
        finally:
            os.close(descriptor)


def root_of(option: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder of all pipelines: the option's, $KVORUM_PIPELINES_DIR, or ./kvorum-pipelines."""
    return Path(option or os.environ.get(VARIABLE) or DEFAULT).absolute()


def folders(root: Path) -> list[Folder]:
    """Return the pipelines there are, by name."""
    return sorted((Folder(root, path.parent.name) for path in root.glob("*/spec.json")), key=lambda each: each.name)


def now_ms() -> int:
    """Return the time of day, for people."""
    return time.time_ns() // 1_000_000
