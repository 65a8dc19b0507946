"""Two brokers in one loop: the follower's fetcher keeps its replicas equal to the leader's over any kind of link."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest

from kvorum.broker.replica.types import Role
from kvorum.network.channel import Channel
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.fetch import FetchRequest
from kvorum.protocol.messages.list_offsets import ListOffsetsRequest
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.protocol.uuids import Uuid
from kvorum.quorum import records
from tests.unit.broker.replica.manager_kit import (
    Link,
    LoopClock,
    World,
    brokers,
    fetch,
    produce,
    target,
    topic,
    until,
    values,
)
from tests.unit.broker.replica.replica_kit import TOPIC_ID

KEY = TopicPartition("orders", 0)
OTHER = Uuid(b"\x09" * 16)


class Pair:
    """Brokers 1 and 2, each a link away from the other."""

    def __init__(self, folder: Path, **settings: object) -> None:
        self.worlds: dict[int, World] = {}
        self.links: list[Link] = []
        given = {"replica.fetch.backoff.ms": 5, **{key.replace("_", "."): value for key, value in settings.items()}}
        for broker_id in (1, 2):
            self.worlds[broker_id] = World(
                folder / str(broker_id), broker_id=broker_id, settings=given, open_channel=self.link, clock=LoopClock()
            )

    def link(self, broker_id: int) -> Channel:
        link = Link(self.worlds[broker_id])
        self.links.append(link)
        return link  # type: ignore[return-value]

    @property
    def fetches(self) -> list[FetchRequest]:
        return [each for link in self.links for each in link.requested if isinstance(each, FetchRequest)]

    async def start(self, *made: records.MetadataRecord) -> tuple[World, World]:
        for world in self.worlds.values():
            await world.start()
        await self.metadata(*brokers(1, 2), *made)
        return self.worlds[1], self.worlds[2]

    async def metadata(self, *made: records.MetadataRecord) -> None:
        for world in self.worlds.values():
            await world.metadata(*made)

    async def close(self) -> None:
        for world in self.worlds.values():
            await world.close()


def run(test: Callable[[], Coroutine[None, None, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 60))


def end_of(world: World, key: TopicPartition = KEY) -> int:
    log = world.manager.partition_or_raise(key).log
    assert log is not None
    return log.log_end_offset


def test_a_follower_gets_the_records_and_the_high_watermark(tmp_path: Path) -> None:
    async def test() -> None:
        pair = Pair(tmp_path)
        leader, follower = await pair.start(*topic(replicas=(1, 2)))
        rows = [await produce(leader, f"{index}".encode()) for index in range(20)]
        assert [row.error_code for row in rows] == [0] * 20
        log = follower.manager.partition_or_raise(KEY).log
        assert log is not None
        await until(lambda: log.high_watermark == 20)
        assert [entry.epoch for entry in log.epoch_cache.entries] == [0]
        source = leader.manager.partition_or_raise(KEY).log
        assert source is not None
        mine, theirs = log.read(0, 1 << 20, 20, True), source.read(0, 1 << 20, 20, True)
        assert b"".join(map(bytes, mine.parts)) == b"".join(map(bytes, theirs.parts)), "equal to the byte"
        await pair.close()

    run(test)


def test_requests_contain_only_changes(tmp_path: Path) -> None:
    async def test() -> None:
        pair = Pair(tmp_path)
        leader, _ = await pair.start(*topic(replicas=(1, 2), partitions=3))
        await produce(leader, b"a", key=TopicPartition("orders", 1))
        await produce(leader, b"a", key=TopicPartition("orders", 1))
        sessions = [each for each in pair.fetches if each.session_epoch > 0]
        assert sessions
        for each in sessions:
            named = [row.partition for each_topic in each.topics for row in each_topic.partitions]
            assert set(named) <= {1}
        assert pair.fetches[0].replica_state.replica_epoch == 102
        await pair.close()

    run(test)


def test_a_partition_added_during_a_long_poll_does_not_wait_for_its_end(tmp_path: Path) -> None:
    async def test() -> None:
        pair = Pair(tmp_path, replica_fetch_wait_max_ms=25_000)
        leader, _ = await pair.start(*topic(replicas=(1, 2)))
        await until(lambda: pair.fetches)
        await pair.metadata(*topic("more", topic_id=OTHER, replicas=(1, 2)))
        row = await asyncio.wait_for(produce(leader, b"a", key=TopicPartition("more", 0)), 10)
        assert row.error_code == ErrorCode.NONE
        assert len(pair.links) == 2 and pair.links[0].is_closed
        await pair.close()

    run(test)


def test_a_throttle_does_not_delay_an_isr_member_before_its_new_leaders_first_response(
    tmp_path: Path,
) -> None:
    """It would fall out of the ISR by the election: the leader waits for its first fetch."""

    async def test() -> None:
        pair = Pair(tmp_path, replica_lag_time_max_ms=60_000, replication_quota_window_size_seconds=60)
        leader, follower = await pair.start()
        quota = follower.manager.quotas.follower
        quota.throttle("orders", "*")
        quota.bound = 1
        quota.note(1 << 30, follower.clock.monotonic_ms())
        await pair.metadata(*topic(replicas=(1, 2)))
        row = await asyncio.wait_for(produce(leader, b"a", timeout_ms=20_000), 30)
        assert row.error_code == ErrorCode.NONE
        await pair.close()

    run(test)


def test_a_cut_link_is_repaired_after_the_back_off_by_a_full_request(tmp_path: Path) -> None:
    async def test() -> None:
        pair = Pair(tmp_path)
        leader, follower = await pair.start(*topic(replicas=(1, 2)))
        await produce(leader, b"a")
        for link in pair.links:
            link.cut = True
        done = produce(leader, b"b", timeout_ms=10_000)
        await asyncio.sleep(0.02)
        assert not done.done()
        before = len(pair.fetches)
        for link in pair.links:
            link.cut = False
        assert (await done).error_code == ErrorCode.NONE
        assert pair.fetches[before].session_epoch == 0
        await until(lambda: end_of(follower) == 2)
        await pair.close()

    run(test)


def test_a_leader_that_forgot_the_session_is_queried_in_full(tmp_path: Path) -> None:
    async def test() -> None:
        pair = Pair(tmp_path)
        leader, _ = await pair.start(*topic(replicas=(1, 2)))
        await produce(leader, b"a")
        leader.sessions._sessions.clear()
        assert (await produce(leader, b"b")).error_code == ErrorCode.NONE
        await pair.close()

    run(test)


def test_a_follower_whose_records_no_other_has_cuts_them_when_it_comes_back(tmp_path: Path) -> None:
    """Broker 1 led and wrote what never reached 2; 2 is elected, writes its own; 1 comes to agree with it."""

    async def test() -> None:
        pair = Pair(tmp_path)
        first, second = await pair.start(*topic(replicas=(1, 2)))
        await produce(first, b"shared")
        await second.manager._fetchers.close()
        await produce(first, b"lost 1", acks=1)
        await produce(first, b"lost 2", acks=1)
        change = records.PartitionChange(topic_id=TOPIC_ID, partition_id=0, leader=2, isr=(2,))
        await second.metadata(change)
        await produce(second, b"kept", acks=1)
        await first.metadata(change)
        await until(lambda: first.manager.partition_or_raise(KEY).role is Role.FOLLOWING and end_of(first) == 2)
        await until(lambda: len(second.controller.requests) == 1)
        read = await fetch(second, target(0))
        assert values(read[0]) == [b"shared", b"kept"]
        log = first.manager.partition_or_raise(KEY).log
        assert log is not None
        assert [tuple(entry) for entry in log.epoch_cache.entries] == [(0, 0), (1, 1)]
        await pair.close()

    run(test)


def test_a_follower_that_missed_what_was_deleted_starts_again_where_the_leader_does(tmp_path: Path) -> None:
    async def test() -> None:
        pair = Pair(tmp_path)
        leader, follower = await pair.start()
        made = topic(replicas=(1, 2), isr=(1,))
        await leader.metadata(*made)
        for index in range(5):
            await produce(leader, f"{index}".encode())
        log = leader.manager.partition_or_raise(KEY).log
        assert log is not None
        log.maybe_increment_log_start_offset(3)
        await follower.metadata(*made)
        await until(lambda: end_of(follower) == 5)
        copy = follower.manager.partition_or_raise(KEY).log
        assert copy is not None and copy.log_start_offset == 3
        assert any(isinstance(each, ListOffsetsRequest) for link in pair.links for each in link.requested)
        await pair.close()

    run(test)


def test_a_caught_up_follower_joins_the_isr_and_one_cut_off_leaves_it(tmp_path: Path) -> None:
    async def test() -> None:
        pair = Pair(tmp_path, replica_lag_time_max_ms=60)
        leader, _ = await pair.start(*topic(replicas=(1, 2), isr=(1,)))
        leader.manager.start()
        partition = leader.manager.partition_or_raise(KEY)
        await until(lambda: partition.isr == {1, 2})
        for link in pair.links:
            link.cut = True
        produced = asyncio.ensure_future(produce(leader, b"a", timeout_ms=20_000))
        await until(lambda: len(leader.controller.requests) == 2)
        joined, left = (records.PartitionChange(topic_id=TOPIC_ID, partition_id=0, isr=isr) for isr in ((1, 2), (1,)))
        await leader.metadata(joined, left)
        row = await produced
        assert row.error_code == ErrorCode.NONE, "acknowledged once the lagging one has left"
        assert partition.isr == {1}
        for link in pair.links:
            link.cut = False
        await until(lambda: partition.isr == {1, 2})
        text = leader.metrics.render().decode()
        assert "kafka_server_replicamanager_isrshrinks_total 1.0" in text
        assert "kafka_server_replicamanager_isrexpands_total 2.0" in text
        await pair.close()

    run(test)


def test_no_partition_starves_another(tmp_path: Path) -> None:
    """Answers hold one batch at a time, and one partition always has more."""

    async def test() -> None:
        pair = Pair(tmp_path, replica_fetch_response_max_bytes=100, replica_fetch_max_bytes=100)
        leader, follower = await pair.start(*topic(replicas=(1, 2), isr=(1,), partitions=3))
        await follower.manager._fetchers.close()
        keys = [TopicPartition("orders", index) for index in range(3)]
        for _ in range(30):
            await produce(leader, b"x" * 80, key=keys[0], acks=1)
        for key in keys[1:]:
            await produce(leader, b"y" * 80, key=key, acks=1)
        follower.manager._fetchers.follow([follower.manager.partition_or_raise(key) for key in keys])
        await until(lambda: end_of(follower, keys[1]) == 1 and end_of(follower, keys[2]) == 1)
        assert end_of(follower, keys[0]) < 10
        await until(lambda: end_of(follower, keys[0]) == 30)
        await pair.close()

    run(test)


def test_a_deleted_topic_is_fetched_no_more(tmp_path: Path) -> None:
    async def test() -> None:
        pair = Pair(tmp_path)
        leader, follower = await pair.start(*topic(replicas=(1, 2)), *topic("more", topic_id=OTHER, replicas=(1, 2)))
        await produce(leader, b"a")
        await pair.metadata(records.RemoveTopic(topic_id=TOPIC_ID))
        assert not follower.manager._fetchers.is_following(KEY)
        row = await produce(leader, b"a", key=TopicPartition("more", 0))
        assert row.error_code == ErrorCode.NONE
        await pair.metadata(records.RemoveTopic(topic_id=OTHER))
        assert follower.manager._fetchers._fetchers == {}
        await pair.close()

    run(test)


@pytest.mark.parametrize("count", [40])
def test_many_partitions_share_one_connection(tmp_path: Path, count: int) -> None:
    async def test() -> None:
        pair = Pair(tmp_path)
        leader, follower = await pair.start(*topic(replicas=(1, 2), partitions=count))
        done = [produce(leader, b"a", key=TopicPartition("orders", index), timeout_ms=9000) for index in range(count)]
        assert {(await each).error_code for each in done} == {0}
        assert len(follower.manager._fetchers._fetchers) == 1
        await pair.close()

    run(test)


def test_a_log_start_that_rises_by_itself_is_reported_by_both_sides(tmp_path: Path) -> None:
    """Retention moves it while nobody fetches anything else of the partition, on the leader or on the follower."""

    async def test() -> None:
        pair = Pair(tmp_path, replica_fetch_wait_max_ms=20)
        leader, follower = await pair.start(*topic(replicas=(1, 2), partitions=2))
        for index in range(4):
            await produce(leader, f"{index}".encode())
        copy, source = (world.manager.partition_or_raise(KEY).log for world in (follower, leader))
        state = leader.manager.partition_or_raise(KEY).followers[2]
        assert copy is not None and source is not None
        await until(lambda: copy.high_watermark == 4 and len(leader.manager.partition_or_raise(KEY).watchers) == 1)
        copy.maybe_increment_log_start_offset(1)
        await until(lambda: state.log_start_offset == 1)
        source.maybe_increment_log_start_offset(3)
        await until(lambda: copy.log_start_offset == 3 and state.log_start_offset == 3)
        await pair.close()

    run(test)


def test_an_idle_partition_is_neither_requested_nor_returned(tmp_path: Path) -> None:
    async def test() -> None:
        pair = Pair(tmp_path)
        leader, follower = await pair.start(*topic(replicas=(1, 2), partitions=50))
        partitions = [leader.manager.partition_or_raise(TopicPartition("orders", index)) for index in range(50)]
        await until(lambda: all(each.watchers for each in partitions))
        before = len(pair.fetches)
        for _ in range(5):
            await produce(leader, b"a", key=TopicPartition("orders", 7))
        await until(lambda: end_of(follower, TopicPartition("orders", 7)) == 5)
        named = {row.partition for each in pair.fetches[before:] for made in each.topics for row in made.partitions}
        assert named == {7}
        assert all(each.watchers for each in partitions if each.topic_partition.partition != 7)
        await pair.close()

    run(test)
