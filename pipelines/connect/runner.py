"""Workers of connectors: threads of child processes (run/host.py), which end when this process ends.

Connectors share one child process and its Spark context, but for those of `has_own_process`, which have one each.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from kvorum.pipelines import durable
from kvorum.pipelines.connect.errors import RunnerError
from kvorum.pipelines.run import control
from kvorum.pipelines.run.process import Launch
from kvorum.pipelines.run.state import HOST, PID, Folder, StateError, Status
from kvorum.pipelines.spec import Pipeline

REQUEST_SECONDS: Final = 20.0
START_SECONDS: Final = 120.0
"""For a process to accept commands, on a busy machine; Spark starts after that."""
STOP_SECONDS: Final = 60.0
"""A worker ends its micro-batch first. After this time its process is killed."""
KILL_SECONDS: Final = 15.0
POLL_SECONDS: Final = 0.05
LOG_BYTES: Final = 4000

log = logging.getLogger("kvorum.pipelines.connect.runner")
Answer = dict[str, Any]
Process = subprocess.Popen[bytes]


def identity(root: Path) -> str:
    """Return the state folder's name, unique among all machines, created on first use."""
    path = root / "manager.id"
    if not path.exists():
        durable.replace(path, f"{socket.gethostname()}:{root} (id {uuid.uuid4()})".encode())
    return path.read_text(encoding="utf-8")


def has_own_process(pipeline: Pipeline, launch: Launch) -> bool:
    """Return whether a pipeline has its own process: by configuration, or as it needs another Spark context."""
    if pipeline.isolation == "process" or pipeline.spark:
        return True
    if pipeline.connector == "auto":
        return False
    from kvorum.pipelines.session.connector import choose, folder_of_jars  # imports Spark

    return choose("auto", folder_of_jars(launch.jars), launch.settings).connector != pipeline.connector


@dataclass(slots=True)
class Runner:
    """Starts and stops workers, in the folders of kvorum.pipelines.run."""

    root: Path
    checkpoints: str | None = None
    launch: Launch = field(default_factory=Launch)
    _hosts: dict[str, Process] = field(default_factory=dict)
    _host_of: dict[str, str] = field(default_factory=dict)
    _starting: asyncio.Lock = field(default_factory=asyncio.Lock)

    def checkpoint(self, name: str, run: int) -> str:
        """Return the folder of a connector's checkpoint: each run has its own."""
        base = f"{self.checkpoints.rstrip('/')}/{name}" if self.checkpoints else str(self.root / name)
        return f"{base}/checkpoint" if run == 0 else f"{base}/checkpoint-{run}"

    async def seen(self, name: str) -> Status | None:
        """Return a worker's status."""
        return await asyncio.to_thread(Folder(self.root, name).status)

    async def ask(self, name: str, command: str, seconds: float = REQUEST_SECONDS, *, other: str = "") -> Answer:
        """Return a worker's or a host's answer. Raises RunnerError."""
        try:
            return await asyncio.to_thread(control.ask, self.root, name, command, seconds, other=other)
        except (StateError, OSError, ValueError) as error:
            raise RunnerError(str(error)) from error

    async def start(self, pipeline: Pipeline) -> None:
        """Start a worker. Raises RunnerError."""
        name, is_shared = pipeline.name, not await asyncio.to_thread(has_own_process, pipeline, self.launch)
        host, folder = HOST if is_shared else f"{HOST}-{name}", Folder(self.root, name)
        if folder.alive():
            await self.stop(name)  # an earlier start was not confirmed

        def write_spec() -> None:
            with folder.held():  # no worker has the folder
                folder.write(folder.spec, pipeline.as_data())

        try:
            await asyncio.to_thread(write_spec)
        except (StateError, OSError) as error:
            raise RunnerError(str(error)) from error
        self._host_of[name] = host
        if not is_shared:
            await self._end(host)  # its Spark context may have other settings
        async with self._starting:
            await self._ensure(host, name)
            try:
                await self.ask(host, "start", START_SECONDS, other=name)
            except RunnerError as error:
                log.info("connector not started, tried again connector=%s error=%s", name, error)
                await self._ensure(host, name)  # it was about to end
                await self.ask(host, "start", START_SECONDS, other=name)

    async def _ensure(self, host: str, first: str) -> None:
        """Start a host for a first worker unless it runs; wait until it accepts commands. Raises RunnerError."""
        folder, process = Folder(self.root, host), self._hosts.get(host)
        if not folder.alive() and (process is None or process.poll() is not None):
            await self._end(host)
            self._hosts[host] = await asyncio.to_thread(self._launched, folder, first)
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                await self.ask(host, "status")
                return
            except RunnerError as error:
                if host in self._hosts and self._hosts[host].poll() is not None:
                    end = folder.log.read_bytes()[-LOG_BYTES:].decode(errors="replace").strip()
                    raise RunnerError(f"the process of the connector ended: {end}") from error
                if time.monotonic() > deadline:
                    raise
            await asyncio.sleep(POLL_SECONDS)

    def _launched(self, folder: Folder, first: str) -> Process:
        folder.make()
        folder.write(folder.launch, asdict(self.launch))
        command = [sys.executable, "-m", "kvorum.pipelines.run.host", folder.name, "--state", str(self.root)]
        command += ["--first", first]
        with open(folder.log, "ab") as file:  # stdin is closed when this process ends
            return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=file, stderr=file, start_new_session=True)

    async def stop(self, name: str) -> None:
        """Stop a worker; kill its process if it does not stop in time. Raises RunnerError."""
        host = self._host_of.get(name, HOST)
        if host != HOST:
            await self._end(host)
            return
        try:
            await self.ask(name, "stop", STOP_SECONDS)
        except RunnerError as error:
            log.info("stop failed connector=%s error=%s", name, error)
        if not await self._released(name, KILL_SECONDS):
            log.warning("shared process killed, all its connectors restart: one does not stop connector=%s", name)
            await self._kill(host)

    async def end(self) -> None:
        """End all hosts of the folder, those of an earlier manager as well. Raises RunnerError."""
        hosts = {*self._hosts, *(path.parent.name for path in self.root.glob(f"{HOST}*/lock"))}
        await asyncio.gather(*(self._end(host) for host in hosts))

    async def _end(self, host: str) -> None:
        """Stop a host with its workers, with SIGKILL if it does not stop in time. Raises RunnerError."""
        process = self._hosts.get(host)
        if process is not None and process.stdin is not None:
            process.stdin.close()
        if not await self._released(host, STOP_SECONDS):
            await self._kill(host)
        self._hosts.pop(host, None)

    async def _kill(self, host: str) -> None:
        """Kill a host and its process group, to which Spark's JVM belongs. Raises RunnerError."""
        process = self._hosts.get(host)
        pid = process.pid if process is not None else int((self.root / host / PID).read_text(encoding="ascii"))
        log.warning("process killed pid=%d", pid)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        if not await self._released(host, KILL_SECONDS):
            raise RunnerError(f"process {pid} is still running after SIGKILL")

    async def _released(self, name: str, seconds: float) -> bool:
        """Return whether no process holds a folder, after at most so long."""
        deadline = time.monotonic() + seconds
        process = self._hosts.get(name)
        while Folder(self.root, name).alive() or (process is not None and process.poll() is None):
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(POLL_SECONDS)
        return True
