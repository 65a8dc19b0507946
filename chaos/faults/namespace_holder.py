"""Namespaces of a run, kept by a process that ends with the run: nothing remains in the system.

A holder is `unshare ... sh -c SETUP`, then waits for the end of its standard input: a pipe of this process, closed by
`close` or by the end of this process. Other processes enter with `nsenter`, which executes the given command.
"""

import select
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

READY: Final = b"ready\n"
SETUP_SECONDS: Final = 20.0
RUN_SECONDS: Final = 20.0
END_SECONDS: Final = 5.0
FLAGS: Final = {"mount": "--mount", "net": "--net"}


class NotPermitted(Exception):
    """The system does not permit such namespaces, or lacks a program; the message has its error."""


@dataclass(slots=True)
class NamespaceHolder:
    """A namespace (mount or net) and the process that keeps it."""

    kind: str
    process: "subprocess.Popen[bytes]"

    @classmethod
    def start(cls, kind: str, setup: str = "true", arguments: Sequence[str] = ()) -> "NamespaceHolder":
        """Make the namespace and run a shell's setup in it ($1, $2, ... are the arguments). Raises NotPermitted."""
        script = f"set -e\n{setup}\nprintf 'ready\\n'\nexec cat >/dev/null"
        command = ["unshare", FLAGS[kind], "sh", "-c", script, "sh", *arguments]
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
            )
        except FileNotFoundError as error:
            raise NotPermitted(str(error)) from error
        holder = cls(kind, process)
        said = holder._setup_output()
        if not said.endswith(READY):
            holder.close()
            raise NotPermitted(f"a {kind} namespace: {said.decode(errors='replace').strip() or 'no output'}")
        return holder

    def _setup_output(self) -> bytes:
        """Return the output of the setup until it was ready, ended, or timed out."""
        assert self.process.stdout is not None
        said, deadline = b"", time.monotonic() + SETUP_SECONDS
        while not said.endswith(READY):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                return said
            data = self.process.stdout.read1(4096)  # type: ignore[attr-defined]  # a pipe is buffered
            if not data:
                return said
            said += data
        return said

    @property
    def pid(self) -> int:
        """The holder's pid: /proc/PID/root is how its mounts are seen from outside."""
        return self.process.pid

    def command_prefix(self) -> list[str]:
        """Return the command prefix with which a command runs inside."""
        return ["nsenter", f"--target={self.pid}", FLAGS[self.kind], "--"]

    def run(self, *command: str, stdin: str = "") -> str:
        """Run a command inside and return its output. Raises NotPermitted."""
        done = subprocess.run(
            [*self.command_prefix(), *command], input=stdin, capture_output=True, text=True, timeout=RUN_SECONDS
        )
        if done.returncode != 0:
            raise NotPermitted(f"`{' '.join(command)}` ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def close(self) -> None:
        """End the holder; the namespace exists while it has processes. Idempotent."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
