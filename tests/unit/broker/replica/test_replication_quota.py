"""Replication throttles (KIP-73): the rate as Kafka measures it, whose replicas count, and who is held back."""

import asyncio
from pathlib import Path

import pytest

from kvorum.broker.replica.isr import CommittedIsr
from kvorum.broker.replica.replication_quota import ReplicationQuota, WindowedRate
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.quorum import records
from kvorum.quorum.image.partition import UNASSIGNED_DIRECTORY
from kvorum.runtime import metric_names as names
from kvorum.runtime.config import Settings
from tests.unit.broker.replica.manager_kit import produce, topic, until
from tests.unit.broker.replica.replica_kit import TOPIC_ID, batch
from tests.unit.broker.replica.test_fetcher import Pair, end_of, run
from tests.unit.broker.replica.test_resting import Leader, caught_up, reported


def quota(bound: int | None = None, replicas: str = "*") -> ReplicationQuota:
    made = ReplicationQuota(1, Settings.of({}))
    made.bound = bound
    made.throttle("orders", replicas)
    return made


def test_the_rate_is_of_a_window_at_least() -> None:
    """Kafka's ReplicationQuotaManagerTest: 10 windows of a second, and one that is left behind."""
    rate = WindowedRate(10, 1_000)
    rate.note(100, 0)
    assert rate.measured(0) == 100.0, "a first window counts as a whole one"
    assert rate.measured(500) == 100.0
    assert rate.measured(2_000) == 50.0


def test_windows_are_forgotten_when_their_last_note_is_as_old_as_all_of_them() -> None:
    rate = WindowedRate(10, 1_000)
    rate.note(1_000, 0)
    rate.note(500, 5_000)
    assert rate.measured(9_999) == pytest.approx(1_500 / 9.999)
    assert rate.measured(10_000) == pytest.approx(500 / 5.0)
    assert rate.measured(15_000) == 0.0


def test_the_oldest_window_makes_room() -> None:
    rate = WindowedRate(2, 1_000)
    for second in range(6):
        rate.note(100, 1_000 * second)
    assert rate.measured(4_999) == pytest.approx(300 / 1.999), "two windows and the one left behind"
    assert rate.measured(5_000) == pytest.approx(200 / 1.0), "which counts no longer"


@pytest.mark.parametrize(
    ("replicas", "throttled"),
    [
        ("*", [True, True, True]),
        ("0:1,1:2,2:1", [True, False, True]),
        (" 1:1 ", [False, True, False]),
        ("1:2", [False, False, False]),
        ("", [False, False, False]),
    ],
)
def test_a_topics_list_counts_for_this_brokers_replicas(replicas: str, throttled: list[bool]) -> None:
    made = quota(replicas=replicas)
    assert [made.is_throttled("orders", number) for number in range(3)] == throttled
    assert not made.is_throttled("others", 0)
    assert bool(made.throttled) == any(throttled)
    made.throttle("orders", "")
    assert not made.throttled


def test_it_is_exceeded_above_the_bound_and_not_at_it() -> None:
    made = quota(bound=100)
    made.note(100, 0)
    assert not made.is_exceeded(0)
    made.note(1, 0)
    assert made.is_exceeded(0) and not made.is_exceeded(1_010)
    made.bound = None
    assert not made.is_exceeded(0)


def lagging() -> Leader:
    """A leader whose follower 2 has left the ISR of partition 0, which is throttled."""
    leader = caught_up()
    leader.partition(0).isr_state = CommittedIsr(frozenset({1, 3}))
    leader.quota.throttle("orders", "0:1")
    leader.quota.bound = 10
    return leader


