"""CPU time and memory of a cluster's processes and their children, by /proc.

A broker starts and ends workers, such as the log cleaner's. The CPU time of an ended one is part of its parent's sum
of waited-for children, so nothing is lost between two reads or counted twice.
"""

import contextlib
import os
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PARENT, USER, SYSTEM, USER_OF_CHILDREN, SYSTEM_OF_CHILDREN = 1, 11, 12, 13, 14
"""Fields of /proc/PID/stat, counted behind the name."""
GONE = (FileNotFoundError, ProcessLookupError)


def stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the name. Raises one of GONE."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def tree(roots: Iterable[int]) -> list[int]:
    """Return the processes and all that descend from them."""
    children: dict[int, list[int]] = defaultdict(list)
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(*GONE):
                children[int(stat(int(entry.name))[PARENT])].append(int(entry.name))
    found: dict[int, None] = {}
    waiting = list(roots)
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found[pid] = None
            waiting += children[pid]
    return list(found)


def cpu_seconds(roots: Iterable[int]) -> float:
    """Return the CPU time so far, user and system, of processes, their children, and ended children.

    Each process has four sums, which the kernel cuts to whole ticks of 10 ms.
    """
    ticks = 0
    for pid in tree(roots):
        with contextlib.suppress(*GONE):
            fields = stat(pid)
            ticks += sum(int(fields[at]) for at in (USER, SYSTEM, USER_OF_CHILDREN, SYSTEM_OF_CHILDREN))
    return ticks / TICKS


def memory_mib(roots: Iterable[int]) -> tuple[float, float]:
    """Return (resident, proportional) MiB of processes and their children: shared pages count once in the second."""
    resident = proportional = 0
    for pid in tree(roots):
        with contextlib.suppress(*GONE):
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
            resident += int(re.search(r"^Rss:\s+(\d+)", text, re.MULTILINE)[1])  # type: ignore[index]
            proportional += int(re.search(r"^Pss:\s+(\d+)", text, re.MULTILINE)[1])  # type: ignore[index]
    return resident / 1024, proportional / 1024
