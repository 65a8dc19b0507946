"""A process that works for this one: request and answer in turn, over two pipes.

Linux.

For work that would keep the interpreter from the event loop, even in a thread. The caller blocks until the answer, so
it runs in a thread. The worker dies with the process that started it, has a lower priority (niceness), and ends when
its pipe is closed. A frame is a length of 4 bytes (big-endian) and that many bytes.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Final

from kvorum.runtime.process import die_with_parent

FRAME_BYTES_MAX: Final = 1 << 30
LENGTH_BYTES: Final = 4
END_SECONDS_MAX: Final = 10.0
"""A worker whose pipe is closed ends after its current work; otherwise it is killed."""


class WorkerLost(Exception):
    """The worker has ended."""


class Worker:
    """See the module. Create it in a thread that lives as long as the process (the loop's)."""

    __slots__ = ("_process", "_reading", "_writing")

    def __init__(self, module: str, niceness: int) -> None:
        """Start `python -m module`, which calls `serve`. Raises OSError."""
        command = [sys.executable, "-m", module, str(os.getpid()), str(niceness)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        assert self._process.stdin is not None and self._process.stdout is not None, "pipes were asked for"
        self._writing, self._reading = self._process.stdin.fileno(), self._process.stdout.fileno()

    @property
    def pid(self) -> int:
        """The worker's process."""
        return self._process.pid

    def ask(self, request: bytes) -> bytes:
        """Return the answer. Blocks. Raises WorkerLost; the worker must be closed then."""
        try:
            write_frame(self._writing, request)
            answer = read_frame(self._reading)
        except OSError as error:
            raise WorkerLost(f"worker {self.pid}: {error}") from error
        if answer is None:
            raise WorkerLost(f"worker {self.pid} has ended")
        return answer

    def kill(self) -> None:
        """Kill the worker at once; its caller receives WorkerLost. Close it afterwards."""
        self._process.kill()

    def close(self) -> None:
        """End it, and wait until it has ended. No request may be in progress. Blocks. Idempotent."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def owner() -> int:
    """Return the process that started this worker."""
    return int(sys.argv[1])


def serve(answer: Callable[[bytes], bytes]) -> None:
    """Be the worker: answer requests until there are none. Printed text goes to stderr, not among the answers."""
    die_with_parent(owner())
    # Ctrl-C in a terminal reaches all processes; the parent ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(int(sys.argv[2]))
    reading, writing = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    while (request := read_frame(reading)) is not None:
        write_frame(writing, answer(request))


def write_frame(fd: int, data: bytes) -> None:
    """Write one frame whole. Raises OSError."""
    assert len(data) <= FRAME_BYTES_MAX, "a frame has a limit"
    left = memoryview(len(data).to_bytes(LENGTH_BYTES, "big") + data)
    while left:
        left = left[os.write(fd, left) :]


def read_frame(fd: int) -> bytes | None:
    """Return the next frame; None where the other side has closed, also within one. Raises OSError."""
    head = _read(fd, LENGTH_BYTES)
    if head is None:
        return None
    size = int.from_bytes(head, "big")
    if size > FRAME_BYTES_MAX:
        raise OSError(f"frame of {size} bytes is too large")
    return _read(fd, size)


def _read(fd: int, size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        more = os.read(fd, size - len(data))
        if not more:
            return None
        data += more
    return data
