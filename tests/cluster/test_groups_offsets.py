"""What a consumer does with its place: commits of three kinds, pause, seek, replay by timestamp; static and cooperative
members keep theirs through a rebalance.

All tests share one cluster of three nodes.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kvorum.cluster.local.local import LocalCluster
from kvorum.runtime import metric_names as names
from tests.cluster.clients import create_topic, eventually
from tests.cluster.conftest import KEPT, clusters_in
from tests.cluster.consumers import CONSUMERS, read
from tests.cluster.members import members_of
from tests.cluster.test_groups import send
from tests.cluster.test_observability import Scrape, scrape, total, urls

CLIENTS = tuple(CONSUMERS)
START_MS = 1_700_000_000_000
PER_PARTITION = 50


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with clusters_in(tmp_path_factory.mktemp("offsets")) as start:
        yield start("three-nodes.yaml", "group.initial.rebalance.delay.ms=0", KEPT)


@pytest.fixture(scope="module")
def bootstrap(cluster: LocalCluster) -> str:
    """Two partitions of `places`: record N has timestamp START_MS + N seconds."""
    create_topic(cluster.plan.bootstrap, "places", 2, 3)
    failed: list[str] = []
    producer = Producer({"bootstrap.servers": cluster.plan.bootstrap, "acks": "all", "enable.idempotence": True})
    for number in range(PER_PARTITION):
        for partition in (0, 1):
            producer.produce(
                "places",
                b"%d" % number,
                partition=partition,
                timestamp=START_MS + 1000 * number,
                on_delivery=lambda error, _: failed.append(str(error)) if error else None,
            )
    assert producer.flush(60) == 0 and not failed
    return cluster.plan.bootstrap


@pytest.mark.parametrize("client", CLIENTS)
def test_commits_of_each_kind_are_where_the_next_consumer_begins(bootstrap: str, client: str) -> None:
    for kind in ("sync", "async", "auto"):
        group = f"{kind}-{client}"
        consumer = CONSUMERS[client](bootstrap, group, "places", auto_commit=kind == "auto")
        read(consumer, 2 * PER_PARTITION)

        def done(kind=kind, consumer=consumer) -> bool:
            if kind != "auto":
                consumer.commit(asynchronous=kind == "async")
            consumer.poll()  # which carries out what is asynchronous
            return [consumer.committed(each) for each in (0, 1)] == [PER_PARTITION, PER_PARTITION]

        eventually(done, f"{kind} commits of {client}")
        consumer.close()
        again = CONSUMERS[client](bootstrap, group, "places", auto_commit=False)
        eventually(lambda again=again: again.poll() == [] and again.assigned() == {0, 1}, "an assignment")
        assert [again.committed(each) for each in (0, 1)] == [PER_PARTITION, PER_PARTITION]
        assert again.poll() == [], "it begins behind what was committed"
        again.close()


@pytest.mark.parametrize("client", CLIENTS)
def test_a_consumer_pauses_seeks_and_replays_from_a_time(bootstrap: str, client: str) -> None:
    consumer = CONSUMERS[client](bootstrap, f"replay-{client}", "places", auto_commit=False)
    rows = read(consumer, 2 * PER_PARTITION)
    for partition in (0, 1):
        mine = [(offset, value) for each, offset, value in rows if each == partition]
        assert mine == [(number, b"%d" % number) for number in range(PER_PARTITION)]
    # Between two records the later one is meant.
    offset = consumer.offset_at(0, START_MS + 29_500)
    assert offset == 30
    consumer.pause(1)
    consumer.seek(0, offset)
    consumer.seek(1, PER_PARTITION - 3)
    assert read(consumer, PER_PARTITION - 30) == [(0, n, b"%d" % n) for n in range(30, PER_PARTITION)]
    assert consumer.poll() == []
    consumer.resume(1)
    assert [row[:2] for row in read(consumer, 3)] == [(1, PER_PARTITION - 3 + each) for each in range(3)]
    consumer.close()


@pytest.mark.parametrize("client", CLIENTS)
def test_a_static_member_that_is_killed_comes_back_without_a_rebalance(
    bootstrap: str, client: str, tmp_path: Path
) -> None:
    """Each of two is killed in turn, so the leader is, too. What it did not commit it reads again."""
    topic = f"static-{client}"
    create_topic(bootstrap, topic, 6, 3)
    with members_of(tmp_path, bootstrap, f"static-group-{client}", topic, 6) as members:
        names = ["a", "b"]
        two = [members.start(client, instance=name) for name in names]
        members.wait_shared(two)
        for index in (0, 1):
            other, before = two[1 - index], list(two[index].assigned)
            calls = len(other.given), len(other.revoked)
            two[index].kill()
            two[index] = members.start(client, instance=names[index])
            members.wait_shared(two)
            assert two[index].assigned == before
            values = send(bootstrap, topic, first=1000 * (index + 1))
            eventually(lambda values=values: values <= members.values(), "all that was sent")
            assert (len(other.given), len(other.revoked)) == calls, "the other one was told of a rebalance"


def test_cooperative_members_revoke_only_reassigned_partitions(bootstrap: str, tmp_path: Path) -> None:
    create_topic(bootstrap, "cooperative", 6, 3)
    with members_of(tmp_path, bootstrap, "cooperative-group", "cooperative", 6) as members:
        first = members.start("confluent", strategy="cooperative-sticky")
        members.wait_shared([first])
        second = members.start("confluent", strategy="cooperative-sticky")
        members.wait_shared([first, second])
        revoked = sorted(partition for call in first.revoked for partition in call)
        assert revoked == second.assigned and len(revoked) == 3
        third = members.start("confluent", strategy="cooperative-sticky")
        members.wait_shared([first, second, third])
        given_up = [partition for each in (first, second) for call in each.revoked for partition in call]
        assert sorted(given_up) == sorted(revoked + third.assigned), "nothing was taken that its owner kept"
        second.terminate()
        second.wait_left()
        members.wait_shared([first, third])
        assert len(third.revoked) == 0 and sum(map(len, first.revoked)) == 3 + 1
        values = send(bootstrap, "cooperative")
        eventually(lambda: values <= members.values(), "all that was sent")


def test_lag_is_whole_where_the_coordinator_has_some_of_the_partitions_only(cluster: LocalCluster) -> None:
    """Partitions with one replica lie on three brokers, and one of these coordinates the group."""
    bootstrap, ends, committed = cluster.plan.bootstrap, range(10, 16), 4
    create_topic(bootstrap, "scattered", len(ends), 1)
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for index, end in enumerate(ends):
        for _ in range(end):
            producer.produce("scattered", b"x", partition=index)
    assert producer.flush(60) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "far"})
    offsets = [TopicPartition("scattered", index, committed) for index in range(len(ends))]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()
    group = {"consumergroup": "far", "topic": "scattered"}
    pages = [urls(cluster, node.name)[0] for node in cluster.plan.nodes]

    def has(found: Scrape, name: str, **labels: str) -> bool:
        return any(each == name and labels.items() <= dict(its).items() for each, its in found)

    def reported() -> Scrape | None:
        """Return the coordinator's page once the sum is on it; it never has another."""
        for page in pages:
            found = scrape(page)
            if has(found, names.CONSUMERGROUP_LAG_SUM, **group):
                assert total(found, names.CONSUMERGROUP_LAG_SUM, **group) == sum(ends) - committed * len(ends)
                return found
        return None

    found = eventually(reported, "the sum of the lags")
    for index, end in enumerate(ends):
        assert total(found, names.CONSUMERGROUP_LAG, partition=str(index), **group) == end - committed
    here = [index for index in range(len(ends)) if has(found, names.LOG_SIZE, topic="scattered", partition=str(index))]
    assert len(here) < len(ends), "it has all replicas itself: nothing was shown"
