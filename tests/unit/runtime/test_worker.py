"""A worker answers in turn, and is never left over: not when its owner dies, not when it dies itself."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvorum.runtime import worker as worker_module
from kvorum.runtime.process import identify
from kvorum.runtime.worker import Worker, WorkerLost

SERVANT = """
import os
from kvorum.runtime.worker import owner, serve

def answer(request: bytes) -> bytes:
    match request:
        case b"pid":
            print("this is no answer")
            return str(os.getpid()).encode()
        case b"nice":
            return str(os.nice(0)).encode()
        case b"owner":
            return str(owner()).encode()
        case b"die":
            os._exit(3)
        case _:
            return request[::-1]

serve(answer)
"""
OWNER = """
import time
from kvorum.runtime.worker import Worker
print(Worker("servant", 0).ask(b"pid").decode(), flush=True)
time.sleep(60)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "servant.py").write_text(SERVANT)
    (tmp_path / "owner.py").write_text(OWNER)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    return tmp_path


@pytest.fixture
def worker(folder: Path) -> Iterator[Worker]:
    found = Worker("servant", 3)
    yield found
    found.close()


def gone(pid: int) -> bool:
    """Wait for a process to end that is not ours to wait for."""
    until = time.monotonic() + 20
    while identify(pid) is not None and time.monotonic() < until:
        time.sleep(0.01)
    return identify(pid) is None


def test_each_request_has_its_answer_of_any_size(worker: Worker) -> None:
    for size in (0, 1, 100_000, 3_000_000):
        data = os.urandom(size)
        assert worker.ask(data) == data[::-1]


def test_it_is_another_process_that_gives_way(worker: Worker) -> None:
    assert int(worker.ask(b"pid")) == worker.pid != os.getpid()
    assert int(worker.ask(b"owner")) == os.getpid()
    assert int(worker.ask(b"nice")) == min(os.nice(0) + 3, 19), "19 is the most there is"


def test_a_worker_that_dies_is_lost(worker: Worker) -> None:
    with pytest.raises(WorkerLost):
        worker.ask(b"die")
    with pytest.raises(WorkerLost):
        worker.ask(b"more")


def test_a_worker_that_is_killed_is_lost(worker: Worker) -> None:
    assert worker.ask(b"ab") == b"ba"
    os.kill(worker.pid, signal.SIGKILL)
    with pytest.raises(WorkerLost):
        worker.ask(b"ab")


def test_closing_ends_it(folder: Path) -> None:
    worker = Worker("servant", 0)
    worker.ask(b"ab")
    worker.close()
    assert identify(worker.pid) is None
    worker.close()


def test_one_that_does_not_end_is_killed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "END_SECONDS_MAX", 0.1)
    worker = Worker("servant", 0)
    worker.ask(b"ab")
    os.kill(worker.pid, signal.SIGSTOP)
    worker.close()
    assert identify(worker.pid) is None


def test_it_dies_with_its_owner(folder: Path) -> None:
    owner = subprocess.Popen([sys.executable, str(folder / "owner.py")], stdout=subprocess.PIPE, text=True)
    with owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        assert identify(pid) is not None
        owner.kill()
    assert gone(pid)
