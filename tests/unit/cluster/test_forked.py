"""A fork ends as an interpreter would, says why, and has nothing open that is its parent's."""

import subprocess
import sys
from pathlib import Path

import pytest

from kvorum.cluster.process.exits import Exit

PARENT = """
import os, signal, sys
from kvorum.cluster.process.forked import Forked
def fail():
    raise ValueError("the reason")
def look():
    listed = sorted(map(int, os.listdir("/proc/self/fd")))
    there = [fd for fd in listed if os.path.exists(f"/proc/self/fd/{fd}")]  # not the listing's own
    print(there, os.environ, open("/proc/self/comm").read().strip())
    return 7
def wait():
    signal.pause()
works = dict(returned=lambda: 3, exited=lambda: sys.exit(5), told=lambda: sys.exit("the reason"), failed=fail,
             looked=look, killed=wait)
output = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT)
kept = os.open(os.devnull, os.O_RDONLY)
child = Forked("kvorum test", works[sys.argv[1]], output, kept, {"A": str(kept)})
if sys.argv[1] == "killed":
    child.send_signal(signal.SIGTERM)
os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
print(child.poll(), child.poll())
child.send_signal(signal.SIGTERM)  # to nobody
"""


def ended(work: str, folder: Path) -> tuple[int, str]:
    """Return the code of a fork that did this, and what it wrote."""
    written = folder / "written"
    done = subprocess.run(
        [sys.executable, "-c", PARENT, work, str(written)], capture_output=True, text=True, timeout=60, check=True
    )
    code, again = done.stdout.split()
    assert code == again and not done.stderr
    return int(code), written.read_text()


@pytest.mark.parametrize(
    ("work", "code", "text"),
    [
        ("returned", 3, ""),
        ("exited", 5, ""),
        ("told", Exit.CRASHED, "the reason\n"),
        ("failed", Exit.CRASHED, "ValueError: the reason\n"),
        ("killed", -15, ""),
    ],
)
def test_it_exits_with_its_works_code(work: str, code: int, text: str, tmp_path: Path) -> None:
    found, written = ended(work, tmp_path)
    assert found == code and written.endswith(text) and bool(written) == bool(text)


def test_it_has_its_own_environment_and_name_and_no_file_but_the_one_kept(tmp_path: Path) -> None:
    code, written = ended("looked", tmp_path)
    assert code == 7
    kept = int(written.partition("'A': '")[2].partition("'")[0])
    assert written == f"[0, 1, 2, {kept}] environ({{'A': '{kept}'}}) kvorum test\n"
