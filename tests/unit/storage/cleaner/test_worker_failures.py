"""Failures of a cleaner's worker that are not the disk's take no log directory offline."""

import asyncio
import errno
import os
import signal
import subprocess
from pathlib import Path

import pytest

from kvorum.runtime import worker as worker_module
from kvorum.runtime.clock import SystemClock
from kvorum.runtime.disk import OsDisk
from kvorum.runtime.process import identify
from kvorum.storage.cleaner import hosts as hosts_module
from kvorum.storage.cleaner import manager as manager_module
from kvorum.storage.cleaner import work as work_module
from kvorum.storage.cleaner.work import End, Slice, Work
from kvorum.storage.cleaner.worker import DiskFailed, Request, answer_of
from tests.unit.storage.cleaner.test_hosts import Node, fill, run


def test_a_worker_that_does_not_answer_is_killed_and_delays_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was stopped, say: else the broker could not stop, nor this log ever lose anything by retention."""

    async def story(node: Node) -> None:
        fill(node.log)
        await node.settle()
        assert await node.cleaner.clean_dirtiest()  # a worker may take its time to start
        monkeypatch.setattr(hosts_module, "LOOK_SECONDS", 0.05)
        pid = node.host.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        fill(node.log)
        await node.settle()
        async with asyncio.timeout(20):
            assert not await node.cleaner.clean_dirtiest()
        assert identify(pid) is None
        assert not node.log.cleaning.is_in_progress and not node.cleaner.uncleanable

    run(tmp_path / "data", story)


def test_a_machine_without_room_for_a_worker_costs_no_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too many processes, no memory to start one, no file descriptor left for its pipes."""

    class NoRoom:
        def __init__(self, *_: object, **__: object) -> None:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    async def story(node: Node) -> None:
        fill(node.log)
        await node.settle()
        with monkeypatch.context() as patch:
            patch.setattr(worker_module.subprocess, "Popen", NoRoom)
            for _ in range(manager_module.LOST_MAX + 1):
                assert not await node.cleaner.clean_dirtiest()
        assert not node.offline
        assert node.log.failure is None and not node.cleaner.uncleanable
        assert await node.cleaner.clean_dirtiest(), "there is room now"

    assert subprocess.Popen is worker_module.subprocess.Popen
    run(tmp_path / "data", story)


@pytest.mark.parametrize("number", [errno.ENOMEM, errno.EMFILE, errno.ENFILE])
def test_a_worker_without_memory_or_descriptors_does_not_fail_the_disk(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def advance(self: Work, task: object, limit: Slice) -> None:
        raise OSError(number, "none left")

    monkeypatch.setattr(work_module.Work, "advance", advance)
    request = Request(task=End(), limit=Slice(steps_max=1, ms_max=1, bytes_max=1))
    with pytest.raises(OSError, match="none left"):
        answer_of(Work(OsDisk(), SystemClock()), request)


def test_a_worker_whose_disk_fails_reports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def advance(self: Work, task: object, limit: Slice) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(work_module.Work, "advance", advance)
    request = Request(task=End(), limit=Slice(steps_max=1, ms_max=1, bytes_max=1))
    assert isinstance(answer_of(Work(OsDisk(), SystemClock()), request), DiskFailed)
