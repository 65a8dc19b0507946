"""Scenarios run by `kvorum chaos serve`: one `kvorum chaos run` process at a time, and its verdicts.

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
from traceback import format_exception
from typing import Any, Final, Literal, TypeAlias

from kvorum.chaos.faults.die_with_parent import die_with_parent_command
from kvorum.runtime.clock import SystemClock
from kvorum.runtime.logs import get_logger

RUNS_MAX: Final = 1000
"""Kept in the list; the oldest is forgotten (its folder stays)."""
LINES_KEPT: Final = 200
LINE_BYTES_MAX: Final = 1 << 20
STOP_SECONDS: Final = 120.0
"""Time limit of a stopped run for repair, reads and verdict."""
NAME: Final = re.compile(r"[a-z0-9][a-z0-9\-]{0,99}(/[A-Za-z0-9][A-Za-z0-9\-_.]{0,99})?")
"""A shipped scenario, or one cell of it: never a path."""
HISTORY: Final = "history.jsonl"
REPORT: Final = "report.html"
ERROR_CHARS: Final = 1000
"""The end of a command's standard error, which is kept."""
COMMAND: Final = (sys.executable, "-m", "kvorum.cli.main", "chaos")

State: TypeAlias = Literal["running", "held", "violated", "could not run", "stopped"]
STATES: Final[dict[int, State]] = {0: "held", 1: "violated"}

log = get_logger("chaos")


class Busy(Exception):
    """An operation that is not possible while a scenario runs."""