def test_a_leader_over_its_rate_leaves_throttled_records_out_of_a_laggards_fetch() -> None:
    leader = lagging()
    leader.partition(0).append_records_to_leader(batch(b"a"), 1, 0)
    first = leader.fetch(2, {})()
    assert first is not None and reported(first)[0][-1], "under the rate"
    leader.partition(0).append_records_to_leader(batch(b"b"), 1, 0)
    leader.partition(1).append_records_to_leader(batch(b"c"), 1, 0)
    second = leader.fetch(2, {0: (2, 0)})()
    assert second is not None
    sizes = {index: row[-1] for index, row in reported(second).items()}
    assert not sizes.get(0) and sizes[1], "over the rate: only what is not throttled"
    member = leader.fetch(3, {0: (1, 0)})()
    assert member is not None and reported(member)[0][-1], "a member of the ISR gets all"
    leader.now_ms += 60_000
    third = leader.fetch(2, {0: (2, 0)})()
    assert third is not None and reported(third)[0][-1], "the rate has fallen"


def test_throttled_records_do_not_wake_a_waiting_fetch() -> None:
    leader = lagging()
    leader.quota.note(10_000, leader.now_ms)
    answer = leader.fetch(2, {}, wait_ms=500)
    leader.partition(0).append_records_to_leader(batch(b"a"), 1, 0)
    leader.outbox.appended(leader.partition(0))
    assert answer() is None
    leader.partition(1).append_records_to_leader(batch(b"b"), 1, 0)
    leader.outbox.appended(leader.partition(1))
    response = answer()
    assert response is not None and reported(response)[1][-1] and not reported(response).get(0, (0,))[-1]


def test_a_follower_over_its_rate_does_not_fetch_throttled_partitions(tmp_path: Path) -> None:
    """Broker 2 has all of `orders` and `more` to fetch; over its rate it asks for `more` alone until the rate falls."""

    async def test() -> None:
        pair = Pair(tmp_path)
        leader, follower = await pair.start()
        quota = follower.manager.quotas.follower
        quota.throttle("orders", "*")
        quota.bound = 1_000
        quota.note(10**9, follower.clock.monotonic_ms())
        made = topic(replicas=(1, 2), isr=(1,), partitions=2)
        await pair.metadata(*made)
        await produce(leader, b"a", acks=1)
        await asyncio.sleep(0.05)  # ten back-offs: whoever did not heed the quota would have it by now
        assert end_of(follower) == 0 and not pair.fetches
        assert "kafka_server_followerreplication_byte_rate 1e+09" in follower.metrics.render().decode()
        quota.bound = None
        await until(lambda: end_of(follower) == 1)
        await pair.close()

    run(test)


def changed(replicas: tuple[int, ...], **others: object) -> records.PartitionChange:
    directories = (UNASSIGNED_DIRECTORY,) * len(replicas)
    return records.PartitionChange(
        topic_id=TOPIC_ID,
        partition_id=0,
        replicas=replicas,
        directories=directories,
        **others,  # type: ignore[arg-type]
    )


def test_bytes_for_replicas_that_are_added_are_counted_on_both_sides(tmp_path: Path) -> None:
    async def test() -> None:
        pair = Pair(tmp_path)
        leader, follower = await pair.start(*topic(replicas=(1,)))
        await produce(leader, b"a", acks=1)
        await pair.metadata(changed((1, 2), adding_replicas=(2,)))
        assert "kafka_server_replicamanager_reassigningpartitions 1.0" in leader.metrics.render().decode()
        await until(lambda: end_of(follower) == 1)
        sent = leader.metrics.counter(names.REASSIGNMENT_BYTES_OUT).labels().value
        assert sent == follower.metrics.counter(names.REASSIGNMENT_BYTES_IN).labels().value > 0
        await pair.close()

    run(test)


def test_a_replica_that_is_removed_is_stopped_and_its_log_deleted(tmp_path: Path) -> None:
    async def test() -> None:
        pair = Pair(tmp_path)
        leader, follower = await pair.start(*topic(replicas=(1, 2)))
        await produce(leader, b"a")
        key = TopicPartition("orders", 0)
        folder = tmp_path / "2" / "orders-0"
        assert folder.exists()
        await pair.metadata(changed((1,), isr=(1,), leader=1))
        assert key not in follower.manager.hosted.by_name and follower.logs.get_log(key) is None
        assert not folder.exists(), "renamed at once, its files go later"
        assert not follower.manager._fetchers.is_following(key)
        row = await produce(leader, b"b")
        assert row.error_code == 0, "nobody waits for it"
        await pair.close()

    run(test)
