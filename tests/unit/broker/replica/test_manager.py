"""One broker's replicas on real logs: produce and fetch, waiting and waking, and what metadata makes of them."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kvorum.broker.replica.types import FetchParams, Role
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.delete_records import DeleteRecordsPartitionResult
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.protocol.uuids import Uuid
from kvorum.quorum import records
from kvorum.storage.log import Log
from kvorum.storage.log_opening import LogOpening
from tests.unit.broker.replica.manager_kit import (
    World,
    brokers,
    fetch,
    follower_params,
    joined,
    produce,
    settled,
    target,
    topic,
    values,
)
from tests.unit.broker.replica.replica_kit import TOPIC_ID, Noted, batch

KEY = TopicPartition("orders", 0)
OTHER = Uuid(b"\x09" * 16)


@asynccontextmanager
async def a_world(folder: Path, *made: records.MetadataRecord, **settings: object) -> AsyncIterator[World]:
    world = await World(folder, settings={key.replace("_", "."): value for key, value in settings.items()}).start()
    await world.metadata(*brokers(), *made)
    try:
        yield world
    finally:
        await world.close()


def run(test: Callable[[], Coroutine[None, None, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 60))


@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_produced_records_are_read_back(tmp_path: Path, acks: int) -> None:
    async def test() -> None:
        async with a_world(tmp_path, *topic()) as world:
            row = produce(world, b"a", b"b", acks=acks).result()
            assert (row.error_code, row.base_offset, row.log_start_offset) == (0, 0, 0)
            assert produce(world, b"c", acks=acks).result().base_offset == 2
            read = fetch(world).result()[0]
            assert (read.high_watermark, read.last_stable_offset, read.log_start_offset) == (3, 3, 0)
            assert values(read) == [b"a", b"b", b"c"]
            assert read.aborted_transactions is None

    run(test)


def test_acks_other_than_minus_one_to_one_are_refused_for_every_partition(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_world(tmp_path, *topic()) as world:
            row = produce(world, b"a", acks=2).result()
            assert (row.error_code, row.base_offset, row.log_start_offset) == (ErrorCode.INVALID_REQUIRED_ACKS, -1, -1)

    run(test)


def test_each_partition_has_its_own_outcome(tmp_path: Path) -> None:
    """One is fine, one is nowhere, one is elsewhere, one gets nonsense."""

    async def test() -> None:
        async with a_world(tmp_path, *topic(), *topic("far", topic_id=OTHER, replicas=(2,), leader=2)) as world:
            broken = batch(b"x")
            broken[20] ^= 1
            entries = {
                KEY: batch(b"a"),
                TopicPartition("nowhere", 0): batch(b"a"),
                TopicPartition("far", 0): batch(b"a"),
            }
            seen: dict[TopicPartition, int] = {}
            world.manager.append_records(
                1000, -1, entries, lambda rows: seen.update({key: row.error_code for key, row in rows.items()})
            )
            assert seen == {
                KEY: ErrorCode.NONE,
                TopicPartition("nowhere", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                TopicPartition("far", 0): ErrorCode.NOT_LEADER_OR_FOLLOWER,
            }
            world.manager.append_records(1000, 1, {KEY: broken}, lambda rows: seen.update({KEY: rows[KEY].error_code}))
            assert seen[KEY] == ErrorCode.CORRUPT_MESSAGE

    run(test)


class TestAcksAll:
    def test_it_waits_for_the_whole_isr(self, tmp_path: Path) -> None:
        async def test() -> None:
            async with a_world(tmp_path, *topic(replicas=(1, 2, 3))) as world:
                done = produce(world, b"a")
                await settled()
                assert not done.done()
                fetch(world, target(1), params=follower_params(2))
                assert not done.done()
                fetch(world, target(1), params=follower_params(3))
                assert done.result().error_code == ErrorCode.NONE

        run(test)

    def test_its_time_is_limited(self, tmp_path: Path) -> None:
        async def test() -> None:
            async with a_world(tmp_path, *topic(replicas=(1, 2))) as world:
                done = produce(world, b"a", timeout_ms=20)
                world.clock.now_ms += 40
                row = await done
                assert (row.error_code, row.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, 0)

        run(test)

    def test_a_lost_leadership_ends_it(self, tmp_path: Path) -> None:
        async def test() -> None:
            world = await World(tmp_path, open_channel=Silent).start()  # type: ignore[arg-type]
            await world.metadata(*brokers(), *topic(replicas=(1, 2)))
            done = produce(world, b"a")
            await world.metadata(records.PartitionChange(topic_id=TOPIC_ID, partition_id=0, leader=2))
            assert done.result().error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            await world.close()

        run(test)

    def test_below_the_minimum_it_is_refused_at_once(self, tmp_path: Path) -> None:
        async def test() -> None:
            async with a_world(tmp_path, *topic(replicas=(1, 2), isr=(1,)), min_insync_replicas=2) as world:
                assert produce(world, b"a").result().error_code == ErrorCode.NOT_ENOUGH_REPLICAS
                assert produce(world, b"a", acks=1).result().error_code == ErrorCode.NONE

        run(test)

    def test_a_new_minimum_of_the_topic_counts_without_restart(self, tmp_path: Path) -> None:
        async def test() -> None:
            async with a_world(tmp_path, *topic(replicas=(1, 2), isr=(1,))) as world:
                assert produce(world, b"a").result().error_code == ErrorCode.NONE
                await world.metadata(
                    records.Config(resource_type=2, resource_name="orders", name="min.insync.replicas", value="2")
                )
                world.manager.configs_changed(["orders"])
                assert produce(world, b"a").result().error_code == ErrorCode.NOT_ENOUGH_REPLICAS
                await world.metadata(
                    records.Config(resource_type=2, resource_name="orders", name="min.insync.replicas", value=None)
                )
                world.manager.configs_changed()
                assert produce(world, b"a").result().error_code == ErrorCode.NONE

        run(test)

    def test_the_answer_to_one_may_produce_again(self, tmp_path: Path) -> None:
        """A coordinator appends from its callback: nothing is lost, nothing runs inside another's answer."""

        async def test() -> None:
            async with a_world(tmp_path, *topic(replicas=(1, 2))) as world:
                offsets: list[int] = []

                def again(rows: object) -> None:
                    offsets.append(len(offsets))
                    if len(offsets) < 3:
                        world.manager.append_records(1000, -1, {KEY: batch(b"more")}, again)

                world.manager.append_records(1000, -1, {KEY: batch(b"first")}, again)
                for offset in (1, 2, 3):
                    fetch(world, target(offset), params=follower_params(2))
                assert offsets == [0, 1, 2]

        run(test)


