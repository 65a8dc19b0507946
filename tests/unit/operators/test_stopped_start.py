"""A broker that is stopped while it still opens its logs, at every step of that: the next start knows as much.

Each case stops one start in order at one operation on the disk, while the thread that performs it still runs, and then
starts again. What was deleted stays deleted, what was acknowledged is there, and a directory counts as cleanly shut
down only if it was before or if all its logs had been opened.
"""

import asyncio
import threading
from collections.abc import Callable

import pytest

from kvorum.protocol.records import batches
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.protocol.uuids import Uuid
from kvorum.storage.checkpoints import CLEAN_SHUTDOWN, MetaProperties, write_meta_properties
from kvorum.storage.log_dir import DirectoryLocked
from kvorum.storage.log_manager import LogManager
from sim.disk import SimDisk
from tests.unit.storage.kit import batch, new_disk, read_all
from tests.unit.storage.test_log_manager import OTHER_ID, TOPIC_ID, A, B, World, partitions

LOGS = 4
DELETED = 10
END = 20
EPOCH = 17
LIMIT_S = 30
TORN = bytes(batch(b"torn" * 100))[:200]
"""What a loss of power leaves of a batch."""


class SteppedDisk(SimDisk):
    """Calls `on_step` before the operation of this number."""

    def __init__(self) -> None:
        self.__dict__ = new_disk().__dict__
        self.stop_at = -1
        self.steps = 0
        self.on_step: Callable[[], None] = lambda: None

    def _step(self) -> None:
        self.steps += 1
        if self.steps == self.stop_at:
            self.on_step()

    def before(self, operation: str, path: str) -> None:
        self._step()
        super().before(operation, path)

    def listdir(self, path: str) -> list[str]:
        self._step()
        return super().listdir(path)


async def prepared(*, clean: bool) -> World:
    """Two directories of logs that begin at DELETED and end at END; after a crash each has half a batch more."""
    world = World(**{"num.recovery.threads.per.data.dir": 1})
    world.disk = SteppedDisk()
    manager = await world.started()
    for partition in partitions(LOGS):
        log = manager.get_or_create(partition, TOPIC_ID)
        for _ in range(END):
            log.append_as_leader(batch(b"x" * 100), 3)
        log.high_watermark = END
        log.maybe_increment_log_start_offset(DELETED)
    await manager.checkpoint_log_start_offsets()
    await manager.checkpoint_high_watermarks()
    if clean:
        await manager.shutdown(EPOCH)
        return world
    for each in manager.logs():
        active = max(name for name in world.disk.listdir(each.folder) if name.endswith(".log"))
        file = world.disk.open(f"{each.folder}/{active}")
        file.pwrite(TORN, file.size())
    world.disk.kill()
    return world


async def stopped_start(world: World, step: int) -> LogManager:
    """Start, cancel that at this operation, shut down while the thread of the operation waits."""
    disk = world.disk
    assert isinstance(disk, SteppedDisk)
    loop, loop_thread = asyncio.get_running_loop(), threading.current_thread()
    manager = world.manager()
    starting = loop.create_task(manager.start())
    go_on = threading.Event()

    def stop() -> None:
        if threading.current_thread() is loop_thread:
            starting.cancel()
            return
        loop.call_soon_threadsafe(starting.cancel)
        assert go_on.wait(LIMIT_S)

    disk.steps, disk.stop_at, disk.on_step = 0, step, stop
    await asyncio.wait([starting])
    stopping = loop.create_task(manager.shutdown(-1))
    for _ in range(5):
        await asyncio.sleep(0)
    go_on.set()
    disk.stop_at = -1
    await stopping
    return manager


async def check_all(world: World, *, clean: bool) -> None:
    manager = await world.started()
    assert not world.offline
    assert manager.previous_broker_epoch == (EPOCH if clean else -1)
    assert len(list(manager.logs())) == LOGS
    for log in manager.logs():
        assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (DELETED, END, END), log.partition
        assert log.append_as_leader(batch(b"new"), 3).first_offset == END
        assert len(list(batches(memoryview(read_all(log))))) == END + 1 - DELETED
    await manager.shutdown(EPOCH + 1)


