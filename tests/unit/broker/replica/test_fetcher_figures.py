"""What a scrape tells of followers: over two brokers in one loop, whose link lets one answer through at a time."""

import asyncio
from pathlib import Path

from kvorum.network.channel import Channel
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.quorum import records
from kvorum.runtime import metric_names as names
from tests.unit.broker.replica.manager_kit import Link, World, produce, topic, until
from tests.unit.broker.replica.replica_kit import TOPIC_ID
from tests.unit.broker.replica.test_fetcher import KEY, Pair, end_of, run

LEADER_THREAD = "ReplicaFetcherThread-0-1"
IDLE = TopicPartition("orders", 1)
COUNT = 5


class Steps(asyncio.Semaphore):
    """Lets through as many answers as it is released: a link's `held`."""

    async def wait(self) -> None:
        await self.acquire()


class SteppedPair(Pair):
    """Broker 2 follows 1, a batch an answer, and gets an answer each time `step` is released."""

    def __init__(self, folder: Path) -> None:
        self.step = Steps(0)
        super().__init__(folder, replica_fetch_response_max_bytes=100, replica_fetch_max_bytes=100)

    def link(self, broker_id: int) -> Channel:
        link: Link = super().link(broker_id)  # type: ignore[assignment]
        link.held = self.step  # type: ignore[assignment]
        return link  # type: ignore[return-value]

    async def written(self) -> tuple[World, World]:
        """Start, with COUNT batches in KEY and none in IDLE before 2 knows of the topic."""
        leader, follower = await self.start()
        made = topic(replicas=(1, 2), isr=(1,), partitions=2)
        await leader.metadata(*made)
        for _ in range(COUNT):
            await produce(leader, b"x" * 80, acks=1)
        await follower.metadata(*made)
        return leader, follower


def lags(world: World) -> dict[TopicPartition, float]:
    """Return what is told of each partition; all are fetched from broker 1."""
    reported: dict[TopicPartition, float] = {}
    for (thread, name, index), lag in world.metrics.gauge(names.FOLLOWER_LAG).sampled():
        assert thread == LEADER_THREAD and isinstance(index, int)
        reported[TopicPartition(str(name), index)] = lag
    return reported


def of_all(world: World) -> tuple[float, float, float]:
    """Return MaxLag, FailedPartitionsCount and DeadThreadCount."""
    gauge = world.metrics.gauge
    found = (names.FOLLOWERS_MAX_LAG, names.FOLLOWERS_FAILED_PARTITIONS, names.FOLLOWERS_DEAD_THREADS)
    lag, failed, dead = (gauge(name).labels("Replica").read() for name in found)
    return lag, failed, dead


def test_the_lag_is_the_number_of_missing_committed_records_at_the_last_response(tmp_path: Path) -> None:
    async def test() -> None:
        pair = SteppedPair(tmp_path)
        leader, follower = await pair.written()
        await until(lambda: pair.fetches)
        assert lags(follower) == {} and of_all(follower) == (0, 0, 0), "nothing is known before the first answer"
        for end in range(1, COUNT + 1):
            pair.step.release()
            await until(lambda end=end: end_of(follower) == end)  # type: ignore[misc]
            assert lags(follower) == {KEY: COUNT - end, IDLE: 0}, "what rests in the session is told as it was"
            assert of_all(follower) == (COUNT - end, 0, 0)
        assert lags(leader) == {} and of_all(leader) == (0, 0, 0), "a leader is told of by its followers"
        text = follower.metrics.render().decode()
        assert f'{names.FOLLOWER_LAG}{{clientId="{LEADER_THREAD}",partition="1",topic="orders"}} 0.0' in text
        await pair.close()

    run(test)


def test_a_replica_that_is_no_longer_followed_has_no_metrics(tmp_path: Path) -> None:
    async def test() -> None:
        pair = SteppedPair(tmp_path)
        _, follower = await pair.written()
        pair.step.release()
        await until(lambda: end_of(follower) == 1)
        under_way = iter(follower.metrics.gauge(names.FOLLOWER_LAG).sampled())
        next(under_way)
        await follower.metadata(records.RemoveTopic(topic_id=TOPIC_ID))
        assert list(under_way) == [], "the rest of a scrape that was between two slices"
        assert lags(follower) == {} and of_all(follower) == (0, 0, 0)
        await pair.close()

    run(test)


def test_a_follower_that_is_refused_for_a_newer_leader_counts_as_failed_until_it_knows_it(tmp_path: Path) -> None:
    async def test() -> None:
        pair = SteppedPair(tmp_path)
        leader, follower = await pair.written()
        pair.step.release()
        await until(lambda: end_of(follower) == 1)
        newer = records.PartitionChange(topic_id=TOPIC_ID, partition_id=0, leader=1)
        await leader.metadata(newer)
        for _ in range(2 * COUNT):
            pair.step.release()
        await until(lambda: of_all(follower)[1] == 1)
        assert lags(follower) == {IDLE: 0} and of_all(follower) == (0, 1, 0)
        await follower.metadata(newer)
        await until(lambda: lags(follower) == {KEY: 0, IDLE: 0})
        assert of_all(follower) == (0, 0, 0)
        await pair.close()

    run(test)