class Silent:
    """A channel to a leader that never answers."""

    def __init__(self, broker_id: int) -> None:
        self.requested: list[object] = []

    async def ask(self, message: object, response: object, *, timeout_ms: int) -> object:
        self.requested.append(message)
        await asyncio.Event().wait()
        raise AssertionError

    async def close(self) -> None:
        pass


class TestWaitingFetches:
    def test_committed_records_wake_a_consumer(self, tmp_path: Path) -> None:
        async def test() -> None:
            async with a_world(tmp_path, *topic(replicas=(1, 2))) as world:
                done = fetch(world, params=FetchParams(max_wait_ms=1000))
                produce(world, b"a")
                assert not done.done(), "appended is not committed"
                fetch(world, target(1), params=follower_params(2))
                assert values(done.result()[0]) == [b"a"]

        run(test)

    def test_a_follower_is_woken_by_an_append(self, tmp_path: Path) -> None:
        async def test() -> None:
            async with a_world(tmp_path, *topic(replicas=(1, 2))) as world:
                done = fetch(world, params=follower_params(2, max_wait_ms=1000))
                assert not done.done()
                produce(world, b"a")
                assert values(done.result()[0]) == [b"a"]
                assert done.result()[0].high_watermark == 0

        run(test)

    def test_min_bytes_are_waited_for_over_all_partitions(self, tmp_path: Path) -> None:
        async def test() -> None:
            async with a_world(tmp_path, *topic(partitions=2)) as world:
                size = len(batch(b"a"))
                params = FetchParams(max_wait_ms=1000, min_bytes=2 * size + 1)
                done = fetch(world, target(), target(partition=1), params=params)
                produce(world, b"a")
                produce(world, b"a", key=TopicPartition("orders", 1))
                assert not done.done()
                produce(world, b"a", key=TopicPartition("orders", 1))
                assert [len(values(row)) for row in done.result()] == [1, 2]

        run(test)

    def test_at_the_timeout_the_available_data_is_returned(self, tmp_path: Path) -> None:
        async def test() -> None:
            async with a_world(tmp_path, *topic()) as world:
                done = fetch(world, params=FetchParams(max_wait_ms=20, min_bytes=10_000))
                produce(world, b"a")
                assert not done.done()
                world.clock.now_ms += 40
                assert values((await done)[0]) == [b"a"]

        run(test)

    def test_a_change_of_leader_ends_the_wait(self, tmp_path: Path) -> None:
        async def test() -> None:
            world = await World(tmp_path, open_channel=Silent).start()  # type: ignore[arg-type]
            await world.metadata(*brokers(), *topic(replicas=(1, 2)))
            done = fetch(world, params=FetchParams(max_wait_ms=1000))
            await world.metadata(records.PartitionChange(topic_id=TOPIC_ID, partition_id=0, leader=2))
            assert done.result()[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            await world.close()

        run(test)

    def test_a_deleted_topic_ends_the_wait(self, tmp_path: Path) -> None:
        async def test() -> None:
            async with a_world(tmp_path, *topic()) as world:
                done = fetch(world, params=FetchParams(max_wait_ms=1000))
                await world.metadata(records.RemoveTopic(topic_id=TOPIC_ID))
                assert done.result()[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

        run(test)

    def test_a_cancelled_one_is_forgotten(self, tmp_path: Path) -> None:
        async def test() -> None:
            async with a_world(tmp_path, *topic()) as world:
                seen: list[object] = []
                parked = world.manager.fetch_records(FetchParams(max_wait_ms=1000), [target()], seen.append)
                assert parked is not None
                parked.cancel()
                parked.cancel()
                produce(world, b"a")
                assert seen == []

        run(test)

    def test_an_error_is_not_waited_over(self, tmp_path: Path) -> None:
        async def test() -> None:
            async with a_world(tmp_path, *topic()) as world:
                rows = fetch(world, target(), target(5), params=FetchParams(max_wait_ms=1000)).result()
                assert [row.error_code for row in rows] == [0, ErrorCode.OFFSET_OUT_OF_RANGE]
                assert rows[1].high_watermark == -1

        run(test)


class TestSizes:
    def test_the_first_batch_is_returned_at_any_size_and_others_up_to_the_limit(self, tmp_path: Path) -> None:
        async def test() -> None:
            async with a_world(tmp_path, *topic(partitions=2)) as world:
                for index in (0, 1):
                    produce(world, b"x" * 500, key=TopicPartition("orders", index))
                rows = fetch(world, target(), target(partition=1), params=FetchParams(max_bytes=10)).result()
                assert [len(values(row)) for row in rows] == [1, 0]
                rows = fetch(world, target(max_bytes=10), target(partition=1, max_bytes=10)).result()
                assert [len(values(row)) for row in rows] == [1, 0]

        run(test)

    def test_a_fetch_into_a_batch_gets_the_whole_batch(self, tmp_path: Path) -> None:
        async def test() -> None:
            async with a_world(tmp_path, *topic()) as world:
                produce(world, b"a", b"b", b"c")
                assert len(joined(fetch(world, target(2)).result()[0])) == len(batch(b"a", b"b", b"c"))

        run(test)


def test_a_topic_id_that_is_not_the_replicas_is_reported(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_world(tmp_path, *topic()) as world:
            assert fetch(world, target(topic_id=OTHER)).result()[0].error_code == ErrorCode.INCONSISTENT_TOPIC_ID
            assert fetch(world, target(topic_id=TOPIC_ID)).result()[0].error_code == ErrorCode.NONE

    run(test)


class TestMetadata:
    def test_a_topic_recreated_under_its_name_starts_empty(self, tmp_path: Path) -> None:
        async def test() -> None:
            async with a_world(tmp_path, *topic()) as world:
                produce(world, b"old")
                await world.metadata(records.RemoveTopic(topic_id=TOPIC_ID), *topic(topic_id=OTHER))
                assert world.manager.partition_or_raise(KEY).topic_id == OTHER
                assert fetch(world).result()[0].high_watermark == 0
                assert produce(world, b"new").result().base_offset == 0

        run(test)

    def test_a_log_of_an_earlier_topic_makes_room(self, tmp_path: Path) -> None:
        """The topic was deleted and made anew while the broker was down."""

        async def test() -> None:
            async with a_world(tmp_path, *topic()) as world:
                produce(world, b"old")
            async with a_world(tmp_path, *topic(topic_id=OTHER)) as world:
                assert fetch(world).result()[0].high_watermark == 0

        run(test)

    def test_a_restarted_broker_continues_where_it_was(self, tmp_path: Path) -> None:
        async def test() -> None:
            async with a_world(tmp_path, *topic()) as world:
                produce(world, b"a")
            async with a_world(tmp_path, *topic()) as world:
                assert values(fetch(world).result()[0]) == [b"a"]
                assert produce(world, b"b").result().base_offset == 1

        run(test)

    def test_listeners_hear_of_a_partition(self, tmp_path: Path) -> None:
        async def test() -> None:
            async with a_world(tmp_path, *topic()) as world:
                noted = Noted()
                assert not world.manager.add_listener(TopicPartition("nowhere", 0), noted)
                assert world.manager.add_listener(KEY, noted)
                produce(world, b"a")
                await world.metadata(records.RemoveTopic(topic_id=TOPIC_ID))
                assert noted.heard == [("high watermark", KEY, 1), ("deleted", KEY)]

        run(test)

    def test_a_large_delta_lets_requests_through(self, tmp_path: Path) -> None:
        async def test() -> None:
            async with a_world(tmp_path, *topic()) as world:
                turns = 0

                async def others() -> None:
                    nonlocal turns
                    while True:
                        turns += 1
                        world.clock.now_ms += 6
                        await asyncio.sleep(0)

                beside = asyncio.create_task(others())
                real = world.clock.monotonic_ms
                world.clock.monotonic_ms = lambda: step(world)  # type: ignore[method-assign]
                await world.metadata(*topic("many", topic_id=OTHER, partitions=30))
                world.clock.monotonic_ms = real  # type: ignore[method-assign]
                beside.cancel()
                assert turns > 5
                assert len(world.manager.hosted.by_name) == 31

        run(test)


def step(world: World) -> int:
    """A clock on which every look costs 4 ms."""
    world.clock.now_ms += 4
    return world.clock.now_ms


class TestFailedDisk:
    def test_its_replicas_are_offline_and_all_waiters_get_an_error(self, tmp_path: Path) -> None:
        async def test() -> None:
            async with a_world(tmp_path, *topic(replicas=(1, 2))) as world:
                noted = Noted()
                world.manager.add_listener(KEY, noted)
                produced = produce(world, b"a")
                fetched = fetch(world, params=FetchParams(max_wait_ms=1000))
                world.manager.log_dir_failed(str(tmp_path))
                assert produced.result().error_code == ErrorCode.KAFKA_STORAGE_ERROR
                assert fetched.result()[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
                assert produce(world, b"a").result().error_code == ErrorCode.KAFKA_STORAGE_ERROR
                assert noted.heard[-1] == ("failed", KEY)
                await world.metadata(records.PartitionChange(topic_id=TOPIC_ID, partition_id=0, isr=(1,)))
                assert world.manager.hosted.by_name[KEY].role is Role.OFFLINE

        run(test)

    def test_no_empty_log_takes_the_place_of_one_that_may_lie_in_a_failed_directory(self, tmp_path: Path) -> None:
        async def test() -> None:
            world = World(tmp_path, settings={"log.dirs": f"{tmp_path}/a,{tmp_path}/b"})
            await world.start()
            world.logs.dirs[0].failure = OSError("gone")
            known, fresh = TopicPartition("orders", 0), TopicPartition("fresh", 0)
            await world.metadata(*brokers(), records.Topic(name="orders", topic_id=TOPIC_ID), partition_of_age(3))
            assert world.manager.hosted.by_name[known].role is Role.OFFLINE
            await world.metadata(*topic("fresh", topic_id=OTHER))
            assert world.manager.hosted.by_name[fresh].role is Role.LEADING
            await world.close()

        run(test)


def partition_of_age(partition_epoch: int) -> records.Partition:
    return records.Partition(
        topic_id=TOPIC_ID, partition_id=0, replicas=(1, 2), isr=(1,), leader=1, partition_epoch=partition_epoch
    )


class TestDeleteRecords:
    def test_it_waits_until_every_live_replica_has_followed(self, tmp_path: Path) -> None:
        async def test() -> None:
            async with a_world(tmp_path, *topic(replicas=(1, 2))) as world:
                produce(world, b"a")
                produce(world, b"b")
                fetch(world, target(2), params=follower_params(2))
                rows = delete(world, 1)
                assert not rows.done()
                fetch(world, target(2, log_start_offset=1), params=follower_params(2))
                assert (rows.result().error_code, rows.result().low_watermark) == (0, 1)

        run(test)

    def test_its_time_is_limited(self, tmp_path: Path) -> None:
        async def test() -> None:
            async with a_world(tmp_path, *topic(replicas=(1, 2))) as world:
                produce(world, b"a")
                fetch(world, target(1), params=follower_params(2))
                rows = delete(world, 1, timeout_ms=20)
                world.clock.now_ms += 40
                assert (await rows).error_code == ErrorCode.REQUEST_TIMED_OUT

        run(test)

    @pytest.mark.parametrize(
        ("offset", "code"), [(5, ErrorCode.OFFSET_OUT_OF_RANGE), (-2, ErrorCode.OFFSET_OUT_OF_RANGE)]
    )
    def test_offsets_that_cannot_be_are_refused(self, tmp_path: Path, offset: int, code: ErrorCode) -> None:
        async def test() -> None:
            async with a_world(tmp_path, *topic()) as world:
                produce(world, b"a")
                row = delete(world, offset).result()
                assert (row.error_code, row.low_watermark) == (code, -1)

        run(test)

    def test_minus_one_is_the_high_watermark(self, tmp_path: Path) -> None:
        async def test() -> None:
            async with a_world(tmp_path, *topic()) as world:
                produce(world, b"a", b"b")
                assert delete(world, -1).result().low_watermark == 2
                assert fetch(world, target(0)).result()[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE

        run(test)

    def test_a_compacted_topic_deletes_nothing(self, tmp_path: Path) -> None:
        async def test() -> None:
            compact = records.Config(resource_type=2, resource_name="orders", name="cleanup.policy", value="compact")
            async with a_world(tmp_path, compact, *topic()) as world:
                assert delete(world, 0).result().error_code == ErrorCode.POLICY_VIOLATION

        run(test)


def delete(
    world: World, offset: int, key: TopicPartition = KEY, timeout_ms: int = 1000
) -> "asyncio.Future[DeleteRecordsPartitionResult]":
    done: asyncio.Future[DeleteRecordsPartitionResult] = asyncio.get_running_loop().create_future()
    world.manager.delete_records(timeout_ms, {key: offset}, lambda rows: done.set_result(rows[key]))
    return done


class TestOffsets:
    def test_each_special_timestamp_and_a_real_one(self, tmp_path: Path) -> None:
        async def test() -> None:
            async with a_world(tmp_path, *topic()) as world:
                produce(world, b"a", b"b")
                find = world.manager.offsets.fetch_offset_for_timestamp
                assert find(KEY, -1) == (-1, 2, 0)
                assert find(KEY, -2) == (-1, 0, 0)
                assert find(KEY, -4) == (-1, 0, 0)
                assert find(KEY, -5) == (-1, -1, -1)
                assert find(KEY, -3)[1] == 0
                assert find(KEY, 1) == (1, 0, 0)
                assert find(KEY, 2) == (-1, -1, -1)

        run(test)

    def test_a_new_leader_does_not_name_an_end_it_does_not_know(self, tmp_path: Path) -> None:
        """Consumers have seen what is above this leader's high watermark: a smaller «latest» would send them back."""

        async def test() -> None:
            async with a_world(tmp_path, *topic(replicas=(1, 2))) as world:
                produce(world, b"a")
                await world.metadata(records.PartitionChange(topic_id=TOPIC_ID, partition_id=0, leader=1))
                find = world.manager.offsets.fetch_offset_for_timestamp
                for timestamp in (-1, 1):
                    with pytest.raises(KafkaError) as info:
                        find(KEY, timestamp)
                    assert info.value.code is ErrorCode.OFFSET_NOT_AVAILABLE
                assert find(KEY, -2)[1] == 0
                assert find(KEY, -1, replica_id=2)[1] == 1, "a replica may see the log end"
                fetch(world, target(1), params=follower_params(2))
                assert find(KEY, -1)[1] == 1

        run(test)

    def test_the_end_of_an_epoch(self, tmp_path: Path) -> None:
        async def test() -> None:
            async with a_world(tmp_path, *topic()) as world:
                produce(world, b"a")
                await world.metadata(records.PartitionChange(topic_id=TOPIC_ID, partition_id=0, leader=1))
                produce(world, b"b")
                look = world.manager.offsets.last_offset_for_leader_epoch
                assert look(KEY, -1, 0) == (0, 1)
                assert look(KEY, -1, 1) == (1, 2)
                assert look(KEY, -1, 7) == (-1, -1)
                with pytest.raises(KafkaError) as info:
                    look(KEY, 0, 0)
                assert info.value.code is ErrorCode.FENCED_LEADER_EPOCH

        run(test)


def test_the_gauges_follow_the_replicas(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_world(tmp_path, *topic(replicas=(1, 2), isr=(1,)), min_insync_replicas=2) as world:
            produce(world, b"abc", acks=1)
            text = world.metrics.render().decode()
            for line in (
                "kafka_server_replicamanager_leadercount 1.0",
                "kafka_server_replicamanager_partitioncount 1.0",
                "kafka_server_replicamanager_underreplicatedpartitions 1.0",
                "kafka_server_replicamanager_underminisrpartitioncount 1.0",
                'kafka_server_brokertopicmetrics_messagesin_total{topic="orders"} 1.0',
            ):
                assert line in text, line

    run(test)


def test_logs_of_new_replicas_are_created_off_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []
    opened = LogOpening.open

    def open_log(self: LogOpening, *arguments: Any) -> Log:
        threads.append(threading.get_ident())
        return opened(self, *arguments)

    monkeypatch.setattr(LogOpening, "open", open_log)

    async def test() -> None:
        world = await World(tmp_path).start()
        await world.metadata(*brokers(), *topic(partitions=40))
        assert len(threads) == 40 and threading.get_ident() not in threads
        logs = [world.logs.get_log(TopicPartition("orders", index)) for index in range(40)]
        assert all(each is not None and each.is_topic_id_durable for each in logs)
        await world.close()

    run(test)
