"""A memory limit of the kernel (cgroup v1 or v2) for the processes of a test, where creating a cgroup is permitted."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster.clients import eventually


class MemoryLimit:
    """A cgroup that a test created."""

    def __init__(self, folder: Path, version: int) -> None:
        self.folder = folder
        self.version = version

    def wrap(self, name: str, command: list[str]) -> list[str]:
        """Return a command that joins the cgroup and becomes `command`: LocalCluster.wrap."""
        return ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self.folder / "cgroup.procs"), *command]

    def processes(self) -> set[int]:
        return {int(line) for line in (self.folder / "cgroup.procs").read_text().split()}

    def oom_kills(self) -> int:
        """Return how many processes the kernel killed for want of memory."""
        return self._count("memory.oom_control" if self.version == 1 else "memory.events", "oom_kill")

    def limit_hits(self) -> int:
        """Return how often the kernel had to reclaim memory because of the limit."""
        if self.version == 1:
            return int((self.folder / "memory.failcnt").read_text())
        return self._count("memory.events", "max")

    def _count(self, file: str, key: str) -> int:
        rows = dict(line.split() for line in (self.folder / file).read_text().splitlines())
        return int(rows[key])


def parent_cgroup() -> tuple[Path, int]:
    """Return the folder in which a cgroup with a memory limit can be created, and the version of its hierarchy.

    In version 2 a cgroup has either processes or children with limits, so it is the parent of this process's cgroup.
    """
    own = dict(line.split(":", 2)[1:] for line in Path("/proc/self/cgroup").read_text().splitlines())
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, mount, kind, options, *_ = line.split()
        if kind == "cgroup" and "memory" in options.split(","):
            controllers = next(each for each in own if "memory" in each.split(","))
            return Path(mount + own[controllers]), 1
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, mount, kind, *_ = line.split()
        if kind == "cgroup2" and "" in own:
            return Path(mount + own[""]).parent if own[""] != "/" else Path(mount), 2
    raise OSError("no cgroup hierarchy is mounted")


@contextmanager
def memory_limit(size: int) -> Iterator[MemoryLimit]:
    """Create a cgroup for the time of a test; skip the test where that is not permitted."""
    limit = None
    try:
        parent, version = parent_cgroup()
        limit = MemoryLimit(parent / f"kvorum-test-{os.getpid()}", version)
        limit.folder.mkdir()
        (limit.folder / ("memory.limit_in_bytes" if version == 1 else "memory.max")).write_text(str(size))
        subprocess.run(limit.wrap("", ["true"]), check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        if limit is not None and limit.folder.exists():
            limit.folder.rmdir()
        pytest.skip(f"running a process in a cgroup with a memory limit is not permitted here: {error}")
    try:
        yield limit
    finally:
        # The caller ended its processes; the kernel may need a moment until they have left.
        eventually(lambda: not limit.processes(), "the cgroup has no process")
        limit.folder.rmdir()
