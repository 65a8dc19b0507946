"""A client in its own process, which prints a line per event."""

import os
import select
import subprocess
import sys
import time

from bench.stalled import StalledError
from kvorum.runtime.process import die_with_parent

PARENT = "KVORUM_BENCH_PARENT"


def follow_parent() -> None:
    """Called by the client first of all: it ends with the measuring process."""
    die_with_parent(int(os.environ[PARENT]))


class Child:
    """`python -m MODULE ARGUMENTS`, its standard input and output in our hands."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._name = module
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env=os.environ | {PARENT: str(os.getpid())},
        )
        self._said = b""

    def expect(self, seconds: float) -> list[str]:
        """Wait for its next line and return its words. Raises StalledError."""
        assert self._process.stdout is not None
        deadline = time.monotonic() + seconds
        while b"\n" not in self._said:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._process.stdout], [], [], left)[0]:
                raise StalledError(f"{self._name} says nothing for {seconds:.0f} s")
            more = self._process.stdout.read(4096)
            if not more:
                raise StalledError(f"{self._name} has ended")
            self._said += more
        line, _, self._said = self._said.partition(b"\n")
        return line.decode().split()

    def tell(self) -> None:
        """Send it a line: it continues."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def close(self) -> None:
        """Kill it."""
        self._process.kill()
        self._process.communicate()
