"""Processes by number and start time: which one is meant, and how it is ended with all that it started."""

import os
import signal
from pathlib import Path
from typing import Final

LAUNCHED: Final = "manager.json"
"""In a pipeline's folder: {pid, started, revision} of the process that the manager started."""


def started(pid: int) -> str:
    """Return when a process was started, in ticks since the machine was; empty when there is none.

    With the number it names one process: numbers are used again.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] == "Z" else fields[19]


def kill_tree(pid: int) -> None:
    """Kill a process and its group, if it leads one: Spark's JVM and its Python workers are in it."""
    try:
        if os.getpgid(pid) == pid:
            os.killpg(pid, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def tail(path: Path, size: int = 4000) -> str:
    """Return the end of a log."""
    try:
        return path.read_bytes()[-size:].decode(errors="replace").strip()
    except OSError:
        return ""
