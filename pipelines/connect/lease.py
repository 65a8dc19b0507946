"""A manager's lease of its folder: one manager per folder, and workers end without a manager.

While a manager leads it touches `lease`. A small process of its own, which outlives it, kills the workers of the folder
when the lease is older than LEASE_SECONDS: another manager, on another machine, has taken over by then or will. Who
takes over from somebody else waits as long, and longer, before he starts anything. So there is one worker of a name
however the machines and the network between them fail; only clocks that stand still on one machine and not on the
other can break it, and then the exactly-once sink fences the older worker.
"""

import fcntl
import json
import os
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Final

from kvorum.pipelines.connect.processes import LAUNCHED, kill_tree, started
from kvorum.pipelines.run.state import Folder, folders

LEASE: Final = "manager.lease"
LOCK: Final = "manager.lock"
IDENTITY: Final = "manager.id"
GUARD: Final = "guard.lock"
LEASE_SECONDS: Final = 60.0
MARGIN_SECONDS: Final = 6.0
"""What a taker-over waits beyond the lease: the guard looks once in LOOK_SECONDS, and kills."""
TOUCH_SECONDS: Final = 3.0
LOOK_SECONDS: Final = 2.0


class FolderTaken(Exception):
    """Another manager uses the folder."""


def hold(folder: Path) -> int:
    """Take the folder for this process; return what holds it. Raises FolderTaken."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise FolderTaken(f"another manager runs in {folder}") from None
    return descriptor


def identity(folder: Path) -> str:
    """Return the folder's unique name, created on first use."""
    path = folder / IDENTITY
    if not path.exists():
        made = path.with_name(f".{IDENTITY}.{os.getpid()}")
        made.write_text(str(uuid.uuid4()), encoding="ascii")
        made.replace(path)
    return path.read_text(encoding="ascii")


def touch(folder: Path) -> None:
    """Say that the workers of the folder are looked after, in the machine's own time, which never jumps."""
    made = folder / f".{LEASE}.{os.getpid()}"
    made.write_text(str(_machine_seconds()), encoding="ascii")
    made.replace(folder / LEASE)


def _machine_seconds() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def give_up(folder: Path) -> None:
    """Release the lease: remaining workers end now."""
    (folder / LEASE).unlink(missing_ok=True)


def age_seconds(folder: Path) -> float:
    """Return how long ago that was said; endless if never, or before the machine was started."""
    try:
        age = _machine_seconds() - float((folder / LEASE).read_text(encoding="ascii"))
    except (FileNotFoundError, ValueError):
        return float("inf")
    return age if age >= 0 else float("inf")


def start_guard(folder: Path, seconds: float) -> "subprocess.Popen[bytes]":
    """Start the process that ends workers without a manager. If one exists already, the new one ends at once."""
    command = [sys.executable, "-m", "kvorum.pipelines.connect.lease", str(folder), str(seconds)]
    with open(folder / "guard.log", "ab") as log:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)


def guarded(folder: Path) -> bool:
    """Tell whether there is such a process."""
    descriptor = os.open(folder / GUARD, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def guard(folder: Path, seconds: float) -> int:
    """Look until there is nothing left to look after: no lease, or an old one and no workers."""
    descriptor = os.open(folder / GUARD, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return 0
    while True:
        if age_seconds(folder) > seconds:
            killed = kill_workers(folder)
            if killed:
                print(f"no manager for {seconds:g} s: ended {', '.join(killed)}", flush=True)
            return 0
        time.sleep(LOOK_SECONDS)


def kill_workers(folder: Path) -> list[str]:
    """Kill the workers of a folder that its manager started; return their names."""
    found = []
    for each in folders(folder):
        try:
            launched = json.loads((Folder(folder, each.name).path / LAUNCHED).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue  # nobody's but the one's who started it by hand
        pid = int(launched["pid"])
        if launched["started"] and started(pid) == launched["started"]:
            kill_tree(pid)
            found.append(each.name)
    return found


if __name__ == "__main__":
    sys.exit(guard(Path(sys.argv[1]), float(sys.argv[2])))
