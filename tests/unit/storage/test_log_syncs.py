"""Syncs off the event loop: before an answer and by the clock, shared, counted, and under a disk that fails.

In virtual time: off-loop work takes some, and nothing else does.
"""

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.storage.log import Log
from kvorum.storage.log_manager import LogManager
from sim.loop import SimLoop
from tests.unit.storage.kit import NOW_MS, batch, small_config
from tests.unit.storage.test_log_manager import TOPIC_ID, A, B, World, code_of, partitions

SYNC_S = 0.25


def run(work: Coroutine[Any, Any, None]) -> None:
    loop = SimLoop(random.Random(1))
    loop.executor_delay = lambda: SYNC_S
    loop.run_until_complete(work)
    assert loop.errors == []


class Synced(World):
    """Every append is to be synced before its answer; the seconds of each sync are kept."""

    def __init__(self, **settings: object) -> None:
        super().__init__(**settings)
        self.config = small_config(flush_messages=1, segment_bytes=10_000)
        self.flushes: list[float] = []

    async def with_logs(self, count: int) -> tuple[LogManager, list[Log]]:
        manager = await self.started(on_flush=self.flushes.append)
        return manager, [manager.get_or_create(partition, TOPIC_ID) for partition in partitions(count)]


def test_synced_data_exists_after_a_power_failure() -> None:
    async def work() -> None:
        world = Synced()
        manager, logs = await world.with_logs(3)
        world.disk.sync_dir("/data")
        for log in logs:
            log.append_as_leader(batch(), 0)
        assert await manager.sync([log.partition for log in logs]) == set()
        assert [(log.recovery_point, log.is_sync_due) for log in logs] == [(1, False)] * 3
        world.disk.crash()
        again = await world.started()
        assert [log.log_end_offset for log in again.logs()] == [1] * 3

    run(work())


def test_concurrent_waiters_share_one_sync_per_log() -> None:
    async def work() -> None:
        world = Synced()
        manager, logs = await world.with_logs(4)
        began = asyncio.get_running_loop().time()
        waiting = []
        for _ in range(10):
            for log in logs:
                log.append_as_leader(batch(), 0)
                waiting.append(asyncio.ensure_future(manager.sync([log.partition])))
        assert await asyncio.gather(*waiting) == [set()] * 40
        assert [log.recovery_point for log in logs] == [10] * 4
        assert world.flushes == [SYNC_S] * 4, "each log once, with the seconds it took"
        assert asyncio.get_running_loop().time() - began == SYNC_S, "all logs side by side"

    run(work())


def test_records_appended_during_a_sync_wait_for_the_next_one() -> None:
    async def work() -> None:
        world = Synced()
        manager, [log] = await world.with_logs(1)
        log.append_as_leader(batch(), 0)
        first = asyncio.ensure_future(manager.sync([log.partition]))
        await asyncio.sleep(SYNC_S / 2)
        log.append_as_leader(batch(), 0)
        second = asyncio.ensure_future(manager.sync([log.partition]))
        await first
        assert not second.done() and log.committable_end_offset == 1
        await second
        assert log.committable_end_offset == log.recovery_point == 2
        assert world.flushes == [SYNC_S] * 2

    run(work())


def test_a_waiter_with_synced_records_does_not_wait_for_later_ones() -> None:
    async def work() -> None:
        world = Synced()
        manager, logs = await world.with_logs(2)
        logs[0].append_as_leader(batch(), 0)
        early = [asyncio.ensure_future(manager.sync([logs[0].partition])) for _ in range(3)]
        await asyncio.sleep(SYNC_S / 2)
        logs[1].append_as_leader(batch(), 0)
        late = asyncio.ensure_future(manager.sync([logs[1].partition]))
        await asyncio.gather(*early)
        assert world.flushes == [SYNC_S]
        assert await late == set() and logs[1].recovery_point == 1

    run(work())


def test_a_caller_that_is_cancelled_leaves_the_sync_to_the_others() -> None:
    async def work() -> None:
        world = Synced()
        manager, [log] = await world.with_logs(1)
        log.append_as_leader(batch(), 0)
        first = asyncio.ensure_future(manager.sync([log.partition]))
        second = asyncio.ensure_future(manager.sync([log.partition]))
        await asyncio.sleep(SYNC_S / 2)
        first.cancel()
        assert await second == set()
        assert log.recovery_point == 1

    run(work())


def test_a_disk_failure_during_a_sync_is_reported_to_all_waiters() -> None:
    async def work() -> None:
        world = Synced()
        manager, logs = await world.with_logs(4)
        for log in logs:
            log.append_as_leader(batch(), 0)
        world.disk.fail("sync")
        waiting = [manager.sync([log.partition]) for log in logs]
        failed = set().union(*await asyncio.gather(*waiting))
        assert world.offline == [A]
        assert (
            failed
            == {log.partition for log in logs if log.failure is not None}
            == {logs[0].partition, logs[2].partition}
        )
        assert [log.recovery_point for log in logs] == [0, 1, 0, 1]
        assert await manager.sync([logs[0].partition]) == {logs[0].partition}
        assert world.offline == [A]

    run(work())


def test_a_log_removed_meanwhile_is_not_reported_as_synced() -> None:
    async def work() -> None:
        world = Synced()
        manager, [log] = await world.with_logs(1)
        log.append_as_leader(batch(), 0)
        waiting = asyncio.ensure_future(manager.sync([log.partition]))
        await asyncio.sleep(SYNC_S / 2)
        await manager.delete(log.partition)
        assert await waiting == {log.partition}
        assert await manager.sync([TopicPartition("nowhere", 0)]) == {TopicPartition("nowhere", 0)}
        assert world.offline == []

    run(work())


def test_the_shutdown_syncs_late_appends() -> None:
    async def work() -> None:
        world = Synced()
        manager, [log] = await world.with_logs(1)
        log.append_as_leader(batch(), 0)
        stopping = asyncio.ensure_future(manager.shutdown(7))
        await asyncio.sleep(0)
        assert await manager.sync([log.partition]) == {log.partition}
        await stopping
        assert world.flushes == []
        [found] = (await world.started()).logs()
        assert found.recovery_point == 1

    run(work())


def test_a_sync_without_waiters_runs_in_the_background() -> None:
    """A smaller flush.messages than before: what is there already is due, and the high watermark waits for it."""

    async def work() -> None:
        world = Synced()
        world.config = small_config()
        manager, [log] = await world.with_logs(1)
        log.append_as_leader(batch(), 0)
        await manager.flush_dirty(NOW_MS)
        assert world.flushes == []
        manager.update_topic_config("topic", small_config(flush_messages=1))
        await manager.flush_dirty(NOW_MS)
        assert (world.flushes, log.recovery_point) == ([SYNC_S], 1)

    run(work())


def test_only_what_was_forced_to_disk_is_counted() -> None:
    async def work() -> None:
        world = Synced(dirs=[B])
        manager, [log] = await world.with_logs(1)
        await manager.flush_dirty(NOW_MS)
        await manager.checkpoint_recovery_points()
        assert world.flushes == []
        log.append_as_leader(batch(), 0)
        world.disk.fail("sync")
        await manager.flush_dirty(NOW_MS)
        assert (world.flushes, world.offline) == ([], [B])
        assert code_of(lambda: log.append_as_leader(batch(), 0)) is ErrorCode.KAFKA_STORAGE_ERROR

    run(work())