def steps_of_a_start(*, clean: bool) -> int:
    async def work() -> int:
        world = await prepared(clean=clean)
        disk = world.disk
        assert isinstance(disk, SteppedDisk)
        disk.steps = 0
        await world.started()
        return disk.steps

    return asyncio.run(work())


@pytest.mark.parametrize("clean", [True, False], ids=["after a clean stop", "after a crash"])
def test_a_start_that_is_stopped_at_any_step_loses_nothing(clean: bool) -> None:
    async def work(step: int) -> None:
        world = await prepared(clean=clean)
        await stopped_start(world, step)
        await check_all(world, clean=clean)

    for step in range(1, steps_of_a_start(clean=clean) + 1):
        asyncio.run(work(step))


def test_repeatedly_stopped_starts_keep_the_first_clean_shutdown() -> None:
    async def work() -> None:
        for clean in (True, False):
            world = await prepared(clean=clean)
            for step in (9, 12, 20, 7, 31):
                await stopped_start(world, step)
            await check_all(world, clean=clean)

    asyncio.run(work())


def test_a_stop_in_the_middle_of_a_recovery_leaves_no_mark_and_no_checkpoint() -> None:
    async def work() -> None:
        world = await prepared(clean=False)
        before = {path: world.disk.read(path) for path in (f"{A}/log-start-offset-checkpoint",)}
        manager = await stopped_start(world, 40)
        assert not all(each.is_loaded for each in manager.dirs), "stopped too late"
        for each in manager.dirs:
            assert world.disk.exists(f"{each.path}/{CLEAN_SHUTDOWN}") is each.is_loaded
        assert {path: world.disk.read(path) for path in before} == before

    asyncio.run(work())


def test_a_directory_of_another_process_is_not_written_to() -> None:
    """Its mark would make the other process's crash count as a clean shutdown."""

    async def work() -> None:
        world = World()
        running = await world.started()
        running.get_or_create(TopicPartition("topic", 0), TOPIC_ID).append_as_leader(batch(), 0)
        second = world.manager()
        with pytest.raises(DirectoryLocked):
            await second.start()
        names = {path: world.disk.listdir(path) for path in (A, B)}
        await second.shutdown(-1)
        assert {path: world.disk.listdir(path) for path in (A, B)} == names
        assert not any(CLEAN_SHUTDOWN in each for each in names.values())

    asyncio.run(work())


def test_a_refused_directory_leaves_the_marks_of_the_others() -> None:
    """The second directory is of another node: the first one was opened, and is as clean as before."""

    async def work() -> None:
        world = await prepared(clean=True)
        write_meta_properties(world.disk, B, MetaProperties("cluster", 9, Uuid(b"b" * 16)))
        refused = world.manager()
        with pytest.raises(Exception, match=r"node\.id 9"):
            await refused.start()
        await refused.shutdown(-1)
        world.disk.remove(f"{B}/meta.properties")
        await check_all(world, clean=True)

    asyncio.run(work())


def test_a_log_in_two_directories_keeps_its_rows_until_the_metadata_decide() -> None:
    """Such a log is in no table yet when the start is over and the broker is stopped."""

    async def work() -> None:
        world = World()
        for path, topic_id in ((A, TOPIC_ID), (B, OTHER_ID)):
            world.settings = World([path]).settings
            manager = await world.started()
            log = manager.get_or_create(TopicPartition("topic", 0), topic_id)
            for _ in range(END):
                log.append_as_leader(batch(b"x" * 100), 3)
            log.high_watermark = END
            log.maybe_increment_log_start_offset(DELETED)
            await manager.shutdown(EPOCH)
        world.settings = World().settings
        both = await world.started()
        await both.shutdown(-1)
        for path in (A, B):
            world.settings = World([path]).settings
            manager = await world.started()
            [log] = manager.logs()
            assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (DELETED, END, END)
            await manager.shutdown(EPOCH)

    asyncio.run(work())
