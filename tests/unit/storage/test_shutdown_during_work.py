"""A shutdown that comes while a thread is at the disk: the thread's work ends first, and the mark is the last word."""

import asyncio
import random
import threading
from collections.abc import Callable

import pytest

from kvorum.storage.log_manager import LogManager
from sim.disk import SimDisk
from tests.unit.storage.kit import NOW_MS, batch
from tests.unit.storage.test_log_manager import TOPIC_ID, A, World, partitions, run

LIMIT_S = 10


class SlowDisk(SimDisk):
    """Holds threads back at a folder's sync, and notes what is done to the disk."""

    def __init__(self) -> None:
        super().__init__(random.Random(1))
        self.reached = threading.Event()
        self.go_on = threading.Event()
        self.is_slow = False
        self.done: list[str] = []

    def sync_dir(self, path: str) -> None:
        if self.is_slow and threading.current_thread() is not threading.main_thread():
            self.reached.set()
            assert self.go_on.wait(LIMIT_S)
        super().sync_dir(path)

    def rename(self, source: str, target: str) -> None:
        self.done.append(target)
        super().rename(source, target)


@pytest.mark.parametrize("duty", [lambda each: each.flush_dirty(NOW_MS), LogManager.checkpoint_high_watermarks])
def test_a_duty_cancelled_in_its_thread_is_waited_for(duty: Callable[[LogManager], asyncio.Future[None]]) -> None:
    async def work() -> None:
        world = World(dirs=[A])
        world.disk = disk = SlowDisk()
        disk.mkdir("/data")
        manager = await world.started()
        log = manager.get_or_create(partitions(1)[0], TOPIC_ID)
        for _ in range(30):
            log.append_as_leader(batch(b"x" * 100), 0)
        disk.is_slow = True
        cancelled = asyncio.ensure_future(duty(manager))
        await asyncio.to_thread(disk.reached.wait, LIMIT_S)
        cancelled.cancel()
        await asyncio.wait((cancelled,))
        stopping = asyncio.ensure_future(manager.shutdown(7))
        await asyncio.sleep(0)
        disk.is_slow = False
        disk.go_on.set()
        await stopping
        assert disk.done[-1] == f"{A}/.kafka_cleanshutdown" and world.offline == []
        [found] = (await world.started()).logs()
        assert found.log_end_offset == 30 and found.recovery_point == 30

    run(work())


def test_nothing_is_written_after_the_mark() -> None:
    async def work() -> None:
        world = World(dirs=[A])
        world.disk = disk = SlowDisk()
        disk.mkdir("/data")
        manager = await world.started()
        manager.get_or_create(partitions(1)[0], TOPIC_ID).append_as_leader(batch(), 0)
        await asyncio.gather(manager.shutdown(7), manager.checkpoint_high_watermarks(), manager.flush_dirty(NOW_MS))
        assert disk.done[-1] == f"{A}/.kafka_cleanshutdown"

    run(work())
