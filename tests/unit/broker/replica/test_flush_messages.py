"""flush.messages: nothing is acknowledged, counted for the high watermark or told to a leader before it is synced."""

import asyncio
import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kvorum.broker.replica.types import Role
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.quorum import records
from kvorum.runtime.disk import OsFile
from kvorum.storage.log import Log
from tests.unit.broker.replica.manager_kit import (
    World,
    fetch,
    follower_params,
    produce,
    settled,
    target,
    topic,
    until,
    values,
)
from tests.unit.broker.replica.replica_kit import TOPIC_ID
from tests.unit.broker.replica.test_fetcher import KEY, Pair, run
from tests.unit.broker.replica.test_manager import OTHER, a_world

EVERY = {"log_flush_interval_messages": 1}


@asynccontextmanager
async def slow_disk(world: World) -> AsyncIterator[None]:
    """Within, no sync comes to its turn."""
    async with world.logs._disk_work:
        yield


def log_of(world: World, key: TopicPartition = KEY) -> Log:
    log = world.logs.get_log(key)
    assert log is not None
    return log


@pytest.mark.parametrize("acks", [1, -1])
def test_the_answer_and_the_high_watermark_wait_for_the_sync(tmp_path: Path, acks: int) -> None:
    async def test() -> None:
        async with a_world(tmp_path, *topic(), **EVERY) as world:
            async with slow_disk(world):
                done = [produce(world, value, acks=acks) for value in (b"a", b"b")]
                await settled()
                assert not any(each.done() for each in done)
                assert (log_of(world).log_end_offset, log_of(world).high_watermark) == (2, 0)
                assert fetch(world).result()[0].high_watermark == 0
            assert [(await each).error_code for each in done] == [0, 0]
            assert [(await each).base_offset for each in done] == [0, 1]
            assert (log_of(world).recovery_point, log_of(world).high_watermark) == (2, 2)
            assert values(fetch(world).result()[0]) == [b"a", b"b"]

    run(test)


def test_acks_0_waits_for_no_sync_but_it_is_executed(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_world(tmp_path, *topic(), **EVERY) as world:
            async with slow_disk(world):
                assert produce(world, b"a", acks=0).result().error_code == 0
                await settled()
                assert log_of(world).high_watermark == 0
            await until(lambda: log_of(world).high_watermark == 1)
            assert log_of(world).recovery_point == 1

    run(test)


def test_between_the_syncs_nothing_waits(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_world(tmp_path, *topic(), log_flush_interval_messages=3) as world, slow_disk(world):
            assert [produce(world, b"a", acks=1).result().base_offset for _ in range(2)] == [0, 1]
            assert log_of(world).high_watermark == 2
            third = produce(world, b"a", acks=1)
            await settled()
            assert not third.done() and log_of(world).high_watermark == 2

    run(test)


def test_followers_fetch_while_the_leader_syncs_and_are_not_enough_alone(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_world(tmp_path, *topic(replicas=(1, 2)), **EVERY) as world:
            async with slow_disk(world):
                waiting = fetch(world, params=follower_params(2, max_wait_ms=1000))
                done = produce(world, b"a")
                assert values(waiting.result()[0]) == [b"a"]
                fetch(world, target(1), params=follower_params(2))
                await settled()
                assert not done.done() and log_of(world).high_watermark == 0
            assert (await done).error_code == 0
            assert log_of(world).high_watermark == 1

    run(test)


def test_the_time_of_acks_all_begins_after_the_sync(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_world(tmp_path, *topic(replicas=(1, 2)), **EVERY) as world:
            async with slow_disk(world):
                done = produce(world, b"a", timeout_ms=20)
                world.clock.now_ms += 1000
                await settled()
                assert not done.done()
            await until(lambda: log_of(world).recovery_point == 1)
            await settled()
            assert not done.done()
            world.clock.now_ms += 40
            assert (await done).error_code == ErrorCode.REQUEST_TIMED_OUT

    run(test)


@pytest.mark.parametrize("acks", [1, -1, 0])
def test_a_disk_that_fails_under_the_sync_is_answered_and_takes_the_replica_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, acks: int
) -> None:
    def fail(file: OsFile) -> None:
        raise OSError(errno.EIO, "the disk is gone", file.path)

    async def test() -> None:
        async with a_world(tmp_path, *topic(), **EVERY) as world:
            monkeypatch.setattr(OsFile, "sync", fail)
            row = await produce(world, b"a", acks=acks)
            assert row.error_code == (ErrorCode.KAFKA_STORAGE_ERROR if acks else ErrorCode.NONE)
            await until(lambda: world.manager.hosted.by_name[KEY].role is Role.OFFLINE)
            assert log_of(world).high_watermark == 0
            assert (await produce(world, b"b", acks=acks)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            monkeypatch.undo()

    run(test)


def test_each_partition_of_a_request_has_its_own_outcome(tmp_path: Path) -> None:
    """One topic is deleted while its records wait for the disk, the other is not."""

    async def test() -> None:
        other = TopicPartition("other", 0)
        async with a_world(tmp_path, *topic(), *topic("other", topic_id=OTHER), **EVERY) as world:
            async with slow_disk(world):
                kept, lost = produce(world, b"a", acks=1), produce(world, b"a", key=other, acks=1)
                deleting = asyncio.ensure_future(world.metadata(records.RemoveTopic(topic_id=OTHER)))
                await settled()
            assert ((await kept).error_code, (await kept).base_offset) == (0, 0)
            assert ((await lost).error_code, (await lost).base_offset) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
            await deleting

    run(test)


def test_a_shutdown_waits_for_the_answers(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_world(tmp_path, *topic(), **EVERY) as world:
            async with slow_disk(world):
                done = produce(world, b"a", acks=1)
                stopping = asyncio.ensure_future(world.manager.shutdown())
                await settled()
                assert not stopping.done()
            await stopping
            assert done.result().error_code == 0

    run(test)


def test_a_follower_reports_only_synced_offsets_to_its_leader(tmp_path: Path) -> None:
    async def test() -> None:
        pair = Pair(tmp_path, **EVERY)
        leader, follower = await pair.start(*topic(replicas=(1, 2)))
        async with slow_disk(follower):
            done = produce(leader, b"a")
            await until(lambda: log_of(follower).log_end_offset == 1)
            await until(lambda: log_of(leader).recovery_point == 1)
            # A new leader epoch gives up the poll and asks for all anew: not before the sync either.
            await pair.metadata(records.PartitionChange(topic_id=TOPIC_ID, partition_id=0, leader=1))
            await settled()
            assert not done.done()
            assert {
                each.fetch_offset for request in pair.fetches for row in request.topics for each in row.partitions
            } == {0}
        assert (await done).error_code == 0
        assert log_of(follower).recovery_point == 1
        await pair.close()

    run(test)