class NoReport(Exception):
    """A run of which no report can be made, and why."""


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
    """{cell: output of `kvorum chaos check -o json` for its history}."""
    process: asyncio.subprocess.Process | None = None

    def fields(self, *, whole: bool) -> dict[str, object]:
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
        on_change: Callable[[ScenarioRun], None],
        command: tuple[str, ...] = COMMAND,
        heard: Callable[[ScenarioRun, str], None] = lambda run, line: None,
    ) -> None:
        """Keep runs below a folder; calls `on_change` when one begins or ends, `heard` with each line."""
        self._folder = folder
        self._on_change = on_change
        self._lines_read = heard
        self._command = command
        self._runs: dict[int, ScenarioRun] = {}
        self._next_id = 1
        self._start_lock = asyncio.Lock()
        self._running: tuple[ScenarioRun, asyncio.Task[None]] | None = None

    @property
    def runs(self) -> list[ScenarioRun]:
        """All that are known, oldest first."""
        return list(self._runs.values())

    def run(self, run_id: int) -> ScenarioRun | None:
        """Return a run, None for an unknown number."""
        return self._runs.get(run_id)

    async def start(self, scenario: str, seed: int, duration: float | None) -> ScenarioRun:
        """Start a run. Raises Busy, ValueError (no name of a scenario), OSError."""
        if not NAME.fullmatch(scenario):
            raise ValueError(f"{scenario!r} is not a shipped scenario (kvorum chaos list)")
        if self._start_lock.locked() or (self._running is not None and not self._running[1].done()):
            raise Busy("a scenario is already running")
        async with self._start_lock:
            return await self._start(scenario, seed, duration)

    async def _start(self, scenario: str, seed: int, duration: float | None) -> ScenarioRun:
        self._next_id = max(self._next_id, await asyncio.to_thread(last_number, self._folder) + 1)
        folder = self._folder / f"{self._next_id:04d}-{scenario.replace('/', '-')}"
        await asyncio.to_thread(folder.mkdir, parents=True)
        run = ScenarioRun(self._next_id, scenario, seed, folder, SystemClock().wall_ms())
        arguments = ["run", scenario, "--seed", str(seed), "--out", str(folder)]
        arguments += [] if duration is None else ["--duration", f"{duration:g}"]
        run.process = await asyncio.create_subprocess_exec(
            *die_with_parent_command([*self._command, *arguments]),
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
        self._on_change(run)
        self._running = run, asyncio.create_task(self._follow(run, run.process))
        return run

    async def _follow(self, run: ScenarioRun, process: asyncio.subprocess.Process) -> None:
        """Read its output to the end, then check its histories: the run is over then, with or without a verdict."""
        try:
            run.exit_code = await self._output(run, process)
            for path in await asyncio.to_thread(histories, run.folder):
                run.verdicts[path.parent.name] = await self._verdict(path)
        except Exception as error:
            # Also of our own bugs: nothing awaits this task, and the run would be "running" for ever.
            log.error("scenario run lost", run=run.id, error="".join(format_exception(error)))
            run.lines.append(f"the output could not be read to its end: {type(error).__name__}: {error}")
            await kill_process(process)
        if run.stopped:
            run.state = "stopped"
        else:
            run.state = "could not run" if run.exit_code is None else STATES.get(run.exit_code, "could not run")
        self._on_change(run)

    async def _output(self, run: ScenarioRun, process: asyncio.subprocess.Process) -> int:
        """Read its output; return its exit code."""
        assert process.stdout is not None
        while line := await line_of(process.stdout):
            run.lines.append(line.decode(errors="replace").rstrip())
            run.lines_count += 1
            self._lines_read(run, run.lines[-1])
        return await process.wait()

    async def _verdict(self, path: Path) -> object:
        """Return the checker's verdict on a history, or the reason for none."""
        try:
            output, errors = await self._run_command("check", str(path), "-o", "json")
        except OSError as error:
            return {"error": f"the checker could not be started: {error}"}
        try:
            return json.loads(output)
        except (ValueError, RecursionError):
            return {"error": errors[-ERROR_CHARS:] or "the checker printed no output"}

    async def _run_command(self, *arguments: str) -> tuple[bytes, str]:
        """Run another chaos command to its end; return its standard output and standard error."""
        process = await asyncio.create_subprocess_exec(
            *die_with_parent_command([*self._command, *arguments]),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, errors = await process.communicate()
        return output, errors.decode(errors="replace")

    def cells(self, run: ScenarioRun) -> list[str]:
        """Return the cells of a run that there is a history of, or a report. Blocks."""
        found = {path.parent.name for name in (HISTORY, REPORT) for path in run.folder.glob(f"*/{name}")}
        return sorted(found)

    async def report(self, run: ScenarioRun, cell: str) -> Path:
        """Return the report of one of a run's cells; created now if the run did not write it.

        Raises Busy: it still runs; NoReport; OSError.
        """
        path = run.folder / cell / REPORT
        if await asyncio.to_thread(path.exists):
            return path
        if run.state == "running":
            raise Busy("the run is not finished: there is no report yet")
        _, errors = await self._run_command("report", str(path.parent / HISTORY), "-o", str(path))
        if not await asyncio.to_thread(path.exists):
            raise NoReport(errors[-ERROR_CHARS:] or "the report could not be created")
        return path

    async def stop(self, run: ScenarioRun) -> None:
        """Stop a run and return when it has repaired, read and judged; one that takes too long is killed."""
        if run.state != "running" or self._running is None or self._running[0] is not run:
            return
        task, process = self._running[1], run.process
        assert process is not None, "it is begun with one"
        run.stopped = True
        if process.returncode is None:
            process.send_signal(signal.SIGINT)
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await asyncio.shield(task)
        except TimeoutError:
            process.kill()
            await task

    async def close(self) -> None:
        """End what runs, at once: its processes die with it."""
        if self._running is None or self._running[1].done():
            return
        run, task = self._running
        assert run.process is not None, "it is begun with one"
        if run.process.returncode is None:
            run.process.kill()
        task.cancel()
        await asyncio.wait([task])
        await run.process.wait()


async def kill_process(process: asyncio.subprocess.Process) -> None:
    """Kill a process whose output is no longer read: the next run must not overlap it."""
    if process.returncode is None:
        process.kill()
        await process.wait()


async def line_of(output: asyncio.StreamReader) -> bytes:
    """Return the next line, nothing at the end; of one that is longer than LINE_BYTES_MAX only that it was."""
    try:
        return await output.readline()
    except ValueError:  # the discarded part is gone: the next call starts in the middle of the data or after it
        return f"(more than {LINE_BYTES_MAX} bytes without a line break are omitted)\n".encode()


def last_number(folder: Path) -> int:
    """Return the number of the last run in a folder, including earlier servers; 0 without any."""
    found = [path.name.partition("-")[0] for path in folder.glob("*-*")] if folder.exists() else []
    return max((int(number) for number in found if number.isdecimal()), default=0)


def histories(folder: Path) -> list[Path]:
    """Return the histories that a run left."""
    return sorted(folder.glob(f"*/{HISTORY}"))
