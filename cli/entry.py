"""The process of `kvorum`: standard streams that are closed or full, and errors no command handled, in one line each.

A command may assume that it has all three streams. Reading from a closed one or writing to it is an OSError, and no
file or socket that is opened later takes its number. Errors of standard error itself are ignored: there is no other
place to report them, and the exit code is unchanged.
"""

import errno
import io
import os
import sys
from collections.abc import Callable
from typing import Final

from kvorum.cli.output import Exit, report

TRACEBACK_VARIABLE: Final = "KVORUM_TRACEBACK"
STREAMS: Final = ("standard input", "standard output", "standard error")


class UnfailingFile(io.FileIO):
    """A file whose writes never fail, for standard error on a full or closed device."""

    def write(self, data: object) -> int:
        """Write, or lose the data."""
        try:
            return super().write(data) or 0  # type: ignore[arg-type]
        except OSError:
            return len(memoryview(data))  # type: ignore[arg-type]


def run(command: Callable[[], object]) -> int:
    """Run the command as this process; return its exit code."""
    closed = prepare_streams()
    try:
        command()
        code: int = Exit.DONE
    except SystemExit as end:
        code = exit_code(end)
    except KeyboardInterrupt:
        code = Exit.FAILED
    except OSError as error:
        code = report_os_error(error, closed)
    except UnicodeError as error:
        report(f"invalid UTF-8 in the arguments or the input: {error}")
        code = Exit.FAILED
    except (MemoryError, RecursionError) as error:
        report(f"a value in the arguments or the input is too large: {type(error).__name__}")
        code = Exit.FAILED
    except Exception as error:
        if os.environ.get(TRACEBACK_VARIABLE):
            raise
        what = f"{type(error).__name__}: {' '.join(str(error).split())}"
        report(f"internal error ({what}); {TRACEBACK_VARIABLE}=1 shows where, please report it")
        code = Exit.FAILED
    try:
        sys.stdout.flush()
    except (OSError, ValueError) as error:
        code = code or report_os_error(error, closed)
        abandon_output()
    return code


def exit_code(end: SystemExit) -> int:
    """Return the code that the command ended with; a text instead of it is printed."""
    if isinstance(end.code, str):
        report(end.code)
        return Exit.FAILED
    return Exit.DONE if end.code is None else end.code


def prepare_streams() -> list[str]:
    """Reopen closed standard streams so that their use is an error; return their names."""
    closed = []
    for number, name in enumerate(STREAMS):
        try:
            os.fstat(number)
        except OSError:
            closed.append(name)
            # The wrong direction: the use of input and output fails with EBADF.
            os.open(os.devnull, os.O_WRONLY if number != 1 else os.O_RDONLY)
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, "r", closefd=False)))
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False)))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.stderr = io.TextIOWrapper(
        io.BufferedWriter(UnfailingFile(2, "w", closefd=False)),
        encoding=None if sys.stderr is None else sys.stderr.encoding,
        errors="backslashreplace",
        line_buffering=True,
        write_through=True,
    )
    return closed


def report_os_error(error: OSError | ValueError, closed: list[str]) -> int:
    """Print the error of the system; nothing if the reader of the output has ended (`| head`)."""
    code = error.errno if isinstance(error, OSError) else None
    if code == errno.EPIPE:
        abandon_output()
    elif code == errno.EBADF and closed:
        report(f"{' and '.join(closed)} was closed before the command began")
    else:
        report(str(error))
    return Exit.FAILED


def abandon_output() -> None:
    """Prevent the interpreter from writing the rest of the output when it ends."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)
