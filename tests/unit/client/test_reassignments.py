"""Reassignments of the public API on a cluster in memory."""

import pytest

from kvorum.client import Cluster, ErrorCode, KafkaError, PlanState, TopicPartition
from kvorum.client.reassignments.throttles import FOLLOWERS, LEADERS, RATES
from tests.unit.admin.managed import ManagedCluster
from tests.unit.admin.operated import BROKER, TOPIC
from tests.unit.client.kit import with_api

A0, A1, NONE = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("none", 0)


def test_a_plan_is_started_throttled_and_verified() -> None:
    async def run(cluster: Cluster, fake: ManagedCluster) -> None:
        fake.place("a", [1, 2], [2, 1])
        reassignments, plan = cluster.reassignments, {A0: [3, 1]}
        assert await reassignments.list() == {}
        with pytest.raises(KafkaError, match="NO_REASSIGNMENT_IN_PROGRESS"):
            await reassignments.throttle(1000)
        with pytest.raises(KafkaError, match="there is no partition none-0"):
            await reassignments.throttle(1000, {NONE: [1]})
        await reassignments.throttle(1000, plan)
        assert fake.config(TOPIC, "a") == {LEADERS: "0:1,0:2", FOLLOWERS: "0:3"}
        assert all(fake.config(BROKER, str(broker)) == dict.fromkeys(RATES, "1000") for broker in (1, 2, 3))
        assert await reassignments.alter(plan) == {}
        (found,) = (await reassignments.list()).values()
        assert (found.partition, found.target, found.adding, found.removing) == (0, (3, 1), (3,), (2,))
        throttles = await reassignments.throttles()
        assert [each.broker for each in throttles.brokers] == [1, 2, 3] and throttles.topics[0].followers == "0:3"

        (progress,) = (await reassignments.verify(plan)).partitions
        assert progress.state is PlanState.IN_PROGRESS and fake.config(TOPIC, "a")
        fake.finish()
        done = await reassignments.verify(plan, preserve_throttles=True)
        assert done.is_completed and done.unthrottled_topics is None
        done = await reassignments.verify(plan)
        assert (done.is_completed, done.unthrottled_topics) == (True, ("a",))
        assert not fake.config(TOPIC, "a") and not fake.config(BROKER, "1")
        (progress,) = (await reassignments.verify({A1: [4]})).partitions
        assert (progress.state, progress.replicas, progress.target) == (PlanState.NOT_AS_WANTED, (2, 1), (4,))
        (progress,) = (await reassignments.verify({NONE: [1]})).partitions
        assert (progress.state, progress.replicas) == (PlanState.NOT_AS_WANTED, ())

    with_api(run)


def test_a_fenced_broker_that_does_not_respond_is_reported_with_the_throttles() -> None:
    """Apache Kafka's Metadata does not have fenced brokers."""

    async def run(cluster: Cluster, fake: ManagedCluster) -> None:
        fake.fenced, fake.silent = {3}, {3}
        assert (await cluster.reassignments.throttles()).unreachable == (3,)

    with_api(run)


def test_reassignments_are_cancelled() -> None:
    async def run(cluster: Cluster, fake: ManagedCluster) -> None:
        fake.place("a", [1, 2], [2, 1])
        reassignments = cluster.reassignments
        assert await reassignments.cancel() == {}
        await reassignments.alter({A0: [3, 1], A1: [4, 2]})
        assert await reassignments.cancel([A0, NONE]) == {A0: None}
        assert [*await reassignments.list()] == [A1]
        assert await reassignments.cancel() == {A1: None}
        error = (await reassignments.alter({NONE: [1]}))[NONE]
        assert error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await reassignments.assignments(["a", "none"]) == {A0: [1, 2], A1: [2, 1]}
        assert [*await reassignments.live_brokers()] == [1, 2, 3, 4]

    with_api(run)
