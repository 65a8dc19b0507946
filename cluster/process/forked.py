"""A role's process as a fork of the supervisor: the code is in memory already, on shared pages.

A new interpreter would load and compile several hundred modules, once per role and node; a fork avoids that, and
unchanged pages are in memory once. The supervisor may fork because it has one thread and no event loop.
"""

import contextlib
import gc
import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping

from kvorum.cluster.process.exits import Exit
from kvorum.runtime.process import name_process

Work = Callable[[], int]
"""Function of the child; returns its exit code."""


class Forked:
    """A child process. It is waited for by `poll` alone."""

    def __init__(self, name: str, work: Work, output: int | None, kept: int, environment: Mapping[str, str]) -> None:
        """Fork. The child writes to `output` (None: where this process does), keeps the file `kept` and no other.

        `name` is the process name in `ps` and `top`. Raises OSError.
        """
        self._returncode: int | None = None
        sys.stdout.flush()
        sys.stderr.flush()
        gc.freeze()  # no garbage collector visits shared objects: it would write to them and copy their pages
        # No signal may reach the child before it has its own handlers: its parent's would ignore a SIGTERM.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self.pid = os.fork()
            if self.pid == 0:
                _end(lambda: _run(name, work, output, kept, environment, before))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def poll(self) -> int | None:
        """Return the exit code (negative: the signal that ended it), None while it runs."""
        if self._returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._returncode = os.waitstatus_to_exitcode(status)
        return self._returncode

    def send_signal(self, number: int) -> None:
        """Send a signal unless it was seen to have ended; a pid is not another's before it has been waited for."""
        if self.poll() is None:
            os.kill(self.pid, number)


def _run(
    name: str,
    work: Work,
    output: int | None,
    kept: int,
    environment: Mapping[str, str],
    signal_mask: set[int | signal.Signals],
) -> int:
    """In the child: reset the state of a newly started process, then work."""
    signal.set_wakeup_fd(-1)  # first: it is the parent's pipe
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, signal_mask)
    os.setpgid(0, 0)  # Ctrl-C reaches only the node process, which then stops its roles in order
    name_process(name)
    os.environ.clear()
    os.environ.update(environment)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    if output is not None:
        os.dup2(output, 1)
        os.dup2(output, 2)
    for fd in map(int, os.listdir("/proc/self/fd")):
        if fd > 2 and fd != kept:
            with contextlib.suppress(OSError):  # the listing's own
                os.close(fd)
    os.set_inheritable(kept, True)  # a work may become another program
    return work()


def _end(run: Work) -> None:
    """End this process with the result, exit code or exception of its work, as the interpreter would.

    But without the exit handlers of its parent.
    """
    code: int = Exit.CRASHED
    try:
        code = run()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else Exit.DONE
        if error.code is not None and not isinstance(error.code, int):
            print(error.code, file=sys.stderr)
            code = Exit.CRASHED
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
