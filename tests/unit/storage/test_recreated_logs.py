"""What a deleted log leaves behind must not be taken for the next log's of the same name, whenever the process dies."""

import errno
import random
import threading

import pytest

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.runtime.disk import File
from kvorum.storage.checkpoints import HIGH_WATERMARKS, LOG_START_OFFSETS, read_offsets
from kvorum.storage.log import Log
from kvorum.storage.log_manager import LogManager
from sim.disk import SimDisk
from tests.unit.storage.kit import NOW_MS, batch, idempotent, new_disk, open_test_log, small_config
from tests.unit.storage.test_log_manager import OTHER_ID, TOPIC_ID, A, World, partitions, run

[T0] = partitions(1)


async def with_an_old_log(world: World) -> LogManager:
    """A manager with a log whose start and high watermark are in the checkpoints: 6 of 8 records deleted."""
    manager = await world.started()
    old = manager.get_or_create(T0, TOPIC_ID)
    for _ in range(8):
        old.append_as_leader(batch(), 0)
    old.high_watermark = 8
    old.maybe_increment_log_start_offset(6)
    await manager.checkpoint_log_start_offsets()
    await manager.checkpoint_high_watermarks()
    return manager


def fill_new(manager: LogManager) -> Log:
    """The topic made anew, with three records that nobody has confirmed."""
    log = manager.get_or_create(T0, OTHER_ID)
    for _ in range(3):
        log.append_as_leader(batch(), 0)
    return log


@pytest.mark.parametrize("way", ["deleted", "stray"])
def test_a_kill_after_a_topic_was_recreated_costs_none_of_its_records(way: str) -> None:
    async def work() -> None:
        world = World(dirs=[A])
        manager = await with_an_old_log(world)
        await (manager.delete(T0) if way == "deleted" else manager.set_aside_stray(T0))
        fill_new(manager)
        [found] = (await world.started_after_kill()).logs()
        assert (found.log_start_offset, found.log_end_offset) == (0, 3)
        assert found.high_watermark == 0, "the old log's says nothing of the new one"

    run(work())


def test_a_kill_between_the_renaming_and_the_checkpoints_costs_none_either() -> None:
    async def work() -> None:
        world = World(dirs=[A])
        manager = await with_an_old_log(world)
        before = {name: world.disk.read(f"{A}/{name}") for name in (LOG_START_OFFSETS, HIGH_WATERMARKS)}
        await manager.delete(T0)
        for name, content in before.items():
            world.disk.write_atomic(f"{A}/{name}", content)
        fill_new(await world.started_after_kill())
        [found] = (await world.started_after_kill()).logs()
        assert (found.log_start_offset, found.log_end_offset, found.high_watermark) == (0, 3, 0)

    run(work())


def test_checkpoints_keep_the_entries_of_other_logs() -> None:
    async def work() -> None:
        world = World(dirs=[A])
        manager = await with_an_old_log(world)
        other = manager.get_or_create(partitions(2)[1], TOPIC_ID)
        other.append_as_leader(batch(), 0)
        other.append_as_leader(batch(), 0)
        other.high_watermark = 2
        other.maybe_increment_log_start_offset(1)
        await manager.delete(T0)
        assert read_offsets(world.disk, A, LOG_START_OFFSETS) == {other.partition: 1}
        assert read_offsets(world.disk, A, HIGH_WATERMARKS) == {other.partition: 2}

    run(work())


def test_a_kill_while_a_log_is_made_does_not_take_its_directory_offline() -> None:
    """The recovery point in the checkpoint is the old log's: the new one's folder must bound it from the first."""

    class DyingDisk(SimDisk):
        """Dies once the segment's file is there."""

        def open(self, path: str, *, create: bool = False) -> File:
            if is_dying and path.endswith("durable-length"):
                raise KeyboardInterrupt
            return super().open(path, create=create)

    is_dying = False

    async def work() -> None:
        nonlocal is_dying
        world = World(dirs=[A])
        world.disk = DyingDisk(random.Random(1))
        world.disk.mkdir("/data")
        manager = await world.started()
        old = manager.get_or_create(T0, TOPIC_ID)
        for _ in range(8):
            old.append_as_leader(batch(), 0)
        old.flush()
        await manager.checkpoint_recovery_points()
        await manager.delete(T0)
        is_dying = True
        try:
            manager.get_or_create(T0, OTHER_ID)
        except KeyboardInterrupt:
            is_dying = False
        is_dying = False
        again = await world.started_after_kill()
        assert world.offline == []
        assert [each.log_end_offset for each in again.logs()] == [0]

    run(work())


