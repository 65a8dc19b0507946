"""Real processes: who lives, who is meant by a pid file, who dies with whom."""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kvorum.runtime import process
from kvorum.runtime.process import ProcessId

WAIT_SECONDS_MAX = 20


def until(condition: Callable[[], object]) -> None:
    """Wait for a condition, with a limit."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.005)


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(["sleep", "300"]) as child:
        yield child
        child.kill()


def test_a_zombie_process_counts_as_ended(sleeper: "subprocess.Popen[bytes]") -> None:
    identity = process.identify(sleeper.pid)
    assert identity is not None and process.is_alive(identity)
    sleeper.kill()
    until(lambda: not process.is_alive(identity))
    assert process.identify(sleeper.pid) is None
    sleeper.wait()
    assert process.identify(sleeper.pid) is None


def test_a_process_lives_until_its_last_thread_has_ended() -> None:
    """As one does for a moment that was killed: its sockets are open until then, and its locks are held."""
    program = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(300,)).start()
print("up", flush=True)
ctypes.CDLL(None).pthread_exit(None)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdout.readline() == b"up\n"
        identity = process.identify(child.pid)
        until(lambda: (process.stat_fields(child.pid) or [""])[0] == "Z")
        assert identity is not None and process.identify(child.pid) == identity
        assert process.send(identity, signal.SIGKILL)
        until(lambda: not process.is_alive(identity))
        assert child.poll() == -signal.SIGKILL


def test_another_process_with_the_same_pid_is_not_the_same(sleeper: "subprocess.Popen[bytes]") -> None:
    identity = process.identify(sleeper.pid)
    assert identity is not None
    earlier = ProcessId(identity.pid, identity.start_time - 1)
    assert not process.is_alive(earlier)
    assert not process.send(earlier, signal.SIGKILL)
    assert process.is_alive(identity)


def test_a_misleading_process_name_is_parsed_correctly(tmp_path: Path) -> None:
    """The name in /proc/PID/stat may hold blanks and parentheses."""
    program = tmp_path / "a) Z 1 (b"
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([str(program), "300"]) as child:
        plain = process.identify(os.getpid())
        odd = process.identify(child.pid)
        assert plain is not None and odd is not None
        assert 0 <= odd.start_time - plain.start_time < 3_600 * os.sysconf("SC_CLK_TCK")
        child.kill()


def test_a_stopped_process_runs_and_is_identified(sleeper: "subprocess.Popen[bytes]") -> None:
    identity = process.identify(sleeper.pid)
    assert identity is not None and not process.is_stopped(identity)
    assert process.send(identity, signal.SIGSTOP)
    until(lambda: process.is_stopped(identity))
    assert process.is_alive(identity)
    assert process.send(identity, signal.SIGCONT)
    until(lambda: not process.is_stopped(identity))


def test_a_signal_to_an_ended_process_reports_it(sleeper: "subprocess.Popen[bytes]") -> None:
    identity = process.identify(sleeper.pid)
    assert identity is not None
    assert process.send(identity, signal.SIGKILL)
    sleeper.wait()
    assert not process.send(identity, signal.SIGKILL)


def test_a_pid_file_names_this_process_until_removed(tmp_path: Path) -> None:
    path = str(tmp_path / "node.pid")
    own = process.write_pid_file(path)
    assert Path(path).read_text() == f"{os.getpid()}\n"
    assert process.read_pid_file(path) == own == process.living(path)
    process.remove_pid_file(path)
    assert process.living(path) is None
    assert os.listdir(tmp_path) == []
    process.remove_pid_file(path)


def test_a_stale_pid_file_names_no_running_process(tmp_path: Path, sleeper: "subprocess.Popen[bytes]") -> None:
    path = str(tmp_path / "node.pid")
    identity = process.identify(sleeper.pid)
    assert identity is not None
    Path(path).write_text(f"{identity.pid}\n")
    Path(path + ".start").write_text(f"{identity.pid} {identity.start_time - 7}\n")
    assert process.read_pid_file(path) is not None
    assert process.living(path) is None
    Path(path + ".start").write_text(f"{identity.pid} {identity.start_time}\n")
    assert process.living(path) == identity
    process.remove_pid_file(path)
    assert process.living(path) == identity, "another's pid file is left alone"


@pytest.mark.parametrize(
    ("pid", "start"), [("", "1 2"), ("x", "1 2"), ("1", ""), ("1", "2 3"), ("1 2", "1 2"), ("1", "1 -2")]
)
def test_an_invalid_pid_file_names_no_process(tmp_path: Path, pid: str, start: str) -> None:
    (tmp_path / "p").write_text(pid)
    (tmp_path / "p.start").write_text(start)
    assert process.read_pid_file(str(tmp_path / "p")) is None


PARENT = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", sys.argv[1], str(os.getpid())])
print(child.pid, flush=True)
time.sleep(300)
"""
CHILD = """
import sys, time
from kvorum.runtime.process import die_with_parent
die_with_parent(int(sys.argv[1]))
print("ready", flush=True)
time.sleep(300)
"""


def test_a_child_dies_with_its_killed_parent() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT, CHILD], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = process.identify(int(parent.stdout.readline()))
        assert child is not None
        assert parent.stdout.readline() == "ready\n"
        parent.kill()
        until(lambda: not process.is_alive(child))


def test_a_child_ends_if_its_parent_died_before_the_check() -> None:
    """It is told of a parent that is not its parent, as after a race lost."""
    script = CHILD.replace("int(sys.argv[1])", "1 << 22")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=WAIT_SECONDS_MAX)
    assert done.returncode == -signal.SIGKILL
    assert done.stdout == ""


def test_the_limit_of_open_files_is_raised_as_far_as_allowed() -> None:
    script = (
        "import resource\n"
        "from kvorum.runtime.process import raise_open_files_limit\n"
        "hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))\n"
        "print(raise_open_files_limit(), resource.getrlimit(resource.RLIMIT_NOFILE)[0])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert done.stdout.split() == [str(hard), str(hard)]


def test_a_process_knows_how_old_it_is() -> None:
    code = "from kvorum.runtime.process import age_ms; print(age_ms())"
    began = time.monotonic()
    reported = int(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=60).stdout)
    assert 0 < reported <= (time.monotonic() - began) * 1000 + 20, "the kernel's clock ticks each 10 ms"
    assert process.age_ms() > reported, "this one was there before"
