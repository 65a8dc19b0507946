"""Scenarios run by `kvorum chaos serve`: `kvorum chaos run` in a process of its own, one at a time, with its verdicts.

A scenario makes its own cluster in its own folder; the served one is not touched.
"""

import asyncio
import json
import re
import signal
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from kvorum.chaos.faults.leash import leashed
from kvorum.runtime.clock import SystemClock

RUNS_MAX: Final = 1000
"""Kept in the list; the oldest is forgotten (its folder stays)."""
LINES_KEPT: Final = 200
LINE_BYTES_MAX: Final = 1 << 20
STOP_SECONDS: Final = 120.0
"""What a run that was told to end may take to heal, read and judge."""
NAME: Final = re.compile(r"[a-z0-9][a-z0-9\-]{0,99}(/[A-Za-z0-9][A-Za-z0-9\-_.]{0,99})?")
"""A shipped scenario, or one cell of it: never a path."""
COMMAND: Final = (sys.executable, "-m", "kvorum.cli.main", "chaos")

State: TypeAlias = Literal["running", "held", "violated", "could not run", "stopped"]
STATES: Final[dict[int, State]] = {0: "held", 1: "violated"}


class Busy(Exception):
    """A scenario runs already."""


@dataclass(slots=True)
class ScenarioRun:
    """One run."""

    id: int
    scenario: str
    seed: int
    folder: Path
    began_ms: int
    state: State = "running"
    exit_code: int | None = None
    stopped: bool = False
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=LINES_KEPT))
    lines_count: int = 0
    """All that it printed, kept or not."""
    verdicts: dict[str, Any] = field(default_factory=dict)
    """{run: what `kvorum chaos check -o json` says of its history}."""

    def described(self, *, whole: bool) -> dict[str, object]:
        """Return it for people and programs; `whole`: with output and verdicts."""
        brief: dict[str, object] = {
            "id": self.id,
            "scenario": self.scenario,
            "seed": self.seed,
            "began_ms": self.began_ms,
            "state": self.state,
            "exit_code": self.exit_code,
            "folder": str(self.folder),
        }
        if not whole:
            return brief
        return {**brief, "output": list(self.lines), "lines": self.lines_count, "verdicts": self.verdicts}


class Scenarios:
    """Starts, follows and ends them. Lives in one event loop; `close` ends what runs."""

    def __init__(
        self,
        folder: Path,
        told: Callable[[ScenarioRun], None],
        command: tuple[str, ...] = COMMAND,
        heard: Callable[[ScenarioRun, str], None] = lambda run, line: None,
    ) -> None:
        """Keep runs below a folder; `told` is called when one begins and ends, `heard` with each line it prints."""
        self._folder = folder
        self._told = told
        self._heard = heard
        self._command = command
        self._runs: dict[int, ScenarioRun] = {}
        self._next_id = 1
        self._task: asyncio.Task[None] | None = None
        self._process: asyncio.subprocess.Process | None = None

    @property
    def runs(self) -> list[ScenarioRun]:
        """All that are known, oldest first."""
        return list(self._runs.values())

    def run(self, run_id: int) -> ScenarioRun | None:
        """Return a run, None for a number that none has."""
        return self._runs.get(run_id)

    async def start(self, scenario: str, seed: int, duration: float | None) -> ScenarioRun:
        """Start a run. Raises Busy, ValueError (no name of a scenario), OSError."""
        if not NAME.fullmatch(scenario):
            raise ValueError(f"{scenario!r} is no name of a shipped scenario (kvorum chaos list)")
        if self._task is not None and not self._task.done():
            raise Busy("a scenario runs already")
        folder = self._folder / f"{self._next_id:04d}-{scenario.replace('/', '-')}"
        await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
        run = ScenarioRun(self._next_id, scenario, seed, folder, SystemClock().wall_ms())
        arguments = ["run", scenario, "--seed", str(seed), "--out", str(folder)]
        arguments += [] if duration is None else ["--duration", f"{duration:g}"]
        self._process = await asyncio.create_subprocess_exec(
            *leashed([*self._command, *arguments]),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            limit=LINE_BYTES_MAX,
            start_new_session=True,
        )
        self._next_id += 1
        self._runs[run.id] = run
        while len(self._runs) > RUNS_MAX:
            del self._runs[next(iter(self._runs))]
        self._told(run)
        self._task = asyncio.create_task(self._follow(run, self._process))
        return run

    async def _follow(self, run: ScenarioRun, process: asyncio.subprocess.Process) -> None:
        """Read what it says to its end, then judge its histories."""
        assert process.stdout is not None
        while line := await line_of(process.stdout):
            run.lines.append(line.decode(errors="replace").rstrip())
            run.lines_count += 1
            self._heard(run, run.lines[-1])
        code = await process.wait()
        for path in await asyncio.to_thread(histories, run.folder):
            run.verdicts[path.parent.name] = await self._verdict(path)
        run.exit_code = code
        run.state = "stopped" if run.stopped else STATES.get(code, "could not run")
        self._told(run)

    async def _verdict(self, path: Path) -> object:
        """Return what the checker says of a history."""
        process = await asyncio.create_subprocess_exec(
            *leashed([*self._command, "check", str(path), "-o", "json"]),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, errors = await process.communicate()
        try:
            return json.loads(output)
        except ValueError:
            return {"error": errors.decode(errors="replace")[-1000:]}

    async def stop(self, run: ScenarioRun) -> None:
        """Tell a run to end: it heals, reads and judges. Returns when it has; one that takes too long is killed."""
        if run.state != "running" or self._task is None or self._process is None:
            return
        run.stopped = True
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGINT)
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await asyncio.shield(self._task)
        except TimeoutError:
            self._process.kill()
            await self._task

    async def close(self) -> None:
        """End what runs, at once: its processes die with it."""
        if self._task is None or self._task.done() or self._process is None:
            return
        if self._process.returncode is None:
            self._process.kill()
        self._task.cancel()
        await asyncio.wait([self._task])
        await self._process.wait()


async def line_of(output: asyncio.StreamReader) -> bytes:
    """Return the next line, nothing at the end; of one that is longer than LINE_BYTES_MAX only that it was."""
    try:
        return await output.readline()
    except ValueError:  # what there was of it has been thrown away: the next call begins with its rest, or behind it
        return f"(more than {LINE_BYTES_MAX} bytes without a line break are left out)\n".encode()


def histories(folder: Path) -> list[Path]:
    """Return the histories that a run left."""
    return sorted(folder.glob("*/history.jsonl"))