def test_a_producer_is_known_though_its_last_segment_was_deleted() -> None:
    disk, config = new_disk(), small_config(retention_ms=1000, file_delete_delay_ms=0)
    log = open_test_log(disk, config)
    log.append_as_leader(idempotent(0), 0)
    while log.segment_count < 2:
        log.append_as_leader(batch(b"x" * 100), 0)
    log.high_watermark = log.log_end_offset
    log.maybe_increment_log_start_offset(log._local.segments.active.base_offset)
    log.flush()
    assert log.delete_old_segments(NOW_MS) == 1
    log.close()
    again = open_test_log(disk, config)
    assert 7 in again.producer_state.producers, "a retry of its last batch must not be appended twice"


def test_a_snapshot_of_before_a_truncation_is_not_written_behind_it() -> None:
    disk = new_disk()
    log = open_test_log(disk)
    log.append_as_leader(idempotent(0), 0)
    while log.segment_count < 2:
        log.append_as_leader(batch(b"x" * 100), 0)
    rolled_at = log._local.segments.active.base_offset
    plan = log.begin_flush()
    log.truncate_to(1)
    plan.run()
    log.complete_flush(plan)
    snapshot = f"/data/topic-0/{rolled_at:020d}.snapshot"
    assert not disk.exists(snapshot), "it holds a state that this log never comes to have"


def test_a_disk_that_fails_in_a_thread_is_reported_on_the_event_loop() -> None:
    async def work() -> None:
        world = World(dirs=[A])
        world.config = small_config(retention_ms=1000)
        manager = await world.started()
        log = manager.get_or_create(T0, TOPIC_ID)
        for _ in range(30):
            log.append_as_leader(batch(b"x" * 100), 0)
        log.high_watermark = 30
        assert manager.apply_retention(NOW_MS + 1001) > 0
        threads: list[threading.Thread] = []
        manager._table._on_offline = lambda path, error: threads.append(threading.current_thread())
        await manager.flush_dirty(NOW_MS)
        world.disk.fail("remove", errno.EIO)
        await manager.purge_deleted(NOW_MS + 10**6)
        assert threads == [threading.main_thread()]
        assert log.failure is not None

    run(work())


def test_after_a_power_failure_every_log_has_a_topic_id() -> None:
    """Whatever it takes: where records are, there is the id, or a topic made anew would be given them."""

    async def work() -> None:
        with_records = 0
        for chance in range(60):
            world = World(dirs=[A])
            world.disk = SimDisk(random.Random(chance))
            world.disk.mkdir("/data")
            world.disk.mkdir(A)
            world.disk.sync_dir("/")
            world.disk.sync_dir("/data")
            manager = await world.started()
            log = manager.get_or_create(T0, TOPIC_ID)
            assert not log.is_topic_id_durable
            await manager.sync_topic_id(log)
            log.append_as_leader(batch(), 0)
            world.disk.crash()  # keeps by chance what was not synced
            found = (await world.started()).get_log(T0)
            if found is not None and found.log_end_offset:
                with_records += 1
                assert (found.topic_id, found.is_topic_id_durable) == (TOPIC_ID, True)
        assert with_records

    run(work())


def test_a_disk_that_fails_at_the_topic_id_takes_the_directory_offline() -> None:
    async def work() -> None:
        world = World(dirs=[A])
        manager = await world.started()
        log = manager.get_or_create(T0, TOPIC_ID)
        world.disk.fail("sync", errno.EIO)
        with pytest.raises(KafkaError) as raised:
            await manager.sync_topic_id(log)
        assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert world.offline == [A]

    run(work())
